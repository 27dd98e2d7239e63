"""Losses that the program itself checks to leave its loop or skip a batch: ``if isnan(loss): break``, ``continue``.

Or to replace them: ``if isnan(loss): loss = zero``.

However the check is written, it reads a truth value or a non-finite number from a tensor. If that happens in a function
that conditionally leaves a loop, skips a batch or returns, the variables that the condition reads are examined.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from types import CodeType, FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.adapters.program.assignments import is_given_at, sources
from retrograd.anomaly.adapters.program.syntax import body, inside, variables_in
from retrograd.anomaly.adapters.program.variables import local_variables, value_of
from retrograd.anomaly.skipped_batches import CheckedLoss, SkippedBatches
from retrograd.anomaly.stack_frames import is_own, outwards

_LEAVES = (ast.Break, ast.Return, ast.Raise)
_TRAINS = frozenset(("backward", "grad", "step"))  # the calls that a non-finite batch is kept from
_EXITS = frozenset(("exit", "quit", "_exit"))  # of sys or os, or builtins
_IsBad = Callable[[Any], bool | None]
_NEAR = 3  # frames: the function that reads, and its nearest callers


def may_tell_of_one(value: Any) -> bool:
    """Whether a value read from a tensor is a truth value or a non-finite number, as checks of a loss read."""
    return value is True or value is False or (type(value) is float and not math.isfinite(value))


def checked_loss(
    frame: FrameType | None,
    is_internal: Callable[[CodeType], bool],
    has_history: Callable[[Any], bool],
    is_bad: _IsBad,
    left_out: SkippedBatches,
) -> CheckedLoss | None:
    """A bad loss because of which the program may be about to leave a loop or skip a batch; None without one.

    Parameters
    ----------
    frame
        The frame in which something was read from a tensor.
    is_internal
        Whether code is internal, not the user's.
    has_history
        Whether a value is a tensor made by operations.
    is_bad
        Whether a tensor has a non-finite number; None for a value without readable floating-point numbers: truth
        values, a dtype, another library's tensor, a proxy for a deleted object.
    left_out
        Notified of functions whose losses are finite.
    """
    for number, each in enumerate(islice(_calling(frame, is_internal), _NEAR)):
        own = is_own(each.f_code)
        if not own and (number or left_out.met is not None):
            return None  # packages read much else, and often
        conditions = _conditions(each.f_code)
        replaced = [value for value in _named(each, conditions.replace, has_history) if _can_be_seen_as(is_bad, value)]
        for names in (conditions.leave, conditions.loop, conditions.skip if own else ()):
            for value in _values(each, names, has_history, is_bad, own):
                if _can_be_seen_as(is_bad, value):
                    leaves, leaves_out = names is not conditions.skip, names is not conditions.loop
                    ends = (other for other in _values(each, conditions.end, has_history, is_bad, own))
                    is_end, is_replaced = (any(value is other for other in others) for others in (ends, replaced))
                    return CheckedLoss(each, value, leaves, leaves_out, is_replaced, leaves and not is_end)
        if replaced:
            return CheckedLoss(each, replaced[0], leaves=False, leaves_out=True, replaces=True, returns=False)
        if any(conditions):
            left_out.is_fine(each.f_code)
    return None


def _can_be_seen_as(is_bad: _IsBad, value: Any) -> bool | None:
    """Whether a tensor is bad; False if its numbers cannot be read, as on torch's device "meta"."""
    try:
        return is_bad(value)
    except RuntimeError:
        return False


def _calling(frame: FrameType | None, is_internal: Callable[[CodeType], bool]) -> Iterator[FrameType]:
    """The user's frames, innermost first, up to the first internal one; none if internal code does the reading."""
    return takewhile(lambda each: not is_internal(each.f_code), outwards(frame))


class _Conditions(NamedTuple):
    """Variables that conditions read, by what they decide: ``leave``, to leave the function or a loop; ``loop``, to
    continue a ``while`` loop; ``skip``, to skip a batch; ``end``, to leave by more than a ``return``; and
    ``replace``, to give the variable another value.
    """

    leave: tuple[str, ...]
    loop: tuple[str, ...]
    skip: tuple[str, ...]
    end: tuple[str, ...]
    replace: tuple[str, ...]


