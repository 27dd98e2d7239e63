"""What a warning or an exception says about an event, and what becomes of its step."""

from __future__ import annotations

import io
import os
import types
from typing import Any

from retrograd.anomaly.event import GradEvent, NaNEvent, context_of, refused_by

GROWING = (
    "Everything is still finite, but this has grown far beyond its usual size, as it does before an overflow. Lower "
    "the learning rate, warm it up, or clip the gradient norm before the step."
)

REFUSED = "an argument of the call that raised"  # how the harm of what a function refused begins

ONCE = "This warning is shown once. policy={'overflow': 'warn'} reports every harmless overflow, 'ignore' reports none."

NO_UNDERFLOW = (
    "The policy for 'underflow' has no effect: this processor has no floating-point flags, and nothing else reveals an "
    "underflow. Leave it out, or check suspect tensors with (x == 0).any()."
)

NOT_AGAIN = (
    "The same batch, run again with the same random numbers, did not reproduce this value: the runs differ in "
    "something that was not restored, such as a counter of the program's own (`step += 1`; the number from `enumerate` "
    "is restored)."
)

GATHERED = (
    "The gradient was accumulated over {} backward passes, and running the last batch again did not reproduce this "
    "value: it came from an earlier batch."
)


IN_STEPS = (  # right in an unmodified script as well
    "In a loop `for batch in retrograd.anomaly.current().steps(loader)` a bad step is run again, with every operation "
    "recorded."
)

CARRIED_OVER = (
    "The same batch, run again, met the bad values of the first run: they were there before the loop, or the loop "
    "carries something from one step to the next, such as a hidden state or an average. The first run is shown. For an "
    "exact finding, keep a copy of what is carried over, and begin each step with that copy."
)


def outcome_of(kind: str, event: NaNEvent | GradEvent, action: str, twice: bool = False) -> str:
    """What becomes of the step, in the words of a report; a step that was run ``twice`` has not updated anything."""
    if isinstance(event, GradEvent):
        return {"raise": "update withheld", "skip_step": "update skipped"}.get(action, "no harm so far")
    if action == "explain":
        refused = event.kind == "error" or (event.harmed or "").startswith(REFUSED)
        return "the error was passed on" if refused else "the program stopped on its own"
    if kind not in ("nan", "inf"):
        return "no harm so far"
    if action in ("raise", "skip_step") and context_of(event).get("applied"):
        return "update applied, weights are not clean"
    if action in ("raise", "skip_step"):
        outcome = "update withheld" if action == "raise" else "update skipped"
        spoilt = context_of(event).get("spoilt")
        if spoilt is not None:
            return f"{outcome}, but {spoilt} is not clean"
        return outcome if event.kind == "leaf" else f"{outcome}, weights are clean"
    if twice:
        return (
            "warned; the second run skipped the update"
            if action == "warn"
            else "recorded; the second run skipped the update"
        )
    return "warned only, training went on" if action == "warn" else "recorded only, training went on"


def message_of(event: NaNEvent | GradEvent) -> str:
    """What an exception says: the finding, its line, why, and what to write instead."""
    if isinstance(event, GradEvent):
        return f"{event}\n{GROWING}"
    lines = [f"{event}"]
    if event.harmed:
        lines[0] += f"; it reached {'the loss' if event.harmed == 'loss' else event.harmed}"
    if event.code_line:
        lines.append(f"    {event.code_line}")
    for own in event.callers[:1]:
        lines += [f"called from {own['filename']}:{own['lineno']}", f"    {own.get('code_line', '')}".rstrip()]
    return "\n".join([*lines, *advice(event, event.note)])


def note_of(event: NaNEvent) -> str:
    """The note added to an error; if an operation raised it, its traceback already tells where."""
    raised = event.kind == "error" and refused_by(event) is None
    return "\n".join(advice(event)) if raised else message_of(event)


