"""What PyTorch is doing on behalf of the user's frame: calling modules, running backward or an optimizer's step."""

from __future__ import annotations

import inspect
import sys
import weakref
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from retrograd.anomaly.stack_frames import frames_between, is_between, is_own, outwards, user_frame

MODULE_CALL = torch.nn.Module._call_impl.__code__
_RUN_BACKWARD = torch.autograd.graph._engine_run_backward.__code__
_graph_task = torch._C._current_graph_task_id

_CALLED_BY_APPLY = ("forward", "setup_context", "jvp")

_of_functions: dict[int, tuple[CodeType, bool]] = {}  # by id, as distinct code objects may be equal


def _is_of_function(code: CodeType) -> bool:
    """Whether it is called by ``apply`` of an autograd Function; ``apply`` itself has no frame since torch 2.14."""
    known = _of_functions.get(id(code))
    if known is None:
        classes = [torch.autograd.Function]
        for each in classes:
            classes += each.__subclasses__()
        written = (inspect.unwrap(getattr(each, name)) for each in classes for name in _CALLED_BY_APPLY)
        known = _of_functions[id(code)] = code, any(getattr(each, "__code__", None) is code for each in written)
    return known[1]


def has_own_step(optimizer: Any) -> bool:
    """Whether an optimizer's step is not torch's, but the user's own code or an installed package's."""
    step = _step_of(optimizer)
    return step is not None and not is_between(step)


def has_step_of_program(optimizer: Any) -> bool:
    """Whether an optimizer's step is the program's own code, and no package's."""
    step = _step_of(optimizer)
    return step is not None and is_own(step)


def _step_of(optimizer: Any) -> CodeType | None:
    return getattr(inspect.unwrap(type(optimizer).step), "__code__", None)


def within_backward() -> bool:
    """Whether this thread is in a backward pass, as when a part of the forward pass is recomputed."""
    return _graph_task() != -1


def frame_in_backward(frame: FrameType | None) -> FrameType | None:
    """The user's innermost frame within a backward pass: that of a hook, or of a Function's backward."""
    in_backward = all(each.f_code is not _RUN_BACKWARD for each in frames_between(frame))
    return user_frame(frame) if in_backward else None


class Landmarks(NamedTuple):
    """The surroundings of a call, from the inside out."""

    user: FrameType | None
    applied: FrameType | None  # the user's line that called the autograd Function it happened in
    modules: tuple[Any, ...]


def landmarks(frame: FrameType | None) -> Landmarks:
    """The user's frame, and the modules being called, innermost first."""
    user = applied = None
    within = False
    modules = []
    for each in outwards(frame):
        code = each.f_code
        if code is MODULE_CALL:
            modules.append(each.f_locals["self"])
        elif not is_between(code):
            user = user or each
            applied = applied or (each if within else None)
        within = within or _is_of_function(code)
    return Landmarks(user, applied, tuple(modules))


class Steps:
    """The optimizers that are stepping; torch's hooks are also called for a nested step, as of ``super().step()``."""

    def __init__(self) -> None:
        self._under_way: list[tuple[FrameType, Any]] = []

    def begin(self, optimizer: Any, held_back: bool) -> bool:
        """Called by a hook; false for a part of another step.

        That is, if this step was called by the optimizer's own step, or by one that is held back and undone as a whole.
        """
        caller = sys._getframe(2)
        if self._under_way:
            around = set(outwards(caller.f_back))
            self._under_way = [each for each in self._under_way if each[0] in around]  # the others have failed
            if (held_back and self._under_way) or any(each is optimizer for _, each in self._under_way):
                return False
        self._under_way.append((caller, optimizer))
        return True

    def end(self) -> bool:
        """Called by a hook; false for a step whose beginning did not count."""
        if not self._under_way or self._under_way[-1][0] is not sys._getframe(2):
            return False
        self._under_way.pop()
        return True

    @property
    def any(self) -> bool:
        """Whether an optimizer is stepping, as it is while its closure runs."""
        return bool(self._under_way)


class Turns:
    """The optimizers that have stepped since the last backward; the gradients of the others are still unchecked."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()
        self._had: set[int] = set()

    def begin(self) -> None:
        """Called when there are new gradients."""
        self._had.clear()

    def are_over(self, optimizer: Any) -> bool:
        """Count an optimizer's step, and return whether all known ones have stepped."""
        if optimizer not in self._all:
            self._all.add(optimizer)
        self._had.add(id(optimizer))
        return len(self._all) == 1 or self._had.issuperset(map(id, self._all))
