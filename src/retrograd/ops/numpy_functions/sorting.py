"""NumPy's cumulative functions, differences, sorting, searching and sets on Tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.registry import implements, numpy_functions
from retrograd.core.size import checked_dim
from retrograd.core.tensor import Tensor, wrap
from retrograd.gpu import DeviceArray
from retrograd.ops import cumulative, sorting
from retrograd.ops._picking import take_along
from retrograd.ops._rules import normalize_dim
from retrograd.ops.cumulative import along, gradient_along
from retrograd.ops.numpy_functions.reductions import as_float, as_operand, into, unsupported

# --- running sums and products ----------------------------------------------------------------------------------------


def _flat_unless(a: Any, axis: int | None) -> tuple[Any, int]:
    return (a.reshape((-1,)), 0) if axis is None else (a, axis)


@implements(np.cumsum)
def _cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return into(out, cumulative.cumsum(*_flat_unless(a, axis), dtype))


@implements(np.cumprod)
def _cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return into(out, cumulative.cumprod(*_flat_unless(a, axis), dtype))


@implements(np.nancumsum)
def _nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return _cumsum(np.where(np.isnan(a), 0, a), axis, dtype, out)


@implements(np.nancumprod)
def _nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return _cumprod(np.where(np.isnan(a), 1, a), axis, dtype, out)


def _cumulative(name: str, function: Callable[..., Any], first: int) -> Callable[..., Any]:
    def answer(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        x = np.atleast_1d(x)
        if axis is None:
            if x.ndim > 1:
                raise ValueError(f"numpy.{name}: for more than one dimension, the axis must be given")
            axis = 0
        result = function(x, axis, dtype)
        if include_initial:
            start = np.full_like(along(result, normalize_dim(axis, result.ndim), 0, 1).detach(), first)
            result = np.concatenate((start, result), axis=axis)
        return into(out, result)

    return answer


if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    implements(np.cumulative_sum)(_cumulative("cumulative_sum", cumulative.cumsum, 0))
    implements(np.cumulative_prod)(_cumulative("cumulative_prod", cumulative.cumprod, 1))


def _accumulate(ufunc: np.ufunc, function: Callable[..., Any], **plain: Any) -> None:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        array = array if dtype is None else array.astype(dtype)
        result = function(array, axis)
        return into(out, result if isinstance(result, Tensor) else result[0])

    numpy_functions[ufunc, "accumulate"] = accumulate


for _ufunc, _running in (
    (np.add, cumulative.cumsum),
    (np.multiply, cumulative.cumprod),
    (np.maximum, cumulative.cummax),
    (np.minimum, cumulative.cummin),
    (np.logaddexp, cumulative.logcumsumexp),
):
    _accumulate(_ufunc, _running)


# --- differences and integrals ----------------------------------------------------------------------------------------


@implements(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if not isinstance(a, Tensor):
        a = as_operand(a, next(x for x in (prepend, append) if isinstance(x, Tensor)))
    edge = (*a.shape[: axis % a.ndim], 1, *a.shape[axis % a.ndim + 1 :]) if a.ndim else ()

    def around(value: Any) -> Any:
        if value is None or value is np._NoValue:
            return None
        value = as_operand(value, a)
        return value if value.ndim else np.broadcast_to(value, edge)

    return cumulative.diff(a, n, axis, around(prepend), around(append))


@implements(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    if not isinstance(ary, Tensor):
        ary = as_operand(ary, next(x for x in (to_end, to_begin) if isinstance(x, Tensor)))
    parts = [to_begin, cumulative.diff(ary.reshape((-1,))), to_end]
    return np.concatenate([as_operand(part, ary).reshape((-1,)) for part in parts if part is not None])


@implements(*(getattr(np, name) for name in ("trapezoid", "trapz") if hasattr(np, name)))
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    if x is None:
        return cumulative.trapezoid(y, dx=dx, dim=axis)
    like = y if isinstance(y, Tensor) else x
    return cumulative.trapezoid(as_operand(y, like), as_operand(x, like), dim=axis)


@implements(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    if not isinstance(f, Tensor):
        f = as_operand(f, next(x for x in varargs if isinstance(x, Tensor)))
    f = as_float(f)
    axes = range(f.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    dims = [checked_dim("gradient", k, f.ndim) for k in axes]
    spacings = varargs * len(dims) if len(varargs) == 1 and np.ndim(varargs[0]) == 0 else varargs or (1.0,) * len(dims)
    if len(spacings) != len(dims):
        raise TypeError("numpy.gradient: invalid number of arguments")
    for k in dims:
        if f.shape[k] <= edge_order:
            raise ValueError(
                "numpy.gradient: shape of array too small to calculate a numerical gradient, "
                f"at least {edge_order + 1} elements are required along axis {k}"
            )
    results = tuple(
        gradient_along(f, as_operand(h, f) if np.ndim(h) else h, k, edge_order)
        for h, k in zip(spacings, dims, strict=True)
    )
    return results[0] if len(results) == 1 else results


@implements(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    like = as_float(next(value for value in (fp, x, xp, left, right) if isinstance(value, Tensor)))
    x, xp, fp = (as_operand(value, like) for value in (x, xp, fp))
    if period is not None:
        if period == 0:
            raise ValueError("numpy.interp: period must be a non-zero value")
        x, xp, left, right, period = x % abs(period), xp % abs(period), None, None, abs(period)
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate((xp[-1:] - period, xp, xp[:1] + period))
        fp = np.concatenate((fp[-1:], fp, fp[:1]))
    below = np.searchsorted(xp, x, side="right") - 1
    below = np.clip(below, 0, max(xp.shape[0] - 2, 0))
    above = np.minimum(below + 1, xp.shape[0] - 1)
    width = xp[above] - xp[below]
    weight = (x - xp[below]) / np.where(width == 0, 1, width)
    inside = fp[below] + weight * (fp[above] - fp[below])
    inside = np.where(x < xp[0], fp[0] if left is None else left, inside)
    return np.where(x > xp[-1], fp[-1] if right is None else right, inside)


# --- sorting ----------------------------------------------------------------------------------------------------------


@implements(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    unsupported("sort", "Tensors have no fields", order=order)
    return sorting.sort(*_flat_unless(a, axis)).values


@implements(np.argsort)
def _argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    unsupported("argsort", "Tensors have no fields", order=order)
    return sorting.argsort(*_flat_unless(a, axis))


@implements(np.partition)
def _partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    unsupported("partition", "Tensors have no fields", order=order)
    a, axis = _flat_unless(a, axis)
    axis = checked_dim("partition", axis, a.ndim)
    return take_along(a, axis, np.argpartition(a._data, kth, axis))


@implements(np.sort_complex)
def _sort_complex(a: Any) -> Any:
    order = np.argsort(a._data, -1)
    dtype = np.sort_complex(np.empty(0, a.dtype.numpy)).dtype
    return take_along(a.to(dtype), -1, order)


# --- what has no derivative -------------------------------------------------------------------------------------------


def elements(value: Any) -> Any:
    """The array behind a Tensor, also inside lists and tuples."""
    if isinstance(value, Tensor):
        return value._data
    return type(value)(map(elements, value)) if type(value) in (list, tuple) else value


def as_tensors(value: Any) -> Any:
    """The arrays and NumPy's numbers as Tensors, also inside lists and tuples."""
    if isinstance(value, (BatchedArray, DeviceArray)):
        return wrap(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return wrap(np.asarray(value))
    if isinstance(value, tuple):
        return value._make(map(as_tensors, value)) if hasattr(value, "_make") else tuple(map(as_tensors, value))
    return [as_tensors(item) for item in value] if isinstance(value, list) else value


def wants_gradient(value: Any) -> bool:
    """Whether a Tensor, or one inside of lists and tuples, would lose a gradient if it were taken as an array."""
    if isinstance(value, Tensor):
        return value.loses_derivative()
    return isinstance(value, (list, tuple)) and any(map(wants_gradient, value))


def refuse_gradients(function: Callable[..., Any], *values: Any) -> None:
    """Raise if one of the arguments of one of NumPy's functions would lose a gradient."""
    if any(map(wants_gradient, values)):
        raise TypeError(
            f"numpy.{function.__name__} has no derivative rule for Tensors: detach first, with x.detach(), "
            "if no gradient is needed"
        )


def without_derivative(function: Callable[..., Any], integral: bool) -> None:
    """Answer with NumPy's own function on the elements.

    If its results are not integers by nature, there must be no gradient that would be lost on the way.
    """

    @functools.wraps(function)
    def answer(*args: Any, **kwargs: Any) -> Any:
        if not integral:
            refuse_gradients(function, *args, *kwargs.values())
        return as_tensors(function(*map(elements, args), **{key: elements(value) for key, value in kwargs.items()}))

    implements(function)(answer)


for _name in ("argpartition", "digitize", "isin", "lexsort", "nanargmax", "nanargmin", "searchsorted"):
    without_derivative(getattr(np, _name), integral=True)

if hasattr(np, "in1d"):  # until NumPy 2.3
    without_derivative(np.in1d, integral=True)

for _name in ("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"):
    without_derivative(getattr(np, _name), integral=False)

for _name in ("intersect1d", "setdiff1d", "setxor1d", "union1d"):
    without_derivative(getattr(np, _name), integral=False)
