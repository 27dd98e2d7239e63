"""Running sums, products and extremes along a dimension, differences, and integrals of samples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from retrograd.core.layout import row_major
from retrograd.core.op import kernel, linear, op
from retrograd.core.registry import composite
from retrograd.core.size import as_int, checked_dim
from retrograd.core.tensor import Tensor
from retrograd.dtypes import uint8
from retrograd.ops._checks import check_kind
from retrograd.ops._picking import lifted
from retrograd.ops._reducing import add_reduce, as_cast, cast
from retrograd.ops._rules import conj, everywhere, normalize_dim
from retrograd.ops.extremes import check_ordered
from retrograd.ops.selecting import scatter_zeros
from retrograd.processor import keeps_flags

if TYPE_CHECKING:
    from retrograd.core.annotations import TensorOrArray


def along(x: Any, dim: int, start: int | None, stop: int | None) -> Any:
    """The part of ``x`` from ``start`` to ``stop`` along ``dim``, counted from the front."""
    return x[(slice(None),) * dim + (slice(start, stop),)]


def _accumulate(ufunc: np.ufunc, x: Any, dim: int) -> Any:
    """Running results as torch computes them: integers in int64, others with intermediates of twice the precision."""
    kind = x.dtype.char
    if kind in _WIDE:
        return _run(ufunc, x, dim, np.dtype(_WIDE[kind]), x.dtype)
    return _run(ufunc, x, dim, np.dtype(np.int64), np.dtype(np.int64))


_WIDE = {"e": "f", "f": "d", "F": "D", "d": "d", "D": "D"}


def _run(ufunc: np.ufunc, x: Any, dim: int, wide: np.dtype, narrow: np.dtype) -> Any:
    """``ufunc.accumulate``, computed in one dtype and returned in another.

    Slice by slice where that is faster: the elements of a slice do not depend on each other.
    """
    length = x.shape[normalize_axis_index(dim, x.ndim)]  # which raises as NumPy's own functions do
    if type(x) is not np.ndarray or x.size < min(_MANY, _LONG * length):
        return ufunc.accumulate(x.astype(wide), dim).astype(narrow, copy=False)
    if dim % x.ndim == x.ndim - 1 and abs(x.strides[-1]) == x.itemsize:
        rows = x.reshape(-1, length)
        if length <= _NARROW and len(rows) >= max(4 * length, 2 * _LONG):
            return _run_rows(ufunc, rows, length, wide, narrow).reshape(x.shape)
        if x.size >= _MANY and keeps_flags():
            try:
                return _run_rows(ufunc, rows, _PART, wide, narrow).reshape(x.shape)
            except FloatingPointError:
                pass  # in order
    x = x.astype(wide)
    slices = np.moveaxis(x, dim, 0)
    if x.size >= _LONG * len(slices) and slices.strides[0] >= _SHORT * x.itemsize:
        _run_slices(ufunc, slices)
    else:
        ufunc.accumulate(x, dim, out=x)
    return x.astype(narrow, copy=False)


_LONG = 128  # elements of a slice from which on whole slices take a fifth to a half of the time (measured)
_SHORT = 32  # of which this many are adjacent (measured)
_MANY = 1 << 14  # elements of all rows
_NARROW = 128  # elements of a row up to which it is not cut into parts if there are many rows (measured)
_CACHED = 1 << 17  # this many are processed in the cache (measured)
_PART = 8  # elements of a row that wait for one another
_SEVERAL = 1 << 12  # elements from which on runs of equal indices are written at once


def _run_slices(ufunc: np.ufunc, slices: Any) -> None:
    for before, here in itertools.pairwise(slices):
        ufunc(before, here, out=here)


def _run_rows(ufunc: np.ufunc, rows: Any, part: int, wide: np.dtype, narrow: np.dtype) -> Any:
    """Accumulate along the rows of a matrix, in parts of this length, a block at a time.

    The result of reversed rows is reversed as well, so that it becomes contiguous when it is reversed again.
    """
    length = rows.shape[1]
    result = np.empty(rows.shape, narrow)
    result = result[:, ::-1] if rows.strides[1] < 0 else result
    several = max(_CACHED // length, 1)
    for first in range(0, len(rows), several):
        before = None
        for start in range(0, length, _CACHED):
            block = slice(first, first + several), slice(start, start + _CACHED)
            before = _run_block(ufunc, rows[block], part, wide, before, result[block])
    return result


def _run_block(ufunc: np.ufunc, x: Any, part: int, wide: np.dtype, before: Any, result: Any) -> Any:
    """Accumulate along the rows of a matrix, continuing the results ``before`` it, and return the last ones.

    All parts of all rows are accumulated in parallel, then continued from the last result of the part before. The
    product of a part may overflow or underflow where that of all elements before does not: it raises an error.
    """
    length = x.shape[1]
    part = min(part, length)
    parts = length // part
    whole = parts * part
    slices = _in_parts(x[:, :whole], part).astype(wide, order="C")
    if before is not None:
        slices[0, :, 0] = ufunc(before, slices[0, :, 0])
    if parts == 1:
        _run_slices(ufunc, slices)
        ends = slices[-1]
    else:
        with np.errstate(over="raise", under="raise", invalid="raise"):
            _run_slices(ufunc, slices)
            ends = ufunc.accumulate(slices[-1], 1)
            later = slices[:, :, 1:]
            ufunc(ends[:, :-1], later, out=later)
    _in_parts(result[:, :whole], part)[...] = slices
    before = ends[:, -1]
    return before if whole == length else _run_block(ufunc, x[:, whole:], part, wide, before, result[:, whole:])


def _in_parts(rows: Any, part: int) -> Any:
    """A view of rows that are cut into parts, their elements in front."""
    return rows.reshape(len(rows), -1, part).transpose(2, 0, 1)


# --- sums -------------------------------------------------------------------------------------------------------------


@linear(inplace=True, input=lambda g, dim: sum_from_here(g, dim) if g.ndim else g)
@lifted
def cumsum(input, dim: int, dtype: Any = None):
    """Return the sums of the elements up to each one along ``dim``. Integers are summed in int64.

    >>> rg.cumsum(rg.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 3., 6.])
    """
    return cast(_accumulate(np.add, row_major(cast(input, dtype)), dim), dtype)


@kernel(public=False, method=False, g=lambda G, dim: np.cumsum(G, axis=dim))
@lifted
def sum_from_here(g, dim):
    """The sums of the elements from each one on along ``dim``."""
    return row_major(np.flip(_accumulate(np.add, np.flip(g, dim), dim), dim))


# --- recurrences ------------------------------------------------------------------------------------------------------


def _recurrence_weights_rule(g, weights, result, dim, reverse):
    g = recurrence(g, conj(weights), dim, not reverse)
    if reverse:
        return along(g, dim, None, -1) * conj(along(result, dim, 1, None))
    return along(g, dim, 1, None) * conj(along(result, dim, None, -1))


@kernel(
    public=False,
    method=False,
    input=lambda g, weights, dim, reverse: recurrence(g, conj(weights), dim, not reverse),
    weights=_recurrence_weights_rule,
)
def recurrence(input, weights, dim, reverse):
    """``y[0] = x[0]``, ``y[k + 1] = x[k + 1] + w[k] y[k]`` along ``dim``; from the other end with ``reverse``.

    It is computed in log2(n) steps over the whole array: after each, ``y`` covers twice as many terms, and ``w``
    carries over twice the distance.
    """
    x, w = np.moveaxis(input, dim, 0), np.moveaxis(weights, dim, 0)
    if reverse:
        x, w = x[::-1], w[::-1]
    y, w, step = np.copy(x), np.concatenate((np.zeros_like(x[:1]), w)), 1
    while step < len(y):
        y[step:] += w[step:] * y[:-step]
        w[step:] = w[step:] * w[:-step]
        step *= 2
    return np.moveaxis(y[::-1] if reverse else y, 0, dim)


# --- products ---------------------------------------------------------------------------------------------------------


def _cumprod_rule(g, input, result, dim):
    dim = normalize_dim(dim, input.ndim)
    if input.ndim == 0 or input.shape[dim] == 1:
        return g
    input = as_cast(input, result)
    if everywhere(input):
        return sum_from_here(g * conj(result), dim) / conj(input)
    # without dividing: y[k] depends on x[j] by the product before j and that between j and k
    before = np.concatenate((np.ones_like(along(result, dim, 0, 1)), along(result, dim, None, -1)), axis=dim)
    return conj(before) * recurrence(g, conj(along(input, dim, 1, None)), dim, True)


@op(inplace=True, input=_cumprod_rule)
@lifted
def cumprod(input, dim: int, dtype: Any = None):
    """Return the products of the elements up to each one along ``dim``. Integers are multiplied in int64.

    The derivative is exact with zeros among the elements, and so are the higher ones.
    """
    return cast(_accumulate(np.multiply, row_major(cast(input, dtype)), dim), dtype)


# --- logarithms of sums -----------------------------------------------------------------------------------------------


def _logcumsumexp_rule(g, input, result, dim):
    if input.ndim == 0:
        return g
    share = conj(np.exp(input - result))
    # y[k] depends on x[j] by exp(x[j] - y[j]) exp(y[j] - y[k]); the second factor decays from neighbour to neighbour
    dim = normalize_dim(dim, input.ndim)
    here, there = along(result, dim, None, -1), along(result, dim, 1, None)
    decay = np.where(here == there, 1, np.exp(here - there))
    return share * recurrence(g, conj(decay), dim, True)


def _log_add_exp(x: Any, y: Any) -> Any:
    """``log(exp(x) + exp(y))`` of complex numbers, with an imaginary part near that of the larger one, as in torch."""
    swapped = x.real < y.real
    least, most = np.where(swapped, x, y), np.where(swapped, y, x)
    infinite = np.isinf(most.real) & (least.real == most.real)
    least, most = np.where(infinite, 0, least), np.where(infinite, 0, most)
    result = np.log1p(np.exp(least - most)) + most
    # the sum of two infinite numbers has no direction, and 0 needs none
    result = np.where(infinite, np.where(x.real > 0, complex(np.inf, np.nan), -np.inf), result)
    return np.where(np.isnan(x) | np.isnan(y), complex(np.nan, np.nan), result)


def _complex_logcumsumexp(x: Any, dim: int) -> Any:
    result = np.copy(x)
    slices = np.moveaxis(result, dim, 0)[..., np.newaxis]
    before = np.full_like(slices[:1], -np.inf)[0] if len(slices) else None
    for here in slices:
        here[...] = _log_add_exp(before, here)
        before = here
    return result


@op(input=_logcumsumexp_rule)
@lifted
def logcumsumexp(input, dim: int):
    """Return ``log(cumsum(exp(input)))`` along ``dim``, safe from overflow."""
    check_kind("logcumsumexp", "fc", input)
    input = row_major(input)
    return _complex_logcumsumexp(input, dim) if input.dtype.kind == "c" else np.logaddexp.accumulate(input, dim)


# --- extremes ---------------------------------------------------------------------------------------------------------


def _cumextreme_rule(g, indices, dim):
    """An extreme collects the gradients of all places where it is still the extreme."""
    return scatter_zeros(g[0], indices.shape, dim, indices)


def _places(x: Any, dim: int) -> Any:
    """Each element's own index along ``dim``."""
    length = x.shape[dim]
    return np.arange(length, dtype=np.min_scalar_type(length)).reshape((-1,) + (1,) * (x.ndim - 1 - dim % x.ndim))


