"""Where operations were called, noted in some steps and used for all that have the same operations.

Every node of an autograd graph has a sequence number. A torch-function mode notes for each call that made one the
code and the instruction; that costs some microseconds a call, so that after the first steps it is done only as often
as the budget allows, and never within backward or an optimizer. A step in between is looked up in the last one that was
noted, if it made as many nodes up to its loss.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from operator import itemgetter
from types import CodeType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from retrograd.anomaly.adapters.torch.compiling import in_use
from retrograd.anomaly.adapters.torch.frames import user_frame

_FIRST = 3  # steps that are all noted
_LONGEST_PAUSE = 1000  # steps
_MOST = 1 << 17  # calls of one step
_COST = 3e-6  # seconds that a noted call takes, at least

_next_seq = torch.autograd._get_sequence_nr


class _Noting(TorchFunctionMode):
    """Notes the calls that make nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[int, CodeType, int]] = []
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = _next_seq()
        result = func(*args, **kwargs) if kwargs else func(*args)
        self.count += 1
        if _next_seq() != before and len(self.calls) < _MOST:
            frame = user_frame(sys._getframe(1))
            if frame is not None:
                self.calls.append((before, frame.f_code, frame.f_lasti))
        return result


class SiteLog:
    """Tells for the sequence number of a node where its operation was called.

    Parameters
    ----------
    budget
        The share of the running time that noting may take.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._mode = _Noting()
        self._on = False  # the mode is on the stack of modes
        self._wanted = True  # in the present step
        self._base = 0
        self._noted: list[tuple[int, CodeType, int]] = []  # of the last step that was noted whole
        self._noted_length = -1
        self._steps = 0
        self._pause = 0
        self._began = 0.0
        self._usual = 0.0  # seconds of a step that was not noted

    def start(self) -> None:
        self._base = _next_seq()
        self._began = time.perf_counter()
        self.enter()

    def stop(self) -> None:
        self.leave()
        self._noted = []

    def enter(self) -> None:
        """Note the calls from here on, if those of this step are wanted; never in a program that compiles, because
        compiled code would be compiled anew for every change of modes."""
        if self._wanted and not self._on and not in_use():
            self._mode.__enter__()
            self._on = True

    def leave(self) -> None:
        """Note nothing until :meth:`enter`, unless somebody has put a mode of theirs over ours."""
        if self._on and _get_current_function_mode() is self._mode:
            self._mode.__exit__(None, None, None)
            self._on = False

    def step_ended(self, root_seq: int) -> None:
        """A backward pass has ended that began at the node ``root_seq``."""
        now = time.perf_counter()
        elapsed, self._began = now - self._began, now
        self._steps += 1
        if self._wanted:
            self._noted = [(seq - self._base, code, at) for seq, code, at in self._mode.calls]
            self._noted_length = root_seq - self._base
            self._plan(elapsed)
        else:
            self._usual = elapsed if self._usual == 0 else min(elapsed, 0.9 * self._usual + 0.1 * elapsed)
            self._pause -= 1
        self._mode.calls, self._mode.count = [], 0
        self._base = _next_seq()
        self._wanted = self._steps < _FIRST or self._pause <= 0

    def _plan(self, elapsed: float) -> None:
        """How many steps to leave out after one that was noted."""
        cost = self._mode.count * _COST
        self._pause = min(_LONGEST_PAUSE, int(cost / (self.budget * max(self._usual or elapsed, 1e-9))))

    def site_of(self, seq: int, root_seq: int) -> tuple[CodeType, int] | None:
        """Where the operation with a sequence number was called, in the step whose loss is the node ``root_seq``."""
        if self._mode.calls and self._mode.calls[0][0] <= seq:
            return _found(self._mode.calls, seq)
        if root_seq - self._base != self._noted_length:
            return None  # this step has done something else
        return _found(self._noted, seq - self._base)


def _found(calls: list[tuple[int, CodeType, int]], seq: int) -> tuple[CodeType, int] | None:
    place = bisect_right(calls, seq, key=itemgetter(0))
    return calls[place - 1][1:] if place else None
