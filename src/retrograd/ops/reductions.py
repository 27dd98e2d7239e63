"""Sums, products, norms and truth over dimensions.

``dim`` is an int, a tuple of ints, or None for all dimensions; ``keepdim`` keeps the reduced ones with length 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.half import single
from retrograd.core.layout import row_major
from retrograd.core.op import kernel, linear, op
from retrograd.core.record import settle
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.dtypes import default_float, from_numpy_dtype
from retrograd.ops._reducing import (
    Dims,
    add_reduce,
    as_cast,
    axes_of,
    cast,
    count_reduced,
    mean_of,
    multiply_reduce,
    reduce,
    sum_of_squares,
)
from retrograd.ops._rows import largest
from retrograd.ops._rules import (
    conj,
    everywhere,
    expand_reduced,
    keep,
    keep_reduced,
    normalize_dim,
    normalize_dims,
    somewhere,
)
from retrograd.ops.arithmetic import slope_of_abs
from retrograd.ops.extremes import share_among

# --- sums -------------------------------------------------------------------------------------------------------------


@linear(
    node_name=lambda dim: "SumBackward0" if dim is None else "SumBackward1",
    input=lambda g, input_shape, dim, keepdim: expand_reduced(g, input_shape, dim, keepdim),
)
def sum(input, dim: Dims = None, keepdim: bool = False, dtype: Any = None):
    """Return the sum of the elements over ``dim``. Integers are summed in int64.

    >>> rg.sum(rg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    if dtype is not None:
        return cast(add_reduce(cast(input, dtype), axes_of(dim, input.ndim), keepdim), dtype)
    return add_reduce(input, axes_of(dim, input.ndim), keepdim)


def _mean_rule(g, input_shape, dim, keepdim):
    return expand_reduced(g / count_reduced(input_shape, g.shape), input_shape, dim, keepdim)


@linear(node_name=lambda dim: "MeanBackward0" if dim is None else "MeanBackward1", input=_mean_rule)
def mean(input, dim: Dims = None, keepdim: bool = False, dtype: Any = None):
    """Return the mean of the elements over ``dim``.

    Raises
    ------
    RuntimeError
        If the dtype is neither floating point nor complex; give another one with ``dtype=``.
    """
    if dtype is not None:
        input = cast(input, dtype)
    if input.dtype.kind not in "fc":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {from_numpy_dtype(input.dtype)}; choose one, for example mean(dtype=retrograd.float32)"
        )
    return mean_of(input, axes_of(dim, input.ndim), keepdim)


@op(input=lambda g, input, input_shape, dim, keepdim: expand_reduced(g, input_shape, dim, keepdim) * ~np.isnan(input))
def nansum(input, dim: Dims = None, keepdim: bool = False, dtype: Any = None):
    """Return the sum over ``dim`` of the elements that are not NaN."""
    if input.dtype.kind == "c":
        raise RuntimeError("nansum(): complex inputs are not supported; sum real and imaginary part separately")
    if input.dtype.kind == "f":  # before the cast, as integers have no NaN
        missing = np.isnan(input)
        input = keep(input, ~missing) if somewhere(missing) else input
    return cast(add_reduce(cast(input, dtype), axes_of(dim, input.ndim), keepdim), dtype)


def _nanmean_rule(g, input, dim, keepdim):
    shape = input.shape
    present = ~np.isnan(input)
    count = np.add.reduce(present, axis=axes_of(dim, len(shape)), keepdims=True, dtype=g.dtype)
    return present * (keep_reduced(g, shape, dim, keepdim) / count)


@op(input=_nanmean_rule)
def nanmean(input, dim: Dims = None, keepdim: bool = False, dtype: Any = None):
    """Return the mean over ``dim`` of the elements that are not NaN; NaN where there are none."""
    if input.dtype.kind != "f":
        raise RuntimeError(f"nanmean(): expected a real floating-point tensor but got {from_numpy_dtype(input.dtype)}")
    input = cast(input, dtype)
    if input.dtype.kind != "f":
        raise RuntimeError(
            f"nanmean(): dtype must be floating-point, but got {from_numpy_dtype(input.dtype)}; "
            "convert the result with .to()"
        )
    axis = axes_of(dim, input.ndim)
    missing = np.isnan(input)
    if not somewhere(missing):
        return mean_of(input, axis, keepdim)
    total = add_reduce(keep(input, ~missing), axis, keepdim)
    return total / reduce(np.add, ~missing, axis, keepdim, total.dtype)


# --- products ---------------------------------------------------------------------------------------------------------


