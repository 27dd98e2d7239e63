"""The memory layout of new arrays relative to the ones they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.batching import BatchedArray


def is_row_major(x: Any) -> bool:
    """Whether the elements of an array, or of every sample of a batch, lie in index order and without gaps."""
    one = x.array[(slice(0, 1),) * len(x.levels)] if type(x) is BatchedArray else x
    return one.flags.c_contiguous


def row_major(x: Any) -> Any:
    """An array whose elements lie in index order, in every sample: ``x`` itself, if they do, else a copy."""
    if type(x) is np.ndarray:
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)
    if type(x) is BatchedArray and not x.flags.c_contiguous:
        return BatchedArray(np.ascontiguousarray(x.array), x.levels)
    return x


def _is_expanded(x: Any) -> bool:
    return type(x) is np.ndarray and 0 in x.strides and not x.flags.c_contiguous


def laid_out_as(like: Any, x: Any) -> Any:
    """``x`` with its elements in the memory order of ``like``, which has the same shape."""
    if type(x) is not np.ndarray or type(like) is not np.ndarray or like.flags.c_contiguous:
        return row_major(x)
    copy = dense_like(like, x.dtype)
    copy[...] = x
    return copy


def memory_order(data: Any) -> list[int] | None:
    """The dimensions of an array as they follow each other in memory, the outermost first; None if as usual."""
    if type(data) is np.ndarray and data.flags.c_contiguous:
        return None
    order = sorted(range(data.ndim), key=lambda k: -abs(data.strides[k]))
    return None if order == list(range(data.ndim)) else order


def in_memory_order(x: Any, order: list[int] | None) -> Any:
    """``x``, an array or a Tensor, if it is dense in this :func:`memory_order`, else a copy that is."""
    ordered = x if order is None else np.transpose(x, order)
    return x if getattr(ordered, "_data", ordered).flags.c_contiguous else _back(ordered.copy(order="C"), order)


def copy_in_memory_order(x: Any, order: list[int] | None) -> Any:
    """The same, in memory of its own."""
    return x.copy(order="C") if order is None else _back(np.transpose(x, order).copy(order="C"), order)


def _back(ordered: Any, order: list[int] | None) -> Any:
    return ordered if order is None else np.transpose(ordered, np.argsort(order).tolist())


def unexpanded(x: Any) -> Any:
    """``x`` itself, or a copy if it is expanded, for NumPy functions that would imitate its layout."""
    return dense_copy(x) if _is_expanded(x) else x


def dense_like(x: Any, dtype: Any = None) -> Any:
    """An array without values whose dimensions follow each other in memory as those of ``x`` do.

    If ``x`` is expanded, the order is that of a ufunc's result, not that of ``np.empty_like``, which would put the
    expanded dimensions innermost.
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
