"""NumPy's reductions and statistics on Tensors, with NumPy's parameters and defaults.

Dtypes follow torch: what NumPy would turn from integers into float64 has the default dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.batching import as_array
from retrograd.core.out import into
from retrograd.core.registry import implements, numpy_functions
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import get_default_dtype
from retrograd.ops import extremes, reductions, statistics
from retrograd.ops._rules import normalize_dims
from retrograd.ops.numpy_functions.shape import as_tensor

Axis = int | Sequence[int] | None


# --- what all of them need --------------------------------------------------------------------------------------------


def unsupported(name: str, instead: str, **arguments: Any) -> None:
    """Refuse NumPy's arguments that are not honoured, unless they have their defaults."""
    for argument, value in arguments.items():
        if value is not None and value is not False:
            raise TypeError(f"numpy.{name}: {argument}= is not supported for Tensors; {instead}")


def as_operand(value: Any, like: Tensor) -> Any:
    """An argument as a Tensor: arrays keep their dtype, numbers and lists of them have that of ``like`` if they fit."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (int, float, complex, list, tuple)):
        array, dtype = as_array(value), like.dtype.numpy
        value = array.astype(dtype) if np.can_cast(array.dtype, dtype, "same_kind") else array
    return as_tensor(value)


def as_float(a: Tensor) -> Any:
    """Integers in the default dtype, as ``/`` makes them."""
    return a.to(get_default_dtype()) if a.dtype.kind in "biu" else a


def reduced(a: Any, axis: Axis, keepdims: bool) -> tuple[Any, Any, bool]:
    """NumPy's ``axis=()`` reduces nothing, where torch's ``dim=()`` reduces all: reduce a new dimension instead."""
    return (a.unsqueeze(-1), -1, False) if isinstance(axis, tuple) and not axis else (a, axis, bool(keepdims))


def as_one_dim(a: Tensor, axis: Axis) -> tuple[Tensor, int, tuple[int, ...]]:
    """Several dimensions as one, the last; and the shape that a reduction keeps."""
    dims = range(a.ndim) if axis is None else normalize_dims(axis, a.ndim)
    rest = [k for k in range(a.ndim) if k not in dims]
    count = math.prod(a.shape[k] for k in dims)
    flat = a.permute((*rest, *dims)).reshape((*(a.shape[k] for k in rest), count))
    return flat, -1, tuple(1 if k in dims else n for k, n in enumerate(a.shape))


def _filled(a: Any, where: Any, neutral: Any) -> Any:
    """The elements that ``where`` selects, and what changes nothing for the others."""
    return a if where is True else np.where(where, a, neutral)


# --- sums and products ------------------------------------------------------------------------------------------------


@implements(np.sum)
def _sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    a, axis, keepdims = reduced(_filled(a, where, 0), axis, keepdims)
    result = reductions.sum(a, axis, keepdims, dtype)
    return into(out, result if initial is None else result + initial)


@implements(np.prod)
def _prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    a, axis, keepdims = reduced(_filled(a, where, 1), axis, keepdims)
    if isinstance(axis, Sequence):
        a, axis, kept = as_one_dim(a, axis)
        result = reductions.prod(a, axis, False, dtype)
        result = result.reshape(kept) if keepdims else result
    else:
        result = reductions.prod(a, axis, keepdims, dtype)
    return into(out, result if initial is None else result * initial)


@implements(np.mean)
def _mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    if where is not True:
        return into(out, _sum(a, axis, dtype, None, keepdims, None, where) / _count(a, where, axis, keepdims))
    a, axis, keepdims = reduced(as_float(a) if dtype is None else a, axis, keepdims)
    return into(out, reductions.mean(a, axis, keepdims, dtype))


def _count(a: Any, where: Any, axis: Axis, keepdims: Any) -> Any:
    return _sum(np.broadcast_to(as_operand(where, a).bool(), a.shape), axis, None, None, keepdims)


@implements(np.average)
def _average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    a = as_operand(a, weights)
    if weights is None:
        result = _mean(a, axis, keepdims=keepdims)
        total = as_operand(a.numel() / max(result.numel(), 1), result)
    else:
        weights = as_operand(weights, as_float(a))
        if weights.shape != a.shape:
            if axis is None:
                raise TypeError("numpy.average: weights whose shape differs from that of a need an axis")
            dims = normalize_dims(axis, a.ndim)
            if tuple(weights.shape) != tuple(a.shape[dim] for dim in dims):
                raise ValueError("numpy.average: the shape of the weights must match that of a along the axis")
            weights = weights.permute(tuple(np.argsort(dims).tolist()))
            weights = weights.reshape([n if dim in dims else 1 for dim, n in enumerate(a.shape)])
        weights = np.broadcast_to(weights, a.shape)
        total = _sum(weights, axis, keepdims=keepdims)
        result = _sum(a * weights, axis, keepdims=keepdims) / total
    if not returned:
        return result
    total = as_tensor(np.broadcast_to(total, result.shape))
    return result, total.to(result.dtype)


# --- variance ---------------------------------------------------------------------------------------------------------


def _spread(name: str, reduce: Callable[..., Any], of_variance: Callable[[Tensor], Any]) -> Callable[..., Any]:
    def answer(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: Any = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: float | None = None,
    ) -> Any:
        unsupported(name, "leave it out", mean=mean)
        ddof = ddof if correction is None else correction
        a = as_float(a) if dtype is None else a.astype(dtype)
        if where is not True:
            return into(out, of_variance(_var_where(a, where, axis, ddof, keepdims)))
        a, axis, keepdims = reduced(a, axis, keepdims)
        return into(out, reduce(a, axis, keepdim=keepdims, correction=ddof))

    return answer


def _root(variance: Tensor) -> Any:
    """The standard deviation, whose derivative where it is 0 is 0."""
    return np.where(variance == 0, 0, np.where(variance == 0, 1, variance) ** 0.5)


def _var_where(a: Tensor, where: Any, axis: Axis, ddof: float, keepdims: Any) -> Any:
    """The variance of the elements that ``where`` selects."""
    centred = np.where(where, a - _mean(a, axis, keepdims=True, where=where), 0)
    squares = np.real(centred * np.conj(centred))
    freedom = _count(a, where, axis, keepdims) - ddof
    return _sum(squares, axis, keepdims=keepdims) / np.where(freedom > 0, freedom, math.nan)


_var = implements(np.var)(_spread("var", statistics.var, lambda variance: variance))
_std = implements(np.std)(_spread("std", statistics.std, _root))


# --- extremes and truth -----------------------------------------------------------------------------------------------


def _extreme(name: str, reduce: Callable[..., Any], combine: np.ufunc) -> Callable[..., Any]:
    def answer(
        a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
    ) -> Any:
        if where is not True:
            if initial is None:
                raise ValueError(f"numpy.{name}: where= needs an initial= value")
            a = np.where(where, a, initial)
        a, axis, keepdims = reduced(a, axis, keepdims)
        if initial is not None and not a.numel():
            shape = reductions.sum(a, axis, keepdims).shape
            return into(out, np.broadcast_to(as_operand(initial, a).to(a.dtype), shape))
        result = reduce(a, axis, keepdims)
        return into(out, result if initial is None else combine(result, initial))

    return answer


_max = implements(np.max, np.amax)(_extreme("max", extremes.amax, np.maximum))
_min = implements(np.min, np.amin)(_extreme("min", extremes.amin, np.minimum))


@implements(np.ptp)
def _ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False) -> Any:
    return into(out, _max(a, axis, keepdims=keepdims) - _min(a, axis, keepdims=keepdims))


@implements(np.argmax)
def _argmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return into(out, extremes.argmax(a.to(np.uint8) if a.dtype.kind == "b" else a, axis, bool(keepdims)))


@implements(np.argmin)
def _argmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return into(out, extremes.argmin(a.to(np.uint8) if a.dtype.kind == "b" else a, axis, bool(keepdims)))


@implements(np.all)
def _all(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return into(out, reductions.all(_filled(a != 0, where, True), axis, bool(keepdims)))


@implements(np.any)
def _any(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return into(out, reductions.any(_filled(a != 0, where, False), axis, bool(keepdims)))


@implements(np.count_nonzero)
def _count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return _sum(a != 0, axis, keepdims=keepdims)


# --- quantiles --------------------------------------------------------------------------------------------------------


def _plotting_position(alpha: float, beta: float) -> Callable[[Any, Any], Any]:
    return lambda q, n: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _averaged(q: Any, n: Any) -> Any:
    rank = n * q - 1
    return np.where(rank % 1 == 0, rank + 0.5, np.ceil(rank))


# The methods that torch does not have, and the ranks that they give the quantile q of n elements, between which they
# interpolate: Hyndman and Fan (1996), "Sample Quantiles in Statistical Packages".
_RANKS: dict[str, Callable[[Any, Any], Any]] = {
    "inverted_cdf": lambda q, n: np.ceil(n * q) - 1,
    "averaged_inverted_cdf": _averaged,
    "closest_observation": lambda q, n: np.rint(n * q) - 1,
    "interpolated_inverted_cdf": _plotting_position(0, 1),
    "hazen": _plotting_position(0.5, 0.5),
    "weibull": _plotting_position(0, 0),
    "median_unbiased": _plotting_position(1 / 3, 1 / 3),
    "normal_unbiased": _plotting_position(3 / 8, 3 / 8),
}


def _quantile_of(name: str, a: Any, q: Any, axis: Axis, out: Any, method: str, keepdims: Any) -> Any:
    if method not in (*statistics.INTERPOLATIONS, *_RANKS):
        known = ", ".join((*statistics.INTERPOLATIONS, *_RANKS))
        raise ValueError(f"numpy.{name}: method={method!r} is not one of {known}")
    a = as_tensor(a)
    # ranks that are rounded need all digits, or the next element is taken
    computed = np.float64 if method in _RANKS else np.result_type(as_float(a).dtype.numpy, np.float32)
    flat, dim, kept = as_one_dim(as_float(a).to(computed), axis)
    q = as_operand(q, flat).to(computed)
    kind = "nanquantile" if name.startswith("nan") else "quantile"
    q_vector = q.reshape((-1,))
    if method in _RANKS:
        result = statistics.find_quantile(
            kind, flat, q_vector, dim, False, "linear", lambda q, n: np.clip(_RANKS[method](q, n), 0, n - 1)
        )
    else:
        result = getattr(statistics, kind)(flat, q_vector, dim, interpolation=method)
    return into(out, result.reshape(tuple(q.shape) + (kept if keepdims else result.shape[1:])).to(as_float(a).dtype))


def _quantile_answer(name: str, whole: int) -> Callable[..., Any]:
    def answer(
        a: Any,
        q: Any,
        axis: Axis = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
        interpolation: Any = None,
    ) -> Any:
        unsupported(name, "repeat the elements instead", weights=weights)
        unsupported(name, "use method=, its new name", interpolation=interpolation)
        if whole != 1:  # the quotient: a product with 0.01 would round to the other side of an element now and then
            q = np.true_divide(q, whole)
        return _quantile_of(name, a, q, axis, out, method, keepdims)

    return answer


for _name, _whole in (("quantile", 1), ("nanquantile", 1), ("percentile", 100), ("nanpercentile", 100)):
    implements(getattr(np, _name))(_quantile_answer(_name, _whole))


def _median_answer(name: str) -> Callable[..., Any]:
    def answer(a: Any, axis: Axis = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
        return _quantile_of(name, a, 0.5, axis, out, "midpoint", keepdims)

    return answer


implements(np.median)(_median_answer("median"))
implements(np.nanmedian)(_median_answer("nanmedian"))


# --- without NaN ------------------------------------------------------------------------------------------------------


def _with_neutral(answer: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    """The answer for elements of which a NaN counts as ``neutral``."""

    def answer_without_nan(a: Any, *args: Any, where: Any = True, **kwargs: Any) -> Any:
        return answer(np.where(np.isnan(a), neutral, _filled(a, where, neutral)), *args, **kwargs)

    return answer_without_nan


implements(np.nansum)(_with_neutral(_sum, 0))
implements(np.nanprod)(_with_neutral(_prod, 1))


def _of_present(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The answer for those elements that are no NaN."""

    def answer_without_nan(a: Any, *args: Any, where: Any = True, **kwargs: Any) -> Any:
        return answer(a, *args, where=~np.isnan(a) if where is True else ~np.isnan(a) & where, **kwargs)

    return answer_without_nan


