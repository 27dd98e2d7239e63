"""Gradients that are returned to the program, as by ``autograd.grad``, instead of being written to leaves."""

from __future__ import annotations

import sys
from collections.abc import MutableSequence, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from retrograd.anomaly.adapters.retrograd.thread_state import ThreadState
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.stack_frames import is_library, outwards
from retrograd.core import state
from retrograd.core.node import AccumulateGrad, Node
from retrograd.core.tensor import Tensor, wrap


class ReturnedGradients:
    """Tracks what was reported about them, how often they were returned, and whether that counts as a step.

    One of SciPy's optimizers may leave the point at which they are not finite, so the program is not stopped there.

    A program that never calls ``backward`` trains, samples or searches with the gradients that it requests, so each
    request for the gradient of a single number, without ``create_graph``, is a step. Once it calls ``backward``, that
    is the step: earlier requests were parts of one, as in an attack.

    Parameters
    ----------
    watch
        Supplies the policies.
    now
        The state of the backward that is under way.

    Attributes
    ----------
    returned
        How often gradients were returned.
    steps
        How many of these the watch counts as steps.
    """

    def __init__(self, watch: Watch, now: ThreadState) -> None:
        self._watch = watch
        self._now = now
        self._is_told = False  # whether non-finite ones passed to SciPy were reported
        self._are_steps = True
        self.returned = 0
        self.steps = 0

    def begin(self, outputs: Sequence[Tensor], value: float | None) -> None:
        """Called when gradients of outputs are requested; ``value`` is the first output's number, or None."""
        self._now.of_number = len(outputs) == 1 and outputs[0]._data.size == 1
        self._now.value = value

    def returns(self, results: Sequence[Tensor | None]) -> None:
        """Called when gradients are returned."""
        self.returned += 1
        now = self._now
        is_last = state.local.tangents is None and not any(each is not None and each.requires_grad for each in results)
        now.is_step = now.of_number and self._are_steps and is_last
        now.of_number = False
        if now.is_step:
            self.steps += 1
            self._watch.step += 1
            self._watch.remember_loss(now.value)

    @staticmethod
    def withhold(results: MutableSequence[Tensor | None]) -> None:
        """Return zeros, so that an update by hand changes nothing; what is differentiated again stays what it is."""
        for place, each in enumerate(results):
            if each is not None and not each.requires_grad:
                results[place] = wrap(np.zeros_like(each._data))

    def are_no_steps(self) -> None:
        """Called when the program calls ``backward``."""
        if not self._are_steps:  # known since an earlier step
            return
        self._are_steps = False
        counted, self.steps = self.steps, 0
        self._watch.step -= counted
        for history in (self._watch.loss_history, self._watch.grad_norm_history):
            for _ in range(min(counted, len(history))):
                history.pop()

    def with_value(self) -> AbstractContextManager[None]:
        """A context in which the histories include the present step, with the differentiated value if it counts."""
        return self._watch.with_loss(self._now.value if self._now.of_number and self._are_steps else None)

    @staticmethod
    def context(asked: bool) -> dict[str, Any]:
        """The context of an event about who requested gradients, and whether they were requested."""
        return {"searched_by": "scipy"} if _by_scipy() else {"asked": True} if asked else {}

    def is_left_alone(self) -> bool:
        """Whether SciPy requests them, and the harm has been reported."""
        return self._is_told and _by_scipy()

    def found(self, kind: str, event: NaNEvent, exact: bool) -> str:
        """Report the event of non-finite gradients and return what to do, as a watch does."""
        if not _by_scipy():
            return self._watch.found(kind, event, exact=exact)
        self._is_told = True
        self._watch.warned(kind, event, _LEFT)
        return "go on"


def all_leaves(nodes: list[Node]) -> list[AccumulateGrad]:
    """The leaves that gradients belong to; none, if one belongs to something else."""
    leaves = [node for node in nodes if isinstance(node, AccumulateGrad)]
    return leaves if len(leaves) == len(nodes) else []


def _by_scipy() -> bool:
    return any(is_library(each.f_code.co_filename, "scipy") for each in outwards(sys._getframe(1)))


_LEFT = (
    "SciPy gets this value and goes on with it. Most of its optimizers do not recover from such a point: make the "
    "function finite there, or set bounds. This warning is shown once."
)
