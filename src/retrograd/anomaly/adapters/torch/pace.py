"""How often to look at gradients where a bad one may be applied: as often as the budget allows."""

from __future__ import annotations

import math
import time

from retrograd.anomaly.monitor import Watch

LONGEST_PAUSE = 64  # steps between two looks
WARM_UP = 3  # steps after which it is known how long one takes
SHARE = 0.5  # of the budget, for looks that are not necessary; the other half is for noting lines


class Pace:
    """When to look next, by how long steps and looks take."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._pause = 0
        self._step_time = 0.0
        self._last = time.perf_counter()

    def begin(self) -> None:
        """Take the time from now on."""
        self._last = time.perf_counter()

    def step_ended(self) -> None:
        """Take the time since the step before."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        self._step_time = elapsed if self._step_time == 0 else 0.5 * (self._step_time + elapsed)

    def looked(self, seconds: float) -> None:
        """Choose the pause after a look that took so long."""
        self._watch.spent(seconds)
        if self._watch.step >= WARM_UP:
            affordable = SHARE * self._watch.budget * self._step_time
            self._pause = min(LONGEST_PAUSE, math.ceil(seconds / max(affordable, 1e-9)))

    def is_due(self) -> bool:
        """Whether the pause is over; to be asked once in a step."""
        self._pause -= 1
        return self._pause <= 0
