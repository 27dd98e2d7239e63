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


def lines_with(code: CodeType, op: str, made_by: str | None = None) -> list[int]:
    """The lines with an operation of this name in the file of a function.

    Parameters
    ----------
    code
        The function.
    op
        The name of the operation.
    made_by
        The name of the operation that made its first operand, if known: lines that write another one there are left
        out.
    """
    found = list(_written([file_of(code)], canonical(op)))
    fitting = [line for line, operand in found if made_by is None or _may_be(operand, canonical(made_by))]
    return sorted(set(fitting or [line for line, _ in found]))


def _may_be(operand: ast.expr | None, op: str) -> bool:
    """Whether an operation may have made what is written as an operand; names and calls may stand for anything."""
    match operand:
        case ast.BinOp(op=operator):
            return any(isinstance(operator, _OPERATORS[each]) for each in _ALSO.get(op, (op,)) if each in _OPERATORS)
        case ast.Subscript():
            return op not in (*_OPERATORS, *_ALSO)
    return True


_ALSO = {"rsub": ("sub",), "reciprocal": ("div",), "mul": ("mul", "div")}  # what the operation may be written as


def _branches(node: ast.AST) -> Iterator[Sequence[ast.AST]]:
    match node:
        case ast.If(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Match(cases=cases):
            yield from (case.body for case in cases)


def _lines(branch: Sequence[ast.AST]) -> range:
    return range(branch[0].lineno, (branch[-1].end_lineno or 0) + 1) if branch else range(0)  # type: ignore[attr-defined]


def _lines_with(branch: Sequence[ast.AST], op: str) -> Iterator[int]:
    yield from (line for line, _ in _written(branch, op))


def _written(branch: Sequence[ast.AST], op: str) -> Iterator[tuple[int, ast.expr | None]]:
    """The lines with an operation of this name, and its first operand where it is an argument."""
    for node in (each for statement in branch for each in ast.walk(statement)):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if canonical(name) == op:
                yield node.lineno, args[0] if args else owner
            case ast.Call(func=ast.Name(id=name), args=args) if canonical(name) == op:
                yield node.lineno, args[0] if args else None
            case ast.BinOp(op=operator, left=left) if isinstance(operator, _OPERATORS.get(op, ())):
                yield node.lineno, left
