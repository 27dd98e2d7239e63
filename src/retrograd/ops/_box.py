"""Sums over windows, one dimension after the other, and their adjoints."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.op import kernel
from retrograd.core.reductions import reduce
from retrograd.ops._fused import sample_by_sample
from retrograd.ops._positions import along
from retrograd.ops._windows import Windows


class Spans(NamedTuple):
    """Windows of possibly different lengths along one dimension, from each of ``starts`` to its entry in ``stops``."""

    size: int
    starts: tuple[int, ...]
    stops: tuple[int, ...]

    @property
    def number(self) -> int:
        return len(self.starts)

    def places(self) -> Any:
        """The positions of each window's elements; shorter windows repeat their last one."""
        starts, stops = (np.array(ends, np.intp)[:, None] for ends in (self.starts, self.stops))
        return np.minimum(starts + np.arange(np.max(stops - starts, initial=1)), stops - 1)


@functools.lru_cache(maxsize=256)  # each pooling asks several times
def _spans(axis: Windows | Spans) -> Spans | None:
    """The windows one by one; None where looping over their elements is faster."""
    if isinstance(axis, Spans):
        return axis
    if axis.number >= axis.kernel:
        return None
    starts = [i * axis.stride - axis.before for i in range(axis.number)]
    return Spans(
        axis.size,
        tuple(min(max(start, 0), axis.size) for start in starts),
        tuple(min(max(start + axis.kernel, 0), axis.size) for start in starts),
    )


@functools.lru_cache(maxsize=256)
def _each_element(spans: Spans) -> tuple[tuple[Any, Any], ...] | None:
    """The windows that have a first element, a second one, ..., and where; None where windows are few and long."""
    starts, stops = np.array(spans.starts, np.intp), np.array(spans.stops, np.intp)
    lengths = stops - starts
    longest = int(lengths.max(initial=0))
    if longest >= spans.number:
        return None
    longer = (np.flatnonzero(lengths > k) for k in range(longest))
    return tuple((slice(None) if len(w) == spans.number else w, starts[w] + k) for k, w in enumerate(longer))


@functools.lru_cache(maxsize=256)
def _windows_of_elements(spans: Spans) -> Spans:
    """For each element the windows that contain it; these are consecutive, as windows begin and end in order."""
    elements = np.arange(spans.size)
    first = np.searchsorted(spans.stops, elements, "right")
    last = np.searchsorted(spans.starts, elements, "right")
    return Spans(spans.number, tuple(first.tolist()), tuple(last.tolist()))


def is_whole(axis: Windows | Spans) -> bool:
    """Whether there is a single window that contains everything."""
    spans = _spans(axis) if axis.number == 1 else None
    return spans is not None and spans.starts[0] == 0 and spans.stops[0] == axis.size


@functools.lru_cache(maxsize=256)
def _few_side_by_side(axis: Windows | Spans) -> bool:
    """Whether there are few long windows that lie one after the other and cover everything."""
    if isinstance(axis, Spans):
        return False
    number, kernel, before = axis.number, axis.kernel, axis.before
    return number < kernel == axis.stride and before == 0 and number * kernel == axis.size


@functools.lru_cache(maxsize=256)
def _reached(axis: Windows | Spans) -> list[tuple[slice, slice]]:
    """For each element of a window, which windows have it and where; first those that all windows have."""
    assert isinstance(axis, Windows)
    return sorted(map(axis.reached, range(axis.kernel)), key=lambda pair: pair[0] != slice(0, axis.number))


def _sum_of_elements(input: Any, dim: int, axis: Windows | Spans) -> Any:
    """The first elements of all windows plus the second ones, and so on."""
    elements = _reached(axis)
    windows, places = elements[0]
    if windows == slice(0, axis.number):
        result, elements = input[along(dim, places)].copy(order="C"), elements[1:]
    else:
        shape = (*input.shape[:dim], axis.number, *input.shape[dim + 1 :])
        result = np.zeros_like(input, shape=shape, order="C")
    for windows, places in elements:
        result[along(dim, windows)] += input[along(dim, places)]
    return result


def _sum_along(input: Any, dim: int, axis: Windows | Spans) -> Any:
    front, rest = input.shape[:dim], input.shape[dim + 1 :]
    if _few_side_by_side(axis):
        return reduce(np.add, input.reshape(*front, axis.number, axis.size // axis.number, *rest), dim + 1)
    spans = _spans(axis)
    if spans is None:
        return _sum_of_elements(input, dim, axis)
    result = np.zeros_like(input, shape=(*front, axis.number, *rest), order="C")
    if (elements := _each_element(spans)) is not None:
        for windows, places in elements:
            result[along(dim, windows)] += input.take(places, axis=dim)
    else:
        for i, (start, stop) in enumerate(zip(spans.starts, spans.stops, strict=True)):
            result[along(dim, i)] = reduce(np.add, input[along(dim, slice(start, stop))], dim)
    return result


def _spread_along(grad: Any, dim: int, axis: Windows | Spans) -> Any:
    spans = _spans(axis)
    if spans is not None and _each_element(spans) is not None:
        return _sum_along(grad, dim, _windows_of_elements(spans))
    front, rest = grad.shape[:dim], grad.shape[dim + 1 :]
    if _few_side_by_side(axis):
        return np.repeat(grad, axis.size // axis.number, dim)
    result = np.zeros_like(grad, shape=(*front, axis.size, *rest), order="C")
    if spans is None:
        assert isinstance(axis, Windows)
        overlap = axis.stride < axis.kernel
        for windows, places in _reached(axis):
            if overlap:
                result[along(dim, places)] += grad[along(dim, windows)]
            else:
                result[along(dim, places)] = grad[along(dim, windows)]
    else:
        for i, (start, stop) in enumerate(zip(spans.starts, spans.stops, strict=True)):
            result[along(dim, slice(start, stop))] += grad[along(dim, slice(i, i + 1))]
    return result


@sample_by_sample
def sums(input: Any, axes: tuple[Windows | Spans, ...]) -> Any:
    """The sums over windows along the last dimensions of an array."""
    parts = list(enumerate(axes, start=input.ndim - len(axes)))
    whole = tuple(dim for dim, axis in parts if is_whole(axis))
    if whole:  # several dimensions in one go
        input = row_major(reduce(np.add, input, whole, keepdims=True))
    for dim, axis in parts:
        if dim not in whole:
            input = _sum_along(input, dim, axis)
    return input


@kernel(public=False, method=False, input=lambda g, axes: spread_windows(g, axes), factors=("input",))
def sum_windows(input, axes: tuple[Windows | Spans, ...]):
    """The sums over windows along the last dimensions."""
    return sums(input, axes)


@kernel(public=False, method=False, grad=lambda g, axes: sum_windows(g, axes), factors=("grad",))
@sample_by_sample
def spread_windows(grad, axes: tuple[Windows | Spans, ...]):
    """The gradient of :func:`sum_windows`: every element gets those of the windows that contain it."""
    parts = list(enumerate(axes, start=grad.ndim - len(axes)))
    whole = [dim for dim, axis in parts if is_whole(axis)]
    for dim, axis in parts:
        if dim not in whole:
            grad = _spread_along(grad, dim, axis)
    if whole:
        shape = list(grad.shape)
        for dim, axis in parts:
            shape[dim] = axis.size
        grad = np.broadcast_to(grad, shape).copy()
    return grad
