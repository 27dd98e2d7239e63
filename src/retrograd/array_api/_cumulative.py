"""Cumulative functions, and counting."""

from __future__ import annotations

from typing import Any

from retrograd import creation
from retrograd.core.tensor import Tensor
from retrograd.ops.joining import cat

__all__ = ["count_nonzero", "cumulative_prod", "cumulative_sum"]


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the sums of the first elements along an axis; ``include_initial`` puts a zero before them."""
    axis = _axis(x, axis)
    return _from(0, x.cumsum(axis, dtype=dtype), axis, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the products of the first elements along an axis; ``include_initial`` puts a one before them."""
    axis = _axis(x, axis)
    return _from(1, x.cumprod(axis, dtype=dtype), axis, include_initial)


def _axis(x: Tensor, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError(
            f"axis: give one for a tensor with {x.ndim} dimensions; it may be None only for a tensor with one dimension"
        )
    return 0 if axis is None else axis


def _from(initial: int, result: Tensor, axis: int, include_initial: bool) -> Tensor:
    if not include_initial:
        return result
    shape = list(result.shape)
    shape[axis] = 1
    first = creation.full(shape, initial, dtype=result.dtype, device=result.device)
    return cat([first, result], axis)


def count_nonzero(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Return how many elements are not zero."""
    return (x != 0).sum(dim=axis, keepdim=keepdims)
