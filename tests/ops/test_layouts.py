"""The memory layout of results and gradients, which decides which views are possible, over the whole table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import Bound, Make, Row, Sample, differentiable, to_ours
from tests.ops.table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

# --- operands in other layouts ----------------------------------------------------------------------------------------


def _ordered(array: np.ndarray, order: list[int]) -> np.ndarray:
    """Return the array with its dimensions in the given order in memory."""
    return array.transpose(order).copy().transpose(np.argsort(order))


def transposed(array: np.ndarray) -> np.ndarray:
    return _ordered(array, [*reversed(range(array.ndim))]) if array.ndim > 1 else array


def permuted(array: np.ndarray) -> np.ndarray:
    return _ordered(array, [array.ndim - 1, *range(array.ndim - 1)]) if array.ndim > 2 else array


def channels_last(array: np.ndarray) -> np.ndarray:
    return _ordered(array, [0, *range(2, array.ndim), 1]) if array.ndim > 2 else array


def expanded(array: np.ndarray) -> np.ndarray:
    return np.broadcast_to(array[:1].copy(), array.shape) if array.ndim and len(array) > 1 else array


def sliced(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, -1)[..., ::2] if array.ndim else array


FORMS = (transposed, permuted, channels_last, expanded, sliced)


def relaid(value: Any, form: Callable[[np.ndarray], np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        return form(value)
    if isinstance(value, (tuple, list)):
        return type(value)(relaid(item, form) for item in value)
    return value


def samples_in_forms(row: Row) -> Iterator[Sample]:
    """Yield the first samples of every shape in all layouts that differ for them."""
    for sample in _plain_samples(row):
        for form in FORMS:
            changed = Sample(relaid(sample.args, form), {key: relaid(x, form) for key, x in sample.kwargs.items()})
            if _strides_of(changed) != _strides_of(sample):
                yield changed


def _plain_samples(row: Row) -> list[Sample]:
    dtypes = [dtype for dtype in ("float64", "complex128") if dtype in row.dtypes] or row.dtypes
    found = {repr(_strides_of(sample)): sample for sample in reversed(list(row.samples(Make(dtypes[0]))))}
    return list(found.values())[-3:]


def _strides_of(sample: Sample) -> list[Any]:
    def of(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [of(item) for item in value]
        return (value.shape, value.strides) if isinstance(value, np.ndarray) else None

    return [of(sample.args), of(list(sample.kwargs.values()))]


def to_torch(array: np.ndarray) -> torch.Tensor:
    """Return a tensor with the values and the strides of an array."""
    steps = [abs(step) // array.itemsize for step in array.strides]
    extent = 1 + sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True)) if array.size else 0
    tensor = torch.empty(extent, dtype=torch.from_numpy(np.empty(0, array.dtype)).dtype).as_strided(array.shape, steps)
    once = tuple(slice(1) if step == 0 else slice(None) for step in steps)
    if array.size:
        tensor[once] = torch.from_numpy(np.ascontiguousarray(array[once]).reshape(np.shape(array[once])))
    return tensor


# --- comparisons ------------------------------------------------------------------------------------------------------


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    wanted = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, strides, wanted, strict=True))


def tensors(values: list[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, (rg.Tensor, torch.Tensor))]


# Results that are contiguous here but not in torch, so that more views are possible, with the reason.
MORE_VIEWS = {
    "conv* *pool* max_unpool* pixel_* channel_shuffle interpolate local_response_norm group_norm": "no channels_last",
    "linalg.* inverse cholesky* qr svd lu lu_solve geqrf orgqr ormqr triangular_solve": "LAPACK's columns",
    "fft.*": "dimensions that were transformed come last in MKL's results",
    "where addcmul addcdiv addr normalize": "in torch the first operand decides, in NumPy all together",
    "select_scatter slice_scatter diagonal_scatter as_strided_scatter": "torch keeps gaps between the elements",
    "unsafe_*": "copies here, and in torch views that it does not count as such",
    "unravel_index": "torch's are the columns of one tensor",
    "rot90 pad cdist kron einsum": "torch takes apart in how many steps it is computed",
}
# Results that are contiguous in torch but not here, with the reason.
FEWER_VIEWS = {
    "pow": "of a number and a tensor",
    "einsum tensordot cdist matrix_power linalg.matrix_power": "what products leave, which are others in torch",
}


def is_among(table: dict[str, str], name: str) -> bool:
    return any(fnmatch(name, pattern) for patterns in table for pattern in patterns.split())


def check_layout(name: str, ours: Any, theirs: Any, what: Any) -> None:
    shape, mine, other = tuple(ours.shape), ours.stride(), theirs.stride()
    if 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, mine, other, strict=True)):
        return
    here, there = is_contiguous(shape, mine), is_contiguous(shape, other)
    excused = is_among(FEWER_VIEWS, name) or (not there and is_among(MORE_VIEWS, name))
    assert excused, f"{what}: {list(shape)} with strides {mine}, torch has {other}"
    assert here or is_among(FEWER_VIEWS, name) or not there


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS if row.name != "ctc_loss"])
def test_layout_of_results(row: Row) -> None:
    for sample in samples_in_forms(row):
        try:
            expected = tensors(Bound(row, sample, to_torch, torch, False).run(row.oracle))
        except RuntimeError:
            continue  # such as a singular matrix whose rows are all equal
        try:
            got = tensors(Bound(row, sample, to_ours, rg, False).run(row.function))
        except rg.linalg.LinAlgError:
            continue  # likewise: whether rounding leaves it singular depends on the processor
        for a, b in zip(got, expected, strict=True):
            check_layout(row.name, a, b, (row.name, sample))


# Gradients that are not contiguous, of contiguous tensors, unlike in torch, with the reason.
OTHER_GRADIENTS = {
    "mean": "stays expanded, as in torch that of a sum, which costs no memory",
    "add sub mul div pow": "the real part of a complex sum, which in torch is a sum of real parts",
    "cross_entropy": "computed with the classes first",
    "einsum inner bilinear istft qr linalg.qr linalg.lu_solve triangular_solve": "what products leave",
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS if row.gradients])
def test_layout_of_gradients(row: Row) -> None:
    """A gradient can be viewed in other shapes where torch's can, if the tensor itself can."""
    for sample in _plain_samples(row):
        ours, theirs = Bound(row, sample, to_ours, rg, True), Bound(row, sample, to_torch, torch, True)
        got, expected = gradients(rg, ours, row.function, row), gradients(torch, theirs, row.oracle, row)
        for leaf, a, b in zip(ours.leaves, got, expected, strict=True):
            if a is None or b is None or not leaf.is_contiguous():
                continue
            assert min(a.stride(), default=0) >= 0, "torch has no negative strides"
            if is_contiguous(tuple(b.shape), b.stride()) and not is_among(OTHER_GRADIENTS, row.name):
                assert is_contiguous(tuple(a.shape), a.stride()), (
                    f"{a.stride()}, torch has {b.stride()}: {row.name}{sample}"
                )


