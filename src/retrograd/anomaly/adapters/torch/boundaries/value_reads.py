"""Numbers and truth values that the program reads from its tensors, as when it checks its loss itself."""

from __future__ import annotations

import math
import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.program.loss_checks import checked_loss, may_tell_of_one
from retrograd.anomaly.adapters.torch.boundaries.evaluations import Evaluations
from retrograd.anomaly.adapters.torch.boundaries.failures import born_before, has_history
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import item, kind_of, loss_number
from retrograd.anomaly.adapters.torch.records.calls import is_bad
from retrograd.anomaly.adapters.torch.runtime.compilation import in_use
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.skipped_batches import CheckedLoss
from retrograd.anomaly.stack_frames import is_between

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

_READ_BY = ("item", "__bool__", "__float__")


class Reads:
    """Reports a non-finite loss that the program checks, as it may stop because of it.

    It does nothing in programs that use ``torch.compile``, which would compile the replacements of torch's methods.

    Parameters
    ----------
    monitor
        Supplies the watch and the explanations.
    """

    def __init__(self, monitor: TorchMonitor) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)
        self._evaluations = Evaluations(monitor)
        self._patches = Patches()

    def start(self) -> None:
        if not in_use():
            self._patches.wrap(torch, "compile", self._compile)
            for name in _READ_BY:
                self._patches.wrap(Tensor, name, self._read)

    def stop(self) -> None:
        self._patches.undo()

    def _compile(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self.stop()
        return original(*args, **kwargs)

    def _read(self, original: Any, tensor: Tensor) -> Any:
        value = original(tensor)
        if may_tell_of_one(value) and not torch.compiler.is_compiling():
            monitor = self._monitor
            if not (monitor.now.busy or monitor.watch.is_quiet):
                self._look(sys._getframe(2), value, tensor)  # the user's frame
        return value

    def _look(self, frame: Any, value: Any, tensor: Tensor) -> None:
        watch = self._monitor.watch
        if not torch.is_grad_enabled():
            self._evaluations.read(frame, tensor, value)
            return
        found = checked_loss(frame, is_between, has_history, self._is_bad, watch.left_out)
        if found is None:
            self._evaluations.read(frame, tensor, value)
            return
        left_out = watch.left_out
        if not found.is_own:
            if (found.leaves or found.replaces) and left_out.may_meet():
                left_out.met = self._event_of(found)
                if left_out.met is not None:
                    watch.checked(kind_of([found.loss]), left_out.met, found)
            return
        in_vain = found.leaves_out and left_out.note(found, type(value) is float)
        if in_vain or (not watch.is_silent and (left_out.may_end(found) or left_out.is_new(found))):
            event = self._event_of(found)
            if event is not None:
                watch.checked(kind_of([found.loss]), event, found, in_vain=in_vain)

    def _event_of(self, found: CheckedLoss) -> NaNEvent | None:
        with self._monitor.at_work():
            number = loss_number(found.loss)
            with self._monitor.watch.with_loss(number if isinstance(number, float) else None):
                return born_before(found.loss, self._monitor.analysis_at(found.frame))

    def _is_bad(self, tensor: Any) -> bool | None:
        if not issubclass(type(tensor), Tensor) or not (tensor.is_floating_point() or tensor.is_complex()):
            return None
        if tensor.numel() == 1 and tensor.is_floating_point():  # about as cheap as the program's own read
            return not math.isfinite(item(tensor))
        with self._monitor.at_work():
            return is_bad(tensor)
