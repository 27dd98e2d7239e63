"""Where operations were called, noted in some steps and used for all that have the same operations.

Every node of an autograd graph has a sequence number. What notes them, by torch function mode or by instruction events,
costs some time for each call, so that after the first steps it is done only as often as the budget allows, and never
within backward or an optimizer. A step in between is looked up in the last one that was noted among those that made as
many nodes up to their loss: programs may take steps of several kinds in turns.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from operator import itemgetter
from types import CodeType
from typing import Protocol

import torch

from retrograd.anomaly.adapters.torch.compiling import in_use
from retrograd.anomaly.adapters.torch.noting import FunctionNotes, Noted
from retrograd.anomaly.adapters.torch.tracing import InstructionNotes

_FIRST = 3  # steps that are all noted
_LONGEST_PAUSE = 1000  # steps
_KINDS = 4  # of steps, for which notes are kept
_REMEMBERED = 64  # steps that have ended, about which somebody may still ask

_next_seq = torch.autograd._get_sequence_nr


class Notes(Protocol):
    """One way to note where nodes are made.

    Attributes
    ----------
    noted
        From which sequence number on which instruction made nodes, in ascending order.
    on
        Whether it notes now.
    seconds
        What noting has cost since the last :meth:`clear`, estimated.
    """

    noted: list[Noted]
    on: bool

    @property
    def seconds(self) -> float: ...

    def start(self) -> None:
        """Prepare; may be called again after :meth:`stop`."""

    def stop(self) -> None:
        """Leave everything as it was before."""

    def enter(self) -> None:
        """Note from here on."""

    def leave(self) -> None:
        """Note nothing until :meth:`enter`."""

    def pause(self) -> None:
        """Cost nothing for some steps, until :meth:`enter`."""

    def clear(self) -> None:
        """Begin a new step."""


class SiteLog:
    """Tells for the sequence number of a node where its operation was called.

    Parameters
    ----------
    budget
        The share of the running time that noting may take.

    Attributes
    ----------
    spent
        Seconds that noting took in the last step.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.spent = 0.0
        self._notes: Notes = FunctionNotes()
        self._wanted = True  # in the present step
        self._base = 0
        self._noted: dict[int, list[Noted]] = {}  # of the last steps that were noted whole, by their numbers of nodes
        self._ended: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)  # the last nodes of steps, and their first ones
        self._steps = 0
        self._pause = 0
        self._began = 0.0
        self._usual = 0.0  # seconds of a step that was not noted

    def start(self) -> None:
        self._notes = InstructionNotes.if_possible() or FunctionNotes()
        self._notes.start()
        self._base = _next_seq()
        self._began = time.perf_counter()
        self.enter()

    def stop(self) -> None:
        self._notes.stop()
        self._noted = {}

    def enter(self) -> None:
        """Note the calls from here on, if those of this step are wanted; never in a program that compiles, because
        compiled code would be compiled anew for every change of modes."""
        if in_use():
            self._notes.pause()
        elif self._wanted:
            self._notes.enter()

    def leave(self) -> None:
        """Note nothing until :meth:`enter`."""
        self._notes.leave()

    @property
    def on(self) -> bool:
        """Whether calls are noted now."""
        return self._notes.on

    def step_ended(self, root_seq: int) -> None:
        """A backward pass has ended that began at the node ``root_seq``."""
        now = time.perf_counter()
        elapsed, self._began = now - self._began, now
        self._steps += 1
        self.spent = self._notes.seconds
        if self._wanted:
            self._noted.pop(root_seq - self._base, None)
            self._noted[root_seq - self._base] = [(seq - self._base, code, at) for seq, code, at in self._notes.noted]
            if len(self._noted) > _KINDS:
                del self._noted[next(iter(self._noted))]
            affordable = self.budget * max(self._usual or elapsed, 1e-9)
            self._pause = min(_LONGEST_PAUSE, int(self.spent / affordable))
        else:
            self._usual = elapsed if self._usual == 0 else min(elapsed, 0.9 * self._usual + 0.1 * elapsed)
            self._pause -= 1
        self._ended.appendleft((root_seq, self._base))
        self._notes.clear()
        self._base = _next_seq()
        self._wanted = self._steps < _FIRST or self._pause <= 0
        if not self._wanted:
            self._notes.pause()

    def steps_since(self, seq: int) -> int:
        """How many steps have ended since the operation with a sequence number was called, as far as is remembered."""
        begun = [self._base, *(base for _, base in self._ended)]  # the steps, the latest first
        return next((age for age, base in enumerate(begun) if base <= seq), len(self._ended))

    def site_of(self, seq: int, root_seq: int) -> tuple[CodeType, int] | None:
        """Where the operation with a sequence number was called, in the step whose loss is the node ``root_seq``."""
        present = self._notes.noted
        if present and present[0][0] <= seq:
            return _found(present, seq)
        base = next((base for root, base in self._ended if root == root_seq), self._base)
        return _found(self._noted.get(root_seq - base, []), seq - base)


def _found(calls: list[Noted], seq: int) -> tuple[CodeType, int] | None:
    place = bisect_right(calls, seq, key=itemgetter(0))
    if place == 0:
        return None
    _, code, at = calls[place - 1]
    return None if code is None else (code, at)