def products_of_the_others(x: Any, dim: int) -> Any:
    """For each element, the product of all others along ``dim``, without a division: those before times those after."""
    head = (slice(None),) * dim + (slice(0, x.shape[dim] - 1),)
    ones = np.ones_like(x[(slice(None),) * dim + (slice(0, 1),)])

    def before(x: Any) -> Any:
        return np.cumprod(np.concatenate((ones, x[head]), axis=dim), axis=dim)

    return before(x) * np.flip(before(np.flip(x, dim)), dim)


def _prod_rule(g, input, result, dim, keepdim):
    input, shape = as_cast(input, result), input.shape
    g = expand_reduced(g, shape, dim, keepdim)
    if everywhere(input):
        return g * conj(keep_reduced(result, shape, dim, keepdim) / input)
    if dim is None or input.ndim == 0:
        return g * conj(products_of_the_others(input.reshape((-1,)), 0).reshape(shape))
    return g * conj(products_of_the_others(input, normalize_dim(dim, input.ndim)))


@op(node_name=lambda dim: "ProdBackward0" if dim is None else "ProdBackward1", input=_prod_rule)
def prod(input, dim: int | None = None, keepdim: bool = False, dtype: Any = None):
    """Return the product of the elements over ``dim``. Integers are multiplied in int64.

    The derivative is exact with zeros among the elements, and so are the higher ones.
    """
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"prod(): argument 'dim' must be int or None, not {type(dim).__name__}")
    input = cast(input, dtype)
    axis = axes_of(dim, input.ndim)
    if input.dtype == np.float16:
        return multiply_reduce(input, axis, keepdim, np.float32).astype(np.float16)
    wide = np.int64 if input.dtype.kind in "biu" else None
    return cast(multiply_reduce(input, axis, keepdim, wide), dtype)


# --- logarithms of sums -----------------------------------------------------------------------------------------------


def _logsumexp_rule(g, input, result, dim, keepdim):
    shape = input.shape
    share = np.exp(input - keep_reduced(result, shape, dim, keepdim))
    return keep_reduced(g, shape, dim, keepdim) * conj(share)


@op(input=_logsumexp_rule)
def logsumexp(input, dim: int | Sequence[int], keepdim: bool = False):
    """Return ``log(sum(exp(input)))`` over ``dim``, safe from overflow."""
    if input.dtype.kind in "biu":
        input = input.astype(default_float())
    axis = axes_of(dim, input.ndim)
    top = largest(input.real, axis)
    top = np.where(np.isfinite(top), top, top.dtype.type(0))
    shifted = settle(input - top)
    total = add_reduce(np.exp(shifted, out=shifted), axis, True)
    # the logarithm of no summands at all is no error
    result = np.log(total, out=np.full_like(total, -np.inf), where=total != 0) + top
    if keepdim:
        return result
    return result.reshape(()) if axis is None else np.squeeze(result, axis)


# --- norms ------------------------------------------------------------------------------------------------------------


def _norm_rule(g, input, result, p, dim, keepdim):
    if p == 0:
        return None
    shape = input.shape
    g, norm = keep_reduced(g, shape, dim, keepdim), keep_reduced(result, shape, dim, keepdim)
    if p == 1:
        return g * slope_of_abs(input)
    if p == 2:
        return input * (g / np.where(norm == 0, np.inf, norm))
    if abs(p) == math.inf:
        extreme = (np.abs(input) == norm) | np.isnan(input)
        return slope_of_abs(input) * share_among(extreme, g, shape, dim, keepdim)
    # d|x|_p / dx = sgn(x) (|x| / |x|_p)^(p - 1), and nothing where the norm is 0
    g, norm = np.where(norm == 0, 0, g), np.where(norm == 0, 1, norm)
    ratio = np.where(input == 0, 1, np.abs(input)) / norm
    return g * np.sign(input) * ratio ** (p - 1)


@kernel(name="norm", node_name="LinalgVectorNormBackward0", public=False, method=False, input=_norm_rule)
def vector_norm(input, p: float, dim: Dims, keepdim: bool, dtype: Any):
    """The p-norm of the elements over ``dim``."""
    input = cast(input, dtype)
    if input.dtype.kind not in "fc":
        raise RuntimeError(
            "norm(): Expected a floating point or complex tensor as input. "
            f"Got {from_numpy_dtype(input.dtype)}; convert it first, for example with .to(retrograd.float32)"
        )
    if input.dtype == np.float16:
        return norm_of(input.astype(np.float32), p, axes_of(dim, input.ndim), keepdim).astype(np.float16)
    return norm_of(input, p, axes_of(dim, input.ndim), keepdim)


