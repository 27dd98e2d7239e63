"""A place in the user's program, as the fields of an event."""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import sys
import tokenize
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise, takewhile
from types import CodeType, FrameType
from typing import Any

from retrograd.anomaly.adapters.program.assignments import is_given_between, is_given_later_in_loop, is_sure_before
from retrograd.anomaly.parsing import expression_of, indentation_of, module_of
from retrograd.anomaly.stack_frames import Position, is_own, outwards
from retrograd.core import sites


def place_fields(code: CodeType | None, at: int, callers: tuple[Position, ...] = ()) -> dict[str, Any]:
    """The file, the line with the instruction's columns in it, and the function.

    The lines of a longer statement are joined by spaces, without the comments and backslashes in between. The line is
    left out if the file seems to have been edited since it was compiled. ``callers`` are the program's own instructions
    that led there, the innermost first.
    """
    if code is None:
        return {}
    if callers:
        return {**place_fields(code, at), "callers": _lines_of(callers, code, at)}
    site = sites.site(code, at)
    last = site.end_lineno or site.lineno
    lines = [linecache.getline(site.filename, number) for number in range(site.lineno, last + 1)]
    fields: dict[str, Any] = {"filename": site.filename, "lineno": site.lineno, "function": site.function}
    has_columns = site.col is not None and site.end_col is not None
    extent = _extent(lines, site) if has_columns else None
    if not all(lines) or (has_columns and extent is None):
        return fields
    lines = _joinable(lines)
    fields["code_line"] = " ".join(filter(None, (line.strip() for line in lines)))
    if extent is not None:
        begin, end = extent
        fields["col"] = begin - indentation_of(lines[0])
        fields["end_col"] = len(fields["code_line"]) - len(lines[-1][end:].rstrip())
    return fields


def _extent(lines: list[str], site: sites.Site) -> tuple[int, int] | None:
    """The columns, in characters, at which an instruction begins in its first line and ends in its last.

    None if no code can begin and end there: then the lines are not those that were compiled.
    """
    first, last = lines[0].encode(), lines[-1].encode()
    try:
        before, since = first[: site.col].decode(), first[site.col :].decode()
        until, after = last[: site.end_col].decode(), last[site.end_col :].decode()
    except UnicodeDecodeError:  # within a character
        return None
    if not since[:1].strip() or not until[-1:].strip() or len(last) < (site.end_col or 0):
        return None
    if _WITHIN_WORD.match(before[-1:] + since[:1]) or _WITHIN_WORD.match(until[-1:] + after[:1]):
        return None
    begin, end = len(before), len(until)
    # several lines are not checked: a compound statement joined to one line is not valid code
    return (begin, end) if len(lines) > 1 or _is_code(until[begin:]) else None


_WITHIN_WORD = re.compile(r"\w\w")


@lru_cache(maxsize=256)
def _is_code(text: str) -> bool:
    """Whether a text is a statement, an expression or a replacement field of an f-string."""
    parts = [f"f'''{text}'''"] if text[0] + text[-1] == "{}" else []
    for each in (text, *parts):
        with contextlib.suppress(SyntaxError):
            module_of(each)
            return True
    return False


def place_of(frame: FrameType | None) -> dict[str, Any]:
    """The :func:`place_fields` of the instruction that a frame is at; empty without a frame."""
    return {} if frame is None else place_fields(frame.f_code, frame.f_lasti)


def _own_line(code: CodeType, at: int) -> dict[str, Any]:
    """A line of the program in the chain of callers, as an event stores it."""
    place = place_fields(code, at)
    return {
        key: place[key] for key in ("filename", "lineno", "function", "code_line", "col", "end_col") if key in place
    }


def _lines_of(callers: tuple[Position, ...], code: CodeType, at: int) -> tuple[dict[str, Any], ...]:
    """The lines of callers up to a function that is still running: its own callers are known anyway.

    Several on one line, as with a comprehension or a lambda, count once.
    """
    running = {frame.f_code for frame in outwards(sys._getframe(1))}
    if is_own(code) and code in running:
        return ()
    inside = len(list(takewhile(lambda each: each[0] not in running, callers)))
    lines = [_own_line(code, at), *(_own_line(*each) for each in callers[: inside + 1])]
    told = [line for before, line in pairwise(lines) if _number(before) != _number(line)]
    return tuple(told)