def _last(reached: Any, dim: int) -> Any:
    """The index of the last true element up to each one along ``dim``, where the first of all is true."""
    length = reached.shape[dim]
    if type(reached) is np.ndarray and reached.size >= _SEVERAL and dim % reached.ndim == reached.ndim - 1:
        found = np.flatnonzero(reached)
        return np.repeat(found % length, np.diff(found, append=reached.size)).reshape(reached.shape)
    places = reached * _places(reached, dim)
    return _run(np.maximum, places, dim, places.dtype, np.dtype(np.int64))


def _cumextreme(name: str, ufunc: np.ufunc, x: Any, dim: int) -> Any:
    check_ordered(name, x)
    x = row_major(x)
    values = _run(ufunc, x, dim, x.dtype, x.dtype)
    return values, _last((x == values) | (x != x), dim)


@op(outputs=("values", "indices"), differentiable_outputs=(0,), input=_cumextreme_rule)
@lifted
def cummax(input, dim: int):
    """Return the largest elements up to each one along ``dim`` and their indices, the last if several are equal.

    The result is a named tuple ``(values, indices)``.
    """
    return _cumextreme("cummax", np.maximum, input, dim)


@op(outputs=("values", "indices"), differentiable_outputs=(0,), input=_cumextreme_rule)
@lifted
def cummin(input, dim: int):
    """Return the smallest elements up to each one along ``dim`` and their indices, the last if several are equal.

    The result is a named tuple ``(values, indices)``.
    """
    return _cumextreme("cummin", np.minimum, input, dim)