def check_args(model: Any, optimizer: Any, recorder: Any) -> None:
    """Raise for arguments that cannot be watched, or recorded to: the latter would otherwise fail only at a finding."""
    if model is not None and (isinstance(model, type) or not hasattr(model, "named_modules")):
        raise _no_model(model)
    if isinstance(optimizer, type):
        raise TypeError(f"optimizer must be an optimizer object, but got the class {optimizer.__name__}")
    if optimizer is not None and not hasattr(optimizer, "step"):
        raise TypeError(f"optimizer must be an optimizer of retrograd or torch, but got {type(optimizer).__name__}")
    if isinstance(recorder, (str, os.PathLike, io.IOBase)):
        raise TypeError(
            f"recorder must have a method write(event, *, outcome), but got {recorder!r}; give a "
            "retrograd.anomaly.report.Report(directory)"
        )


def check_numbers(budget: Any, lag: Any, from_step: Any, max_events: Any) -> None:
    """Raise for an invalid share of the time, number of steps, step or number of events."""
    check_max_events(max_events)
    if not hasattr(budget, "__float__") or not budget > 0:
        raise ValueError(f"budget must be the share of the time that checks may take, such as 0.01, but got {budget!r}")
    if lag not in (0, 1):
        raise ValueError(f"lag must be 0 or 1 steps, but got {lag!r}")
    if from_step is not None and (not isinstance(from_step, int) or from_step < 1):
        raise ValueError(f"from_step must be a step number, counted from 1, but got {from_step!r}")


def check_max_events(given: object) -> None:
    """Raise for an invalid number of events to keep."""
    if not isinstance(given, int) or given < 1:
        raise ValueError(f"max_events must be an int of at least 1, but got {given!r}")


def _no_model(given: Any) -> TypeError:
    """The error about an argument given in place of a model."""
    hint = ""
    if isinstance(given, str):
        hint = f"; did you mean policy={given!r}?"
    elif isinstance(given, type) and hasattr(given, "named_modules"):
        hint = "; give the model itself, not its class"
    elif isinstance(given, types.FunctionType):
        hint = "; call it when you use it as a decorator: @watch()"
    elif isinstance(given, types.GeneratorType):
        hint = "; give the model itself, not its parameters()"
    elif hasattr(given, "step"):
        hint = "; pass an optimizer as optimizer="
    return TypeError(f"model must be an nn.Module of retrograd or torch, but got {given!r}{hint}")


def advice(event: NaNEvent, note: str | None = None) -> list[str]:
    """Why, what to write instead, and what to do next, in the order of a report, whose later parts refer to earlier."""
    lines = [event.cause] if event.cause else []
    if event.remedy:
        lines += ["Write instead:", *(f"    {line}" for line in event.remedy.split("\n"))]
    if event.rerun:
        lines += ["To record every operation:", f"    {event.rerun}"]
    for birth in event.also:
        lines.append(f"In the same step: {birth}")
        if birth.remedy:
            lines += ["Write instead:", *(f"    {line}" for line in birth.remedy.split("\n"))]
    return [*lines, note] if note else lines


class Warned:
    """What a watch has warned about: each place once in full, later in one line.

    A weight that has become bad is bad in every step from then on; there is no more to say of it.
    """

    def __init__(self) -> None:
        self._first: dict[Any, int | None] = {}  # the step in which each was first reported

    def text(self, event: NaNEvent | GradEvent) -> str | None:
        """What to say about an event; None if it has been said already."""
        if isinstance(event, GradEvent):
            return message_of(event)
        context = context_of(event) if event.kind == "leaf" else {}
        leaf = context.get("leaf"), context.get("name")
        place = event.op, event.is_backward, event.filename, event.lineno, leaf
        if place not in self._first:
            self._first[place] = event.step
            return message_of(event)
        return (
            None if leaf[0] in ("parameter", "buffer") else f"{event}; see the warning about step {self._first[place]}"
        )
