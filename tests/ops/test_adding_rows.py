"""Adding rows at the places of an index, which may repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.anomaly import AnomalyError
from retrograd.ops import _positions
from retrograd.ops._positions import ALL, add_picked, add_rows

DRAWS = {
    "evenly": lambda rng, length, count: rng.integers(0, length, count),
    "negative, too": lambda rng, length, count: rng.integers(-length, length, count),
    "one only": lambda rng, length, count: np.full(count, length - 1),
    "most of them once": lambda rng, length, count: rng.permutation(max(length, count))[:count] % length,
    "some very often": lambda rng, length, count: np.minimum(rng.zipf(1.3, count), length) - 1,
}


def for_all_sizes(patch: pytest.MonkeyPatch, library: str) -> None:
    """Make even few and short rows be added as whole rows, by SciPy or by NumPy alone."""
    for limit in ("_WIDE", "_MANY", "_NARROW", "_SOME"):
        patch.setattr(_positions, limit, 1)
    if library == "numpy":
        patch.setattr(_positions, "installed", lambda name: None)
    else:
        pytest.importorskip("scipy.sparse")
        patch.setattr(_positions, "_SPREAD", 10**6)


@pytest.mark.parametrize("library", ["numpy", "scipy"])
@pytest.mark.parametrize("width", [(16,), (128,), (3, 5, 2)])
@pytest.mark.parametrize("length", [1, 40, 1000])
@pytest.mark.parametrize("draw", DRAWS)
def test_add_rows_agrees_with_numpy(
    draw: str, length: int, width: tuple[int, ...], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_all_sizes(monkeypatch, library)
    rng = np.random.default_rng(length)
    index = DRAWS[draw](rng, length, 1500)
    rows = rng.standard_normal((1500, *width))
    expected = rng.standard_normal((length, *width))
    target = expected.copy()
    np.add.at(expected, index, rows)
    assert add_rows(target, index, rows)
    np.testing.assert_allclose(target, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("library", ["numpy", "scipy"])
def test_adding_float16_rows_rounds_once(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for_all_sizes(monkeypatch, library)
    index, rows = np.arange(3000) % 2, np.ones((3000, 4), np.float16)
    rows[:, 1:] += np.arange(1, 4, dtype=np.float16) / 8
    target = np.zeros((2, 4), np.float16)
    assert add_rows(target, index, rows)
    np.testing.assert_array_equal(target, [(1500 * rows[0].astype(float)).astype(np.float16)] * 2)


@pytest.mark.parametrize("library", ["numpy", "scipy"])
@given(numbers=st.lists(st.integers(-9, 8), max_size=60), few=st.integers(0, 40))
def test_add_rows_for_any_number_of_rows(library: str, numbers: list[int], few: int) -> None:
    index = np.array(numbers, int).reshape(-1)
    rows = np.arange(len(numbers) * 16.0).reshape(-1, 16) ** 2
    expected, target = np.zeros((2, 9, 16))
    np.add.at(expected, index, rows)
    with pytest.MonkeyPatch.context() as patch:
        for_all_sizes(patch, library)
        patch.setattr(_positions, "_FEW", few)
        done = add_rows(target, index, rows)
    assert done == bool(numbers)
    np.testing.assert_array_equal(target, expected if done else 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex128", "int32"])
@pytest.mark.parametrize("dim", [0, 1])
def test_index_add_of_many_rows_in_every_dtype_and_layout(dtype: str, dim: int) -> None:
    rng = np.random.default_rng(0)
    given, added = (rng.integers(-9, 9, (count, 70)).astype(dtype) for count in (9, 2000))
    index = rng.integers(0, 9, 2000)
    expected = given.astype("complex128" if dtype == "complex128" else "float64")
    np.add.at(expected, index, added)
    ours = rg.from_numpy(given.copy())
    if dim:  # in column-major order
        ours = ours.T
    ours.index_add_(dim, rg.from_numpy(index), rg.from_numpy(added if not dim else added.T))
    np.testing.assert_array_equal((ours.T if dim else ours).numpy(), expected.astype(dtype))


@pytest.mark.parametrize("beyond", [9, 10**9])
def test_index_changed_before_backward_writes_nothing_out_of_bounds(beyond: int) -> None:
    """It raises instead."""
    index = np.arange(1000) % 9
    picked = rg.ones(9, 16, requires_grad=True)[index]
    index[5] = beyond
    with pytest.raises(IndexError, match="out of bounds"):
        picked.sum().backward()


def test_overflow_when_adding_rows_is_reported_as_a_birth() -> None:
    index = np.repeat([0, 1], 500)
    for big in (1.0, 1e38):
        with rg.anomaly.watch() as watch:
            rows = rg.full((1000, 16), big, requires_grad=True)
            total = rg.zeros(2, 16).index_add(0, rg.from_numpy(index), rows).sum()
            if big == 1.0:
                total.backward()
                assert not watch.events
            else:
                with pytest.raises(AnomalyError, match="Inf born in index_add at"):
                    total.backward()


PICKED: dict[str, tuple[Any, ...]] = {
    "one dimension": (np.array([0, -1, 0, 2]),),
    "two": (np.array([[0, 0], [-3, 2]]), np.array([3, 3])),
    "the last": (ALL, np.array([1, 1, 0])),
    "apart": (np.array([1, 1]), ALL, np.array([0, 0])),
    "a mask": (np.array([True, False, True]), ALL, np.array([1, 0])),
    "nothing": (np.array([], int),),
}


@pytest.mark.parametrize("several", [0, 10**6])
@pytest.mark.parametrize("dtype", ["float16", "float64", "complex128", "int64", "bool"])
@pytest.mark.parametrize("name", PICKED)
def test_add_picked_of_few_and_many_elements(
    name: str, dtype: str, several: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_positions, "_SEVERAL", several)
    indices = PICKED[name]
    target = (np.arange(24).reshape(3, 4, 2) % 3).astype(dtype)
    values = np.arange(target[indices].size).reshape(target[indices].shape).astype(dtype)
    expected = target.copy()
    np.add.at(expected, indices, values)
    add_picked(target, indices, values)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("padding", [None, 3])
def test_gradient_of_a_large_embedding(padding: int | None) -> None:
    rng = np.random.default_rng(0)
    table, g = rng.standard_normal((50, 128)), rng.standard_normal((20, 30, 128))
    words = rng.integers(0, 50, (20, 30))
    found = []
    for t in (rg, torch):
        weight = t.tensor(table, requires_grad=True)
        result: Any = t.nn.functional.embedding(t.tensor(words), weight, padding_idx=padding)
        result.backward(t.tensor(g))
        found.append(weight.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-10)


def test_gradient_of_indexing_by_positive_and_negative_numbers() -> None:
    rng = np.random.default_rng(0)
    given, g = rng.standard_normal((10, 128)), rng.standard_normal((800, 128))
    numbers = rng.integers(-10, 10, 800)
    found = []
    for t in (rg, torch):
        x = t.tensor(given, requires_grad=True)
        x[t.tensor(numbers)].backward(t.tensor(g))
        found.append(x.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "complex64"])
@pytest.mark.parametrize("shape", [(12, 1), (12, 7), (1200, 7), (12, 3, 7), (12, 5), (0, 7)])
def test_scatter_and_gather_with_an_expanded_index(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    width = (3, 7) if len(shape) == 3 else (7,)
    given, added = (rng.integers(-5, 5, (count, *width)).astype(dtype) for count in (9, shape[0] + 2))
    numbers = rng.integers(0, 9, (shape[0], *(1,) * (len(shape) - 1)))
    found = []
    for library, expanded in ((rg, True), (rg, False), (torch, True)):
        target, source = (library.from_numpy(x.copy()) for x in (given, added))
        index = library.from_numpy(numbers).expand(*shape)
        if not expanded:
            index = index.clone(memory_format=rg.contiguous_format)
        leaves = [target.requires_grad_()] if dtype in ("float32", "complex64") else []
        results = [target.scatter_add(0, index, source), target.gather(0, index)]
        for result in results if leaves else ():
            results = [*results, *library.autograd.grad((result * result).sum().abs(), leaves)]
        source = source[: shape[0], ..., : shape[-1]].contiguous()
        if leaves and source.shape == index.shape:
            result = target.scatter_add(0, index, source.requires_grad_())
            results += library.autograd.grad((result * result).sum().abs(), source)
        found.append([result.detach().numpy() for result in results])
    for of_rows, of_elements, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(of_rows, theirs, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(of_elements, theirs, rtol=1e-4, atol=1e-4)
