"""The range of the magnitudes in each layer's output, over the last calls of a model."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from retrograd.anomaly.layer_detector.forward_pass import Reach

LENGTH = 32  # calls that are remembered
ABSMIN_EVERY = 16  # calls; it takes a second pass over what a layer puts out
ROWS = 12  # layers in a report
BEFORE = 5  # earlier calls in a report


class Frame(NamedTuple):
    """What a layer put out in one call of the model.

    Attributes
    ----------
    batch_idx : int or None
        The batch.
    absmin : float
        The smallest absolute value; NaN in those calls in which it was not measured.
    absmax : float
        The largest one; NaN if there was a NaN.
    """

    batch_idx: int | None
    absmin: float
    absmax: float


class LayerHistory:
    """The outputs of the last calls, layer by layer."""

    def __init__(self) -> None:
        self._calls = 0
        self._frames: dict[str, deque[Frame]] = {}
        self._last: list[str] = []

    @property
    def wants_absmin(self) -> bool:
        """Whether absolute minima are to be measured in the coming call."""
        return self._calls % ABSMIN_EVERY == 0

    def note(self, batch_idx: int | None, reached: Mapping[str, Reach]) -> None:
        """Add what the layers put out in one call."""
        if not reached:
            return
        self._calls += 1
        for layer, reach in reached.items():
            frames = self._frames.get(layer)
            if frames is None:
                frames = self._frames[layer] = deque(maxlen=LENGTH)
            frames.append(Frame(batch_idx, *reach))
        self._last = list(reached)

    def amend(self, reached: Mapping[str, Reach]) -> None:
        """Complete the entries of the last call with values from a repetition of it."""
        for layer, reach in reached.items():
            frames = self._frames.get(layer)
            if frames:
                frames[-1] = Frame(frames[-1].batch_idx, *reach)

    def frames(self) -> dict[str, tuple[Frame, ...]]:
        """The frames of each layer, oldest first."""
        return {layer: tuple(frames) for layer, frames in self._frames.items()}

    def rows(self) -> tuple[dict[str, Any], ...]:
        """The layers of the last call up to the first that put out something bad, for the context of an event."""
        rows = []
        for layer in self._last:
            frames = self._frames[layer]
            last = frames[-1]
            earlier = itertools.islice(frames, max(0, len(frames) - 1 - BEFORE), len(frames) - 1)
            rows.append(
                {
                    "layer": layer,
                    "absmin": last.absmin,
                    "absmax": last.absmax,
                    "before": tuple(frame.absmax for frame in earlier),
                }
            )
            if not math.isfinite(last.absmax):
                break
        return tuple(rows[-ROWS:])
