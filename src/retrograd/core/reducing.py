"""Reductions of plain arrays at full speed."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.layout import row_major

# the length to which short innermost loops are brought, and what counts as short
LONG, SHORT, VERY_SHORT = 512, 128, 16


def reduce(ufunc: Any, x: Any, axis: Any, keepdims: bool = False, dtype: Any = None) -> Any:
    """``ufunc.reduce``, where NumPy's innermost loop would be short rearranged so that it is long.

    The result lies in index order.
    """
    if axis is None or type(x) is not np.ndarray:
        return ufunc.reduce(x, axis, dtype, None, keepdims)
    if not x.flags.c_contiguous:
        return row_major(ufunc.reduce(x, axis, dtype, None, keepdims))
    if x.size < 1024 or x.ndim < 2:
        return ufunc.reduce(x, axis, dtype, None, keepdims)
    shape = x.shape
    if axis in (0, -x.ndim) and x.size <= SHORT * shape[0]:
        result = _reduce_rows(ufunc, x.reshape(shape[0], -1), dtype)
        return result.reshape((1, *shape[1:]) if keepdims else shape[1:])
    if axis in (-1, x.ndim - 1) and shape[-1] <= VERY_SHORT:
        columns = np.ascontiguousarray(x.reshape(-1, shape[-1]).T)
        return ufunc.reduce(columns, 0, dtype).reshape((*shape[:-1], 1) if keepdims else shape[:-1])
    return ufunc.reduce(x, axis, dtype, None, keepdims)


def _reduce_rows(ufunc: Any, x: np.ndarray, dtype: Any) -> Any:
    """Reduce over many short rows by way of fewer long ones, each of them several rows in sequence."""
    n, length = x.shape
    several = max(LONG // length, 1)
    whole = n - n % several
    long = ufunc.reduce(x[:whole].reshape(-1, several * length), 0, dtype)
    result = ufunc.reduce(long.reshape(several, length), 0, dtype)
    return result if whole == n else ufunc(result, ufunc.reduce(x[whole:], 0, dtype))
