"""Losses that the program checks by itself, to leave its loop for them: ``if isnan(loss): break``.

Whatever the check is made of, it reads a truth value, or a number that is not finite, from a tensor. Where that happens
in a function that leaves a loop, or itself, on a condition, the variables which the condition reads are looked at.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from types import CodeType, FrameType
from typing import Any

from retrograd.anomaly.adapters.making import sources
from retrograd.anomaly.adapters.syntax import body, inside, variables_in
from retrograd.anomaly.adapters.variables import local_variables
from retrograd.anomaly.libraries import outwards

_LEAVES = (ast.Break, ast.Return, ast.Raise)
_EXITS = frozenset(("exit", "quit", "_exit"))  # of sys, os, or by themselves
_NEAR = 3  # frames: the function that looks, and those that have called it to look


def may_tell_of_one(value: Any) -> bool:
    """Whether what was read from a tensor is a truth value, or a number that is not finite."""
    return value is True or value is False or (type(value) is float and not math.isfinite(value))


def checked_loss(
    frame: FrameType | None,
    is_internal: Callable[[CodeType], bool],
    has_history: Callable[[Any], bool],
    is_bad: Callable[[Any], bool],
) -> tuple[FrameType, Any] | None:
    """A loss for which the program may be about to leave a loop, with the frame that checks it; None without one.

    Parameters
    ----------
    frame
        In which something was read from a tensor.
    is_internal
        Whether code is not the user's.
    has_history
        Whether something is a tensor that operations have made.
    is_bad
        Whether such a tensor is a loss that is not finite.
    """
    for each in islice(_calling(frame, is_internal), _NEAR):
        for value in _values(each, has_history):
            if _can_be_seen_as(is_bad, value):
                return each, value
    return None


def _can_be_seen_as(is_bad: Callable[[Any], bool], value: Any) -> bool:
    """Whether a tensor is seen to be bad; others have numbers that cannot be read, as on torch's device "meta"."""
    try:
        return is_bad(value)
    except RuntimeError:
        return False


def _calling(frame: FrameType | None, is_internal: Callable[[CodeType], bool]) -> Iterator[FrameType]:
    """The user's frames that have called each other without any library in between; none if a library reads."""
    return takewhile(lambda each: not is_internal(each.f_code), outwards(frame))


# By the addresses of code objects, which are kept; to hash one would take longer than all the rest.
_known: dict[int, tuple[CodeType, tuple[str, ...]]] = {}
_MOST = 4096


def _conditions(code: CodeType) -> tuple[str, ...]:
    """The variables that conditions read on which the function, or one of its loops, is left."""
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        known = _known[id(code)] = code, tuple(dict.fromkeys(_read_in_conditions(code)))
    return known[1]


def _read_in_conditions(code: CodeType) -> Iterator[str]:
    for node in body(code):
        if isinstance(node, ast.While) or (isinstance(node, ast.If) and any(map(_leaves, inside(node)))):
            yield from variables_in(node.test)


def _leaves(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _EXITS
    return isinstance(node, _LEAVES)


def _values(frame: FrameType, has_history: Callable[[Any], bool]) -> Iterator[Any]:
    """The tensors with a history that are in the conditions, or that a number or truth value there is made from."""
    names = list(_conditions(frame.f_code))
    if not names:
        return
    variables = local_variables(frame)
    for name in names:  # which grow
        value = _value(name, frame, variables)
        if has_history(value):
            yield value
        else:
            names += (each for each in sources(frame.f_code, name) if each not in names)


def _value(name: str, frame: FrameType, variables: dict[str, Any]) -> Any:
    """What a variable holds, or an attribute of an object's own; nothing is computed for it."""
    first, *attributes = name.split(".")
    value = variables[first] if first in variables else frame.f_globals.get(first)
    for each in attributes:
        value = getattr(value, "__dict__", {}).get(each)
    return value