def _number(line: Mapping[str, Any]) -> tuple[Any, Any]:
    return line.get("filename"), line.get("lineno")


def written_where(code: CodeType | None, at: int) -> dict[str, Any]:
    """The place fields that an :class:`~retrograd.anomaly.surroundings.Operation` has."""
    place = place_fields(code, at)
    return {"col": place.get("col"), **line_fields(place)}


def line_fields(place: Mapping[str, Any]) -> dict[str, Any]:
    """The line, its number, the file and the function, without the columns."""
    return {key: place.get(key) for key in ("code_line", "lineno", "filename", "function")}


def _joinable(lines: list[str]) -> list[str]:
    """Lines without their trailing comments and backslashes, except the last, which nothing follows."""
    if len(lines) == 1:
        return lines
    starts: dict[int, int] = {}
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # part of a statement
        for each in tokenize.generate_tokens(iter(lines).__next__):
            if each.type == tokenize.COMMENT:
                starts[each.start[0]] = each.start[1]
    others = [line[: starts.get(number)] for number, line in enumerate(lines[:-1], 1)]
    return [*(line.rstrip().removesuffix("\\") for line in others), lines[-1]]


def written_at(code: CodeType | None, at: int) -> ast.expr | None:
    """The syntax tree of the expression that an instruction belongs to."""
    place = place_fields(code, at)
    if "col" not in place:
        return None
    try:
        return expression_of(place["code_line"][place["col"] : place["end_col"]])
    except SyntaxError:  # part of an augmented assignment
        return None


def only_argument_at(code: CodeType | None, at: int) -> str | None:
    """The source of the only argument of the call that an instruction makes; None unless there is just one."""
    written = written_at(code, at)
    is_one = isinstance(written, ast.Call) and len(written.args) == 1 and not written.keywords
    return ast.unparse(written.args[0]) if isinstance(written, ast.Call) and is_one else None


@lru_cache(maxsize=256)
def variables_read(code: CodeType | None, at: int) -> frozenset[str]:
    """The variables in the expression of :func:`written_at`, with and without attributes: ``batch``, ``batch.x``."""
    written = written_at(code, at)
    nodes = [] if written is None else list(ast.walk(written))
    return frozenset(ast.unparse(each) for each in nodes if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)))


def assignment_of(code: CodeType | None, at: int, name: str) -> tuple[str, int] | None:
    """The last line before an instruction, in its function, that assigns a variable or an item of it.

    None if it lies above a loop that reassigns the variable, or above another form of assignment: ``x, y = f(x)``.
    """
    if code is None:
        return None
    lineno = sites.line_of(code, at)
    found = assignment_above(code, lineno, name)
    if found is None or is_given_later_in_loop(code, lineno, name, found[1]):
        return None
    return None if is_given_between(code, name, found[1], lineno) else found


def is_in_branch(code: CodeType | None, at: int, lineno: int) -> bool:
    """Whether a line above an instruction, in its function, depends on a condition that the instruction does not."""
    return code is not None and not is_sure_before(code, lineno, sites.line_of(code, at))


def assignment_above(code: CodeType, lineno: int, name: str) -> tuple[str, int] | None:
    """The last line above another one in a function that assigns a variable, perhaps with others, or an item of it."""
    if not name.isidentifier():
        return None
    pattern = re.compile(rf"(?:\w+\s*,\s*)*{name}\s*(?:,\s*\w+\s*)*(\[.*\]\s*)?=[^=]")
    for number in range(lineno - 1, code.co_firstlineno - 1, -1):
        line = linecache.getline(code.co_filename, number).strip()
        if pattern.match(line):
            return line, number
    return None


def is_variable(code: CodeType, name: str | None) -> bool:
    """Whether a function defines or reads the variable of a name, or of the attribute or item that it denotes."""
    first = (name or "").partition(".")[0].partition("[")[0]
    return first in (*code.co_varnames, *code.co_cellvars, *code.co_freevars, *code.co_names)
