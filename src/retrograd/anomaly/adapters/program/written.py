"""Numbers that nothing has kept, read from the user's line: ``float("nan")`` there, or a variable that is a number."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from functools import lru_cache
from numbers import Real
from types import CodeType, FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.adapters.program.place import assignment_of, place_fields, written_at
from retrograd.anomaly.adapters.program.variables import named_variables, value_of
from retrograd.anomaly.catalogue._code import Line, number_written
from retrograd.anomaly.libraries import outwards


class Written(NamedTuple):
    """An argument as it is written, the number if it is one, and whether it is that of the operation itself."""

    text: str
    number: float | None
    is_own: bool


@lru_cache(maxsize=4096)
def argument_written(code: CodeType | None, at: int, op: str, params: Sequence[str], param: str) -> Written | None:
    """What an instruction gives an operation, or a function that calls it, as one of its parameters.

    Parameters
    ----------
    code, at
        The instruction.
    op, params
        The canonical name of the operation, and the names of its parameters in the order of its operands.
    param
        One of these.
    """
    place = place_fields(code, at)
    line = Line.parse(place.get("code_line"))
    if line is None or "col" not in place:
        return None
    node, is_own = line.given_at((place["col"], place["end_col"]), op, params, param)
    if node is None:
        return None
    return Written(line.text(node), number_written(node), is_own)


def written_in_place(code: CodeType | None, at: int) -> tuple[str, ast.expr] | None:
    """The operation in place that an instruction is, by its method's name, and what it changes."""
    place = place_fields(code, at)
    line = Line.parse(place.get("code_line"))
    return None if line is None or "col" not in place else line.written_in_place((place["col"], place["end_col"]))


def assigned_to(code: CodeType | None, at: int, op: str, params: Sequence[str], odd: Sequence[str]) -> dict[str, Any]:
    """The line that gave a variable its value of which the line of an operation takes a number, as a context."""
    for param in odd:
        written = argument_written(code, at, op, tuple(params), param)
        assigned = None if written is None or written.number is not None else assignment_of(code, at, written.text)
        if assigned is not None:
            return {"assigned": assigned}
    return {}


def odd_number(
    code: CodeType | None, at: int, op: str, params: Sequence[str], param: str, frame: FrameType | None
) -> float | None:
    """The number that is not finite and that the line gives as an argument; None if it gives something else.

    ``frame`` is where to begin to look for variables.
    """
    written = argument_written(code, at, op, tuple(params), param)
    if written is None or code is None:
        return None
    found = _number_in(code, written.text, frame) if written.number is None else written.number
    return float(found) if isinstance(found, Real) and not math.isfinite(found) else None


def plain_number(code: CodeType | None, at: int, op: str, params: Sequence[str], param: str) -> float | None:
    """The number that is written as an argument of the operation itself; None if it is something else.

    Python's own ``sum`` begins with 0.
    """
    written = argument_written(code, at, op, tuple(params), param)
    if op == "add" and (written is None or written.number is None) and _begins_a_sum(written_at(code, at)):
        return 0.0
    return float(written.number) if written is not None and written.number is not None and written.is_own else None


def _begins_a_sum(written: ast.AST | None) -> bool:
    called = isinstance(written, ast.Call) and isinstance(written.func, ast.Name) and written.func.id == "sum"
    return called and len(written.args) == 1 and not written.keywords  # type: ignore[union-attr]


def odd_number_put(code: CodeType | None, at: int, frame: FrameType | None) -> float | None:
    """The same where the line puts it into a part of a tensor: ``x[0] = number``, ``x[0].fill_(number)``."""
    numbers = (odd_number(code, at, op, params, "value", frame) for op, params in _WRITES.items())
    return next((number for number in numbers if number is not None), None)


_WRITES = {"fill": ("input", "value"), "masked_fill": ("input", "mask", "value")}


def _number_in(code: CodeType, text: str, frame: FrameType | None) -> Any:
    """What a variable holds in a function: in the call of it that is under way, or else among those of its module."""
    is_local = text.split(".")[0] in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    for each in outwards(frame):
        if each.f_code is code:
            return next((value for name, value in named_variables(each) if name == text), None)
        if not is_local and each.f_globals.get("__file__") == code.co_filename:
            return value_of(each.f_globals, text)
    return None
