"""The records of an anomaly: where a NaN or an infinity was born, and gradients that grew too large."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from retrograd.anomaly._json import default_of, dumps, loads
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings

KINDS = ("invalid", "divide", "overflow", "underflow", "leaf", "error")
"""How a value is born: by the IEEE 754 exception the operation raised, or from outside as data or parameter; or an
error that the operation raised instead."""

MOST_ALSO = 8  # further births of a step that an event tells of


class _Event:
    """What both kinds of events share: conversion to and from JSON, and comparison by content."""

    def to_json(self) -> str:
        """Return the event as one line of standard JSON that :meth:`from_json` reads back without loss."""
        return dumps(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the event that :meth:`to_json` wrote, here or in another version of the package.

        Raises
        ------
        ValueError
            If the text is not JSON or holds something else.
        """
        event = loads(text, RECORDS)
        if not isinstance(event, cls):
            raise ValueError(f"not a {cls.__name__}: {text[:80]!r}")
        return event

    def __repr__(self) -> str:
        """The known fields, as the call that constructs the event."""
        shown = ((each, getattr(self, each.name)) for each in fields(self) if each.repr)  # type: ignore[arg-type]
        known = (f"{each.name}={value!r}" for each, value in shown if value != default_of(each))
        return f"{type(self).__name__}({', '.join(known)})"

    # NaN differs from itself, and an event is made of NaNs; two events are equal if they say the same.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and dumps(self) == dumps(other)

    def __hash__(self) -> int:
        return hash(dumps(self))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NaNEvent(_Event):
    """Where a NaN or an infinity was born: the birth, not the symptom.

    Parameters
    ----------
    kind
        ``"invalid"`` (such as the log of a negative number), ``"divide"`` (a pole: division by zero, the log of
        zero), ``"overflow"``, ``"underflow"``, ``"leaf"`` for data and parameters that came in non-finite, or
        ``"error"`` where the operation raised one (such as ``LinAlgError``) instead.
    op
        The operation: ``"log"``, or the node's name such as ``"SqrtBackward0"`` for a birth in backward; ``"leaf"``
        for a leaf.
    is_backward
        Whether it was born while computing gradients.
    filename, lineno, function, code_line
        The user's line that called the operation, also for births in backward.
    col, end_col
        Where in ``code_line`` (as it stands here, in characters) the operation is written.
    callers
        The program's own lines that called the function of that line, as far as they are known, the innermost first:
        ``({"filename": "train.py", "lineno": 9, "function": "step", "code_line": "loss = entropy(p)"},)``. They end
        at the ``forward`` of a module, or at the function that has found the birth. Where the line itself is a part
        of an installed package, the first of them is the one that led there.
    index
        The first bad element of the output.
    operands
        Name to value at that element: ``{"input": -1.0}``.
    nan_count, posinf_count, neginf_count, size
        How many elements of the output are non-finite, of how many.
    output_shape, dtype, output_stats
        The output's shape and type, and ``{"min": ..., "max": ..., "mean": ...}`` of its finite elements.
    input_has_nan, input_has_inf, output_has_nan, output_has_inf
        What went in and what came out.
    layer_name, module_type
        The innermost module in which it happened: ``"encoder.0"``, ``"Linear"``.
    batch_idx, step, thread
        When, and in which thread. Batches are counted from 0, as ``enumerate`` does; steps, calls of ``backward``,
        from 1.
    path
        The names of the nodes from the birth through propagation to the harm.
    harmed
        What the value reached: ``"loss"``, ``"the gradient of fc.weight"``, ``"fc.weight"``.
    cause, remedy, remedy_lineno, remedy_filename
        One paragraph that says why; the code to write instead; the number of the line it replaces; the file of that
        line, where it is another than ``filename``.
    surroundings
        What the explanation was drawn from.
    reproducible
        Whether running the step again gave the same birth; None if it was not run again.
    note
        Anything else that a reader should know.
    also
        Further births of the same step that do not follow from this one and do harm by themselves, explained as this
        one is. A remedy of one that stands in a line which another remedy rewrites is that line with both mended.
    rerun
        Where more could be known: what to run, or to write, to have every operation recorded from the right step on.
    version
        Of this record's form.

    Examples
    --------
    >>> from retrograd.anomaly.event import NaNEvent
    >>> event = NaNEvent(
    ...     kind="divide", op="log", filename="train.py", lineno=41, index=(3,), operands={"input": 0.0},
    ...     output_shape=(8,), size=8, neginf_count=1, output_has_inf=True,
    ... )
    >>> print(event)
    -Inf born in log at train.py:41, element [3], input=0.0
    >>> NaNEvent.from_json(event.to_json()) == event
    True
    """

    kind: str
    op: str
    is_backward: bool = False
    filename: str | None = None
    lineno: int | None = None
    function: str | None = None
    code_line: str | None = None
    col: int | None = None
    end_col: int | None = None
    callers: tuple[Mapping[str, Any], ...] = ()
    index: tuple[int, ...] | None = None
    operands: Mapping[str, Any] = field(default_factory=dict)
    nan_count: int = 0
    posinf_count: int = 0
    neginf_count: int = 0
    size: int = 0
    output_shape: tuple[int, ...] | None = None
    dtype: str | None = None
    output_stats: Mapping[str, float] | None = None
    input_has_nan: bool = False
    input_has_inf: bool = False
    output_has_nan: bool = False
    output_has_inf: bool = False
    layer_name: str | None = None
    module_type: str | None = None
    batch_idx: int | None = None
    step: int | None = None
    thread: str | None = None
    path: tuple[str, ...] = ()
    harmed: str | None = None
    cause: str | None = None
    remedy: str | None = None
    remedy_lineno: int | None = None
    remedy_filename: str | None = None
    surroundings: Surroundings | None = field(default=None, repr=False)
    reproducible: bool | None = None
    note: str | None = None
    also: tuple[NaNEvent, ...] = field(default=(), repr=False)
    rerun: str | None = None
    version: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", _integers(self.index))
        object.__setattr__(self, "output_shape", _integers(self.output_shape))
        object.__setattr__(self, "path", tuple(self.path))
        object.__setattr__(self, "also", tuple(self.also))

    @property
    def born(self) -> str:
        """What was born: ``"NaN"``, ``"Inf"`` or ``"-Inf"``, the worst of what the output holds."""
        came_in = self.input_has_nan and self.kind in ("divide", "overflow")  # the NaNs beside what was born
        if not came_in and (self.nan_count or (self.output_has_nan and not (self.posinf_count or self.neginf_count))):
            return "NaN"
        if self.neginf_count and not self.posinf_count:
            return "-Inf"
        if self.posinf_count or self.output_has_inf:
            return "Inf"
        return "NaN" if self.kind == "invalid" else "Inf"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show IPython and notebooks the report; a line of each in a list."""
        if len(printer.stack) > 1:
            printer.text(str(self))
            return
        from retrograd.anomaly.report import format_event
        from retrograd.anomaly.report.style import style_of

        style = style_of(sys.stdout)
        printer.text(format_event(self, color=style.color, width=style.width))

    def __str__(self) -> str:
        place = f" at {self.filename}:{self.lineno}" if self.filename else ""
        element = f", element [{', '.join(map(str, self.index))}]" if self.index else ""
        values = "".join(f", {name}={value}" for name, value in self.operands.items())
        if (refused := refused_by(self)) is not None:
            return f"{refused}{place}{element}{values}"
        if self.kind in ("error", "underflow"):
            return f"{self.kind} in {self.op}{place}{element if self.kind == 'underflow' else ''}{values}"
        if self.op == "unknown":
            return f"{self.born} of unknown birth, seen{place}{element}"
        if self.kind == "leaf":
            return f"{self.born} came in with {came_in_with(self)}{place}{element}{values}"
        what = f"the {self.op} of a derivative" if is_derived(self) else self.op
        what = f"the tangent of {what}" if is_tangent(self) else what
        what = f"{'to come' if is_to_come(self) else 'born'} in {what}{or_before(self)}"
        return f"{self.born} {what}{place}{element}{values}"


def context_of(event: NaNEvent) -> Mapping[str, Any]:
    """What is known beyond operations, see :class:`Surroundings`; empty if no adapter supplied anything."""
    return {} if event.surroundings is None else event.surroundings.context


def refused_by(event: NaNEvent) -> str | None:
    """The argument that a distribution refused, if one did: "scale = 0 of Normal, made by exp"; else None."""
    refused = context_of(event).get("refused")
    if not refused:
        return None
    number = f" = {refused['value']:.6g}" if "value" in refused else ""
    made = came_in_with(event) if event.op == "leaf" else f"made by {canonical(event.op)}"
    return f"{refused['parameter']}{number} of {refused['by']}, {made}"


def with_context(event: NaNEvent, **known: Any) -> NaNEvent:
    """The event with further entries in the context of its surroundings."""
    seen = event.surroundings or Surroundings()
    return replace(event, surroundings=replace(seen, context={**seen.context, **known}))


def with_note(event: NaNEvent, *remarks: str | None) -> NaNEvent:
    """The event with remarks appended to its note."""
    return replace(event, note=" ".join(filter(None, (event.note, *remarks))) or None)


def is_birth(event: NaNEvent) -> bool:
    """Whether it is known in which operation bad numbers were born."""
    return event.kind != "leaf" and event.op not in ("leaf", "unknown")


def is_certain(event: NaNEvent) -> bool:
    """Whether the operation of the birth is known for certain."""
    context = context_of(event)
    return is_birth(event) and not (context.get("unkept") or context.get("inferred") or is_derived(event))


def or_before(event: NaNEvent) -> str:
    """What the name of the operation is followed by if an unknown operand of it may already have been bad."""
    return " or before it" if context_of(event).get("unkept") else ""


def was_given_bad(event: NaNEvent) -> bool:
    """Whether something that went into the operation was not finite."""
    return event.input_has_nan or event.input_has_inf


def is_tangent(event: NaNEvent) -> bool:
    """Whether it was born in forward mode, in the tangent of an operation's result."""
    return bool(context_of(event).get("forward_mode"))


