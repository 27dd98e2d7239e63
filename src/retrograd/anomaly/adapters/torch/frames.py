"""Whose code a frame runs: the user's, or that of the libraries in between."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import weakref
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from retrograd.core.sites import PACKAGE

_INSIDE = (str(Path(torch.__file__).parent) + "/", PACKAGE, "<frozen ", contextlib.__file__, functools.__file__)
MODULE_CALL = torch.nn.Module._call_impl.__code__
_RUN_BACKWARD = torch.autograd.graph._engine_run_backward.__code__

_CALLED_BY_APPLY = ("forward", "setup_context", "jvp")

_internal: dict[str, bool] = {}
_of_functions: dict[int, tuple[CodeType, bool]] = {}  # by the identity of a code, as codes that are alike are equal


def is_internal(code: CodeType) -> bool:
    """Whether it is code of torch, of this package, or of Python itself."""
    filename = code.co_filename
    known = _internal.get(filename)
    if known is None:
        known = _internal[filename] = filename.startswith(_INSIDE)
    return known


def _is_of_function(code: CodeType) -> bool:
    """Whether it is what ``apply`` of an autograd Function calls; ``apply`` itself has no frame since torch 2.14."""
    known = _of_functions.get(id(code))
    if known is None:
        classes = [torch.autograd.Function]
        for each in classes:
            classes += each.__subclasses__()
        written = (inspect.unwrap(getattr(each, name)) for each in classes for name in _CALLED_BY_APPLY)
        known = _of_functions[id(code)] = code, any(getattr(each, "__code__", None) is code for each in written)
    return known[1]


def has_own_step(optimizer: Any) -> bool:
    """Whether what an optimizer does in a step is the user's own code."""
    step = getattr(inspect.unwrap(type(optimizer).step), "__code__", None)
    return step is not None and not is_internal(step)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from ``frame`` outwards, that is neither torch's nor ours."""
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    return frame


def frame_in_backward(frame: FrameType | None) -> FrameType | None:
    """The same within a backward pass, the frame that has called it not included: a hook, or a Function's backward."""
    while frame is not None and is_internal(frame.f_code):
        if frame.f_code is _RUN_BACKWARD:
            return None
        frame = frame.f_back
    return frame


class Landmarks(NamedTuple):
    """What lies around a call, from the inside out."""

    user: FrameType | None
    applied: FrameType | None  # the user's line that called the autograd Function it happened in
    modules: tuple[Any, ...]


def landmarks(frame: FrameType | None) -> Landmarks:
    """The user's frame, and the modules whose calls are under way, innermost first."""
    user = applied = None
    within = False
    modules = []
    while frame is not None:
        code = frame.f_code
        if code is MODULE_CALL:
            modules.append(frame.f_locals["self"])
        elif not is_internal(code):
            user = user or frame
            applied = applied or (frame if within else None)
        within = within or _is_of_function(code)
        frame = frame.f_back
    return Landmarks(user, applied, tuple(modules))


class Steps:
    """The optimizers that are stepping; torch's hooks hear also of a step within a step, as ``super().step()`` is."""

    def __init__(self) -> None:
        self._under_way: list[tuple[FrameType, Any]] = []

    def begin(self, optimizer: Any) -> bool:
        """Called by a hook; false if the optimizer's own step has called this one."""
        caller = sys._getframe(2)
        if self._under_way:
            around = set()
            frame = caller.f_back
            while frame is not None:
                around.add(frame)
                frame = frame.f_back
            self._under_way = [each for each in self._under_way if each[0] in around]  # others have failed
            if any(each is optimizer for _, each in self._under_way):
                return False
        self._under_way.append((caller, optimizer))
        return True

    def end(self) -> bool:
        """Called by a hook; false for a step whose beginning did not count."""
        if not self._under_way or self._under_way[-1][0] is not sys._getframe(2):
            return False
        self._under_way.pop()
        return True

    def forget(self) -> None:
        self._under_way = []


class Turns:
    """Which optimizers have stepped since the last backward; the gradients of the others are still to be looked at."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()
        self._had: set[int] = set()

    def begin(self) -> None:
        """There are new gradients."""
        self._had.clear()

    def are_over(self, optimizer: Any) -> bool:
        """Count an optimizer's step, and say whether all that are known have had theirs."""
        self._all.add(optimizer)
        self._had.add(id(optimizer))
        return self._had.issuperset(map(id, self._all))
