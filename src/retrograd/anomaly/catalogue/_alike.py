"""Where a line meets the same fault again: a remedy for one place only would leave the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from retrograd.anomaly.catalogue._code import Line, Written, number_written
from retrograd.anomaly.catalogue._expression import DIVISIONS, EXPONENTIALS, LOGS

_POLES = (*LOGS, "sqrt", "rsqrt", "reciprocal")


def decisive(written: Written) -> ast.expr | None:
    """The argument at whose zero, or large value, an operation has its fault; None if it has none."""
    if written.op in _POLES or written.op in EXPONENTIALS:
        return written.argument(0, "input")
    if written.op in DIVISIONS:
        return written.argument(1, "other", "divisor", "x2")
    exponent = number_written(written.argument(1, "exponent")) if written.op == "pow" else None
    return written.argument(0, "input") if exponent is not None and not exponent >= 1 else None


def alike(line: Line, written: Written, *, complements: bool = False) -> Iterator[ast.expr]:
    """The deciding arguments of other operations in a line that have their fault where one of it has its own.

    For a pole those that are 0 together with its argument; with ``complements`` in logarithms ``1 - p`` besides ``p``,
    too. For an exponential those of all exponentials that are made of the same variables.
    """
    node = decisive(written)
    if node is None:
        return
    for other in line.operations:
        argument = decisive(other)
        if argument is None or other.node is written.node or line.inside(node, argument) or line.inside(argument, node):
            continue
        if (written.op in EXPONENTIALS) != (other.op in EXPONENTIALS):
            continue
        if written.op in EXPONENTIALS:
            belongs = bool(_names(node) & _names(argument))
        else:
            belongs = ast.dump(_base(node)) == ast.dump(_base(argument))
            both = complements and written.op in LOGS and other.op in LOGS
            belongs |= both and (_is_complement(node, argument) or _is_complement(argument, node))
        if belongs:
            yield argument


def _base(node: ast.expr) -> ast.expr:
    """What an expression is 0 with: ``x`` of ``x ** 2`` and of ``x * x``."""
    while True:
        if not isinstance(node, ast.BinOp):
            return node
        is_power = isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant)
        if not is_power and not (isinstance(node.op, ast.Mult) and _same(node.left, node.right)):
            return node
        node = node.left


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


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