def norm_of(x: Any, p: float, axis: Any, keepdims: bool) -> Any:
    """The p-norm of a floating-point array."""
    extents = x.shape if axis is None else [x.shape[dim] for dim in normalize_dims(axis, x.ndim)]
    count = math.prod(extents)
    if count == 0 and (p < 0 or p == math.inf):
        raise RuntimeError(
            f"norm(): cannot compute the {p} norm of an empty tensor of shape {list(x.shape)} "
            "because the operation does not have an identity"
        )
    if x.size == 0 or (count == 1 and p != 0):
        p = 1  # the norm of nothing is 0; of a number, its absolute value, whose powers may overflow or vanish
    if p == 2:
        return np.sqrt(sum_of_squares(x, axis, keepdims))
    size = np.abs(x)
    if p == 0:
        return add_reduce((x != 0).astype(size.dtype), axis, keepdims)
    if p == 1:
        return add_reduce(size, axis, keepdims)
    if abs(p) == math.inf:
        return reduce(np.maximum if p > 0 else np.minimum, size, axis, keepdims)
    return add_reduce(size**p, axis, keepdims) ** (1 / p)


@composite(out=True)
def norm(
    input,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Return the p-norm of the elements over ``dim``: ``sum(|x|^p)^(1/p)``, also for ``inf``, ``-inf`` and 0.

    ``"fro"`` is the 2-norm, ``"nuc"`` the sum of the singular values of a matrix. The derivative at 0 is 0.
    """
    if p == "nuc":
        pair: Any = dim
        return np.linalg.norm(input if dtype is None else input.to(dtype), "nuc", axis=pair, keepdims=keepdim)
    if p is None or p == "fro":
        p = 2.0
    elif isinstance(p, str):
        raise RuntimeError(f"norm(): order {p!r} is not supported; use 'fro', 'nuc' or a number")
    return vector_norm(input, p, dim, keepdim, dtype)


@composite()
def dist(input, other, p: float = 2) -> Tensor:
    """Return the p-norm of ``input - other``."""
    return norm(input - other, p)


def _renorm_parts(x: Any, p: float, dim: int, maxnorm: float) -> Any:
    """The norms of the slices, which slices are scaled, by which factor, and its derivative; float32 for float16."""
    others = tuple(k for k in range(x.ndim) if k != normalize_dim(dim, x.ndim))
    norms = vector_norm(x, p, others, True, None)
    above, safe = norms > maxnorm, norms + 1e-7
    return others, norms, above, np.where(above, maxnorm / safe, 1), np.where(above, -maxnorm / safe / safe, 0)


def _renorm_rule(g, input, p, dim, maxnorm):
    g, input = single(g), single(input)
    others, norms, above, scale, slope = _renorm_parts(input, p, dim, maxnorm)
    along_norms = slope * np.sum(np.real(g * conj(input)), axis=others, keepdims=True)
    return g * scale + keep(_norm_rule(along_norms, input, norms, p, others, True), above)


@op(inplace=True, input=_renorm_rule)
def renorm(input, p: float, dim: int, maxnorm: float):
    """Scale down the slices of ``input`` along ``dim`` whose p-norm exceeds ``maxnorm`` so that it is ``maxnorm``."""
    if input.ndim < 2:
        raise RuntimeError(f"renorm(): input needs at least 2 dimensions, got {input.ndim} dimensions")
    if p <= 0:
        raise RuntimeError(f"renorm(): non-positive norm {p} is not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm(): expected maxnorm to be >= 0 but got {maxnorm}")
    x = single(input)
    _, _, _, scale, _ = _renorm_parts(x, p, dim, maxnorm)
    return row_major((x * scale.astype(x.real.dtype, copy=False)).astype(input.dtype, copy=False))


# --- truth ------------------------------------------------------------------------------------------------------------


def _truth(ufunc: np.ufunc, input: Any, dim: Dims, keepdim: bool) -> Any:
    # unlike elsewhere, () and [] mean no dimension here, and uint8 is a truth value
    axis = () if isinstance(dim, Sequence) and not dim else axes_of(dim, input.ndim)
    result = reduce(ufunc, input, axis, keepdim, np.bool_)
    return result.astype(np.uint8) if input.dtype == np.uint8 else result


@op()
def all(input, dim: Dims = None, keepdim: bool = False):
    """Return whether all elements over ``dim`` are non-zero."""
    return _truth(np.logical_and, input, dim, keepdim)


@op()
def any(input, dim: Dims = None, keepdim: bool = False):
    """Return whether any element over ``dim`` is non-zero."""
    return _truth(np.logical_or, input, dim, keepdim)


@op()
def count_nonzero(input, dim: Dims = None):
    """Return the number of non-zero elements over ``dim``."""
    return np.count_nonzero(input, axes_of(dim, input.ndim))


__all__ = [
    "all",
    "any",
    "count_nonzero",
    "dist",
    "logsumexp",
    "mean",
    "nanmean",
    "nansum",
    "norm",
    "prod",
    "renorm",
    "sum",
]