# --- differences ------------------------------------------------------------------------------------------------------


@linear(
    name="diff", public=False, method=False, input=lambda g, input_shape, dim: difference_adjoint(g, input_shape, dim)
)
def difference(input, dim):
    """Each element's difference from the one before it along ``dim``."""
    left, right = along(input, dim, None, -1), along(input, dim, 1, None)
    return right != left if input.dtype.kind == "b" else right - left


@kernel(public=False, method=False, g=lambda G, dim: np.diff(G, axis=dim))
def difference_adjoint(g, shape, dim):
    """The adjoint of :func:`difference`."""
    adjoint = np.zeros_like(g, shape=shape)
    along(adjoint, dim, 1, None)[...] = g
    left = along(adjoint, dim, None, -1)
    np.subtract(left, g, out=left)
    return adjoint


@composite(out=True)
def diff(
    input, n: int = 1, dim: int = -1, prepend: TensorOrArray | None = None, append: TensorOrArray | None = None
) -> Tensor:
    """Return the ``n``-th differences of neighbours along ``dim``, with ``prepend`` and ``append`` attached first.

    >>> rg.diff(rg.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    if input.ndim == 0:
        raise RuntimeError("diff(): expects input to be at least one-dimensional")
    n = as_int("diff", "n", n)
    if n < 0:
        raise RuntimeError(f"diff(): order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    dim = checked_dim("diff", dim, input.ndim)
    if prepend is not None or append is not None:
        parts = [part for part in (prepend, input, append) if part is not None]
        if any(part.ndim != input.ndim for part in parts):
            raise RuntimeError("diff(): expects prepend or append to be the same dimension as input")
        input = np.concatenate(parts, axis=dim)
    for _ in range(min(n, input.shape[dim])):
        input = difference(input, dim)
    return input


# --- integrals of samples ---------------------------------------------------------------------------------------------


def _check_points(name: str, y: Any, x: Any, dx: Any, dim: int) -> None:
    if x is not None and dx is not None:
        raise TypeError(f"{name}(): give the sample points x or their distance dx, not both")
    if x is not None and x.ndim == 1 and x.shape[0] != y.shape[dim]:
        raise RuntimeError(
            f"{name}(): There must be one `x` value for each sample point, but x has shape {list(x.shape)} "
            f"and y {list(y.shape)}"
        )


def _panels(y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, Any]:
    """Twice the mean height and the width of the strips between samples."""
    heights = along(y, dim, 1, None) + along(y, dim, None, -1)
    if x is None:
        return heights, 1 if dx is None else dx
    if x.ndim == 1:
        return heights, diff(x).reshape((-1,) + (1,) * (y.ndim - 1 - dim))
    if x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    return heights, along(x, dim, 1, None) - along(x, dim, None, -1)


def _with_half_the_ends_rule(g: Any, input_shape: tuple[int, ...], dim: int) -> Any:
    weights = np.ones(input_shape[dim], np.float32)
    weights[0] = weights[-1] = 0.5
    g = g.reshape((*input_shape[:dim], 1, *input_shape[dim + 1 :]))  # not a number, which would not promote the weights
    return g * weights.reshape((-1,) + (1,) * (len(input_shape) - 1 - dim))


@linear(name="trapezoid", public=False, method=False, input=_with_half_the_ends_rule)
def _with_half_the_ends(input, dim: int):
    """The sum along ``dim`` in which the first and the last element, of at least two, count half."""
    before = (slice(None),) * dim
    inside = add_reduce(along(input, dim, 1, -1), dim)
    return inside + (0.5 * input[(*before, 0, ...)] + 0.5 * input[(*before, -1, ...)])


@composite("trapz", method=False)
def trapezoid(y: Tensor, x: TensorOrArray | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Return the integral of the samples ``y`` along ``dim`` by the trapezoidal rule.

    The samples are at the points ``x`` or at distance ``dx`` (1 by default).
    """
    dim = checked_dim("trapezoid", dim, y.ndim)
    _check_points("trapezoid", y, x, dx, dim)
    if y.dtype.kind in "fc" and y.shape[dim] > 1:
        if x is None:
            total = _with_half_the_ends(y, dim)
            return total if dx is None else total * dx
        if x.ndim == 1 and x.dtype.kind in "fc":  # each sample times half the width of both strips that it bounds
            widths = diff(x)
            weights = np.concatenate((widths[:1], widths[1:] + widths[:-1], widths[-1:])) / 2
            return (y * weights.reshape((-1,) + (1,) * (y.ndim - 1 - dim))).sum(dim)
    heights, widths = _panels(y, x, dx, dim)
    return (heights * widths).sum(dim) / 2


