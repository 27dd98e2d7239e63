"""Recomputing lines that made a variable without a gradient, from the variables that they read.

Nothing records how data was made. But what a line reads is often still available: then the birth is found by
computing the line once more. The result counts only if it equals, bit for bit, what the variable holds.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import linecache
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.program.assignments import (
    conditions_around,
    exclude_each_other,
    is_given_between,
    is_sure_before,
)
from retrograd.anomaly.adapters.program.attribute_writes import Write, writes_to
from retrograd.anomaly.adapters.program.source_location import assignment_above, place_fields, written_at
from retrograd.anomaly.adapters.program.straight_functions import item_of
from retrograd.anomaly.adapters.program.syntax import body, variables_in
from retrograd.anomaly.adapters.program.variables import local_variables, under_way
from retrograd.anomaly.adapters.torch.postmortem.recomputation import (
    DEPTH,
    LARGEST,
    UNKNOWN,
    Made,
    Recomputation,
    UnknownError,
)
from retrograd.anomaly.adapters.torch.records.calls import Call, has_nan, is_bad
from retrograd.anomaly.adapters.torch.records.dispatcher_entries import arguments_for
from retrograd.anomaly.parsing import module_of, names_in
from retrograd.core.sites import line_of

_CONDITIONS = 3  # per line, for which both outcomes are tried


def variables_of(frame: FrameType | None, code: CodeType | None) -> Mapping[str, Any]:
    """The variables of a function and its module, if the function is running in a frame or in one of its callers."""
    frame = under_way(frame, code)
    return {} if frame is None else _variables(frame)


def _variables(frame: FrameType) -> ChainMap[str, Any]:
    return ChainMap(local_variables(frame), frame.f_globals)


def worth(expression: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The value of an expression, detached from autograd; None if it is of a kind that cannot be computed again."""
    try:
        return Recomputation(variables).value(expression)
    except Exception:
        return None


def made_again(
    frame: FrameType | None, name: str, value: Tensor | list[Tensor], lineno: int, depth: int = DEPTH
) -> Made | None:
    """The operation that made a variable of a function non-finite; None if that cannot be known for certain.

    Parameters
    ----------
    frame
        The function's.
    name, value
        The variable's; of a list, the last part counts.
    lineno
        The line that read it.
    """
    if frame is None:
        return None
    if isinstance(value, list):
        return _made_of_part(frame, name, value[-1], lineno, depth)
    if value.numel() > LARGEST:
        return None
    found: list[Made | None] = []
    could_be_any = not value.isfinite().any()
    for assigned in _assignments(frame, lineno, name):
        for chosen in _outcomes(assigned[0]):
            try:
                result, made = _given_by(frame, assigned, name, lineno, depth, chosen)
            except Exception:  # a part of a statement, another operation, or variables that have changed since
                found += [None] if could_be_any else []
                continue
            if same(result, value):
                found.append(made)
    if could_be_any and (made := _made_of_part(frame, name, value, lineno, depth)) is not None:
        return made
    return found[0] if len(found) == 1 else None  # either of two branches may have been taken


def _made_of_part(frame: FrameType, name: str, total: Tensor, lineno: int, depth: int) -> Made | None:
    """The birth in what a line adds to a sum, or appends to a list, if the last that it has added was bad."""
    found = []
    for statement in _statements_above(frame, lineno) if depth else ():
        if _part_added(statement, name) is None or _was_left_out(frame, statement.lineno, lineno):
            continue
        text = linecache.getline(frame.f_code.co_filename, statement.lineno).strip()
        with contextlib.suppress(Exception):
            part = _part_added(module_of(text).body[0], name)  # placed as in the line alone
            result, made = _computed(frame, part, (text, statement.lineno), lineno, depth) if part else (None, None)
            if isinstance(result, Tensor) and is_bad(result) and has_nan(result) == has_nan(total):
                found.append(made)
    return found[0] if len(found) == 1 else None


def _statements_above(frame: FrameType, lineno: int) -> list[ast.stmt]:
    """The statements of one line above another one in a function."""
    found = [each for each in body(frame.f_code) if isinstance(each, ast.stmt)]
    return [each for each in found if each.lineno == each.end_lineno and each.lineno < lineno]


def _part_added(statement: ast.stmt, name: str) -> ast.expr | None:
    """What a statement adds to a sum or a list of that name."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=part) if target == name:
            return part
        case ast.Assign(
            targets=[ast.Name(id=target)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add(), right=part)
        ) if target == left == name:
            return part
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[part], keywords=[])
        ) if owner == name:
            return part
    return None


def _outcomes(text: str) -> Iterator[Mapping[int, bool]]:
    """The possible outcomes of the conditions in a line's conditional expressions, keyed by column."""
    try:
        nodes = list(ast.walk(module_of(text)))
    except SyntaxError:  # a part of a statement
        return
    places = [each.col_offset for each in nodes if isinstance(each, ast.IfExp)]
    for outcome in itertools.product((True, False), repeat=len(places)) if len(places) <= _CONDITIONS else ():
        yield dict(zip(places, outcome, strict=True))


