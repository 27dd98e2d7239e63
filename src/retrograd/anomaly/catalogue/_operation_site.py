"""Where in the user's line an operation is written, by its name and by how the arguments there fit its operands."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from retrograd.anomaly.catalogue._source_line import (
    NOTHING,
    NOWHERE,
    Line,
    Site,
    Written,
    bare,
    dotted,
    number_written,
)
from retrograd.anomaly.operation_names import KNOWN, TRANSPARENT
from retrograd.anomaly.parsing import indentation_of
from retrograd.anomaly.surroundings import Operand, Operation

# Other ways to write an operation: torch runs `1 / x` as a reciprocal times 1, `cross_entropy` as `nll_loss`.
WRITTEN_AS: dict[str, tuple[str, ...]] = {
    "reciprocal": ("div",),
    "mul": ("div",),
    "square": ("pow", "mul"),
    "pow": ("square",),
    "sqrt": ("pow",),
    "nll_loss": ("cross_entropy",),
    "log_softmax": ("cross_entropy",),
    "linear": ("matmul", "addmm"),
    "dot": ("matmul",),
    "matmul": ("linear", "einsum", "dot"),
    "einsum": ("dot",),
    "norm": ("normalize",),
    "slogdet": ("logdet",),
}


def find(operation: Operation, inside: Site | None = None, consumer: str | None = None) -> Site:
    """Where an operation is written; ``NOWHERE`` if that is not known.

    Parameters
    ----------
    operation
        With its ``code_line``, and the column or what is known of its operands, which tells several of one kind in a
        line apart.
    inside
        The site of an operation that uses this one: look among its arguments.
    consumer
        The operation that takes the result, to prefer one that stands in its arguments.
    """
    own = Line.parse(operation.code_line)
    if inside is None:
        written = _best(operation, own.operations, consumer)
        return Site(own, written.node, written, operation.place) if written else NOWHERE
    outer = inside.written
    candidates = [w for w in outer.line.operations if any(outer.line.inside(w.node, part) for part in outer.parts())]
    if written := _best(operation, candidates, None):
        return Site(outer.line, written.node, written, inside.place, inside.made)
    written = _best(operation, own.operations, None)
    if not (inside and written):
        return NOWHERE
    if inside.place is not None and operation.place is not None and not inside.place.sees(operation.place):
        return NOWHERE  # the name means another tensor there
    if own is outer.line and not own.comes_before(written.node, outer.node):
        return NOWHERE
    called = {name for name, value in own.assigned() if bare(value) is written.node} - outer.line.parameters()
    for name in outer.line.names():
        if name.id in called and any(outer.line.inside(name, part) for part in outer.parts()):
            return Site(outer.line, name, written, inside.place, operation.place)
    return NOWHERE


def _best(operation: Operation, candidates: list[Written], consumer: str | None) -> Written:
    col = None if operation.col is None else operation.col - indentation_of(operation.code_line or "")
    own = Line.parse(operation.code_line)
    ops = (operation.op, *WRITTEN_AS.get(operation.op, ()))
    best, best_score = NOTHING, -1.5  # below, it is another operation of the same name
    for written in candidates:
        if written.op not in ops:
            continue
        score = _likeness(written, operation) - ops.index(written.op) / 2
        if col is not None and written.line is own and written.line.column(written.node) == col:
            score += 100.0
        if consumer is not None and written.line.used_by(written.node, consumer):
            score += 1
        if score > best_score:
            best, best_score = written, score
    return best


def _likeness(written: Written, operation: Operation, depth: int = 0) -> float:
    """How well the arguments as written fit the operands as they were."""
    if depth > 3:
        return 0.0
    return _fit_all(written.line, written.arguments, operation.args, depth)


def _fit_all(line: Line, nodes: Sequence[ast.expr], operands: Sequence[Operand], depth: int) -> float:
    return sum(_fits(line, node, operand, depth) for node, operand in zip(nodes, operands, strict=False))


def in_order(line: Line, nodes: Sequence[ast.expr], operands: Sequence[Operand]) -> tuple[ast.expr, ...]:
    """The two expressions of a sum or product in the order of the operands; engines may swap them."""
    swapped = (nodes[1], nodes[0])
    return swapped if _fit_all(line, swapped, operands, 0) > _fit_all(line, nodes, operands, 0) else tuple(nodes)


def _fits(line: Line, node: ast.expr, operand: Operand, depth: int) -> float:
    """How well an expression may be an operand: 2 if it says so, less than 0 if it says otherwise, else 0."""
    if operand.text is not None and operand.text == line.text(node):
        return 2.0
    if operand.constant:
        return _fits_number(node, operand.value)
    producer = operand.producer
    while producer is not None and producer.op in TRANSPARENT and producer.args:
        producer = producer.args[0].producer
    return _fits_leaf(line, node, operand) if producer is None else _fits_result(line, node, producer, depth)


def _fits_number(node: ast.expr, value: Any) -> float:
    known = number_written(node)
    if value is None or known is None:
        return 0.0 if known is None else 1.0
    return 2.0 if known == value or (known != known and value != value) else -2.0


def _fits_leaf(line: Line, node: ast.expr, operand: Operand) -> float:
    if operand.leaf_name is None:
        return 0.0
    name = dotted(node)
    if name is None:
        return -2.0 if line.operation_at(bare(node)).op in KNOWN else 0.0
    return 2.0 if name == operand.leaf_name else -0.25


def _fits_result(line: Line, node: ast.expr, producer: Operation, depth: int) -> float:
    core = bare(node)
    if isinstance(core, ast.Name):
        assigned, _ = Line.parse(producer.code_line).assignment or (None, None)
        return 2.0 if assigned == core.id else 0.0
    inner = line.operation_at(core)
    if inner.op not in KNOWN:
        return 0.0  # a call of the user's own, which may have done anything
    if inner.op in (producer.op, *WRITTEN_AS.get(producer.op, ())):
        return 2.0 + _likeness(inner, producer, depth + 1)
    return -2.0