def gradients(library: Any, bound: Bound, function: Any, row: Row) -> list[Any]:
    outputs = bound.run(function)
    outputs = differentiable(outputs if row.post is None else row.post(outputs))
    if not outputs or not bound.leaves:
        return [None] * len(bound.leaves)
    weights = [library.ones_like(output) for output in outputs]
    return list(library.autograd.grad(outputs, bound.leaves, weights, allow_unused=True))


CONTRACTIONS = [
    "ij,jk->ki", "bij,bjk->bki", "i,j->ji", "ijk,jl->lik", "ijk,jl->kli", "bij,k->kbij", "jk,ij->ik", "bjk,bij->bik",
    "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "bhqd,bhkd->bhqk", "ijk,ijk->ik", "bij,bj->bi",
]  # fmt: skip


@pytest.mark.parametrize("equation", CONTRACTIONS)
@pytest.mark.parametrize("arrange", [np.asarray, transposed])
def test_contractions_have_the_layout_of_the_requested_order(equation: str, arrange: Callable[..., np.ndarray]) -> None:
    """So whatever can be viewed in torch can be viewed here, too."""
    sizes = dict(zip("bijklqhd", itertools.count(2)))
    arrays = [np.zeros([sizes[index] for index in term]) for term in equation.split("->")[0].split(",")]
    got, expected = (lib.einsum(equation, *(lib.from_numpy(arrange(x)) for x in arrays)) for lib in (rg, torch))
    assert got.stride() == expected.stride()
