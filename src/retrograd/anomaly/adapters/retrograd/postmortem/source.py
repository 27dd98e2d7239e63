"""What the user's source tells about a call that the graph has not kept."""

from __future__ import annotations

import ast
import linecache
import math
import re
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any

from retrograd.anomaly.adapters.program.literals import argument_written, assigned_to, odd_number
from retrograd.anomaly.adapters.program.source_location import written_at, written_where
from retrograd.anomaly.adapters.retrograd.elements import value_at
from retrograd.anomaly.catalogue._source_line import NOTHING, Line
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.surroundings import Operand, Operation
from retrograd.core import sites
from retrograd.core.node import Node, OpNode
from retrograd.core.op import Op

REVERSED = {"_rdiv": "div", "rsub": "sub", "_rpow": "pow"}  # operators with reversed operands
CONDITIONS = ("condition", "mask")  # the parameters that take a condition


def _operands(node: Node) -> list[ast.expr]:
    """The operands of a recorded call, as they are written."""
    written = written_at(*sites.position_of(node))
    if isinstance(written, ast.BinOp):
        return [written.left, written.right]
    return written.args if isinstance(written, ast.Call) else []


def literal_operand(node: Node) -> float | None:
    """The literal number among the operands of a recorded call, if there is one: 1 in ``1 - p``."""
    numbers = [number for operand in _operands(node) if (number := _number(operand)) is not None]
    return numbers[0] if len(numbers) == 1 else None


def _number(written: ast.expr) -> float | None:
    sign = 1
    if isinstance(written, ast.UnaryOp) and isinstance(written.op, ast.USub):
        written, sign = written.operand, -1
    value = written.value if isinstance(written, ast.Constant) else None
    return sign * value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def number_given(node: OpNode, param: str, frame: FrameType | None) -> float | None:
    """The non-finite number that the line of a recorded call passes as an argument, if any."""
    return odd_number(*sites.position_of(node), *_as_written(node.op), param, frame)


def text_given(node: Node, param: str) -> str | None:
    """An argument of a recorded call as written on its line."""
    if not isinstance(node, OpNode) or param not in node.op.params:
        return None
    written = argument_written(*sites.position_of(node), *_as_written(node.op), param)
    return None if written is None else written.text


def is_number_given(node: OpNode, param: str) -> bool:
    """Whether an argument of a recorded call is written as a number on its line."""
    written = argument_written(*sites.position_of(node), *_as_written(node.op), param)
    return written is not None and written.number is not None


def assignment_of_number(op: Op, code: CodeType | None, at: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The line that assigned a non-finite number, which an operation was passed, to a variable, as a context."""
    odd = [name for name, value in arguments.items() if isinstance(value, float) and not math.isfinite(value)]
    return assigned_to(code, at, *_as_written(op), odd) if odd else {}


def _as_written(op: Op) -> tuple[str, tuple[str, ...]]:
    """The canonical name of an operation, and its parameters in the order in which an operator has its operands."""
    if op.label in REVERSED:
        first, second, *rest = op.params
        return REVERSED[op.label], (second, first, *rest)
    return canonical(op.label), tuple(op.params)


def condition_of(node: Node) -> Operation | None:
    """The operation that made the condition of a recorded call on a separate line: ``mask = x > 0``."""
    code, at = sites.position_of(node)
    names = [operand.id for operand in _operands(node) if isinstance(operand, ast.Name)]
    if code is None or not names:
        return None
    assignment = re.compile(rf"({'|'.join(names)})\s*=\s*.*([<>]|[!=]=|is(nan|inf|finite)|logical_)")
    for lineno in range(sites.line_of(code, at) - 1, code.co_firstlineno - 1, -1):
        line = linecache.getline(code.co_filename, lineno).strip()
        if assignment.match(line):
            place: dict[str, Any] = {"filename": code.co_filename, "function": code.co_qualname}
            return Operation(op="condition", code_line=line, lineno=lineno, **place)
    return None


def operation_written_at(
    code: CodeType | None, at: int, variables: Mapping[str, Any], index: Any, shape: tuple[int, ...]
) -> Operation:
    """The operation that an instruction belongs to, as written: NumPy's own, on the user's variables."""
    where = written_where(code, at)
    line = Line.parse(where["code_line"])
    written = next((each for each in line.operations if line.column(each.node) == where["col"]), NOTHING)
    args = []
    for name, node in zip(("input", "other"), written.arguments, strict=False):
        text = line.text(node)
        value = _number(node) if text not in variables else value_at(variables[text], index, shape)
        args.append(Operand(name=name, value=value, text=text, constant=text not in variables))
    return Operation(op=written.op, args=tuple(args), **where)
