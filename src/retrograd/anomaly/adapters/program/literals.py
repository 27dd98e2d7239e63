"""Numbers that were not recorded, read from the user's line: a literal ``float("nan")``, or a variable's value."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from functools import lru_cache
from numbers import Real
from types import CodeType, FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.adapters.program.source_location import assignment_of, place_fields, written_at
from retrograd.anomaly.adapters.program.variables import named_variables, value_of
from retrograd.anomaly.catalogue._source_line import Line, number_written
from retrograd.anomaly.stack_frames import outwards


class Written(NamedTuple):
    """An argument's source, its value if it is a number, and whether it is passed to the operation itself."""

    text: str
    number: float | None
    is_own: bool


@lru_cache(maxsize=4096)
def argument_written(code: CodeType | None, at: int, op: str, params: Sequence[str], param: str) -> Written | None:
    """The argument that an instruction passes to an operation, or to a function that calls it, for a parameter.

    Parameters
    ----------
    code, at
        The instruction.
    op, params
        The operation's canonical name, and the names of its parameters in the order of its operands.
    param
        One of these.
    """
    place = place_fields(code, at)
    line = Line.parse(place.get("code_line"))
    if "col" not in place:
        return None
    node, is_own = line.given_at((place["col"], place["end_col"]), op, params, param)
    if node is None:
        return None
    return Written(line.text(node), number_written(node), is_own)


def written_in_place(code: CodeType | None, at: int) -> tuple[str, ast.expr] | None:
    """The in-place operation that an instruction performs, by its method's name, and its target."""
    place = place_fields(code, at)
    if "col" not in place:
        return None
    return Line.parse(place.get("code_line")).written_in_place((place["col"], place["end_col"]))


def assigned_to(code: CodeType | None, at: int, op: str, params: Sequence[str], odd: Sequence[str]) -> dict[str, Any]:
    """The line that assigned a variable which an operation takes as one of its ``odd`` arguments, as a context."""
    for param in odd:
        written = argument_written(code, at, op, tuple(params), param)
        assigned = None if written is None or written.number is not None else assignment_of(code, at, written.text)
        if assigned is not None:
            return {"assigned": assigned}
    return {}


def odd_number(
    code: CodeType | None, at: int, op: str, params: Sequence[str], param: str, frame: FrameType | None
) -> float | None:
    """The non-finite number that the line passes as an argument; None if it passes something else.

    ``frame`` is where the search for variables starts.
    """
    written = argument_written(code, at, op, tuple(params), param)
    if written is None or code is None:
        return None
    found = _number_in(code, written.text, frame) if written.number is None else written.number
    return float(found) if isinstance(found, Real) and not math.isfinite(found) else None


def plain_number(code: CodeType | None, at: int, op: str, params: Sequence[str], param: str) -> float | None:
    """The literal number passed to the operation itself as an argument; None if it is something else.

    Python's own ``sum`` starts with 0.
    """
    written = argument_written(code, at, op, tuple(params), param)
    if op == "add" and (written is None or written.number is None) and _begins_a_sum(written_at(code, at)):
        return 0.0
    return float(written.number) if written is not None and written.number is not None and written.is_own else None


def _begins_a_sum(written: ast.AST | None) -> bool:
    called = isinstance(written, ast.Call) and isinstance(written.func, ast.Name) and written.func.id == "sum"
    return called and len(written.args) == 1 and not written.keywords  # type: ignore[union-attr]


def odd_number_put(code: CodeType | None, at: int, frame: FrameType | None) -> float | None:
    """The non-finite number that a line writes to part of a tensor: ``x[0] = number``, ``x[0].fill_(number)``."""
    numbers = (odd_number(code, at, op, params, "value", frame) for op, params in _WRITES.items())
    return next((number for number in numbers if number is not None), None)


_WRITES = {"fill": ("input", "value"), "masked_fill": ("input", "mask", "value")}


def _number_in(code: CodeType, text: str, frame: FrameType | None) -> Any:
    """The value of a variable in the running call of a function, or else of a global of its module."""
    is_local = text.split(".")[0] in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    for each in outwards(frame):
        if each.f_code is code:
            return next((value for name, value in named_variables(each) if name == text), None)
        if not is_local and each.f_globals.get("__file__") == code.co_filename:
            return value_of(each.f_globals, text)
    return None
