"""Losses that the program checks by itself, to leave its loop or the batch: ``if isnan(loss): break``, ``continue``.

Whatever the check is made of, it reads a truth value, or a number that is not finite, from a tensor. Where that happens
in a function that leaves a loop, or itself, or a batch, on a condition, the variables which the condition reads are
looked at.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from types import CodeType, FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.adapters.making import sources
from retrograd.anomaly.adapters.syntax import body, inside, variables_in
from retrograd.anomaly.adapters.variables import local_variables, value_of
from retrograd.anomaly.left_out import LeftOut
from retrograd.anomaly.libraries import is_own, outwards

_LEAVES = (ast.Break, ast.Return, ast.Raise)
_TRAINS = frozenset(("backward", "grad", "step"))  # what a batch is left out of that is not finite
_EXITS = frozenset(("exit", "quit", "_exit"))  # of sys, os, or by themselves
_NEAR = 3  # frames: the function that looks, and those that have called it to look


def may_tell_of_one(value: Any) -> bool:
    """Whether what was read from a tensor is a truth value, or a number that is not finite."""
    return value is True or value is False or (type(value) is float and not math.isfinite(value))


class Checked(NamedTuple):
    """A loss that is not finite, and that the program checks.

    Attributes
    ----------
    frame
        Which checks it.
    loss
        The tensor.
    leaves
        Whether the program may be about to leave a loop for it, and not only the batch.
    """

    frame: FrameType
    loss: Any
    leaves: bool

    @property
    def is_own(self) -> bool:
        """Whether it is the program that checks, and no installed package.

        What a package does on such a loss is its own affair: a line search tries a point that is less far away.
        """
        return is_own(self.frame.f_code)


def checked_loss(
    frame: FrameType | None,
    is_internal: Callable[[CodeType], bool],
    has_history: Callable[[Any], bool],
    is_bad: Callable[[Any], bool],
    left_out: LeftOut,
) -> Checked | None:
    """A loss for which the program may be about to leave a loop or a batch; None without one.

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
    left_out
        Told of functions whose losses are finite.
    """
    for number, each in enumerate(islice(_calling(frame, is_internal), _NEAR)):
        own = is_own(each.f_code)
        if not own and (number or left_out.met is not None):
            return None  # packages look at much else, and often
        conditions = _conditions(each.f_code)
        for leaves, names in ((True, conditions.leave), (False, conditions.skip if own else ())):
            for value in _values(each, names, has_history, own):
                if _can_be_seen_as(is_bad, value):
                    return Checked(each, value, leaves)
        if conditions.leave or conditions.skip:
            left_out.is_fine(each.f_code)
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


class _Conditions(NamedTuple):
    """The variables that conditions read on which a function, or one of its loops, is left; and those on which a batch
    is.
    """

    leave: tuple[str, ...]
    skip: tuple[str, ...]


# By the addresses of code objects, which are kept; to hash one would take longer than all the rest.
_known: dict[int, tuple[CodeType, _Conditions]] = {}
_MOST = 4096


def _conditions(code: CodeType) -> _Conditions:
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        leave = tuple(dict.fromkeys(_read_in_conditions(code, _leaves)))
        skip = tuple(dict.fromkeys(_read_in_conditions(code, _skips)))
        known = _known[id(code)] = code, _Conditions(leave, tuple(each for each in skip if each not in leave))
    return known[1]


def _read_in_conditions(code: CodeType, is_meant: Callable[[ast.AST], bool]) -> Iterator[str]:
    for node in body(code):
        is_loop = isinstance(node, ast.While) and is_meant is _leaves
        if is_loop or (isinstance(node, ast.If) and any(map(is_meant, inside(node)))):
            yield from variables_in(node.test)  # type: ignore[attr-defined]


def _skips(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _TRAINS
    return isinstance(node, ast.Continue)


def _leaves(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _EXITS
    return isinstance(node, _LEAVES)


def _values(
    frame: FrameType, names: Iterable[str], has_history: Callable[[Any], bool], thorough: bool
) -> Iterator[Any]:
    """The tensors with a history that have these names, or that a number or truth value of these is made from.

    What such a number is made from is looked for as far as it goes, if that is to be ``thorough``; else in one step.
    """
    names = list(names)
    first = len(names)
    if not names:
        return
    variables = local_variables(frame)
    for number, name in enumerate(names):  # which grow
        value = value_of(variables if name.partition(".")[0] in variables else frame.f_globals, name)
        if has_history(value):
            yield value
        elif thorough or number < first:
            names += (each for each in sources(frame.f_code, name) if each not in names)
