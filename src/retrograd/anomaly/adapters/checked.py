"""Losses that the program checks by itself, to leave its loop quietly: ``if isnan(loss): break``."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from retrograd.anomaly.adapters.making import made
from retrograd.anomaly.adapters.syntax import body, inside, variables_in
from retrograd.anomaly.adapters.variables import local_variables

_LEAVES = (ast.Break, ast.Return, ast.Raise)
_EXITS = frozenset(("exit", "quit", "_exit"))  # of sys, os, or by themselves


def checked_loss(frame: FrameType, is_bad_loss: Callable[[Any], bool]) -> Any | None:
    """A loss for which the program has left a loop, or None.

    It is a variable of the frame that a condition in its code reads, such as one in front of a ``break``; or one from
    which such a variable was made that says so: a number that is not finite, or a truth value.

    Parameters
    ----------
    frame
        Of the user's program.
    is_bad_loss
        Whether something is a loss that is not finite.
    """
    variables = {**frame.f_globals, **local_variables(frame)}
    for name in _checked(frame.f_code):
        value = _value(name, variables)
        if is_bad_loss(value):
            return value
        if _tells_of_one(value):
            for source in sorted(made(frame.f_code, name).variables):
                if is_bad_loss(value := _value(source, variables)):
                    return value
    return None


def _checked(code: CodeType) -> Iterator[str]:
    """The variables that a condition reads on which the function, or one of its loops, is left."""
    for node in body(code):
        if isinstance(node, ast.While) or (isinstance(node, ast.If) and any(map(_leaves, inside(node)))):
            yield from variables_in(node.test)


def _leaves(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _EXITS
    return isinstance(node, _LEAVES)


def _value(name: str, variables: dict[str, Any]) -> Any:
    """What a variable holds, or an attribute of an object's own; nothing is computed for it."""
    first, *attributes = name.split(".")
    value = variables.get(first)
    for each in attributes:
        value = getattr(value, "__dict__", {}).get(each)
    return value


def _tells_of_one(value: Any) -> bool:
    """Whether it is a truth value, or a number that is not finite; of a tensor or array, its only element."""
    if hasattr(value, "item"):
        try:
            value = value.item()
        except Exception:  # more than one, or something else altogether
            return False
    return isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value))
