"""Which calls of ``torch.autograd.grad`` count as steps: those of a program that trains with what they return."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from retrograd.anomaly.adapters.torch.boundaries.functional import Asked, Chain
from retrograd.anomaly.adapters.torch.looks.gradients import loss_number
from retrograd.anomaly.adapters.torch.runtime.waiting import waits

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

_SAMPLED = 8  # calls in which a number is read from a leaf, to see writes to ``.data`` that no version tells


@dataclass(eq=False)
class _Mark:
    """What a leaf was when its gradient was asked for last."""

    version: int
    place: int
    sample: float | None
    call: Asked

    def tells(self, leaf: Tensor) -> bool:
        """Whether the leaf has been written to since, by what torch counts."""
        return (self.version, self.place) != (leaf._version, leaf.data_ptr())

    def differs(self, sample: float | None) -> bool:
        """Whether it has, by a number that was read from it."""
        if sample is None or self.sample is None:
            return False
        return sample != self.sample and not (math.isnan(sample) and math.isnan(self.sample))


class StepsByHand:
    """Counts the calls for gradients that are steps of a training by hand.

    Such a call is one between which and the one before leaves have been written to, or others have come in their place;
    then the call before was a step as well.

    Parameters
    ----------
    monitor
        Whose watch counts.

    Attributes
    ----------
    times_asked
        How often gradients have been asked for.
    """

    def __init__(self, monitor: TorchMonitor) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.times_asked = 0
        self._counted = 0  # of these calls, as steps
        self._unversioned = False  # the program writes to ``.data``
        self._marks: Any = WeakIdKeyDictionary()  # of leaves

    def knows(self, leaf: Tensor) -> bool:
        """Whether the gradient of a leaf has been asked for before."""
        return leaf in self._marks

    def asked(self, leaves: Sequence[Tensor], outputs: Sequence[Tensor], chain: Chain) -> bool:
        """Gradients are asked for; say whether that counts as a step already.

        Parameters
        ----------
        leaves
            For which they are.
        outputs
            Of which they are.
        chain
            The points at this place of the program.
        """
        self.times_asked += 1
        if self._monitor.recordings.rehearsing:
            return False
        loss = loss_number(outputs[0])
        call = Asked(loss if isinstance(loss, float) else None)
        earlier, chain.asked = chain.asked, call
        if chain.trains:
            self.count(earlier)
            self.count(call)
        sampled = self._unversioned or self.times_asked <= _SAMPLED
        for leaf in leaves:
            sample = _sample(leaf) if sampled and leaf is leaves[-1] else None
            mark = self._marks.get(leaf)
            if mark is not None and (mark.tells(leaf) or mark.differs(sample)):
                self._unversioned |= not mark.tells(leaf)
                self.count(mark.call)
                self.count(call)
            self._marks[leaf] = _Mark(leaf._version, leaf.data_ptr(), sample, call)
        return call.counted

    def count(self, call: Asked) -> None:
        """Count a call as a step, if it has not been counted."""
        if not call.counted:
            call.counted = True
            self._counted += 1
            self._monitor.watch.step += 1
            self._monitor.watch.remember_loss(call.loss)
            self._monitor.watch.remember_grad_norm(call.norm)

    def updated(self, leaves: Iterable[Tensor]) -> None:
        """Leaves have been written to: their last call is a step, and so is the next, though this may be undone."""
        for mark in filter(None, map(self._marks.get, leaves)):
            self.count(mark.call)
            mark.place = 0

    def take_back(self) -> None:
        """What has been counted was no training."""
        watch, counted = self._monitor.watch, self._counted
        if counted:
            self._counted = 0
            watch.step = max(watch.step - counted, 0)
            for history in (watch.loss_history, watch.grad_norm_history):
                for _ in range(min(counted, len(history) - 1)):
                    history.popleft()


@waits
def _sample(leaf: Tensor) -> float:
    """One number that a write to a leaf changes."""
    return abs(leaf.detach().sum().item())