# Keyed by the ids of code objects, which are kept alive: hashing one would take longer than all the rest.
_known: dict[int, tuple[CodeType, _Conditions]] = {}
_MOST = 4096


def _conditions(code: CodeType) -> _Conditions:
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        met: set[str] = set()
        found = []
        for is_meant in (_leaves, _loops, _skips):
            found.append(tuple(dict.fromkeys(each for each in _read_in(code, is_meant) if each not in met)))
            met.update(found[-1])
        found.append(tuple(dict.fromkeys(_read_in(code, _ends))))
        found.append(tuple(dict.fromkeys(_replaced_in(code))))
        known = _known[id(code)] = code, _Conditions(*found)
    return known[1]


def _read_in(code: CodeType, is_meant: Callable[[ast.If | ast.While], bool]) -> Iterator[str]:
    """The variables in the conditions for which ``is_meant`` is true."""
    for node in body(code):
        if isinstance(node, (ast.If, ast.While)) and is_meant(node):
            yield from variables_in(node.test)


def _replaced_in(code: CodeType) -> Iterator[str]:
    """The variables that are reassigned, or returned conditionally, on a condition that reads them."""
    for node in body(code):
        match node:
            case ast.If(test=test):
                given = {
                    ast.unparse(each) for each in inside(node) if isinstance(getattr(each, "ctx", None), ast.Store)
                }
            case ast.Assign(targets=targets, value=ast.IfExp(test=test)):
                given = {ast.unparse(each) for each in targets}
            case ast.Return(value=ast.IfExp(test=test, body=one, orelse=other)):
                given = {*variables_in(one), *variables_in(other)}
            case _:
                continue
        for name in variables_in(test):
            yield from given.intersection((name, *sources(code, name)))


def _loops(node: ast.If | ast.While) -> bool:
    return isinstance(node, ast.While)


def _skips(node: ast.If | ast.While) -> bool:
    return isinstance(node, ast.If) and any(map(_leaves_batch, inside(node)))


def _leaves(node: ast.If | ast.While) -> bool:
    return isinstance(node, ast.If) and any(map(_leaves_loop, inside(node)))


def _ends(node: ast.If | ast.While) -> bool:
    return any(_leaves_loop(each) and not isinstance(each, ast.Return) for each in inside(node))


def _leaves_batch(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _TRAINS
    return isinstance(node, ast.Continue)


def _leaves_loop(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _EXITS
    return isinstance(node, _LEAVES)


def _values(
    frame: FrameType,
    names: Iterable[str],
    has_history: Callable[[Any], bool],
    is_bad: _IsBad,
    thorough: bool,
) -> Iterator[Any]:
    """The tensors with a history that have these names, or from which a number or truth value of these names is made.

    Sources are followed only for a value that may hide a non-finite number, or that the present line assigns:
    to any depth if ``thorough``, else one step.
    """
    names = list(names)
    given = len(names)
    if not names:
        return
    variables = local_variables(frame)
    for number, name in enumerate(names):  # names grows meanwhile
        first = name.partition(".")[0]
        value = value_of(variables if first in variables else frame.f_globals, name)
        if has_history(value):
            yield value
            continue
        if not thorough and number >= given:
            continue
        is_known = first in variables or first in frame.f_globals
        if (is_known and _may_hide_one(value, is_bad)) or is_given_at(frame.f_code, name, frame.f_lineno):
            names += (each for each in sources(frame.f_code, name) if each not in names)


def _named(frame: FrameType, names: Iterable[str], has_history: Callable[[Any], bool]) -> Iterator[Any]:
    """The tensors with a history that have these names."""
    variables = local_variables(frame) if names else {}
    for name in names:
        value = value_of(variables if name.partition(".")[0] in variables else frame.f_globals, name)
        if has_history(value):
            yield value


def _may_hide_one(value: Any, is_bad: _IsBad) -> bool:
    """Whether a value may be made from a non-finite number, as the truth value of a comparison may."""
    if type(value) is float:
        return not math.isfinite(value)
    return _can_be_seen_as(is_bad, value) is not False
