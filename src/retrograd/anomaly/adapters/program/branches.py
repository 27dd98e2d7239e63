"""Whether a line is one of several branches that may have computed the same operation."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import CodeType

from retrograd.anomaly.adapters.program.syntax import file_of
from retrograd.anomaly.operation_names import canonical
from retrograd.core import sites

_OPERATORS = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "pow": ast.Pow, "matmul": ast.MatMult}


def same_in_other_branches(code: CodeType | None, at: int, op: str) -> list[int]:
    """The lines with an operation of the same name in other branches of the conditions around an instruction.

    Parameters
    ----------
    code, at
        The instruction.
    op
        The name of the operation that it called, in any spelling.
    """
    if code is None:
        return []
    lineno, found = sites.line_of(code, at), set()
    for node in ast.walk(file_of(code)):
        branches = list(_branches(node))
        if any(lineno in _lines(branch) for branch in branches):
            others = [branch for branch in branches if lineno not in _lines(branch)]
            found |= {line for branch in others for line in _lines_with(branch, canonical(op))}
    return sorted(found - {lineno})


def lines_with(code: CodeType, op: str) -> list[int]:
    """The lines with an operation of this name in the file of a function."""
    return sorted(set(_lines_with([file_of(code)], canonical(op))))


def _branches(node: ast.AST) -> Iterator[Sequence[ast.AST]]:
    match node:
        case ast.If(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Match(cases=cases):
            yield from (case.body for case in cases)


def _lines(branch: Sequence[ast.AST]) -> range:
    return range(branch[0].lineno, (branch[-1].end_lineno or 0) + 1) if branch else range(0)  # type: ignore[attr-defined]


def _lines_with(branch: Sequence[ast.AST], op: str) -> Iterator[int]:
    for node in (each for statement in branch for each in ast.walk(statement)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if canonical(name) == op:
                yield node.lineno
            case ast.BinOp(op=operator) if isinstance(operator, _OPERATORS.get(op, ())):
                yield node.lineno
