"""Clipping of gradients, which turns all of them into NaN if one is infinite: they are checked before."""

from __future__ import annotations

import functools
import math
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import Seen, finite_norm, numbers_of, numbers_on
from retrograd.anomaly.adapters.torch.records.calls import can_be_bad
from retrograd.anomaly.expected import expected
from retrograd.anomaly.stack_frames import user_frame

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

Gradients = list[tuple[Tensor, Tensor]]  # with their parameters


class Clipping:
    """Checks gradients that are about to be clipped, by the norm that was computed for clipping.

    The optimizer's step need not check them again.

    Parameters
    ----------
    monitor
        Supplies the policies and the explanations.
    """

    def __init__(self, monitor: TorchMonitor) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)

    def start(self, patches: Patches) -> None:
        patches.wrap(torch.nn.utils.clip_grad, "_clip_grads_with_norm_", self._clip)

    def _clip(self, original: Any, parameters: Any, max_norm: float, total_norm: Tensor, *args: Any, **kw: Any) -> None:
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        gradients = [(each, each.grad) for each in parameters if each.grad is not None]
        clip = functools.partial(original, parameters, max_norm, total_norm, *args, **kw)
        if not gradients or self._is_settled(total_norm):
            clip()
        elif self._monitor.reads_later:
            self._look_later(gradients, clip)
        else:
            self._look(gradients, max_norm, total_norm, clip)

    def _is_settled(self, total_norm: Tensor) -> bool:
        """Whether there is nothing to check here: it is done elsewhere, or not at all."""
        monitor = self._monitor
        if monitor.now.busy or expected.depth or not can_be_bad(total_norm):
            return True
        return monitor.scaling.active or monitor.agreement.active or monitor.now.withheld

    def _look_later(self, gradients: Gradients, clip: Callable[[], None]) -> None:
        now = self._monitor.now
        waiting, now.waiting = now.waiting, []
        clipped = self._monitor.lag.clip(gradients, waiting, self._monitor.watch.must_not_pass)
        clip()
        clipped()

    def _look(self, gradients: Gradients, max_norm: float, total_norm: Tensor, clip: Callable[[], None]) -> None:
        """Check gradients, and clip them unless they are bad and must not be applied."""
        monitor, now = self._monitor, self._monitor.now
        losses = numbers_of(loss for loss in now.waiting if loss.device == total_norm.device)
        norm, *numbers = numbers_on(total_norm.device, [total_norm.detach(), *losses])
        if math.isfinite(norm) and all(map(math.isfinite, numbers)):
            monitor.remember(norm)
            clip()
            now.waiting = []
            now.checked = Seen(gradients)
            return
        if finite_norm([gradient for _, gradient in gradients], now.waiting) is not None:
            clip()
            return
        frame = user_frame(sys._getframe(1))
        now.clipping = {"total_norm": norm, "max_norm": float(max_norm)}
        if frame is not None:
            now.clipping["place"] = frame.f_code, frame.f_lasti
        if monitor.bad_gradients(gradients, now.waiting):
            clip()