for _nan_function, _of_all in ((np.nanmean, _mean), (np.nanvar, _var), (np.nanstd, _std)):
    implements(_nan_function)(_of_present(_of_all))


def _nan_extreme(extreme: Callable[..., Any], least: float) -> Callable[..., Any]:
    def answer(
        a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
    ) -> Any:
        if a.dtype.kind != "f":
            return extreme(a, axis, out, keepdims, initial, where)
        found = extreme(np.where(np.isnan(a), least, a), axis, None, keepdims, initial, where)
        return into(out, np.where(_all(np.isnan(a), axis, keepdims=keepdims), math.nan, found))

    return answer


implements(np.nanmax)(_nan_extreme(_max, -math.inf))
implements(np.nanmin)(_nan_extreme(_min, math.inf))


# --- covariance -------------------------------------------------------------------------------------------------------


def _variables(m: Any, y: Any, rowvar: bool) -> Any:
    """The variables of ``m`` and ``y`` as rows."""
    m = as_operand(m, m if isinstance(m, Tensor) else y)

    def rows(x: Any) -> Any:
        x = x if x.ndim == 2 else x.reshape((1, -1))
        return x if rowvar or x.shape[0] == 1 else np.transpose(x)

    return rows(m) if y is None else np.concatenate((rows(m), rows(as_operand(y, m))))


