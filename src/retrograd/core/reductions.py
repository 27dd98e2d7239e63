"""Reductions of plain arrays at full speed, and sums in single precision that stay precise."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from retrograd.core.layout import row_major

# the length to which short innermost loops are brought, and what counts as short
LONG, SHORT, VERY_SHORT = 512, 128, 16

# up to which length rows are summed by products: longer products may run in threads, whose floating-point flags
# would be lost, and have larger rounding errors
LONGEST = 1 << 12

# from how many summands on sums in single precision are computed in parts
MANY = 4 * LONG

# from how many numbers in single precision on it is faster to sum parts of them by products, too (measured)
_WHOLE = 1 << 16

# up to which row length it is faster to lay the rows of all blocks side by side (measured)
_NARROW = 48


def reduce(ufunc: Any, x: Any, axis: Any, keepdims: bool = False, dtype: Any = None) -> Any:
    """``ufunc.reduce``, rearranged where NumPy's innermost loop would be short so that it is long.

    NumPy adds row after row, and a long running sum in single precision loses digits of each further row. Here rows are
    summed in parts first. The result is in index order.
    """
    if axis is None or type(x) is not np.ndarray:
        if ufunc is np.add and dtype is None and _is_long_in_single(x):
            total = _sum_of_all(x.reshape(-1))
            return total.reshape((1,) * x.ndim) if keepdims else total
        return ufunc.reduce(x, axis, dtype, None, keepdims)
    ordered = x.flags.c_contiguous
    if x.size >= 1024 and x.ndim > 1:
        shape = x.shape
        if ordered and axis in (0, -x.ndim) and x.size <= SHORT * shape[0]:
            result = _reduce_rows(ufunc, x.reshape(shape[0], -1), dtype)
            return result.reshape((1, *shape[1:]) if keepdims else shape[1:])
        kept = _in_front(axis, x.ndim) if ordered else x.ndim
        if kept < x.ndim:
            length = math.prod(shape[kept:])
            left = (*shape[:kept], *(1,) * (x.ndim - kept)) if keepdims else shape[:kept]
            if length <= VERY_SHORT:
                columns = np.ascontiguousarray(x.reshape(-1, length).T)
                return ufunc.reduce(columns, 0, dtype).reshape(left)
            if ufunc is np.add and dtype is None and length <= LONGEST and x.dtype.char in "fd":
                return _row_sums(x.reshape(-1, length)).reshape(left)
            if length <= LONG and _same_from_first(ufunc, x, dtype):
                # half the time per row: NumPy's reduce prepares its loop anew for each
                return ufunc.reduceat(x.reshape(-1), np.arange(0, x.size, length)).reshape(left)
        inner = ordered and x.ndim > 2 and _within(axis, shape)
        if inner:
            return _reduce_blocks(ufunc, x, inner, dtype, keepdims)
        if x.size >= MANY * (shape[-1] if ordered else 1) and _rounds(ufunc, x, dtype):
            axes = _dimensions(axis, x.ndim)
            if axes:
                result = row_major(_sum(x, axes, dtype))
                return result if keepdims else np.squeeze(result, tuple(axes))
    result = ufunc.reduce(x, axis, dtype, None, keepdims)
    return result if ordered else row_major(result)


def _same_from_first(ufunc: Any, x: np.ndarray, dtype: Any) -> bool:
    """Whether ``ufunc.reduceat``, which begins with the first element and not with 0, gives the same.

    It does not for sums of floating-point numbers, which are added in pairs, and is no faster for truth values.
    """
    if dtype is not None and dtype != x.dtype:
        return False
    return x.dtype.kind in "iu" or (x.dtype.kind in "fc" and ufunc is not np.add)


def _row_sums(rows: np.ndarray) -> Any:
    """The sums of rows that are not too long, as products with ones, in a third to two thirds of the time."""
    return np.vecdot(rows, ones(rows.shape[1], rows.dtype))


def _is_long_in_single(x: Any) -> bool:
    """Whether it is a long plain array in single precision, in index order."""
    return type(x) is np.ndarray and x.size >= _WHOLE and x.dtype.char == "f" and x.flags.c_contiguous


def _sum_of_all(x: np.ndarray) -> Any:
    """The sum of a vector, as sums of its parts."""
    whole = x.size - x.size % LONGEST
    return np.add.reduce(_row_sums(x[:whole].reshape(-1, LONGEST))) + np.add.reduce(x[whole:])


@functools.lru_cache(16)
def ones(length: int, dtype: Any) -> Any:
    """A vector of ones, which must not be written to."""
    return np.ones(length, dtype)


def _in_front(axis: Any, ndim: int) -> int:
    """The number of dimensions before the reduced ones if these are the last ones, else of all dimensions."""
    if not isinstance(axis, tuple):
        return ndim - 1 if axis in (-1, ndim - 1) else ndim
    axes = _dimensions(axis, ndim)
    return axes[0] if axes and axes[-1] == ndim - 1 and len(axes) == ndim - axes[0] else ndim


def _reduce_rows(ufunc: Any, x: np.ndarray, dtype: Any) -> Any:
    """Reduce over many short rows by joining them into fewer long ones first."""
    n, length = x.shape
    several = max(LONG // length, 1)
    whole = n - n % several
    rows = x[:whole].reshape(-1, several * length)
    long = _sum_along(rows, 0, dtype) if _rounds(ufunc, x, dtype) else ufunc.reduce(rows, 0, dtype)
    result = ufunc.reduce(long.reshape(several, length), 0, dtype)
    return result if whole == n else ufunc(result, ufunc.reduce(x[whole:], 0, dtype))


def _within(axis: Any, shape: tuple[int, ...]) -> int:
    """The reduced dimension, if it is a single middle one followed by narrow rows; else 0."""
    axes = _dimensions(axis, len(shape))
    narrow = len(axes) == 1 and 0 < axes[0] < len(shape) - 1 and math.prod(shape[axes[0] + 1 :]) <= _NARROW
    return axes[0] if narrow and 1 < shape[axes[0]] < MANY else 0


def _reduce_blocks(ufunc: Any, x: np.ndarray, axis: int, dtype: Any, keepdims: bool) -> Any:
    """Reduce over a dimension in the middle, by rows that belong to all blocks instead of one."""
    shape, n = x.shape, x.shape[axis]
    blocks = x.reshape(math.prod(shape[:axis]), n, -1)
    result = ufunc.reduce(np.ascontiguousarray(blocks.swapaxes(0, 1)), 0, dtype)
    return result.reshape(*shape[:axis], *((1,) if keepdims else ()), *shape[axis + 1 :])


def _rounds(ufunc: Any, x: np.ndarray, dtype: Any) -> bool:
    """Whether it is a sum in single precision."""
    return ufunc is np.add and (x.dtype.char in "fF" if dtype is None else dtype is np.float32)


def _dimensions(axis: Any, ndim: int) -> list[int]:
    """The dimensions to reduce, counted from the front; an empty list if NumPy would not accept them."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    dims = sorted({k % ndim for k in axes if -ndim <= k < ndim})
    return dims if len(dims) == len(axes) else []


