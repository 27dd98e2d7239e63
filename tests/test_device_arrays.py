"""NumPy's functions on GPU arrays, below all operations, give the results of NumPy on the CPU.

As :mod:`tests.test_on_gpu`, on a GPU if there is one, and else on the strict stand-in for CuPy.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.gpu import DeviceArray
from tests.test_on_gpu import cupy as cupy

REAL = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.5]])
COMPLEX = np.array([0, 1j, 2 + 1j])
NUMBERS = np.array([2, 0, 1])


def on_gpu(values: Any) -> Any:
    return rg.tensor(values, device="cuda")._data


def on_cpu(value: Any) -> Any:
    return value.get() if isinstance(value, DeviceArray) else value


# each takes the function that moves an array to the device
CALLS: list[Callable[[Callable[[Any], Any]], Any]] = [
    lambda put: np.max(put(REAL), axis=1, initial=2.5),
    lambda put: np.min(put(REAL), axis=1, initial=0.0),
    lambda put: np.sum(put(REAL), axis=0, initial=10.0),
    lambda put: np.sum(put(REAL), axis=()),
    lambda put: np.all(put(REAL), axis=()),
    lambda put: np.max(put(REAL), axis=1, initial=-1.0, where=put(REAL < 3)),
    lambda put: np.prod(put(REAL), where=put(REAL > 0)),
    lambda put: np.add.reduce(put(REAL), 1, where=put(REAL > 0)),
    lambda put: np.add.reduce(put(REAL), 1, initial=3.0),
    lambda put: np.any(put(REAL), axis=0, where=put(REAL > 2)),
    lambda put: np.max(put(np.zeros((0, 2))), axis=0, initial=7.0),
    lambda put: np.var(put(REAL), axis=1, correction=1),
    lambda put: np.std(put(REAL), correction=1),
    lambda put: np.std(put(REAL), axis=0, ddof=1, keepdims=True),
    lambda put: np.logical_and(put(COMPLEX), put(NUMBERS)),
    lambda put: np.logical_not(put(COMPLEX)),
    lambda put: np.logaddexp.reduce(put(REAL), axis=1),
    lambda put: np.logaddexp.accumulate(put(REAL), axis=1),
    lambda put: np.add.accumulate(put(REAL), 1),
    lambda put: np.add.reduceat(put(REAL), put(np.array([0, 2, 1])), axis=1),
    lambda put: np.multiply.outer(put(NUMBERS), put(REAL)),
    lambda put: np.repeat(put(REAL), put(NUMBERS), axis=1),
    lambda put: np.take(put(REAL), put(np.array([-5, 1, 9])), axis=1, mode="clip"),
    lambda put: np.take(put(REAL), put(np.array([-5, 1, 9])), axis=1, mode="wrap"),
    lambda put: np.take(put(REAL), put(NUMBERS)),
    lambda put: np.take_along_axis(put(REAL), put(NUMBERS[None] - 3), axis=1),
    lambda put: np.clip(put(REAL), None, 1.0),
    lambda put: np.clip(put(REAL), min=0.0, max=1.0),
    lambda put: np.where(np.array([True, False, True]), put(REAL), 0.0),
    lambda put: np.sort(put(REAL), axis=None),
    lambda put: np.argsort(put(REAL), axis=0),
    lambda put: np.lexsort((put(REAL[0]), put(REAL[1]))),
    lambda put: np.count_nonzero(put(NUMBERS)),
    lambda put: np.linalg.vecdot(put(COMPLEX), put(COMPLEX)),
    lambda put: np.linalg.multi_dot([put(REAL), put(REAL.T), put(REAL)]),
    lambda put: np.linalg.cholesky(put(np.array([[2.0, 1j], [7.0, 3.0]])), upper=True),
    lambda put: np.linalg.solve(put(np.eye(2) * 2), put(REAL)),
    lambda put: np.lib.stride_tricks.sliding_window_view(put(REAL), 2, axis=1),
    lambda put: np.reshape(put(REAL), (3, 2), "F"),
    lambda put: put(REAL).transpose(1, 0),
    lambda put: put(REAL).transpose((1, 0)),
    lambda put: put(REAL)[..., put(NUMBERS)],
    lambda put: put(REAL)[put(REAL > 0)],
    lambda put: put(REAL)[[0, 1], [-1, 0]],
    lambda put: (np.shape(put(REAL)), np.ndim(put(REAL)), np.size(put(REAL), 1), len(put(REAL)), 4.0 in put(REAL)),
    lambda put: np.array2string(put(REAL)),
]


@pytest.mark.parametrize("call", CALLS)
def test_numpy_functions_on_gpu_arrays_equal_numpy(call: Callable[[Callable[[Any], Any]], Any]) -> None:
    found, expected = on_cpu(call(on_gpu)), call(lambda values: values)
    if isinstance(expected, (tuple, str)):
        assert found == expected
    else:
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


WRITES: list[Callable[[Any, Callable[[Any], Any]], Any]] = [
    lambda x, put: x.fill(3.0),
    lambda x, put: np.put(x, put(np.array([0, -1])), put(np.array([7.0, 8.0]))),
    lambda x, put: np.put_along_axis(x, put(NUMBERS[None]), 5.0, axis=1),
    lambda x, put: np.copyto(x, put(REAL * 2), where=put(REAL > 0)),
    lambda x, put: np.add.at(x, (0, put(np.array([0, 0, 2]))), put(np.ones(3))),
    lambda x, put: np.maximum.at(x, (put(np.array([1, 1])), 0), put(np.array([1.0, 9.0]))),
    lambda x, put: x.flat.__setitem__(put(np.array([0, -1])), put(np.array([7.0, 8.0]))),
    lambda x, put: x.sort(axis=1),
]


@pytest.mark.parametrize("write", WRITES)
def test_writes_into_gpu_arrays_equal_numpy(write: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
    found, expected = on_gpu(REAL.copy()), REAL.copy()
    write(found, on_gpu)
    write(expected, lambda values: values)
    np.testing.assert_array_equal(found.get(), expected)
    assert not np.array_equal(expected, REAL)


def test_out_of_bounds_indices_of_gpu_arrays_raise() -> None:
    """CuPy takes them modulo the length; NumPy raises."""
    for far in (3, -4):
        for call in (
            lambda put, far=far: put(REAL)[:, put(np.array([0, far]))],
            lambda put, far=far: put(REAL)[..., put(np.array([far]))],
            lambda put, far=far: put(REAL)[put(np.array([0])), put(np.array([far]))],
            lambda put, far=far: np.take(put(REAL), put(np.array([far])), axis=1),
            lambda put, far=far: np.take_along_axis(put(REAL), put(np.array([[far]])), axis=1),
            lambda put, far=far: put(REAL).__setitem__((0, put(np.array([far]))), 1.0),
        ):
            for put in (on_gpu, lambda values: values.copy()):
                with pytest.raises(IndexError):
                    call(put)


def test_shares_memory_of_gpu_arrays() -> None:
    x = on_gpu(REAL)
    assert np.may_share_memory(x, x[0])
    assert np.shares_memory(x, x.reshape(-1))
    assert not np.shares_memory(x, x.copy())
    assert not np.shares_memory(x, REAL)


def test_broadcast_gpu_arrays_are_read_only() -> None:
    x = on_gpu(REAL)
    assert x.flags.writeable
    assert not np.broadcast_to(x, (4, 2, 3)).flags.writeable
    assert np.broadcast_to(x, (2, 3)).flags.writeable


def test_gpu_arrays_can_be_pickled() -> None:
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(on_gpu(REAL))).get(), REAL)


def test_writing_gpu_results_into_numpy_arrays_is_refused() -> None:
    with pytest.raises(TypeError, match=r"\.cpu\(\)"):
        np.add(on_gpu(REAL), 1.0, out=np.empty((2, 3)))
    with pytest.raises(TypeError, match=r"\.cpu\(\)"):
        np.copyto(np.empty((2, 3)), on_gpu(REAL))
