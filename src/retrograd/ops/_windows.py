"""Positions of windows that slide over dimensions, shared by convolutions, pooling and unfolding."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np

Slices = tuple[slice, ...]

_NOWHERE = slice(0, 0)


class Windows(NamedTuple):
    """Windows along one dimension: element ``k`` of window ``i`` is at ``i * stride + k * dilation - before``."""

    size: int  # of the dimension
    kernel: int  # elements of a window
    stride: int
    dilation: int
    before: int  # padding; what is beyond the other end follows from ``number``
    number: int  # of windows

    def reached(self, k: int) -> tuple[slice, slice]:
        """The windows whose element ``k`` is inside the dimension, and the positions of these elements."""
        offset = k * self.dilation - self.before
        low = max(0, -(offset // self.stride))
        high = min(self.number, (self.size - 1 - offset) // self.stride + 1)
        if high <= low:
            return _NOWHERE, _NOWHERE
        start = low * self.stride + offset
        return slice(low, high), slice(start, start + (high - low - 1) * self.stride + 1, self.stride)

    def places(self) -> Any:
        """Where the elements of each window are; for one in the padding, the nearest of the same window that is not."""
        starts = np.arange(self.number)[:, None] * self.stride - self.before
        first, last = -(starts // self.dilation), (self.size - 1 - starts) // self.dilation
        return starts + np.arange(self.kernel).clip(first, last) * self.dilation

    def span(self) -> Windows:
        """Everything that the windows cover, as adjacent windows of one element."""
        reach = (self.number - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        return self._replace(kernel=1, stride=1, dilation=1, number=reach if self.number else 0)

    def part(self, start: int, stop: int) -> Windows:
        """The windows ``start`` to ``stop`` only."""
        return self._replace(before=self.before - start * self.stride, number=stop - start)


@functools.lru_cache(maxsize=64)
def each_element(axes: tuple[Windows, ...]) -> tuple[tuple[Slices, Slices], ...]:
    """For each element of a window, the last dimension fastest: the windows where it is in range, and its positions."""
    return tuple(
        (tuple(windows for windows, _ in pairs), tuple(places for _, places in pairs))
        for pairs in itertools.product(*([axis.reached(k) for k in range(axis.kernel)] for axis in axes))
    )


def count_windows(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """How many windows there are between the ends of a dimension that is padded by ``padding`` at either."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