def _weights(aweights: Any, like: Tensor) -> Any:
    weights = as_operand(aweights, like)
    return weights.to(like.dtype) if weights.dtype.kind in "iu" else weights


@implements(np.cov)
def _cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    x = as_float(_variables(m, y, rowvar)) if dtype is None else _variables(m, y, rowvar).astype(dtype)
    return statistics.cov(
        x,
        correction=(0 if bias else 1) if ddof is None else ddof,
        fweights=None if fweights is None else wrap(np.asarray(fweights)),
        aweights=None if aweights is None else _weights(aweights, np.real(x)),
    )


@implements(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    x = _variables(x, y, rowvar)
    return statistics.corrcoef(as_float(x) if dtype is None else x.astype(dtype))


# --- methods of ufuncs ------------------------------------------------------------------------------------------------


def _reduce(ufunc: np.ufunc, answer: Callable[..., Any]) -> None:
    """``np.add.reduce(x)`` reduces the first dimension, where ``np.sum(x)`` reduces all."""

    def reduce(
        array: Any, axis: Axis = 0, dtype: Any = None, out: Any = None, keepdims: Any = False, **more: Any
    ) -> Any:
        if dtype is not None:
            more["dtype"] = dtype
        return answer(array, axis, out=out, keepdims=keepdims, **more)

    numpy_functions[ufunc, "reduce"] = reduce


for _ufunc, _answer in (
    (np.add, _sum),
    (np.multiply, _prod),
    (np.maximum, _max),
    (np.minimum, _min),
    (np.fmax, numpy_functions[np.nanmax]),
    (np.fmin, numpy_functions[np.nanmin]),
    (np.logical_and, _all),
    (np.logical_or, _any),
):
    _reduce(_ufunc, _answer)


def _logsumexp(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False) -> Any:
    a, axis, keepdims = reduced(a, axis, keepdims)
    return into(out, reductions.logsumexp(a, axis, keepdims))


_reduce(np.logaddexp, _logsumexp)