def is_to_come(event: NaNEvent) -> bool:
    """Whether it is a birth that the backward of a bad loss, which was not run, would have shown."""
    return bool(context_of(event).get("to_come"))


def is_derived(event: NaNEvent) -> bool:
    """Whether a derivative computed at the event's line called the operation, which is itself not written there."""
    context = context_of(event)
    return bool(context.get("derived") or context.get("second_derivative"))


def check_event(event: object) -> None:
    """Raise for anything that is not a :class:`NaNEvent`."""
    if not isinstance(event, NaNEvent):
        hint = "; the event of a watch that found nothing is None" if event is None else ""
        raise TypeError(f"expected a NaNEvent, but got {type(event).__name__}{hint}")


def came_in_with(event: NaNEvent) -> str:
    """What a value that no operation made came in with: "the parameter fc.weight"."""
    context = context_of(event)
    what = " ".join(str(context[key]) for key in ("leaf", "name") if context.get(key))
    if context.get("computed_by") or context.get("source"):
        return str(context["name"])
    if what == "batch":
        return "data that has no gradient"
    if what:
        return f"the {what}"
    return event.op if event.op != "leaf" else event.layer_name or event.harmed or "the data"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GradEvent(_Event):
    """A gradient whose norm exceeded what is usual for it, seen while it was still finite.

    Parameters
    ----------
    batch_idx
        The step.
    layer_name, param_name
        The module and the parameter: ``"encoder.0"``, ``"weight"``.
    grad_norm, threshold
        The norm and the bound that it exceeded.
    quantity
        What ``grad_norm`` measures, if it is not a gradient norm: ``"update-to-weight ratio"``.
    """

    batch_idx: int | None
    layer_name: str
    param_name: str
    grad_norm: float
    threshold: float
    quantity: str = "gradient norm"
    version: int = 1

    def __str__(self) -> str:
        name = ".".join(part for part in (self.layer_name, self.param_name) if part)
        values = f"{self.grad_norm:.4g}, above the threshold {self.threshold:.4g}"
        return f"{self.quantity} of {name} is {values}, at batch {self.batch_idx}"


def _integers(numbers: Iterable[Any] | None) -> tuple[int, ...] | None:
    return None if numbers is None else tuple(operator.index(number) for number in numbers)


RECORDS: Mapping[str, type] = {
    record.__name__: record for record in (NaNEvent, GradEvent, Surroundings, Operation, Operand)
}


def event_from_json(text: str | bytes) -> NaNEvent | GradEvent:
    """Return the event of either class that ``to_json`` wrote.

    Parameters
    ----------
    text : str or bytes
        What ``to_json`` of an event returned.

    Raises
    ------
    ValueError
        If the text is not JSON or holds something else.
    """
    event = loads(text, RECORDS)
    if not isinstance(event, (NaNEvent, GradEvent)):
        raise ValueError(f"not an event: {text[:80]!r}")
    return event
