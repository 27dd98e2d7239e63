"""Updates that "skip_step" skips one after another: from some number on, skipping is no solution."""

from __future__ import annotations

from retrograd.anomaly.event import NaNEvent, came_in_with, context_of
from retrograd.anomaly.skipped_batches import MOST

_OF_WEIGHT = 2  # the program had a chance to load a checkpoint in between

_FOR_EVER = (
    "{} has not been finite since step {:,} or earlier, and skipping updates cannot repair it: no later step will "
    "train the model. Load an earlier checkpoint. This warning is given once."
)
_IN_VAIN = (
    "The last {} steps were all skipped, from step {:,} on. While that continues, nothing is learned. This warning "
    "is given once."
)


class SkippedUpdates:
    """Counts updates skipped in a row, and how many of them because of a weight or buffer that is not finite."""

    def __init__(self) -> None:
        self._first, self._last = 0, -1
        self._with_bad_weight = 0
        self._is_told = False

    def note(self, event: NaNEvent) -> str | None:
        """Count the step of an event, once; return what the user has to know now, if anything."""
        step = self._last + 1 if event.step is None else event.step
        if step == self._last:
            return None
        if step != self._last + 1:
            self._first, self._with_bad_weight, self._is_told = step, 0, False
        self._last = step
        weight = _bad_weight(event)
        self._with_bad_weight = 0 if weight is None else self._with_bad_weight + 1
        remark = None
        if weight is not None and self._with_bad_weight >= _OF_WEIGHT:
            remark = _FOR_EVER.format(weight, step - self._with_bad_weight + 1)
        elif step - self._first + 1 >= MOST:
            remark = _IN_VAIN.format(step - self._first + 1, self._first)
        if remark is None or self._is_told:
            return None
        self._is_told = True
        return remark


def _bad_weight(event: NaNEvent) -> str | None:
    """The parameter or buffer that is not finite itself, if there is one."""
    context = context_of(event)
    if event.kind == "leaf" and context.get("leaf") in ("parameter", "buffer"):
        what = came_in_with(event)
        return what[:1].upper() + what[1:]
    spoilt = context.get("spoilt")
    return None if spoilt is None else f"The parameter {spoilt}"
