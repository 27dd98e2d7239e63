"""Reductions of plain arrays, in torch's dtypes and at full speed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.reductions import SHORT, VERY_SHORT, reduce
from retrograd.core.tensor import Tensor
from retrograd.dtypes import as_dtype
from retrograd.ops._rules import normalize_dims
from retrograd.ops.copying import cast as converted

Dims = int | Sequence[int] | None


def axes_of(dim: Dims, ndim: int) -> Any:
    """NumPy's ``axis`` for torch's ``dim``: ``()`` means all dimensions, and a 0-d tensor has a dimension 0, too."""
    if dim is None:
        return None
    if ndim == 0:
        normalize_dims(dim, 0)  # raises if it is another one
        return None
    return (tuple(dim) or None) if isinstance(dim, Sequence) else dim


def cast(input: Any, dtype: Any) -> Any:
    """The array in ``dtype``, if one is given."""
    wanted = input.dtype if dtype is None else as_dtype(dtype).numpy
    return input if input.dtype == wanted else converted(input, wanted)


def as_cast(input: Any, result: Any) -> Any:
    """An operand cast as by a function that computed in the dtype of its result: the real part of complex numbers."""
    return input.real if input.dtype.kind == "c" and result.dtype.kind != "c" else input


def count_reduced(shape: tuple[int, ...], result_shape: tuple[int, ...]) -> int:
    """How many elements were reduced to each element of the result."""
    return math.prod(shape) // max(math.prod(result_shape), 1)


def add_reduce(x: Any, axis: Any, keepdims: bool = False) -> Any:
    """Sum as torch does: integers in int64, float16 in float32."""
    kind = x.dtype.char
    if kind in "fdFD":
        return reduce(np.add, x, axis, keepdims)
    if kind == "e":
        return reduce(np.add, x, axis, keepdims, np.float32).astype(np.float16)
    return reduce(np.add, x, axis, keepdims, np.int64)


def multiply_reduce(x: Any, axis: Any, keepdims: bool = False, dtype: Any = None) -> Any:
    """Multiply; in long rows several elements at a time, where NumPy multiplies one after another.

    Products of some of the elements may overflow or underflow where those of all, in their order, do not: then, and
    where there are zeros, they are multiplied in their order. If no element is beyond 1, products only shrink, and 0 is
    right in any order; in theirs, many products could be subnormal numbers, which are slow on some processors.
    """
    along_rows = x.ndim and (axis is None or axis in (-1, x.ndim - 1))
    length = x.shape[-1] if along_rows and axis is not None else x.size
    if type(x) is np.ndarray and along_rows and length >= _LONG and x.size >= _MANY and x.flags.c_contiguous:
        rows = x.reshape(-1, length)
        with np.errstate(all="ignore"):  # anomalies that occur only in another order are not reported
            result = _multiplied_side_by_side(rows, dtype)
        if result.dtype.kind not in "fc" or (np.isfinite(result).all() and (result.all() or _shrink(rows))):
            shape = () if axis is None else x.shape[:-1]
            return result.reshape((*shape, *(1,) * (x.ndim - len(shape))) if keepdims else shape)
    return reduce(np.multiply, x, axis, keepdims, dtype)


def _multiplied_side_by_side(rows: Any, dtype: Any) -> Any:
    """The products of rows. Few factors meet in each, so that those from a half on cannot underflow at first."""
    length = rows.shape[1]
    side_by_side = 1 << min(max(length.bit_length() - 7, _FEWEST), _MOST)
    rest = length % side_by_side
    result = np.multiply.reduce(rows[:, rest:].reshape(len(rows), -1, side_by_side), 1, dtype)
    result[:, :rest] *= rows[:, :rest]
    while (half := result.shape[1] // 2) > _LAST:
        result = result[:, :half] * result[:, half:]
    return np.multiply.reduce(result, 1)


def _shrink(rows: Any) -> Any:
    """Whether products can only shrink because no element is beyond 1; False for complex numbers."""
    return rows.dtype.kind == "f" and rows.min() >= -1 and rows.max() <= 1


# the length of rows, and how many elements, from which on this is done (measured); how many are multiplied at a time,
# as powers of two; how many at the end one after another
_LONG, _MANY, _FEWEST, _MOST, _LAST = 1 << 10, 1 << 14, 7, 13, 8


def sum_per_channel(g: Any) -> Any:
    """The sum of every channel, the second dimension, of a gradient, be it an array or a Tensor."""
    places = g.reshape((*g.shape[:2], math.prod(g.shape[2:])))
    if isinstance(g, Tensor):
        return np.sum(np.sum(places, axis=2), axis=0)
    return reduce(np.add, reduce(np.add, places, 2), 0)


def mean_of(x: Any, axis: Any, keepdims: bool = False) -> Any:
    """The mean of a floating-point array (or Tensor)."""
    if x.dtype.char == "e":
        return mean_of(x.astype(np.float32), axis, keepdims).astype(np.float16)
    total = add_reduce(x, axis, keepdims)
    return total / count_reduced(x.shape, total.shape)


_PART = 8192  # products of longer vectors may run in threads, whose floating-point flags would be lost


def sum_of_squares(x: Any, axis: Any, keepdims: bool = False) -> Any:
    """The sum of ``|x|^2`` of a floating-point array; along the last axis and over all, without a temporary."""
    if axis is None and type(x) is np.ndarray and x.flags.c_contiguous and not keepdims:
        flat = x.reshape(-1)
        whole = flat.size - flat.size % 4096
        rows = flat[:whole].reshape(-1, 4096)
        # row by row, because products of long vectors may run in threads, whose floating-point flags would be lost
        return (np.add.reduce(np.vecdot(rows, rows)) + np.vdot(flat[whole:], flat[whole:])).real
    is_last = axis is not None and axis in (-1, x.ndim - 1) and type(x) is np.ndarray
    # from this length on products take less time (measured)
    least = VERY_SHORT + 1 if is_last and x.strides[-1] == x.itemsize else SHORT
    if is_last and least <= (length := x.shape[-1]) <= 32 * _PART:
        parts = [x[..., start : start + _PART] for start in range(0, length, _PART)]
        total = functools.reduce(np.add, [np.vecdot(part, part).real for part in parts])
        return total[..., None] if keepdims else total
    return add_reduce(np.square(x) if x.dtype.kind == "f" else x.real**2 + x.imag**2, axis, keepdims)
