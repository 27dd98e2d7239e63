"""How to run a program again so that it records every operation, and when that could reveal more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from retrograd.anomaly.event import NaNEvent, context_of
from retrograd.anomaly.messages import IN_STEPS

# Context keys of an event that are set if some information about the step was missing.
_GAPS = ("unkept", "unseen", "derived", "inferred")
_FROM_OUTSIDE = ("batch", "target")
_STATE = ("parameter", "buffer")


class Again(NamedTuple):
    """How to record every operation from some step on: what to run or to write, and what to know about it."""

    command: str
    remark: str


def in_the_program(step: int) -> Again:
    """What to write into a program that starts its watch by itself."""
    return Again(
        f"watch(..., from_step={step})",
        f"{IN_STEPS} Or start the watch as above, with seeds set: it records every operation from step {step} on.",
    )


def could_tell_more(event: NaNEvent) -> bool:
    """Whether a record of all operations could reveal more about a birth than is known."""
    context = context_of(event)
    if event.kind == "error" or context.get("graphed"):  # the operations of a replayed CUDA graph cannot be recorded
        return False
    if context.get("let_through") and context.get("leaf") == "parameter":
        return False  # the finding of that step says everything
    computed = context.get("untraced") and context.get("leaf") in _FROM_OUTSIDE
    missing = event.op == "unknown" or event.lineno is None or any(map(context.get, _GAPS))
    return bool(missing or computed or _was_written(event, context) or context.get("kept"))


def _was_written(event: NaNEvent, context: Mapping[str, Any]) -> bool:
    """Whether a weight or buffer may have been finite in the step before, and that step or this one wrote to it."""
    later = context.get("updates") or (event.step or 1) > 1  # updates by hand go unnoticed
    state = context.get("untraced") and context.get("leaf") in _STATE
    return bool((state or context.get("bad_members")) and later)


def is_recorded(event: NaNEvent, from_step: int | None) -> bool:
    """Whether every operation that could have made a value was recorded when the event was found."""
    if from_step is None or event.step is None or max(event.step, 1) < from_step:
        return False
    return from_step == 1 or not context_of(event).get("kept")


def first_step_of(event: NaNEvent) -> int:
    """The step from which to start recording: that of the first operation that could have made the value."""
    context = context_of(event)
    if context.get("kept") or context.get("constructed"):
        return 1  # nothing tells in which of the steps before, if in any, it became bad
    before = max(context.get("steps_before", 0), _was_written(event, context))
    return max(1, (event.step or 1) - before)
