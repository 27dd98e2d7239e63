"""Variance, order statistics, covariance."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from retrograd.batching import holds_batch
from retrograd.core.op import op
from retrograd.core.record import settle
from retrograd.core.registry import composite
from retrograd.core.sites import warn_user
from retrograd.core.size import checked_dim
from retrograd.core.tensor import Tensor
from retrograd.dtypes import from_numpy_dtype, get_default_dtype
from retrograd.ops._picking import lifted, pick, picking
from retrograd.ops._reducing import Dims, axes_of, count_reduced, mean_of, sum_of_squares
from retrograd.ops._rules import everywhere, keep_reduced, normalize_dim
from retrograd.ops.extremes import check_ordered, check_reducible, share_ties
from retrograd.ops.reductions import mean

if TYPE_CHECKING:
    from retrograd import return_types
    from retrograd.core.annotations import TensorOrArray


# --- variance ---------------------------------------------------------------------------------------------------------


def _var_rule(g, input, dim, correction, keepdim):
    shape = input.shape
    freedom = count_reduced(shape, g.shape) - correction
    centred = input - mean_of(input, axes_of(dim, len(shape)), True)
    return centred * (keep_reduced(g, shape, dim, keepdim) * (2 / freedom if freedom > 0 else math.inf))


def _std_rule(g, input, result, dim, correction, keepdim):
    return _var_rule(g / (2 * np.where(result == 0, np.inf, result)), input, dim, correction, keepdim)


def _variance(name: str, x: Any, dim: Dims, correction: float, keepdim: bool) -> Any:
    if x.dtype.kind not in "fc":
        raise RuntimeError(
            f"{name}(): std and var only support floating point and complex dtypes, not {from_numpy_dtype(x.dtype)}"
        )
    if x.dtype == np.float16:
        return _variance(name, x.astype(np.float32), dim, correction, keepdim)
    axis = axes_of(dim, x.ndim)
    centred = settle(x - mean_of(x, axis, True))
    centred -= mean_of(centred, axis, True)  # where the mean, and with it its rounding error, is large
    total = sum_of_squares(centred, axis, keepdim)
    return total / max(count_reduced(x.shape, total.shape) - correction, 0)


@op(name="var", public=False, method=False, input=_var_rule)
def _var(input, dim: Dims, correction: float, keepdim: bool):
    return _variance("var", input, dim, correction, keepdim).astype(input.real.dtype, copy=False)


@op(name="std", public=False, method=False, input=_std_rule)
def _std(input, dim: Dims, correction: float, keepdim: bool):
    return np.sqrt(_variance("std", input, dim, correction, keepdim)).astype(input.real.dtype, copy=False)


def _spread(name: str, dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Dims, float]:
    """Sort out torch's overloads: ``var(x, False)``, ``var(x, dim, False)`` and ``var(x, dim, correction=0)``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is None:
        return dim, 1 if correction is None else correction
    if correction is not None:
        raise TypeError(f"{name}(): give either unbiased or correction, not both")
    return dim, 1 if unbiased else 0


def _with_freedom(name: str, result: Any, input: Any, correction: float) -> Any:
    """``result``; like torch, it warns where no degrees of freedom are left and the result cannot be finite."""
    elements, results = math.prod(input.shape), math.prod(result.shape)
    if elements <= correction * results:
        warn_user(
            f"{name}(): degrees of freedom is <= 0: each result has {elements // max(results, 1)} elements, which must "
            f"be more than correction={correction}; use more elements, or a smaller correction"
        )
    return result


