"""Several faults in one line, at one element: a remedy for only one would leave the others for the next run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import DIVISIONS, LOGS, first, maker, second, value
from retrograd.anomaly.catalogue._line_inference import enclosing
from retrograd.anomaly.catalogue._repeated_faults import decisive
from retrograd.anomaly.catalogue._scene import Cause, Scene
from retrograd.anomaly.catalogue._source_line import Line
from retrograd.anomaly.parsing import indentation_of
from retrograd.anomaly.surroundings import Operation

_HIDING = frozenset(("where", "masked_fill", "nan_to_num"))  # what they discard may be infinite
_POLES = (*LOGS, "rsqrt", "reciprocal", "lgamma", "digamma")
_EDGES = ("acos", "asin", "atanh")


def mended_together(scene: Scene, rewritten: str, rows: Iterable[Cause]) -> str:
    """A line that was rewritten for a birth, with the other operations of it mended as well that meet a pole there.

    It relies on the known numbers at the element of the birth, and on the rewriting having left these operations
    unchanged. ``rows`` are the causes to try for them.
    """
    rows = tuple(rows)
    for operation, is_backward in _faults(scene):
        col = _left_as_it_was(scene, operation, rewritten)
        if col is None:
            continue
        there = replace(_of_zero(operation), code_line=rewritten, col=col)
        around = replace(scene.surroundings, operation=there, consumers=(), grad_value=1.0 if is_backward else None)
        event = replace(
            scene.event,
            kind="invalid" if operation.op in DIVISIONS and value(first(operation)) == 0 else "divide",
            op=operation.op,
            is_backward=is_backward,
            operands={},
            nan_count=0,
            posinf_count=0,
            neginf_count=0,
            output_stats={},
            harmed=None,
            code_line=rewritten,
            col=None,
            end_col=None,
            surroundings=around,
        )
        inner = Scene(event)
        found = next((each for row in rows if (each := row.recognise(inner)) is not None), None)
        if found is not None and found.rewritten is not None and found.place in (None, there.place):
            rewritten = found.rewritten
    return rewritten


def _faults(scene: Scene) -> Iterator[tuple[Operation, bool]]:
    """The other operations of the birth's line that meet a pole, and whether it is only their derivative that does."""
    seen: list[Operation] = []
    for operation in scene.operations():
        if _is_it(operation, scene.birth) or operation.place != scene.birth.place or operation.col is None:
            continue
        if operation.code_line != scene.birth.code_line or operation in seen:
            continue
        seen.append(operation)
        where = _pole(operation)
        site = scene.site(operation)
        if where is None or not site or site.node is not site.written.node:
            continue
        if not any(each.op in _HIDING for each in enclosing(site, operation)):
            yield operation, where == "backward"


def _is_it(operation: Operation, birth: Operation) -> bool:
    """Whether an operation is the birth, of which another record may know less, or more."""
    if (operation.op, operation.place, operation.col) != (birth.op, birth.place, birth.col):
        return False
    for one, other in zip(operation.args[:2], birth.args[:2], strict=False):
        makers = {each.producer.op for each in (one, other) if each.producer is not None}
        if value(one) != value(other) or len(makers) > 1:
            return False
    return True


def _of_zero(operation: Operation) -> Operation:
    """The logarithm of 0 / 0 as it will be when the denominator is another number."""
    quotient = maker(first(operation), "div") if operation.op in LOGS else None
    if quotient is None or value(first(quotient)) != 0 or value(second(quotient)) != 0:
        return operation
    return replace(operation, args=(replace(first(operation), value=0.0), *operation.args[1:]))


def _pole(operation: Operation) -> str | None:
    """Whether an operation has a pole where it is, or its derivative has one; None if neither does."""
    operation = _of_zero(operation)
    x, numbers = value(first(operation)), [value(each) for each in operation.args[:2] if not each.constant]
    if not operation.args or any(each is not None and not math.isfinite(each) for each in numbers):
        return None
    has_gradient = any(each.requires_grad for each in operation.args)
    if operation.op in DIVISIONS:
        return "forward" if value(second(operation)) == 0 else None
    if operation.op in _POLES and x == 0:
        return "forward"
    power = value(second(operation)) if operation.op == "pow" else None
    if power is not None and x == 0 and power < 1 and power != 0:
        return "forward" if power < 0 else "backward" if has_gradient else None
    if operation.op in _EDGES and has_gradient and x is not None and abs(x) == 1:
        return "forward" if operation.op == "atanh" else "backward"
    return "backward" if operation.op == "sqrt" and has_gradient and x == 0 else None


def _left_as_it_was(scene: Scene, operation: Operation, rewritten: str) -> int | None:
    """The column in which an operation stands in the rewritten line, if that has its argument as it was."""
    site, line = scene.site(operation), Line.parse(rewritten)
    node = decisive(site.written)
    if node is None:
        return None
    text, indentation = site.line.text(node), indentation_of(rewritten)
    if _of_zero(operation) is not operation:  # its argument may have been mended already, and will be 0
        before, after = (
            [each.node for each in of.operations if each.op == site.written.op] for of in (site.line, line)
        )
        same = len(before) == len(after) and site.node in before
        return line.column(after[before.index(site.node)]) + indentation if same else None
    for written in line.operations:
        argument = decisive(written) if written.op == site.written.op else None
        if argument is not None and line.text(argument) == text:
            return line.column(written.node) + indentation
    return None