def _assignments(frame: FrameType, lineno: int, name: str) -> Iterator[tuple[str, int]]:
    """The lines above a given one that may have assigned a variable last, in branches that may have been taken."""
    code, above, last = frame.f_code, lineno, None
    while (assigned := assignment_above(code, above, name)) is not None:
        above = assigned[1]
        if _was_left_out(frame, above, lineno):
            continue
        if last is None or exclude_each_other(code, above, last):
            yield assigned
        last = last or above


def _was_left_out(frame: FrameType, lineno: int, last: int) -> bool:
    """Whether a line is in a branch that was not taken: its condition can be computed still, and says so."""
    line = Recomputation(_variables(frame))
    for number, test, holds in conditions_around(frame.f_code, lineno):
        if any(is_given_between(frame.f_code, each, number, last) for each in variables_in(test)):
            continue
        with contextlib.suppress(Exception):
            if line.holds(test) is not holds:
                return True
    return False


def _given_by(
    frame: FrameType,
    assigned: tuple[str, int],
    name: str,
    lineno: int,
    depth: int,
    outcomes: Mapping[int, bool] | None = None,
) -> tuple[Any, Made | None]:
    """The value a line assigns to a variable, and the operation that made it non-finite, if found.

    The earlier value of a variable that has been reassigned since is recomputed from the line that assigned it.
    ``outcomes`` fixes the results of conditions in the line, which are then not evaluated.
    """
    statement = module_of(assigned[0]).body[0]
    if not isinstance(statement, ast.Assign) or depth == 0:
        raise UnknownError
    return _computed(frame, _given_to(statement, name), assigned, lineno, depth, outcomes)


def _computed(
    frame: FrameType,
    expression: ast.expr,
    written: tuple[str, int],
    lineno: int,
    depth: int,
    outcomes: Mapping[int, bool] | None = None,
) -> tuple[Any, Made | None]:
    """The same for an expression in a line, which is given with its number."""
    text, number = written
    before: dict[str, tuple[Any, Made | None]] = {}
    for each in names_in(expression):
        latest = assignment_above(frame.f_code, lineno, each)
        if latest is not None and latest[1] >= number:
            before[each] = UNKNOWN, None  # an error only if it is read; in a branch that was not taken it is not
            with contextlib.suppress(UnknownError, TypeError):
                earlier = _assignment_before(frame.f_code, number, each)
                before[each] = _given_by(frame, earlier, each, lineno, depth - 1)
    earlier_values = {each: value for each, (value, _) in before.items()}
    line = Recomputation(_variables(frame).new_child(earlier_values), outcomes or {})
    result = line.value(expression)
    if line.birth is not None:
        return result, line.made(text, number)
    for each in line.came_in:
        value = line.variables[each]
        found = before[each][1] if each in before else made_again(frame, each, value, number, depth - 1)
        if found is not None:
            return result, found
    return result, line.made(text, number)


def _assignment_before(code: CodeType, lineno: int, name: str) -> tuple[str, int]:
    """The line that assigned the value a variable had when another line began to run."""
    above = lineno
    while (assigned := assignment_above(code, above, name)) is not None:
        above = assigned[1]
        if is_sure_before(code, above, lineno):
            return assigned
        if not exclude_each_other(code, above, lineno):
            break
    raise UnknownError


def made_in_line(frame: FrameType, code: CodeType, at: int, value: Tensor) -> tuple[Made | None, Tensor | None]:
    """How a line made unnamed data that it passed to an operation, as in ``-advantages * ratio``.

    Either the birth, in this line or an earlier one, or the variable that already held such numbers.

    Parameters
    ----------
    frame
        The function's, which is still running.
    code, at
        The instruction of the operation.
    value
        The data.
    """
    written, place = written_at(code, at), place_fields(code, at)
    if written is None or value.numel() > LARGEST:
        return None, None
    variables = _variables(frame)
    for part in ast.walk(written):
        line = Recomputation(variables)
        if part is written or not isinstance(part, (ast.UnaryOp, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute)):
            continue
        try:
            result = line.value(part)
        except Exception:
            continue
        if not same(result, value):
            continue
        if line.birth is not None:
            before = len(place["code_line"][: place["col"]].encode()) - written.col_offset
            return line.made(place["code_line"], place["lineno"], before), None
        for each in line.came_in:
            held = variables[each]
            return made_again(frame, each, held, place["lineno"]), held if isinstance(held, Tensor) else None
    return None, None