@composite()
def var(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the variance over ``dim``: ``sum(|x - mean|^2) / (n - correction)``, with ``correction=1`` by default.

    ``unbiased=False`` is another way to say ``correction=0``.
    """
    dim, correction = _spread("var", dim, unbiased, correction)
    return _with_freedom("var", _var(input, dim, correction, keepdim, out=out), input, correction)


@composite()
def std(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the standard deviation over ``dim``, the root of :func:`var`. Where it is 0, its derivative is 0."""
    dim, correction = _spread("std", dim, unbiased, correction)
    return _with_freedom("std", _std(input, dim, correction, keepdim, out=out), input, correction)


@composite(method=False)
def var_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean over ``dim``."""
    dim, correction = _spread("var_mean", dim, unbiased, correction)
    spread = _with_freedom("var_mean", _var(input, dim, correction, keepdim), input, correction)
    return spread, mean(input, dim, keepdim)


@composite(method=False)
def std_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean over ``dim``."""
    dim, correction = _spread("std_mean", dim, unbiased, correction)
    spread = _with_freedom("std_mean", _std(input, dim, correction, keepdim), input, correction)
    return spread, mean(input, dim, keepdim)


# --- medians ----------------------------------------------------------------------------------------------------------


def check_ranked(name: str, x: Any) -> None:
    """Raise for the dtypes whose elements torch does not rank."""
    if x.dtype.kind in "bc":
        raise NotImplementedError(f'"{name}" not implemented for {from_numpy_dtype(x.dtype)}')


def _median_of_values(x: Any) -> Any:
    """The lower median of a vector; NaN if it contains NaN, or is empty."""
    if x.size == 0:
        return np.full_like(x, np.nan if x.dtype.kind == "f" else np.iinfo(x.dtype).min, shape=())
    ranked = np.partition(x, ((x.size - 1) // 2, x.size - 1))  # NaN comes last
    return ranked[-1] if np.isnan(ranked[-1]) else ranked[(x.size - 1) // 2]


@op(name="median", public=False, method=False, input=share_ties)
def _median_of_all(input):
    check_ranked("median", input)
    return _median_of_values(input.reshape(-1))


@op(name="nanmedian", public=False, method=False, input=share_ties)
def _nanmedian_of_all(input):
    check_ranked("nanmedian", input)
    values = input[~np.isnan(input)]
    return _median_of_values(values if values.size else input.reshape(-1))


@picking(name="median", node_name="MedianBackward1", public=False, method=False)
@lifted
def _median_along(input, dim: int, keepdim: bool):
    check_ranked("median", input)
    dim = normalize_dim(dim, input.ndim)
    check_reducible("median", input, dim)
    rank = (input.shape[dim] - 1) // 2
    index = np.take(np.argpartition(input, rank, axis=dim), [rank], axis=dim)
    if input.dtype.kind == "f":
        nan = np.isnan(input)
        index = np.where(nan.any(dim, keepdims=True), nan.argmax(dim, keepdims=True), index)
    return pick(input, dim, keepdim, index)


@picking(name="nanmedian", node_name="NanmedianBackward1", public=False, method=False)
@lifted
def _nanmedian_along(input, dim: int, keepdim: bool):
    check_ranked("nanmedian", input)
    check_reducible("nanmedian", input, dim)
    last = np.count_nonzero(~np.isnan(input), axis=dim, keepdims=True) - 1
    order = np.argsort(input, axis=dim, kind="stable")
    return pick(input, dim, keepdim, np.take_along_axis(order, np.maximum(last, 0) // 2, dim))


@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def median(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
@composite()
def median(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Return the median, the lower one of two; or those along ``dim``, as a named tuple ``(values, indices)``.

    It is NaN if there is a NaN among the elements. Without ``dim``, equal elements share the gradient.
    """
    return _median_of_all(input, out=out) if dim is None else _median_along(input, dim, keepdim, out=out)


@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
@composite()
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Return the median of the elements that are not NaN; see :func:`median`."""
    return _nanmedian_of_all(input, out=out) if dim is None else _nanmedian_along(input, dim, keepdim, out=out)


@picking()
@lifted
def mode(input, dim: int = -1, keepdim: bool = False):
    """Return the most frequent values along ``dim``, the smallest if several are, and the last index of each.

    The result is a named tuple ``(values, indices)``.
    """
    check_ordered("mode", input)
    dim = normalize_dim(dim, input.ndim)
    check_reducible("mode", input, dim)
    order = np.moveaxis(np.argsort(input, axis=dim, kind="stable"), dim, -1)
    ranked = np.take_along_axis(np.moveaxis(input, dim, -1), order, -1)
    # how many equal elements end at each place: the first of the longest runs belongs to the smallest value
    place = np.arange(ranked.shape[-1])
    new = np.ones(ranked.shape, bool, like=ranked)
    new[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    run = place - np.maximum.accumulate(np.where(new, place, 0), -1)
    index = np.take_along_axis(order, run.argmax(-1, keepdims=True), -1)
    return pick(input, dim, keepdim, np.moveaxis(index, -1, dim))


@picking()
@lifted
def kthvalue(input, k: int, dim: int = -1, keepdim: bool = False):
    """Return the ``k``-th smallest values along ``dim``, counted from 1, as a named tuple ``(values, indices)``."""
    check_ranked("kthvalue", input)
    dim = normalize_dim(dim, input.ndim)
    check_reducible("kthvalue", input, dim)
    n = input.shape[dim]
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue(): selected number k={k} out of range for dimension {dim} with {n} elements")
    return pick(input, dim, keepdim, np.take(np.argpartition(input, k - 1, axis=dim), [k - 1], axis=dim))


# --- quantiles --------------------------------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@composite(out=True)
def quantile(
    input: Tensor,
    q: float | TensorOrArray,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return the quantiles ``q`` (a number or a vector of numbers from 0 to 1) along ``dim``.

    The dimension of ``q`` comes first in the result. Between two elements, ``interpolation`` is ``"linear"``, or the
    ``"lower"``, the ``"higher"``, the ``"midpoint"`` or the ``"nearest"`` of the two. The result is NaN where there is
    a NaN among the elements.

    >>> rg.quantile(rg.tensor([0.0, 1.0, 2.0, 3.0]), 0.4)
    tensor(1.2000)
    """
    return find_quantile("quantile", input, q, dim, keepdim, interpolation)


@composite(out=True)
def nanquantile(
    input: Tensor,
    q: float | TensorOrArray,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return the quantiles of the elements that are not NaN; see :func:`quantile`."""
    return find_quantile("nanquantile", input, q, dim, keepdim, interpolation)


def _check_quantile(name: str, input: Any, q: Any, interpolation: str) -> None:
    if input.dtype.char not in "fd":
        raise RuntimeError(f"{name}(): input tensor must be either float32 or float64, not {input.dtype}")
    if input.numel() == 0:
        raise RuntimeError(f"{name}(): input tensor must be non-empty, but has shape {list(input.shape)}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}(): interpolation must be one of {', '.join(INTERPOLATIONS)}, but got {interpolation}"
        )
    if not isinstance(q, Tensor):
        if not isinstance(q, Real):
            raise TypeError(f"{name}(): argument 'q' must be a number or a Tensor, not {type(q).__name__}")
        if not 0 <= float(q) <= 1:
            raise RuntimeError(f"{name}(): q must be in the range [0, 1] but got {q}")
        return
    if q.ndim > 1:
        raise RuntimeError(f"{name}(): q must be a scalar or 1D tensor, but has shape {list(q.shape)}")
    if q.dtype != input.dtype:
        raise RuntimeError(
            f"{name}(): q tensor must be same dtype as the input tensor, but is {q.dtype}, not {input.dtype}"
        )
    if not ((q._data >= 0) & (q._data <= 1)).all():
        raise RuntimeError(f"{name}(): q values must be in the range [0, 1]")


def find_quantile(
    name: str,
    input: Any,
    q: Any,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    rank_of: Callable[[Any, Any], Any] = lambda q, count: q * (count - 1),
) -> Any:
    """A quantile, where ``rank_of(q, count)`` is its distance, in ranks, from the first of ``count`` elements."""
    _check_quantile(name, input, q, interpolation)
    ranked: Any
    if dim is None or input.ndim == 0:
        if dim is not None:
            checked_dim(name, dim, 1)
        kept, rest = (1,) * input.ndim, ()
        ranked = np.sort(input.reshape((-1,)))
    else:
        dim = checked_dim(name, dim, input.ndim)
        rest = (*input.shape[:dim], *input.shape[dim + 1 :])
        kept = (*input.shape[:dim], 1, *input.shape[dim + 1 :])
        ranked = np.sort(input if dim == input.ndim - 1 else np.moveaxis(input, dim, -1), axis=-1)

    last = ranked.shape[-1] - 1  # the rank of the last element, or the last that is not NaN
    nan = np.isnan(ranked._data)
    vector = q.reshape((-1,)) if isinstance(q, Tensor) else np.array([q], ranked.dtype.numpy, like=ranked._data)
    if name == "nanquantile":
        last = np.maximum(last - nan.sum(-1, keepdims=True), 0).astype(ranked.dtype.numpy)
    rank = rank_of(vector, last + 1)
    if name == "quantile" and not everywhere(~nan):
        rank = np.where(nan[..., -1:], last, rank)

    result = _at_rank(ranked, rank, interpolation)
    shape = (vector.shape if isinstance(q, Tensor) and q.ndim else ()) + (kept if keepdim else rest)
    return (result if len(vector) == 1 else np.moveaxis(result, -1, 0)).reshape(shape)


def _at_rank(ranked: Any, rank: Any, interpolation: str) -> Any:
    """The elements of ``ranked`` at real-valued positions along the last dimension, everywhere the same if a vector."""

    def at(places: Any) -> Any:
        whole = places.astype(np.int64)
        if whole.ndim == 1 and not holds_batch((whole,)):
            return ranked[..., whole]
        return np.take_along_axis(ranked, np.broadcast_to(whole, (*ranked.shape[:-1], whole.shape[-1])), -1)

    position = rank._data if isinstance(rank, Tensor) else rank
    below, above = np.floor(position), np.ceil(position)
    one = {"lower": below, "higher": above, "nearest": np.round(position)}.get(interpolation)
    if one is not None:
        return at(one)
    left, right = at(below), at(above)
    if interpolation == "midpoint":
        return 0.5 * left + 0.5 * right  # their difference would be NaN between infinities
    return left.lerp(right, rank - below)


# --- covariance -------------------------------------------------------------------------------------------------------


def _check_weights(weights: Any, label: str, n: int, integral: bool) -> None:
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {label} to have one or fewer dimensions but got {label} with {weights.ndim} dimensions"
        )
    if (weights.dtype.kind in "iu") is not integral or weights.dtype.kind == "b":
        kind = "integral" if integral else "floating point"
        raise RuntimeError(f"cov(): expected {label} to have {kind} dtype but got {label} with {weights.dtype} dtype")
    if weights.numel() != n:
        raise RuntimeError(
            f"cov(): expected {label} to have the same numel as there are observations in the input "
            f"but got {weights.numel()} != {n}"
        )
    if not everywhere(weights >= 0):
        raise RuntimeError(f"cov(): {label} cannot be negative")


@composite()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Return the covariance matrix of the variables in the rows of ``input``, whose columns are observations.

    ``fweights`` says how often each observation was made, ``aweights`` how much each counts.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input.ndim == 2 else input.reshape((1, -1))
    n = x.shape[1]
    weights = None
    for given, label in ((fweights, "fweights"), (aweights, "aweights")):
        if given is not None:
            _check_weights(given, label, n, label == "fweights")
            weights = given if weights is None else weights * given
    if x.dtype.kind in "iu":
        x = x.to(get_default_dtype())
    if weights is None:
        x = x - x.mean(1, keepdim=True)
        freedom: Any = n - correction
        weighted = x
    else:
        total = weights.sum()
        if not everywhere(total != 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        x = x - (x * weights).sum(1, keepdim=True) / total
        weighted = x * weights
        freedom = total - correction * (1 if aweights is None else (weights * aweights).sum() / total)
    if not everywhere(freedom > 0):
        warn_user("cov(): degrees of freedom is <= 0")
        freedom = freedom.clamp_min(0) if isinstance(freedom, Tensor) else 0
    return (np.matmul(x, np.conj(np.swapaxes(weighted, 0, 1))) / freedom).squeeze()


@composite()
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlation coefficients of the variables in the rows of ``input``: :func:`cov` scaled to 1."""
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviation = np.sqrt(np.real(np.diagonal(c)))
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind == "c":
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)


__all__ = [
    "corrcoef",
    "cov",
    "kthvalue",
    "median",
    "mode",
    "nanmedian",
    "nanquantile",
    "quantile",
    "std",
    "std_mean",
    "var",
    "var_mean",
]
