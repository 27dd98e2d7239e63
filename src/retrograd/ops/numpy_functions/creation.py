"""NumPy's functions that make or describe arrays, asked for Tensors.

The creation functions arrive here through ``like=``: ``np.zeros(3, like=tensor)`` is a Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy._core import umath as _umath

from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import from_numpys_name
from retrograd.ops.conditional import clamp
from retrograd.ops.joining import stack
from retrograd.ops.numpy_functions.shape import as_tensor, tensors
from retrograd.ops.numpy_functions.sorting import elements, without_derivative
from retrograd.ops.shape import broadcast_tensors
from retrograd.ops.special import i0

umath: Any = _umath  # the ufuncs that NumPy calls on its own, and does not publish


# --- by like= ---------------------------------------------------------------------------------------------------------


def _makes(function: Callable[..., Any]) -> Callable[..., Tensor]:
    def answer(*args: Any, **kwargs: Any) -> Tensor:
        return as_tensor(function(*args, **kwargs))

    return answer


for _name in (
    "arange", "empty", "eye", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "genfromtxt",
    "identity", "loadtxt", "ones", "tri", "zeros",
):  # fmt: skip
    implements(getattr(np, _name))(_makes(getattr(np, _name)))


@implements(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Tensor:
    if not isinstance(fill_value, Tensor):
        return as_tensor(np.full(shape, fill_value, dtype, order))
    filled: Any = np.broadcast_to(fill_value, shape)
    return (filled if dtype is None else filled.to(from_numpys_name(dtype))).clone()


def _joined(value: Any) -> Tensor:
    """A Tensor as it is; nested lists of Tensors stacked, so that their history is kept."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        return stack([_joined(item) for item in value])
    return as_tensor(np.array(value))


def _holds_tensor(values: Any) -> bool:
    return any(isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and _holds_tensor(v)) for v in values)


@implements(np.array)
def _array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0, ndmax: int = 0, **layout: Any
) -> Tensor:
    tensor = result = _joined(object)
    if dtype is not None:
        result = result.to(from_numpys_name(dtype))
    if result.ndim < ndmin:
        result = result.reshape((1,) * (ndmin - result.ndim) + tuple(result.shape))
    return result.clone() if copy and np.may_share_memory(result._data, tensor._data) else result


@implements(np.asarray, np.asanyarray, np.require)
def _asarray(a: Any, dtype: Any = None, *layout: Any, copy: bool | None = None, **more: Any) -> Tensor:
    return _array(a, dtype, copy=copy)


@implements(np.ascontiguousarray, np.asfortranarray)
def _ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    return _array(a, dtype, copy=None, ndmin=1).contiguous()


# --- descriptions -----------------------------------------------------------------------------------------------------


def _describes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that looks at arrays and returns something that is none."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        return function(*map(elements, args), **{key: elements(value) for key, value in kwargs.items()})

    return answer


for _name in (
    "can_cast", "common_type", "min_scalar_type", "result_type", "einsum_path", "may_share_memory", "shares_memory",
):  # fmt: skip
    implements(getattr(np, _name))(_describes(getattr(np, _name)))


@implements(np.array_repr)
def _array_repr(arr: Tensor, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    if (max_line_width, precision, suppress_small) != (None, None, None):
        raise TypeError("numpy.array_repr: only arr is supported for Tensors; use retrograd.set_printoptions")
    return repr(arr)


@implements(np.array_str)
def _array_str(a: Tensor, *args: Any, **kwargs: Any) -> str:
    return np.array_str(a._data, *args, **kwargs)


@implements(np.array2string)
def _array2string(a: Tensor, *args: Any, **kwargs: Any) -> str:
    return np.array2string(a._data, *args, **kwargs)


# --- files and bits ---------------------------------------------------------------------------------------------------

for _name in ("save", "savetxt", "savez", "savez_compressed"):
    without_derivative(getattr(np, _name), integral=False)

for _name in ("packbits", "unpackbits"):
    without_derivative(getattr(np, _name), integral=True)


# --- ufuncs that NumPy calls on its own -------------------------------------------------------------------------------


@implements(umath._ones_like)
def _ones_like(x: Tensor) -> Tensor:
    return wrap(np.ones_like(x._data))


@implements(umath.clip)
def _clip(x: Any, low: Any, high: Any) -> Tensor:
    return clamp(x, low, high)


@implements(np.i0)
def _i0(x: Any) -> Tensor:
    return i0(x)


# --- ranges, differentiable in their ends -----------------------------------------------------------------------------


def _ends(*ends: Any) -> tuple[Tensor, ...]:
    """Start, stop and the like as floating-point Tensors of one shape and dtype."""
    numbers = (int, float, complex)
    dtype = np.result_type(*(end if isinstance(end, numbers) else as_tensor(end)._data for end in ends))
    dtype = dtype if dtype.kind in "fc" else np.dtype(float)
    return broadcast_tensors(*(as_tensor(end).to(dtype) for end in ends))


def _line(start: Tensor, stop: Tensor, num: int, endpoint: bool) -> Tensor:
    """``(1 - t) * start + t * stop`` for ``num`` values of ``t`` from 0 to 1, along a new first dimension."""
    if num < 0:
        raise ValueError(f"linspace: num must be non-negative, but is {num}")
    t = np.arange(num) / max(num - 1 if endpoint else num, 1)
    t = t.reshape((num,) + (1,) * start.ndim).astype(start._data.dtype)
    return wrap(1 - t) * start + wrap(t) * stop


def _cast(line: Any, axis: int, dtype: Any) -> Tensor:
    line = line.movedim(0, axis)
    if dtype is None:
        return line
    wanted = from_numpys_name(dtype)
    return (np.floor(line) if wanted.numpy.kind in "iu" else line).to(wanted)


@implements(np.linspace)
def _linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    start, stop = _ends(start, stop)
    line = _cast(_line(start, stop, num, endpoint), axis, dtype)
    if not retstep:
        return line
    intervals = num - 1 if endpoint else num
    return line, (stop - start) * (1 / intervals if intervals > 0 else np.nan)


@implements(np.logspace)
def _logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    start, stop, base = _ends(start, stop, base)
    return _cast(np.power(base, _line(start, stop, num, endpoint)), axis, dtype)


@implements(np.geomspace)
def _geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    start, stop = _ends(start, stop)
    if np.any(start._data == 0) or np.any(stop._data == 0):
        raise ValueError("geomspace: a geometric sequence cannot include zero")
    exponents = np.log(stop / start)
    return _cast(start * np.exp(_line(exponents * 0, exponents, num, endpoint)), axis, dtype)


@implements(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate tensors; views of the arguments unless ``copy``."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', but got {indexing!r}")
    axes = tensors(xi)
    ndim = len(axes)
    order = [1, 0, *range(2, ndim)] if indexing == "xy" and ndim > 1 else list(range(ndim))
    grids = [
        axis.reshape([-1 if place == k else 1 for k in range(ndim)]) for axis, place in zip(axes, order, strict=True)
    ]
    if not sparse:
        shape = np.broadcast_shapes(*(grid.shape for grid in grids))
        grids = [grid.broadcast_to(shape) for grid in grids]
    return tuple(grid.clone() for grid in grids) if copy else tuple(grids)
