"""Births in data of functions that have returned, computed again from what is still known of their arguments.

Nothing has kept such data, and the variables of the function are gone. But if the function only names one expression
after the other, those that depend on known arguments alone can be computed again.
"""

from __future__ import annotations

import ast
import linecache
from collections import ChainMap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from types import CodeType, FrameType

from torch import Tensor

from retrograd.anomaly.adapters.program.syntax import body
from retrograd.anomaly.adapters.torch.postmortem.recomputation import Made, Recomputation, Step
from retrograd.anomaly.adapters.torch.postmortem.recomputed_lines import same, variables_of
from retrograd.anomaly.adapters.torch.records.calls import Call
from retrograd.anomaly.parsing import names_in
from retrograd.anomaly.stack_frames import user_frames
from retrograd.core.sites import line_of

_DEPTH = 3  # of calls within calls
_MOST_CALLS = 64  # looked at in each running function
_CHOOSING = frozenset(("where", "masked_fill", "nan_to_num", "masked_select"))


def made_inside(frame: FrameType | None, call: Call, data: Tensor | None = None) -> Made | None:
    """The first birth in data of the function that has called an operation and returned; None if none is known.

    Parameters
    ----------
    frame
        Where the program is.
    call
        The operation.
    data
        What the operation met, if that is known: then one of the function's lines must give it, or may do so because
        it reads what became bad, and something else that is not known.
    """
    if call.code is None:
        return None
    for around in user_frames(frame):
        line = Recomputation(variables_of(around, around.f_code))
        for node in islice(_calls_above(around), _MOST_CALLS):
            line.birth = _birth_behind(line, node, call.code, data)
            if line.birth is not None:
                return line.made(linecache.getline(around.f_code.co_filename, node.lineno).strip(), node.lineno)
    return None


def _calls_above(frame: FrameType) -> Iterator[ast.Call]:
    """The calls written in a running function, those nearest above its present line first."""
    last = line_of(frame.f_code, frame.f_lasti) or 0
    found = [each for each in body(frame.f_code) if isinstance(each, ast.Call) and each.lineno <= last]
    yield from sorted(found, key=lambda each: (-each.lineno, each.col_offset))


def _birth_behind(line: Recomputation, node: ast.Call, code: CodeType, data: Tensor | None) -> Step | None:
    """The birth in a function, if it is the one that a call calls, or that is called there in turn."""
    called = None if line.depth >= _DEPTH else line.function_of(node)
    if called is None:
        return None
    function, variables = called.function, line.known_arguments(node, called.function)
    inner = Recomputation(ChainMap(variables, *function.outside.maps), depth=line.depth + 1)
    birth = None
    gives_data = data is None
    spoilt: set[str] = set()  # the names of what may have become bad by the birth
    for name, expression in (*called.assigned, ("", called.result)):
        if function.code is not code:
            for each in _calls_in(expression):
                found = _birth_behind(inner, each, code, data)
                if found is not None:
                    return replace(found, inside=(*found.inside, (function.code, node)))
        variables.pop(name, None)
        for part in _parts_in_order(expression):
            try:
                result = inner.value(part)
            except Exception:
                continue
            gives_data = gives_data or (data is not None and same(result, data))
            if part is expression:
                variables[name] = result
                break
        reads_it = not spoilt.isdisjoint(names_in(expression))
        if name not in variables and not _chooses(expression):  # it needs what is not known, and may be the data
            gives_data = gives_data or reads_it
        if reads_it or (birth is None and inner.birth is not None):
            spoilt.add(name)
        birth = birth or inner.birth
    if function.code is not code or birth is None or not gives_data:
        return None
    return replace(birth, inside=(*birth.inside, (function.code, node)))


def _chooses(expression: ast.expr) -> bool:
    """Whether it may leave bad elements out."""
    return not _CHOOSING.isdisjoint(each.attr for each in ast.walk(expression) if isinstance(each, ast.Attribute))


def _calls_in(expression: ast.expr) -> Iterable[ast.Call]:
    return (each for each in ast.walk(expression) if isinstance(each, ast.Call))


def _parts_in_order(expression: ast.expr) -> Iterator[ast.expr]:
    """The whole of an expression, and then the parts of it in which an operation may be."""
    yield expression
    for part in ast.walk(expression):
        if part is not expression and isinstance(part, (ast.BinOp, ast.UnaryOp, ast.Call)):
            yield part