def _sum(x: np.ndarray, axes: list[int], dtype: Any) -> Any:
    """Sum over dimensions, which are kept: those that lie closer in memory first, and neighbours together."""
    order = sorted(range(x.ndim), key=lambda k: -abs(x.strides[k]))
    x, axes = x.transpose(order), sorted(map(order.index, axes))
    stop = len(axes)
    while stop:
        start = stop - 1
        while start and axes[start - 1] == axes[start] - 1 and _follow(x, axes[start]):
            start -= 1
        before, after = x.shape[: axes[start]], x.shape[axes[stop - 1] + 1 :]
        total = _sum_along(x.reshape(*before, -1, *after), len(before), dtype)
        x, stop = total.reshape(*before, *(1,) * (stop - start), *after), start
    return x.transpose(np.argsort(order))


def _follow(x: np.ndarray, axis: int) -> bool:
    """Whether a dimension and the one before it can be merged into one without a copy."""
    return x.strides[axis - 1] == x.strides[axis] * x.shape[axis]


def _sum_along(x: np.ndarray, axis: int, dtype: Any) -> Any:
    """Sum over one dimension, in parts where it is long."""
    n = x.shape[axis]
    if n < MANY or x.strides[axis] == x.itemsize:  # NumPy sums pairwise along contiguous elements
        return np.add.reduce(x, axis, dtype)
    front, whole = (slice(None),) * axis, n - n % LONG
    parts = x[(*front, slice(whole))].reshape(*x.shape[:axis], -1, LONG, *x.shape[axis + 1 :])
    total = _sum_along(np.add.reduce(parts, axis + 1, dtype), axis, dtype)
    return total if whole == n else total + np.add.reduce(x[(*front, slice(whole, None))], axis, dtype)
