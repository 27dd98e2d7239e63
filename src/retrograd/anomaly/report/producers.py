"""What made the operands of an event and what used its result, in functions other than the one shown."""

from __future__ import annotations

from collections.abc import Iterator

from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.operation_names import TRANSPARENT, canonical
from retrograd.anomaly.stack_frames import is_own_file
from retrograd.anomaly.surroundings import Operation, Place

_MOST = 2


def producers(event: NaNEvent) -> tuple[tuple[str, Operation], ...]:
    """The first few operands, by name, that other functions of the program made, with the operations that did.

    Operations within the event's function that merely pass on values are skipped.
    """
    operation = event.surroundings.operation if event.surroundings is not None else None
    if operation is None or event.lineno is None or event.function is None:
        return ()
    here = Place(event.lineno, event.filename, event.function)
    found = {made.place: (name, made) for name, made in _made(operation, here) if made.code_line}
    return tuple(found.values())[:_MOST]


def consumers(event: NaNEvent) -> tuple[Operation, ...]:
    """The operations of the program's other functions that took the result of an operation whose derivative gave birth.

    They show which call of the function it was, if its callers were not recorded.
    """
    if not event.is_backward or event.callers or event.surroundings is None or event.lineno is None:
        return ()
    if event.function is None or event.function.rpartition(".")[2] == "forward":  # its module is shown
        return ()
    here = Place(event.lineno, event.filename, event.function)
    known = (each for each in event.surroundings.consumers if isinstance(each, Operation))
    found = {each.place: each for each in known if each.code_line and not _is_near(each, here)}
    return tuple(found.values())[:_MOST]


def _made(operation: Operation, here: Place) -> Iterator[tuple[str, Operation]]:
    for operand in operation.args:
        made = operand.producer
        while made is not None and _is_near(made, here):
            handed_on = canonical(made.op) in TRANSPARENT and made.args
            made = made.args[0].producer if handed_on else None
        if made is not None:
            yield operand.name, made


def _is_near(made: Operation, here: Place) -> bool:
    """Whether it is in the same function, in an unknown one, or in one of a package."""
    place = made.place
    if place is None or place.filename is None or place.function is None or not is_own_file(place.filename):
        return True
    return (place.filename, place.function) == (here.filename, here.function)
