"""NumPy's convolutions, sliding windows, functions by pieces and along axes, on Tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib import scimath, stride_tricks

from retrograd.core.op import op
from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._rules import normalize_dim
from retrograd.ops.numpy_functions.shape import as_tensor, as_tuple, tensors

# --- windows and convolutions -----------------------------------------------------------------------------------------


@implements(stride_tricks.sliding_window_view)
def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    sizes = as_tuple(window_shape)
    axes = tuple(range(x.ndim)) if axis is None else as_tuple(axis)
    if len(sizes) != len(axes):
        raise ValueError(f"sliding_window_view: {len(sizes)} window lengths were given for {len(axes)} axes")
    for dim, size in zip(axes, sizes, strict=True):
        x = x.unfold(normalize_dim(dim, x.ndim), size, 1)
    return x


# c[n] = sum of a[k] v[n - k] over k, and correlating the gradient with one of them is the adjoint
@op(
    name="convolve",
    public=False,
    method=False,
    a=lambda g, v: np.correlate(g, v),
    v=lambda g, a: np.correlate(g, a),
    factors=("a", "v"),
)
def _full_convolution(a, v):
    return np.convolve(a, v)


def _part(full: Any, shorter: int, mode: str) -> Any:
    """What NumPy's ``mode`` keeps of the full convolution of vectors of which one has the length ``shorter``."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be 'full', 'same' or 'valid', not {mode!r}")
    length = len(full)
    longer = length - shorter + 1
    first = {"full": 0, "same": (shorter - 1) // 2, "valid": shorter - 1}[mode]
    return full[first : first + {"full": length, "same": longer, "valid": longer - shorter + 1}[mode]]


def _vectors(name: str, a: Any, v: Any) -> tuple[Any, Any]:
    a, v = tensors((a, v))
    if a.ndim > 1 or v.ndim > 1 or a.numel() == 0 or v.numel() == 0:
        raise ValueError(f"{name}: expected two non-empty vectors, but the shapes are {a.shape} and {v.shape}")
    dtype = np.result_type(a._data, v._data)
    return a.to(dtype).reshape(-1), v.to(dtype).reshape(-1)


@implements(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    a, v = _vectors("convolve", a, v)
    return _part(_full_convolution(a, v), min(len(a), len(v)), mode)


@implements(np.correlate)
def _correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Sum of ``a[n + k] conj(v[k])`` over ``k``."""
    a, v = _vectors("correlate", a, v)
    if len(v) <= len(a):
        return _part(_full_convolution(a, np.conj(v.flip(0))), len(v), mode)
    # NumPy slides the shorter one, and turns the result round
    return np.conj(_part(_full_convolution(v, np.conj(a.flip(0))), len(a), mode)).flip(0)


# --- by pieces, along axes --------------------------------------------------------------------------------------------


@implements(np.piecewise)
def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Evaluate each function where its condition holds, on the elements concerned only."""
    x = as_tensor(x)
    first = condlist if np.isscalar(condlist) or getattr(condlist, "ndim", 1) == 0 else condlist[0]
    single = first is condlist or (x.ndim > 0 and not isinstance(first, list) and getattr(first, "ndim", 0) == 0)
    conditions = [
        (condition._data if isinstance(condition, Tensor) else np.asarray(condition)).astype(bool)
        for condition in ([condlist] if single else condlist)
    ]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~reduce(np.logical_or, conditions))
    elif len(funclist) != len(conditions):
        raise ValueError(
            f"piecewise: with {len(conditions)} condition(s), {len(conditions)} or {len(conditions) + 1} functions are "
            f"expected, but got {len(funclist)}"
        )
    result: Any = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        mask = wrap(condition)
        if not callable(function):
            result[mask] = function
        elif condition.any():
            values = function(x[mask], *args, **kw)
            result[mask] = values.to(result.dtype) if isinstance(values, Tensor) else values
    return result


@implements(np.apply_along_axis)
def _apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """``func1d`` of every vector along ``axis``, joined; the dimensions of its result take the place of ``axis``."""
    axis = normalize_dim(axis, arr.ndim)
    rows: Any = np.moveaxis(arr, axis, -1)
    if not rows[..., 0].numel():
        raise ValueError("apply_along_axis: cannot apply a function along an axis when the other dimensions are empty")
    results = tensors([func1d(row, *args, **kwargs) for row in rows.reshape((-1, rows.shape[-1]))])
    shape = results[0].shape
    joined = np.stack(results).reshape((*rows.shape[:-1], *shape))
    return np.moveaxis(joined, range(rows.ndim - 1, joined.ndim), range(axis, axis + len(shape)))


@implements(np.apply_over_axes)
def _apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    ndim = a.ndim
    for axis in as_tuple(axes):
        result = func(a, normalize_dim(axis, ndim))
        a = result if result.ndim == ndim else np.expand_dims(result, axis)
        if a.ndim != ndim:
            raise ValueError("apply_over_axes: the function does not return an array of the correct shape")
    return a


# --- complex where the real function is not defined -------------------------------------------------------------------


def _leaves_reals(function: Any, ufunc: Any, allowed: Callable[[np.ndarray], Any]) -> None:
    @implements(function)
    def answer(x: Any) -> Any:
        return ufunc(_complex_unless(allowed, as_tensor(x)))


def _complex_unless(allowed: Callable[[np.ndarray], Any], x: Tensor) -> Tensor:
    data = x._data
    return x if data.dtype.kind == "c" or np.all(allowed(data)) else x.to(np.result_type(data, np.complex64))


def _not_negative(x: np.ndarray) -> Any:
    return ~(x < 0)


def _within_one(x: np.ndarray) -> Any:
    return ~(np.abs(x) > 1)


def _arccos(x: Any) -> Any:
    """Part by part outside of [-1, 1], where there is a branch cut and the complex derivative knows no sides."""
    if x.is_complex() or np.all(_within_one(x._data)):
        return np.arccos(x)
    outside = np.abs(x) > 1
    real = np.where(outside, np.arccos(np.sign(x._data)), np.arccos(np.where(outside, 0, x)))
    return real - 1j * np.where(outside, np.arccosh(np.where(outside, np.abs(x), 2)), 0)


@implements(scimath.arccos)
def _numpy_arccos(x: Any) -> Any:
    return _arccos(as_tensor(x))


@implements(scimath.arcsin)
def _numpy_arcsin(x: Any) -> Any:
    x = as_tensor(x)
    return np.arcsin(x) if x.is_complex() or np.all(_within_one(x._data)) else np.pi / 2 - _arccos(x)


_leaves_reals(scimath.sqrt, np.sqrt, _not_negative)
_leaves_reals(scimath.log, np.log, _not_negative)
_leaves_reals(scimath.log2, np.log2, _not_negative)
_leaves_reals(scimath.log10, np.log10, _not_negative)
_leaves_reals(scimath.arctanh, np.arctanh, _within_one)


@implements(scimath.logn)
def _logn(n: Any, x: Any) -> Any:
    return scimath.log(x) / scimath.log(n)


@implements(scimath.power)
def _power(x: Any, p: Any) -> Any:
    x, p = tensors((x, p))
    if p._data.dtype.kind in "iu" and np.any(p._data < 0):
        p = p / 1
    return np.power(_complex_unless(_not_negative, x), p)
