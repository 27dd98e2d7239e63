"""How new arrays lie in memory beside the ones they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np


def row_major(x: Any) -> Any:
    """An array whose elements lie in index order: ``x`` itself, if they do, else a copy."""
    return np.ascontiguousarray(x) if type(x) is np.ndarray and not x.flags.c_contiguous else x


def _is_expanded(x: Any) -> bool:
    return type(x) is np.ndarray and 0 in x.strides and not x.flags.c_contiguous


def laid_out_as(like: Any, x: Any) -> Any:
    """``x`` with the elements in memory in the order that those of ``like``, which has its shape, are in."""
    if type(x) is not np.ndarray or type(like) is not np.ndarray or like.flags.c_contiguous:
        return row_major(x)
    copy = dense_like(like, x.dtype)
    copy[...] = x
    return copy


def unexpanded(x: Any) -> Any:
    """``x`` itself, or a copy if it is expanded, for functions of NumPy that would copy its layout."""
    return dense_copy(x) if _is_expanded(x) else x


def dense_like(x: Any, dtype: Any = None) -> Any:
    """An array without values whose dimensions follow each other in memory as those of ``x`` do.

    Where ``x`` is expanded, they do as in the result of a ufunc, and not as in that of ``np.empty_like``, which would
    put the expanded dimensions innermost.
    """
    if not _is_expanded(x):
        return np.empty_like(x, dtype, subok=False)
    either: Any = [["readonly"], ["writeonly", "allocate"]]
    steps = np.nditer([x, None], ["zerosize_ok"], either, [None, dtype or x.dtype], order="K")
    return steps.operands[1]


def dense_copy(x: Any, dtype: Any = None) -> Any:
    """A copy of ``x``, in another dtype if one is given, laid out as :func:`dense_like` says."""
    if not _is_expanded(x):
        return x.copy(order="K") if dtype is None else x.astype(dtype)
    copy = dense_like(x, dtype)
    np.copyto(copy, x, casting="unsafe")
    return copy