trapz = trapezoid


@composite(method=False)
def cumulative_trapezoid(
    y: Tensor, x: TensorOrArray | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """Return the integrals of the samples ``y`` up to each one along ``dim`` by the trapezoidal rule.

    The first sample has no integral, so that the result is shorter by one.
    """
    dim = checked_dim("cumulative_trapezoid", dim, y.ndim)
    _check_points("cumulative_trapezoid", y, x, dx, dim)
    heights, widths = _panels(y, x, dx, dim)
    return cumsum(heights * widths, dim) / 2


# --- derivatives of samples -------------------------------------------------------------------------------------------


def gradient_along(f: Any, spacing: Any, dim: int, edge_order: int) -> Any:
    """The derivative of the samples ``f`` along ``dim``: central differences inside, one-sided ones at the edges.

    ``spacing`` is the distance of the samples or a vector of their coordinates. The formulas are exact for parabolas,
    and for straight lines at the edges with ``edge_order=1``.
    """
    n = f.shape[dim]

    def at(start: int | None, stop: int | None) -> Any:
        return along(f, dim, start, stop)

    if getattr(spacing, "ndim", 0) == 0:
        first = last = before = after = spacing
        inside = (at(2, None) - at(None, -2)) / (2 * spacing)
    else:
        steps = diff(spacing).reshape((-1,) + (1,) * (f.ndim - 1 - dim))
        first, last, before, after = steps[:1], steps[-1:], steps[:-1], steps[1:]
        inside = (
            at(2, None) * (before / (after * (before + after)))
            + at(1, -1) * ((after - before) / (before * after))
            - at(None, -2) * (after / (before * (before + after)))
        )
    left, right = (at(1, 2) - at(0, 1)) / first, (at(n - 1, n) - at(n - 2, n - 1)) / last
    if edge_order == 2:
        second, second_last = (spacing, spacing) if first is spacing else (steps[1:2], steps[-2:-1])
        next_left = (at(2, 3) - at(1, 2)) / second
        next_right = (at(n - 2, n - 1) - at(n - 3, n - 2)) / second_last
        left = left + (left - next_left) * (first / (first + second))
        right = right + (right - next_right) * (last / (last + second_last))
    return np.concatenate((left, inside, right), axis=dim)


@composite(method=False)
def gradient(
    input: Tensor,
    *,
    spacing: float | TensorOrArray | Sequence[Any] | None = None,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Return the derivative of the samples ``input`` along each of the dimensions ``dim`` (all by default), as a tuple.

    ``spacing`` is the distance of the samples (1 by default), or for each dimension a distance or a vector of
    coordinates.
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient(): only supports edge_order=1 and edge_order=2, but got {edge_order}")
    if input.dtype == uint8:
        raise RuntimeError(
            "gradient(): uint8 has no negative differences; convert the input first, as in input.float()"
        )
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [checked_dim("gradient", k, input.ndim) for k in dims]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"gradient(): a dimension appears multiple times in the list of dims {dims}")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(f"gradient(): expected spacing for each of {len(dims)} dimensions, but got {len(spacings)}")
    for k in dims:
        if input.shape[k] <= edge_order:
            raise RuntimeError(
                "gradient(): expected each dimension size to be at least edge_order+1, "
                f"but dimension {k} of {list(input.shape)} has {input.shape[k]} elements"
            )
    return tuple(gradient_along(input, h, k, edge_order) for h, k in zip(spacings, dims, strict=True))


__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "gradient",
    "logcumsumexp",
    "trapezoid",
    "trapz",
]
