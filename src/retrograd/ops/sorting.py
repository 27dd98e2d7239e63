"""Sorting, searching in sorted values, and distinct values.

NaN sorts behind everything else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.batching import as_array
from retrograd.core.layout import laid_out_as, row_major
from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.dtypes import from_numpy_dtype
from retrograd.ops._picking import arranging, lifted
from retrograd.ops._rules import normalize_dim, not_implemented
from retrograd.ops.extremes import check_ordered

# --- sorting ----------------------------------------------------------------------------------------------------------


def _order(x: Any, dim: int, descending: bool) -> Any:
    """The indices that sort ``x``; equal elements keep their order, also where the largest come first."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    return x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)


@arranging(node_name=lambda stable: f"SortBackward{int(stable is not None)}")
@lifted
def sort(input, dim: int = -1, descending: bool = False, stable: bool | None = None):
    """Return the elements sorted along ``dim`` and the indices they had, as a named tuple ``(values, indices)``.

    Equal elements always keep their order.

    >>> rg.sort(rg.tensor([3.0, 1.0, 2.0])).values
    tensor([1., 2., 3.])
    """
    check_ordered("sort", input)
    indices = _order(input, normalize_dim(dim, input.ndim), descending)
    return laid_out_as(input, np.take_along_axis(input, indices, dim)), laid_out_as(input, indices)


@op()
@lifted
def argsort(input, dim: int = -1, descending: bool = False, stable: bool = False):
    """Return the indices that sort the elements along ``dim``. Equal elements always keep their order."""
    check_ordered("argsort", input)
    return laid_out_as(input, _order(input, normalize_dim(dim, input.ndim), descending))


@composite(out=True)
def msort(input: Tensor) -> Tensor:
    """Return the elements sorted along the first dimension."""
    return sort(input, 0).values


def _row_major(values: Any, indices: Any) -> Any:
    return row_major(values), row_major(indices)


def _few(x: Any, k: int, dim: int, largest: bool) -> Any:
    """The indices of the few largest of many numbers along ``dim``, in order; None where another method is better."""
    n = x.shape[dim]
    if type(x) is not np.ndarray or x.dtype.char not in "fd" or x.size < _MANY or n < 16 * k:
        return None
    rows = np.ascontiguousarray(np.moveaxis(x if largest else -x, dim, -1))
    shape, rows = rows.shape, rows.reshape(-1, n)
    # at least k numbers are as large as the k-th largest of the maxima of 4k groups
    whole = n - n % (4 * k)
    maxima = np.maximum.reduce(rows[:, :whole].reshape(len(rows), -1, 4 * k), 1)
    if np.isnan(maxima).any() or np.isnan(rows[:, whole:]).any():
        return None
    found = np.flatnonzero(rows >= np.partition(maxima, 3 * k, 1)[:, 3 * k, None])
    if found.size > 4 * k * len(rows):  # many are equal
        return None
    row = found // n
    found = found[np.lexsort((-rows.reshape(-1)[found], row))]
    starts = np.searchsorted(row, np.arange(len(rows)))[:, None]
    indices = found[starts + np.arange(k)] % n
    return np.moveaxis(indices.reshape(*shape[:-1], k), -1, dim)


_MANY = 1 << 14
_FEW = 1 << 10  # up to so many elements it is faster to sort them all (measured)


@arranging()
@lifted
def topk(input, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """Return the ``k`` largest (or smallest) elements along ``dim`` and their indices, in order if ``sorted``.

    The result is a named tuple ``(values, indices)``.
    """
    if input.dtype.kind in "bc":
        raise RuntimeError(f"topk(): does not support {from_numpy_dtype(input.dtype)} tensors")
    dim = normalize_dim(dim, input.ndim)
    n = input.shape[dim]
    if not 0 <= k <= n:
        raise RuntimeError(f"topk(): selected index k={k} out of range for dimension {dim} with {n} elements")
    if k == n or k == 0 or (input.size <= _FEW and sorted):
        indices = np.take(_order(input, dim, largest), np.arange(k), axis=dim)
        return _row_major(np.take_along_axis(input, indices, dim), indices)
    indices = _few(input, k, dim, largest)
    if indices is not None:
        return _row_major(np.take_along_axis(input, indices, dim), indices)
    ranked = np.argpartition(input, n - k if largest else k - 1, axis=dim)
    indices = np.take(ranked, np.arange(n - k, n) if largest else np.arange(k), axis=dim)
    values = np.take_along_axis(input, indices, dim)
    if sorted:
        order = _order(values, dim, largest)
        values, indices = np.take_along_axis(values, order, dim), np.take_along_axis(indices, order, dim)
    return _row_major(values, indices)


# --- searching --------------------------------------------------------------------------------------------------------


@op(method=False)
def searchsorted(
    sorted_sequence,
    input,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter=None,
):
    """Return where the values ``input`` would have to be inserted into ``sorted_sequence`` to keep it sorted.

    Before equal elements, or behind them with ``right=True`` or ``side="right"``. The sequence is a vector, or has
    sorted rows along its last dimension, one for each row of ``input``; ``sorter`` is what sorts an unsorted one.
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    values = as_array(input)
    for array in (sorted_sequence, values):
        check_ordered("searchsorted", array)
    shape = sorted_sequence.shape
    if not shape:
        raise RuntimeError("searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
    if len(shape) > 1 and shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
            f"and input value tensor must match, but we got boundaries tensor {list(shape)} "
            f"and input value tensor {list(values.shape)}"
        )
    if sorter is not None:
        _check_sorter(sorter, shape)
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    where: Any = "right" if right or side == "right" else "left"
    if len(shape) == 1:
        found = np.searchsorted(sorted_sequence, values, where)
    else:
        found = np.empty_like(values, np.int64, order="C")
        for row in np.ndindex(shape[:-1]):
            found[row] = np.searchsorted(sorted_sequence[row], values[row], where)
    return found.astype(np.int32 if out_int32 else np.int64, copy=False)


def _check_sorter(sorter: Any, shape: tuple[int, ...]) -> None:
    if sorter.shape != shape:
        raise RuntimeError(
            "searchsorted(): boundary and sorter must have the same size, "
            f"but got boundary tensor {list(shape)} and got sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype != np.int64:
        raise RuntimeError(
            "searchsorted(): sorter must be a tensor of indices (int64), as argsort returns them, "
            f"but got dtype {from_numpy_dtype(sorter.dtype)}"
        )
    if sorter.size and not 0 <= sorter.min() <= sorter.max() < shape[-1]:
        raise RuntimeError("searchsorted(): sorter index out of range")


@op(method=False)
def bucketize(input, boundaries, out_int32: bool = False, right: bool = False):
    """Return the index of the bucket between ``boundaries``, a sorted vector, that each of ``input`` falls into.

    A value equal to a boundary belongs to the bucket before it, or behind it with ``right=True``.
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    values = as_array(input)
    for array in (boundaries, values):
        check_ordered("bucketize", array)
    found = np.searchsorted(boundaries, values, "right" if right else "left")
    return found.astype(np.int32 if out_int32 else np.int64, copy=False)


@op(method=False)
def isin(elements, test_elements, assume_unique: bool = False, invert: bool = False):
    """Return whether each of ``elements`` is among ``test_elements``."""
    for x in (elements, test_elements):
        check_ordered("isin", as_array(x))
    return np.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)


