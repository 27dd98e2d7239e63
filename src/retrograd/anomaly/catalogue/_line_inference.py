"""What the user's line reveals if the adapter does not: constants, names, and operations written in one expression.

An engine that saves little for backward knows little afterwards; but ``1 - torch.sigmoid(x)`` still shows what was
subtracted from what.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import LOGS
from retrograd.anomaly.catalogue._operation_site import find, in_order
from retrograd.anomaly.catalogue._source_line import NOTHING, Line, Site, Written, bare, number_written
from retrograd.anomaly.operation_names import KNOWN
from retrograd.anomaly.parsing import indentation_of
from retrograd.anomaly.surroundings import Operand, Operation

_NAMES = {
    "pow": ("input", "exponent"),
    "where": ("condition", "input", "other"),
    "masked_fill": ("input", "mask", "value"),
}
_DEPTH = 6
_CHOOSING = ("where", "masked_fill")


def completed(operation: Operation, written: Written = NOTHING, depth: int = _DEPTH) -> Operation:
    """The operation with what its line reveals added to what is known."""
    written = written or find(operation).written
    nodes = _operands(operation, written)
    args = list(operation.args)
    if not args and nodes:
        names = _NAMES.get(operation.op, ("input", "other"))
        args = [Operand(name=name) for name, _ in zip(names, nodes, strict=False)]
    if operation.op in ("add", "mul") and len(nodes) == 2 <= len(args):
        nodes = in_order(written.line, nodes, args[:2])  # torch's addition has a factor besides
    for place, operand in enumerate(args):
        node = nodes[place] if place < len(nodes) else None
        if node is not None:
            args[place] = _told(operand, node, written.line, operation, depth)
        elif operand.producer is not None and depth:
            args[place] = replace(operand, producer=completed(operand.producer, depth=depth - 1))
    return replace(operation, args=tuple(args))


def _operands(operation: Operation, written: Written) -> tuple[ast.expr, ...]:
    """The expressions that stand for the operands, in their order."""
    if written.op == operation.op or operation.op in ("sqrt", "square"):
        if operation.op == "where" and written.form == "method":
            return (
                (written.arguments[1], written.arguments[0], *written.arguments[2:])
                if len(written.arguments) > 1
                else ()
            )
        return written.arguments
    if operation.op == "reciprocal" and written.op == "div":
        return written.arguments[1:2]
    return ()


def _told(operand: Operand, node: ast.expr, line: Line, user: Operation, depth: int) -> Operand:
    """An operand with what its expression reveals."""
    number = number_written(node)
    if number is not None:
        if not math.isfinite(number):  # written by one of its names, which a remedy repeats
            operand = replace(operand, text=operand.text or line.text(node))
        known = operand.value is not None or operand.producer is not None
        return operand if known else replace(operand, value=number, constant=True)
    inner = line.operation_at(bare(node))
    if operand.producer is not None:
        if depth == 0:
            return operand
        same_line = inner if inner.op == operand.producer.op else NOTHING
        operand = replace(operand, producer=completed(operand.producer, same_line, depth - 1))
    elif inner.op in KNOWN and depth and operand.leaf_name is None and _unmade(operand):
        made = replace(user, op=inner.op, args=(), col=None)
        operand = replace(operand, producer=completed(made, inner, depth - 1), constant=False)
    return replace(operand, text=operand.text or line.text(node))


def reunited(operation: Operation, known: Mapping[int | str, Operation], depth: int = _DEPTH) -> Operation:
    """The operation with missing producers of operands filled in, if the same tensor occurs elsewhere."""
    args = []
    for operand in operation.args:
        made = operand.producer
        if made is None and operand.key is not None:
            made = known.get(operand.key)
        if made is None and operand.text is not None and operand.leaf_name in (None, operand.text):
            made = _before(known.get(operand.text), operation)
        if made is not None and made != operation and depth:
            operand = replace(operand, producer=reunited(made, known, depth - 1), constant=False)
        args.append(operand)
    return replace(operation, args=tuple(args))


def _before(made: Operation | None, user: Operation) -> Operation | None:
    """The operation, unless it stands below its user or in another function: the name means another tensor there."""
    if made is None or made.place is None or user.place is None:
        return made
    return made if user.place.sees(made.place) and user.place.follows(made.place) else None


def producers(operations: Iterable[Operation], depth: int = _DEPTH) -> dict[int | str, Operation]:
    """The operations by the tensors that they made: by key, and by the name that a line gave to the result."""
    known: dict[int | str, Operation] = {}
    for operation in operations:
        for operand in operation.args:
            made = operand.producer
            if made is not None and depth:
                known |= producers([made], depth - 1)
                if operand.key is not None:
                    known[operand.key] = made
                if (name := _assigned(made)) is not None:
                    known[name] = made
    return known


def _assigned(operation: Operation) -> str | None:
    """The name that the operation's line gives to its result."""
    site = find(operation)
    return next((name for name, value in site.line.assigned() if bare(value) is site.node), None)


def enclosing(site: Site, user: Operation) -> tuple[Operation, ...]:
    """The operations in whose arguments a site stands in its line, innermost first; none that it is a condition of."""
    found = []
    for written in reversed(site.line.operations):
        if written.node is site.node or not site.line.inside(site.node, written.node):
            continue
        position = 1 if written.op == "masked_fill" or (written.op == "where" and written.form == "method") else 0
        condition = written.argument(position, "condition", "mask") if written.op in _CHOOSING else None
        if condition is not None and site.line.inside(site.node, condition):
            break  # no value goes further
        text = user.code_line or ""
        col = site.line.column(written.node) + indentation_of(text)
        found.append(replace(user, op=written.op, args=(), col=col))
    return tuple(found)


def logarithm_written(text: str | None, user: Operation) -> Operation | None:
    """The only logarithm in an operand of an operation, as its line has it: NumPy's, or torch's of data; taken of 0."""
    line = Line.parse(user.code_line)
    whole = next((w.node for w in line.operations if line.text(w.node) == text), None)
    written = [w for w in line.operations if w.op in LOGS and whole is not None and line.inside(w.node, whole)]
    if len(written) != 1:
        return None
    col = line.column(written[0].node) + indentation_of(user.code_line or "")
    argument = Operand(name="input", value=0.0, text=written[0].text(0))
    return replace(user, op=written[0].op, args=(argument,), col=col)


def logarithm_behind(operand: Operand, depth: int = _DEPTH) -> Operation | None:
    """The logarithm because of which an operand is infinite, if only its line shows it."""
    made = operand.producer
    for each in () if made is None or not depth else made.args:
        known = each.value if isinstance(each.value, float) else 0.0
        log = logarithm_written(each.text, made) if made is not None and math.isinf(known) else None
        if log is not None or (log := logarithm_behind(each, depth - 1)) is not None:
            return log
    return None


def _unmade(operand: Operand) -> bool:
    """Whether an operand may be the result of an operation that the adapter does not report."""
    return operand.value is None or not operand.constant
