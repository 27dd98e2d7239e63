"""Which calls of ``torch.autograd.grad`` count as steps: those of a program that trains with what they return."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from retrograd.anomaly.adapters.torch.boundaries.functional_updates import Chain, GradRequest
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import loss_number
from retrograd.anomaly.adapters.torch.runtime.synchronization import waits

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

_SAMPLED = 8  # calls in which a number is read from a leaf, to detect writes to ``.data``, which change no version


@dataclass(eq=False)
class _Mark:
    """The state of a leaf when its gradient was last requested."""

    version: int
    place: int
    sample: float | None
    call: GradRequest

    def tells(self, leaf: Tensor) -> bool:
        """Whether the leaf has been written to since, by torch's version counter."""
        return (self.version, self.place) != (leaf._version, leaf.data_ptr())

    def differs(self, sample: float | None) -> bool:
        """Whether it has, by a sample of its numbers."""
        if sample is None or self.sample is None:
            return False
        return sample != self.sample and not (math.isnan(sample) and math.isnan(self.sample))


class ManualSteps:
    """Counts the calls for gradients that are steps of a training by hand.

    A call is such a step if leaves have been written to or replaced by others since the call before; then the call
    before was a step as well.

    Parameters
    ----------
    monitor
        Whose watch counts.

    Attributes
    ----------
    times_asked
        How often gradients have been requested.
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
        """Whether the gradient of a leaf has been requested before."""
        return leaf in self._marks

    def asked(self, leaves: Sequence[Tensor], outputs: Sequence[Tensor], chain: Chain) -> bool:
        """Called when gradients are requested; return whether that already counts as a step.

        Parameters
        ----------
        leaves
            With respect to which gradients are requested.
        outputs
            The tensors that are differentiated.
        chain
            The points at this place in the program.
        """
        self.times_asked += 1
        if self._monitor.recordings.rehearsing:
            return False
        loss = loss_number(outputs[0])
        call = GradRequest(loss if isinstance(loss, float) else None)
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

    def count(self, call: GradRequest) -> None:
        """Count a call as a step, if it has not been counted."""
        if not call.counted:
            call.counted = True
            self._counted += 1
            self._monitor.watch.step += 1
            self._monitor.watch.remember_loss(call.loss)
            self._monitor.watch.remember_grad_norm(call.norm)

    def updated(self, leaves: Iterable[Tensor]) -> None:
        """Note written leaves: their last call is a step, and so is the next, even if this write is undone."""
        for mark in filter(None, map(self._marks.get, leaves)):
            self.count(mark.call)
            mark.place = 0

    def take_back(self) -> None:
        """Undo the count: what has been counted was no training."""
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