def made_of_operand(frame: FrameType | None, call: Call) -> tuple[Made | None, Tensor | None]:
    """How a line made the only argument of an operation in it that nothing has kept.

    Either the birth, in this line or an earlier one, or the variable that already held such numbers; neither unless
    the operation, computed once more with that argument, gives the result that is known, or, if nothing has kept
    that either, the statement gives what the variable that it assigned holds.
    """
    output = call.outputs[0]
    if output is None:
        return _made_in_operand(frame, call), None
    written, place = written_at(call.code, call.at), place_fields(call.code, call.at)
    lacking = [number for number, each in enumerate(call.args) if each.missing]
    if frame is None or written is None or call.entry is None or len(lacking) != 1:
        return None, None
    parts = _operands(written)
    line = Recomputation(_variables(frame))
    try:
        value = line.value(parts[lacking[0]])
        args = [replace(each, value=value) if each.missing else each for each in call.args]
        with torch.no_grad():
            result = call.entry(**arguments_for(call.entry, args))
    except Exception:
        return None, None
    if not is_bad(value) or not same(result, output) or output.isnan().any() > value.isnan().any():
        return None, None
    if line.birth is not None:
        before = len(place["code_line"][: place["col"]].encode()) - written.col_offset
        return line.made(place["code_line"], place["lineno"], before), None
    for each in line.came_in:
        held = line.variables[each]
        return made_again(frame, each, held, place["lineno"]), held if isinstance(held, Tensor) else None
    return None, None


def _made_in_operand(frame: FrameType | None, call: Call) -> Made | None:
    """The birth in an operand of an operation, if neither that operand nor the result was kept.

    The statement is computed again as a whole, and must give what the variable that it assigned holds.
    """
    place = place_fields(call.code, call.at)
    present = None if frame is None else line_of(frame.f_code, frame.f_lasti)
    if frame is None or present is None or "col" not in place:
        return None
    line = place["code_line"]
    start, end = (len(line[: place[each]].encode()) for each in ("col", "end_col"))
    for name, value in local_variables(frame).items():
        if not isinstance(value, Tensor) or not is_bad(value):
            continue
        assigned = assignment_above(frame.f_code, present, name)
        if assigned is None or assigned[1] != place["lineno"]:
            continue
        made = made_again(frame, name, value, present)
        if made is not None and made.line == line and start <= made.start and made.end <= end:
            return made
    return None


def _operands(written: ast.expr) -> list[ast.expr]:
    """The operands of an operation as it is written: an operator's sides, or a call's arguments."""
    match written:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            return list(args) if isinstance(owner, ast.Name) and owner.id in ("torch", "F") else [owner, *args]
    return []


def _given_to(statement: ast.Assign, name: str) -> ast.expr:
    """The expression that an assignment gives to a name, alone or together with others."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            return value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
            names = [each.id if isinstance(each, ast.Name) else None for each in targets]
            if names.count(name) == 1 and isinstance(value, ast.Tuple) and len(value.elts) == len(names):
                return value.elts[names.index(name)]
            if names.count(name) == 1:
                return item_of(value, names.index(name))
    raise UnknownError


def made_by_write(
    holders: Iterable[tuple[torch.nn.Module, str]], is_parameter: bool
) -> tuple[Write | None, Made | None]:
    """The line that writes to a parameter or buffer, if there is just one, and the birth in it as it stands now.

    The buffers that the line reads may have changed since it wrote. But it would give the same numbers again.

    Parameters
    ----------
    holders
        The module that has it and those around that one, each with what it calls the parameter or buffer.
    is_parameter
        Whether it is a parameter: then only what replaces it counts, as optimizers write to it as well.
    """
    found = [(module, each) for module, attribute in holders for each in writes_to(type(module), attribute)]
    if is_parameter:
        found = [(module, each) for module, each in found if isinstance(each.statement, ast.Assign)]
    if len(found) != 1 or not isinstance(found[0][1].statement, (ast.Assign, ast.AugAssign, ast.Expr)):
        return None, None
    module, write = found[0]
    line = Recomputation({write.owner: module, "torch": torch})
    text = linecache.getline(write.code.co_filename, write.statement.lineno)
    if write.value is None or write.statement.lineno != write.statement.end_lineno:
        return write, None
    try:
        line.value(write.value)
    except Exception:
        return write, None
    before = len(text.encode()) - len(text.lstrip().encode())
    return write, None if line.came_in else line.made(text.strip(), write.statement.lineno, -before)


def same(one: Any, other: Tensor) -> bool:
    if not isinstance(one, Tensor) or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return bool(torch.eq(one, other.detach()).logical_or(one.isnan() & other.isnan()).all())
