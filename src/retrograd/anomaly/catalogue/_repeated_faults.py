"""Where a line meets the same fault again: a remedy for one place only would leave the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from retrograd.anomaly.catalogue._expression import DIVISIONS, EXPONENTIALS, LOGS
from retrograd.anomaly.catalogue._source_line import Line, Written, number_written
from retrograd.anomaly.parsing import names_in

_POLES = (*LOGS, "sqrt", "rsqrt", "reciprocal")
_EDGES = ("acos", "acosh", "asin", "atanh", "digamma", "erfinv", "lgamma", "logit", "ndtri")
_ZERO_WITH = ("abs", "asin", "asinh", "atan", "expm1", "log1p", "neg", "sin", "sinh", "sqrt", "square", "tan", "tanh")


def decisive(written: Written) -> ast.expr | None:
    """The argument at whose zero, or large value, an operation has its fault; None if it has none."""
    if written.op in (*_POLES, *_EDGES, *EXPONENTIALS):
        return written.argument(0, "input")
    if written.op in DIVISIONS:
        return written.argument(1, "other", "divisor", "x2")
    exponent = number_written(written.argument(1, "exponent")) if written.op == "pow" else None
    return written.argument(0, "input") if written.op == "pow" and not (exponent or 0.0) >= 1 else None


def alike(line: Line, written: Written, *, complements: bool = False) -> Iterator[ast.expr]:
    """The decisive arguments of other operations in a line that fail together with a given one.

    For a pole, those that are 0 together with its argument; with ``complements``, in logarithms also ``1 - p`` besides
    ``p``. For an exponential, those of all exponentials of the same variables.
    """
    node = decisive(written)
    if node is None:
        return
    for other in line.operations:
        argument = decisive(other)
        if argument is None or other.node is written.node or line.inside(node, argument) or line.inside(argument, node):
            continue
        if any((written.op in kind) != (other.op in kind) for kind in (EXPONENTIALS, _EDGES)):
            continue
        if written.op in EXPONENTIALS:
            belongs = bool(names_in(node) & names_in(argument))
        elif written.op in _EDGES:
            belongs = written.op == other.op and _same(node, argument)
        elif "pow" in (written.op, other.op) and not _have_fault(written, other):
            continue
        else:
            belongs = _same(_base(line, node), _base(line, argument))
            both = complements and written.op in LOGS and other.op in LOGS
            belongs |= both and (_is_complement(node, argument) or _is_complement(argument, node))
        if belongs:
            yield argument


def complements(line: Line, log: Written) -> Iterator[tuple[Written, ast.expr]]:
    """The logarithms of ``1 - p`` in the line of one of ``p``, and of ``p`` in that of one of ``1 - p``."""
    node = log.argument(0, "input")
    for other in line.operations if node is not None else ():
        argument = other.argument(0, "input") if other.op == "log" and other.node is not log.node else None
        if (
            node is not None
            and argument is not None
            and (_is_complement(node, argument) or _is_complement(argument, node))
        ):
            yield other, argument


def _have_fault(one: Written, other: Written) -> bool:
    """Whether two operations fail together as far as powers go: exponents are numbers, or both are the same."""
    powers = [each.argument(1, "exponent") for each in (one, other) if each.op == "pow"]
    unknown = [each for each in powers if each is not None and number_written(each) is None]
    return not unknown or (len(powers) == 2 and len(unknown) == 2 and _same(*unknown))


def _base(line: Line, node: ast.expr) -> ast.expr:
    """The expression together with which this one is 0: ``x`` for ``x ** 2``, ``x * x``, ``2 * x`` and ``tanh(x)``."""
    while True:
        written = line.operation_at(node)
        if not written.arguments:
            return node
        sides = written.arguments
        numbers = [number_written(each) for each in sides]
        is_power = written.op == "pow" and (number_written(written.argument(1, "exponent")) or 0.0) > 0
        is_square = written.op == "mul" and len(sides) == 2 and _same(*sides)
        is_multiple = written.op in ("mul", "div") and len(sides) == 2 and bool(numbers[1])
        if written.op in _ZERO_WITH or is_power or is_square or is_multiple:
            node = sides[0]
        elif written.op == "mul" and len(sides) == 2 and numbers[0]:
            node = sides[1]
        else:
            return node


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


def _is_complement(node: ast.expr, of: ast.expr) -> bool:
    """Whether an expression is one minus another."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Constant)
        and node.left.value == 1
        and _same(node.right, of)
    )
