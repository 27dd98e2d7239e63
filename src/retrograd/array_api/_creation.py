"""Creation functions, whose ``dtype`` may be None for the default, and whose results need no gradient."""

from __future__ import annotations

from typing import Any

from retrograd import creation
from retrograd.core.tensor import Tensor

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return data as a tensor; a tensor as it is, with its history, unless something else is asked for."""
    return creation.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return evenly spaced numbers from ``start``, or from 0 to it, up to but not including ``stop``."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step <= 0:
        stop = start  # empty, where torch raises
    return creation.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """Return ``num`` evenly spaced numbers, the last of which is ``stop`` or one step before it."""
    if endpoint or num == 0:
        return creation.linspace(start, stop, num, dtype=dtype, device=device)
    return creation.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a matrix with ones on its ``k``-th diagonal and zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    result = creation.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return what another library holds, without a copy where that can be."""
    result = creation.from_dlpack(x)
    return asarray(result, device=device, copy=copy)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of which nothing but shape and dtype is determined."""
    return creation.empty(shape, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return zeros of a shape."""
    return creation.zeros(shape, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return ones of a shape."""
    return creation.ones(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return one number in all elements; the dtype is that of the number if none is given."""
    return creation.full((shape,) if isinstance(shape, int) else shape, fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of the shape of ``x``, of which nothing else is determined."""
    return creation.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return zeros of the shape of ``x``."""
    return creation.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return ones of the shape of ``x``."""
    return creation.ones_like(x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return one number in all elements, in the shape of ``x``."""
    return creation.full_like(x, fill_value, dtype=dtype, device=device)