# --- distinct values --------------------------------------------------------------------------------------------------

_NOT_WANTED = np.zeros(0, np.int64)
_RESULTS = ("output", "inverse_indices", "counts")


def _wanted(results: Any, return_inverse: bool, return_counts: bool) -> Any:
    """The distinct values alone, or a tuple with the other requested results."""
    values, inverse, counts = results
    extra = (inverse,) * return_inverse + (counts,) * return_counts
    return (values, *extra) if extra else values


def _distinct_dim(name: str, x: Any, dim: int) -> int:
    if x.ndim == 0:
        raise IndexError(f"{name}(): Dimension specified as {dim} but tensor has no dimensions")
    dim = normalize_dim(dim, x.ndim)
    if 0 in x.shape and x.shape[dim]:
        raise RuntimeError(
            f"{name}(): There are 0 sized dimensions in {list(x.shape)}, and they aren't selected, "
            "so unique cannot be applied"
        )
    return dim


@op(name="unique", outputs=_RESULTS, public=False, method=False, input=not_implemented("unique", "input"))
def _unique(input, return_inverse: bool, return_counts: bool, dim: int | None):
    check_ordered("unique", input)
    if dim is not None:
        dim = _distinct_dim("unique", input, dim)
        if input.size == 0:
            return input.copy(), _NOT_WANTED, _NOT_WANTED
    elif not (return_inverse or return_counts):  # np.unique would look them up in a hash table, ten times as slowly
        ordered = np.sort(input, axis=None)
        return ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]], _NOT_WANTED, _NOT_WANTED
    found: Any = np.unique(  # type: ignore[call-overload]
        input, False, return_inverse, return_counts, axis=dim, equal_nan=False
    )
    values, *extra = found if return_inverse or return_counts else (found,)
    inverse = extra.pop(0).reshape(input.shape if dim is None else -1) if return_inverse else _NOT_WANTED
    return values, inverse, extra[0] if return_counts else _NOT_WANTED


@composite()
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements, sorted; or the distinct slices along ``dim``.

    With ``return_inverse``, also the index of each element among them, and with ``return_counts``, how often each
    occurs: then the result is a tuple. There is no derivative.
    """
    return _wanted(_unique(input, return_inverse, return_counts, dim), return_inverse, return_counts)


@op(
    name="unique_consecutive",
    outputs=_RESULTS,
    public=False,
    method=False,
    input=not_implemented("unique_consecutive", "input"),
)
def _unique_consecutive(input, dim: int | None):
    check_ordered("unique_consecutive", input)
    x = input.reshape(-1) if dim is None else np.moveaxis(input, _distinct_dim("unique_consecutive", input, dim), 0)
    new = np.ones(len(x), bool, like=x)
    new[1:] = (x[1:] != x[:-1]).any(axis=tuple(range(1, x.ndim)))
    starts = new.nonzero()[0]
    values, inverse = x[starts], np.cumsum(new) - 1
    if dim is None:
        inverse = inverse.reshape(input.shape)
    else:
        values = np.moveaxis(values, 0, dim)
    return values, inverse, np.diff(starts, append=len(x))


@composite()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the elements without those equal to the one before; or the slices along ``dim``. See :func:`unique`."""
    return _wanted(_unique_consecutive(input, dim), return_inverse, return_counts)


__all__ = [
    "argsort",
    "bucketize",
    "isin",
    "msort",
    "searchsorted",
    "sort",
    "topk",
    "unique",
    "unique_consecutive",
]
