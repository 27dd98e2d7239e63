"""How often to check gradients that an update may use: as often as the budget allows."""

from __future__ import annotations

import math
import time

from retrograd.anomaly.monitor import Watch

LONGEST_PAUSE = 64  # steps from one look to the next
WARM_UP = 3  # steps after which the duration of one is known


class CheckInterval:
    """Decides when to look next, from how long steps and looks take.

    Parameters
    ----------
    watch
        The watch whose budget it is.
    share
        The share of the budget for optional looks.
    longest_pause
        Most steps from one look to the next; 1 to look in every step, if nothing else would find bad gradients.

    Attributes
    ----------
    due_in : int
        In how many steps the next look is due; counted down by :meth:`is_due`, or inline where a call costs too much.
    unseen : int
        How many steps have ended since the last look.
    """

    __slots__ = ("_longest_pause", "_look_time", "_looked", "_share", "_step_time", "_watch", "due_in", "unseen")

    def __init__(self, watch: Watch, share: float, longest_pause: int = LONGEST_PAUSE) -> None:
        self._watch = watch
        self._share = share
        self._longest_pause = longest_pause
        self._step_time = self._look_time = 0.0
        self.due_in = self.unseen = 0
        self._looked = time.perf_counter()  # when the last look ended

    def looked(self, start: float) -> float:
        """Schedule the next look so that looks stay within their share; return how long this one took."""
        end = time.perf_counter()
        # another thread may have had its look in the meantime
        step_time, look_time = max(start - self._looked, 0.0) / max(self.unseen, 1), end - start
        self._looked, self.unseen = end, 0
        self._step_time = step_time if self._step_time == 0 else 0.5 * (self._step_time + step_time)
        self._look_time = look_time if self._look_time == 0 else 0.5 * (self._look_time + look_time)
        if self._watch.step >= WARM_UP:
            affordable = self._share * self._watch.budget * max(self._step_time, 1e-9)
            self.due_in = min(self._longest_pause, math.ceil(self._look_time / affordable))
        return look_time

    def is_due(self) -> bool:
        """Whether to look now; to be called once per step."""
        self.due_in -= 1
        return self.due_in <= 0
