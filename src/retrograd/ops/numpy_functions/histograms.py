"""NumPy's counts and histograms on Tensors: the weights have derivatives, what is counted has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops import histograms
from retrograd.ops.numpy_functions.sorting import (
    as_tensors,
    elements,
    refuse_gradients,
    wants_gradient,
    without_derivative,
)

without_derivative(np.histogram_bin_edges, integral=False)


@implements(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    weights = weights if weights is None or isinstance(weights, Tensor) else wrap(np.asarray(weights))
    return histograms.bincount(x if isinstance(x, Tensor) else wrap(np.asarray(x)), weights, minlength)


@implements(np.histogram)
def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    refuse_gradients(np.histogram, a, bins, range)
    points, bins = elements(a), elements(bins)
    if not wants_gradient(weights):
        return as_tensors(np.histogram(points, bins, range, density, elements(weights)))
    points, weights = np.ravel(points), weights.reshape((-1,))
    edges = np.histogram_bin_edges(points, bins, range, np.ones(len(points)))
    return _sums("histogram", weights, [points], [edges], density), as_tensors(edges)


@implements(np.histogram2d)
def _histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    refuse_gradients(np.histogram2d, x, y, bins, range)
    x, y, bins = elements(x), elements(y), elements(bins)
    if not wants_gradient(weights):
        return as_tensors(np.histogram2d(x, y, bins, range, density, elements(weights)))
    _, *edges = np.histogram2d(x, y, bins, range)
    return (_sums("histogram2d", weights, (x, y), edges, density), *map(as_tensors, edges))


@implements(np.histogramdd)
def _histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tensor, Sequence[Tensor]]:
    refuse_gradients(np.histogramdd, sample, bins, range)
    points, bins = elements(sample), elements(bins)
    if not wants_gradient(weights):
        return as_tensors(np.histogramdd(points, bins, range, density, elements(weights)))
    edges = np.histogramdd(points, bins, range)[1]
    coordinates: Any = points if isinstance(points, (list, tuple)) else np.atleast_2d(points.T)
    return _sums("histogramdd", weights, coordinates, edges, density), as_tensors(edges)


def _sums(name: str, weights: Any, points: Sequence[Any], edges: Sequence[Any], density: bool | None) -> Tensor:
    """The sum of the ``weights`` in each bin of a grid, of ``points`` given by their coordinates.

    A bin includes its lower edge; the last one along each dimension includes its upper edge, too.
    """
    if tuple(weights.shape) != np.shape(points[0]):
        raise ValueError(
            f"numpy.{name}: there should be one weight for each point, but the weights have shape "
            f"{list(weights.shape)} and the points {list(np.shape(points[0]))}"
        )
    shape = [len(each) - 1 for each in edges]
    count = math.prod(shape)
    bins: Any = 0
    inside: Any = True
    for coordinate, each in zip(points, edges, strict=True):
        coordinate = np.asarray(coordinate) if isinstance(coordinate, (list, tuple)) else coordinate
        place = np.searchsorted(each, coordinate, side="right") - 1
        bins = bins * (len(each) - 1) + np.where(coordinate == each[-1], len(each) - 2, place)
        inside = (coordinate >= each[0]) & (coordinate <= each[-1]) & inside
    bins = as_tensors(np.where(inside, bins, count))
    sums = weights.new_zeros(count + 1).index_add(0, bins, weights)[:count].reshape(shape)  # the last is in no bin
    if not density:
        return sums
    total = sums.sum()
    for dim, each in enumerate(edges):
        sums = sums / np.diff(each).reshape([-1 if dim == k else 1 for k in range(len(edges))])
    return sums / total
