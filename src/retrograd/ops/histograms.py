"""Counting: how often each integer occurs, and how many numbers or points fall into bins."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.named_results import NamedResults
from retrograd.core.op import linear, op, without_warnings
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import from_numpy_dtype
from retrograd.ops._checks import check_kind, check_tensors
from retrograd.ops._fused import sample_by_sample
from retrograd.ops._rules import everywhere

if TYPE_CHECKING:
    from retrograd import return_types
    from retrograd.core.annotations import TensorOrArray


@linear(weights=lambda g, input: g[input])
def bincount(input, weights=None, minlength: int = 0):
    """Return how often each of 0, 1, ... occurs in the vector ``input``, or the sum of the ``weights`` of each."""
    if input.dtype.kind not in "iu":
        raise NotImplementedError(f'"bincount" not implemented for {from_numpy_dtype(input.dtype)}; it counts integers')
    if input.ndim != 1 or (input.size and input.min() < 0):
        raise RuntimeError("bincount(): only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError(f"bincount(): minlength should be >= 0, but is {minlength}")
    if weights is None:
        return np.bincount(input, minlength=minlength)
    if weights.shape != input.shape:
        raise RuntimeError(
            "bincount(): weights should be 1-d and have the same length as input, "
            f"but their shapes are {list(weights.shape)} and {list(input.shape)}"
        )
    counts = np.bincount(input, weights, minlength)
    return counts.astype(np.float32) if weights.dtype == np.float32 else counts


@without_warnings(op)()
def histc(input, bins: int = 100, min: float = 0, max: float = 0):
    """Return how many elements fall into each of ``bins`` intervals of equal width from ``min`` to ``max``.

    If these are equal, they are the extremes of the elements.
    """
    if input.dtype.kind != "f":
        raise NotImplementedError(
            f'"histc" not implemented for {from_numpy_dtype(input.dtype)}; it takes real floating-point tensors'
        )
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    if max < min:
        raise RuntimeError(f"histc(): max must be larger than min, but got {max} and {min}")
    counts, _ = np.histogram(input, bins, None if min == max else (min, max))
    return counts.astype(input.dtype)


@without_warnings(op)(outputs=("hist", "bin_edges"))
def histogram(input, bins=100, range: tuple[float, float] | None = None, weight=None, density: bool = False):
    """Return how many elements fall into each bin, and the edges of the bins, as a named tuple ``(hist, bin_edges)``.

    ``bins`` is the number of bins of equal width (over ``range``, if given) or a sorted vector of their edges.
    """
    if input.dtype.kind != "f":
        raise NotImplementedError(
            f'"histogram" not implemented for {from_numpy_dtype(input.dtype)}; it takes real floating-point tensors'
        )
    if np.ndim(bins) > 1:
        raise RuntimeError(f"histogram(): bins tensor should have one dimension, but got {np.ndim(bins)} dimensions")
    if np.ndim(bins) and np.any(bins[1:] < bins[:-1]):
        place = int(np.argmax(bins[1:] < bins[:-1]))
        raise RuntimeError(
            f"histogram(): the edges of the bins must increase, but edge {place} is {bins[place]:.6g} and edge "
            f"{place + 1} is {bins[place + 1]:.6g}; sort them first, as in bins.sort().values"
        )
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            "histogram(): if weight tensor is provided, input tensor and weight tensor should have the same dtype, "
            f"but got {from_numpy_dtype(input.dtype)} and {from_numpy_dtype(weight.dtype)}"
        )
    counts, edges = np.histogram(input, bins, range, density, weight)
    return counts.astype(input.dtype), edges.astype(input.dtype)


# --- of points --------------------------------------------------------------------------------------------------------

_HistogramDD = NamedResults("histogramdd", ["hist", "bin_edges"])


@composite(method=False)
def histogramdd(
    input,
    bins: int | Sequence[int] | Sequence[TensorOrArray],
    *,
    range: Sequence[float] | None = None,
    weight=None,
    density: bool = False,
) -> return_types.histogramdd:
    """Return how many points fall into each bin of a grid, and its edges along each dimension, as a named tuple.

    Shapes: ``(..., N)``, points with N coordinates, to N dimensions.

    Parameters
    ----------
    bins
        How many bins of equal width there are, along all dimensions or along each, or the sorted vectors of their
        edges.
    range
        The first and the last edge along each dimension, one after the other; by default the least and the largest
        coordinate.
    weight
        The weight of each point, 1 by default.
    density
        Whether to divide by the sum of the weights and the volume of the bin.

    Examples
    --------
    >>> points = rg.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
    >>> rg.histogramdd(points, bins=[3, 3], weight=rg.tensor([1.0, 2.0, 4.0, 8.0])).hist
    tensor([[0., 1., 0.],
            [2., 0., 0.],
            [4., 0., 8.]])
    """
    name = "histogramdd"
    check_tensors(name, input=input)
    check_kind(name, "f", input)
    if input.ndim < 2:
        raise RuntimeError(f"{name}(): input should have at least 2 dimensions, of points, but has {input.ndim}")
    if weight is not None and (weight.dtype != input.dtype or weight.shape != input.shape[:-1]):
        raise RuntimeError(
            f"{name}(): if weight tensor is provided, it should have the dtype of the input, {input.dtype}, and the "
            f"shape of the points, {list(input.shape[:-1])}, but it has {weight.dtype} and {list(weight.shape)}"
        )
    axes = [bins] * input.shape[-1] if isinstance(bins, int) else list(bins)
    if len(axes) != input.shape[-1]:
        raise RuntimeError(
            f"{name}(): there should be as many bins as coordinates, but there are {len(axes)} and {input.shape[-1]}"
        )
    for dim, edges in enumerate(axes):
        if isinstance(edges, Tensor):
            _check_edges(name, edges, input, dim)
        elif edges < 1:
            raise RuntimeError(f"{name}(): bins must be > 0, but got {edges} for dimension {dim}")
    if range is not None and len(range) != 2 * len(axes):
        raise RuntimeError(
            f"{name}(): for {len(axes)} dimensions, range should have {2 * len(axes)} elements, but got {len(range)}"
        )
    arrays = [edges._data if isinstance(edges, Tensor) else operator.index(edges) for edges in axes]
    hist, edges = _grid_counts(input._data, arrays, range, None if weight is None else weight._data, density)
    return _HistogramDD([wrap(hist), tuple(map(wrap, edges))])


def _check_edges(name: str, edges: Tensor, input: Tensor, dim: int) -> None:
    if edges.dtype != input.dtype or edges.ndim != 1 or len(edges) < 2:
        raise RuntimeError(
            f"{name}(): the edges of the bins for dimension {dim} should be a vector of at least 2 numbers of the "
            f"input's dtype, {input.dtype}, but are {edges.dtype}{list(edges.shape)}"
        )
    if not everywhere(edges[1:] >= edges[:-1]):
        raise RuntimeError(f"{name}(): the edges of the bins for dimension {dim} must increase; sort them first")


@sample_by_sample
def _grid_counts(points: Any, bins: list[Any], limits: Any, weight: Any, density: bool) -> tuple[Any, tuple[Any, ...]]:
    points = points.reshape(-1, points.shape[-1])
    edges = [
        _edges_of(points[:, dim], number, None if limits is None else limits[2 * dim : 2 * dim + 2], dim)
        for dim, number in enumerate(bins)
    ]
    shape = tuple([len(each) - 1 for each in edges])
    place, counted = (np.full(len(points), value, like=points) for value in (0, True))
    for dim, each in enumerate(edges):
        x = points[:, dim]
        bin_of = np.searchsorted(each, x, side="right") - 1
        place = place * shape[dim] + np.minimum(bin_of, shape[dim] - 1)  # the last bin has its right edge, too
        counted &= (x >= each[0]) & (x <= each[-1])
    weights = None if weight is None else weight.reshape(-1)[counted]
    hist = np.bincount(place[counted], weights, math.prod(shape)).reshape(shape)
    if density:
        volume = functools.reduce(np.multiply.outer, [np.diff(each) for each in edges])
        hist = hist / hist.sum() / volume
    return hist.astype(points.dtype), tuple(edges)


def _edges_of(x: Any, bins: Any, limits: Any, dim: int) -> Any:
    """The edges of bins along one dimension: the given ones, or those of the given number of bins of equal width."""
    if not isinstance(bins, int):
        return np.asarray(bins)
    low, high = limits if limits is not None else (x.min(), x.max()) if x.size else (0.0, 1.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"histogramdd(): dimension {dim}'s range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"histogramdd(): min should not exceed max, but got {low} and {high} for dimension {dim}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.asarray(np.linspace(float(low), float(high), bins + 1, dtype=x.dtype), like=x)


__all__ = ["bincount", "histc", "histogram", "histogramdd"]
