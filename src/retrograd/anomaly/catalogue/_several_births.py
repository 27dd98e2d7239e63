"""Several births of one step, explained together: their remedies are to be pasted at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import normal
from retrograd.anomaly.catalogue._repeated_faults import decisive
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.catalogue._source_line import NOTHING, Line, Site, Written
from retrograd.anomaly.event import MOST_ALSO, NaNEvent, context_of
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.parsing import indentation_of, names_in
from retrograd.anomaly.surroundings import Operation, Place

Explain = Callable[[NaNEvent], NaNEvent]


def explained_together(first: NaNEvent, explain: Explain) -> NaNEvent:
    """An event, which is explained already, with the further births of its step explained.

    A birth in an operation with another reported birth is left out: the same fix mends both. A remedy for a line that
    has been rewritten for another birth starts from the rewritten line.

    Parameters
    ----------
    first
        The event.
    explain
        Fills in cause and remedy of another one.
    """
    told = [first]
    for birth in first.also:
        if len(told) <= MOST_ALSO and birth.lineno is not None and _written(birth) not in map(_written, told):
            _tell(explain(birth), told, explain)
    first, *others = told
    return replace(first, also=tuple(_without_common(each, first) for each in others))


def _tell(birth: NaNEvent, told: list[NaNEvent], explain: Explain) -> None:
    """Add a birth to those reported, unless their remedies mend it as well."""
    rewritten = {place: each.remedy for each in told if (place := _mended_place(each)) is not None}
    own, place = Place(birth.lineno or 0, birth.filename), _mended_place(birth)
    shown = rewritten.get(own)
    if shown is not None and (place is None or place == own):
        col = _left_to_mend(birth, shown)
        if col is None or birth.remedy == shown:
            return
        line = _mended_as_well(birth, shown, col, explain)
        told[:] = [replace(each, remedy=line or shown) if _mended_place(each) == own else each for each in told]
        told.append(replace(birth, remedy=line, remedy_lineno=None if line is None else birth.lineno))
    elif place is None or place not in rewritten:
        told.append(birth)
    elif birth.remedy != rewritten[place]:
        told.append(replace(birth, remedy=None, remedy_lineno=None, remedy_filename=None))


def _mended_as_well(birth: NaNEvent, rewritten: str, col: int, explain: Explain) -> str | None:
    """A line that was rewritten for other births, with an operation in it mended as well; None if that cannot be."""
    around = birth.surroundings
    if around is None or around.operation is None:
        return None
    there = replace(_in_line(birth, around.operation, rewritten), code_line=rewritten, col=col)
    consumers = tuple(
        _in_line(birth, each, rewritten) if isinstance(each, Operation) else each for each in around.consumers
    )
    around = replace(around, operation=there, consumers=consumers)
    again = explain(replace(birth, code_line=rewritten, col=col, end_col=None, surroundings=around))
    return again.remedy if _mended_place(again) == Place(birth.lineno or 0, birth.filename) else None


def _in_line(birth: NaNEvent, operation: Operation, rewritten: str) -> Operation:
    """An operation, and what it was made from, as they stand in the line of a birth that was rewritten."""
    args = tuple(
        each if each.producer is None else replace(each, producer=_in_line(birth, each.producer, rewritten))
        for each in operation.args
    )
    if (operation.lineno, operation.filename) == (birth.lineno, birth.filename):
        line = Line.parse(rewritten)
        written = _found_again(Scene(birth).site(normal(operation)), line)
        col = line.column(written.node) + indentation_of(rewritten) if written else None
        operation = replace(operation, code_line=None if col is None else rewritten, col=col)
    return replace(operation, args=args)


def _left_to_mend(birth: NaNEvent, rewritten: str) -> int | None:
    """The column where an operation stands in a line that was rewritten; None if its fault has been mended there."""
    scene = Scene(birth)
    site, line = scene.site(scene.birth), Line.parse(rewritten)
    written = _found_again(site, line)
    if not written:
        return None
    old, new = decisive(site.written), decisive(written)
    if old is not None and new is not None:
        text, changed = site.line.text(old), line.text(new)
        if text != changed and (text in changed or names_in(old) != names_in(new)):  # a guard was put around it
            return None
    return line.column(written.node) + indentation_of(rewritten)


def _found_again(site: Site, line: Line) -> Written:
    """An operation in the line as it was rewritten; ``NOTHING`` if it is written there in another way."""
    before, after = ([each for each in of.operations if each.op == site.written.op] for of in (site.line, line))
    if not (site and line):
        return NOTHING
    if len(before) == len(after):
        return after[[each.node for each in before].index(site.written.node)]
    text = site.line.text(site.written.node)
    return next((each for each in after if line.text(each.node) == text), NOTHING)


def _mended_place(event: NaNEvent) -> Place | None:
    """Where the line stands that the remedy of an event rewrites; None if it rewrites none."""
    if event.remedy is None or event.remedy_lineno is None:
        return None
    return Place(event.remedy_lineno, event.remedy_filename or event.filename)


def _written(event: NaNEvent) -> tuple[object, ...]:
    """What two births of one operation have in common, as it stands in the program, in forward or in backward."""
    return event.filename, event.lineno, event.col, canonical(event.op.partition("Backward")[0]).replace("_", "")


def _without_common(event: NaNEvent, first: NaNEvent) -> NaNEvent:
    """A further event, whose context has no more than what the first one's has not."""
    if event.surroundings is None:
        return event
    common = context_of(first)
    own = {key: value for key, value in event.surroundings.context.items() if common.get(key) is not value}
    return replace(event, surroundings=replace(event.surroundings, context=own))
