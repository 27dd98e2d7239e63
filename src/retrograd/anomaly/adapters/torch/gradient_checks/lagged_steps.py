"""Steps whose result is read one step later, so that the program never waits for the device."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from retrograd.anomaly.adapters.torch.gradient_checks.conditional_update import Hold, hold
from retrograd.anomaly.adapters.torch.gradient_checks.device_check import DeviceCheck, Look
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import Seen
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCall


@dataclass(eq=False)
class LateStep:
    """What is kept of a step until its result is known.

    Attributes
    ----------
    number, batch_idx
        The step's number and batch.
    parameters, losses
        What was looked at.
    look
        The result, being copied to the host.
    update
        Holds the update back.
    calls, tail
        The calls of the model, and the work in backward of the operations after it.
    largest
        Once it is known, the largest absolute value of each parameter's gradient.
    is_over
        Whether the optimizer has returned.
    is_applied
        Whether its update has been applied regardless of the result.
    inputs
        The tensors the graph read, with their versions then, if the step was replayed as a CUDA graph; else None.
    """

    number: int
    batch_idx: int | None
    parameters: list[Tensor]
    losses: list[Tensor]
    look: Look
    update: Hold | None
    calls: list[ModelCall] = field(default_factory=list)
    tail: Tail | None = None
    largest: list[float] = field(default_factory=list)
    is_over: bool = False
    is_applied: bool = False
    inputs: list[tuple[Tensor, int]] | None = None

    def end(self) -> None:
        """Called when applying the update, or holding it back, has been launched."""
        self.is_over = True
        if self.update is not None:
            self.update.updated()

    @property
    def is_gone(self) -> bool:
        """Whether weights or inputs have changed since the step was computed."""
        return self.is_applied or any(each._version != version for each, version in self.inputs or ())

    @property
    def wrong(self) -> list[Tensor]:
        """The parameters whose gradients were not finite."""
        return [each for each, size in zip(self.parameters, self.largest, strict=True) if not math.isfinite(size)]


class Lag:
    """Checks the gradients of each step, and reads the result before the next update.

    Parameters
    ----------
    on_known
        Called with a step and the values of its losses, once they are on the host.
    """

    def __init__(self, on_known: Callable[[LateStep, list[float]], None]) -> None:
        self._on_known = on_known
        self._pending: LateStep | None = None
        self._clipped: tuple[DeviceCheck, list[Tensor], Seen] | None = None
        self._handles: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by optimizer

    def stop(self) -> None:
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()
        self._pending = self._clipped = None

    def clip(self, gradients: Sequence[tuple[Tensor, Tensor]], losses: list[Tensor], harmful: Sequence[str]) -> Any:
        """Check gradients before they are clipped; the returned function is to be called afterwards."""
        verdict = DeviceCheck([gradient for _, gradient in gradients], losses, harmful)

        def clipped() -> None:
            self._clipped = verdict, losses, Seen(gradients)

        return clipped

    def look(
        self,
        optimizer: Any,
        gradients: Sequence[tuple[Tensor, Tensor]],
        losses: list[Tensor],
        harmful: Sequence[str],
        number: int,
        batch_idx: int | None,
    ) -> bool:
        """Check the gradients that an optimizer is about to apply, and hold the update back if they are harmful.

        Returns
        -------
        bool
            False if this optimizer's updates cannot be held back.
        """
        before, self._clipped = self._clipped, None
        if before is not None and not losses and before[2].are_just(gradients):
            verdict, losses = before[0], before[1]
        else:
            verdict = DeviceCheck([gradient for _, gradient in gradients], losses, harmful)
        can_settle = hasattr(optimizer, "_optimizer_state_dict_pre_hooks")  # not if its class has not called torch's
        update = None if verdict.harm is None or not can_settle else hold(optimizer, verdict.harm)
        if not can_settle or (harmful and update is None):
            return False
        if optimizer not in self._handles:  # a saved state must not contain a step that was left out
            self._handles[optimizer] = optimizer.register_state_dict_pre_hook(lambda optimizer: self.settle())
        parameters = [parameter for parameter, _ in gradients]
        self._pending = LateStep(number, batch_idx, parameters, losses, verdict.sent(), update)
        return True

    @property
    def holds(self) -> bool:
        """Whether an update is under way that may be held back."""
        return self._pending is not None and not self._pending.is_over

    def updated(self, calls: list[ModelCall], tail: Tail | None) -> None:
        """Called when the optimizer has returned; ``calls`` and ``tail`` led to its step."""
        if self._pending is not None and not self._pending.is_over:
            self._pending.calls, self._pending.tail = calls, tail
            self._pending.end()

    def settle(self) -> None:
        """Read the pending result, and correct what could not wait for the device."""
        step, self._pending = self._pending, None
        if step is None:
            return
        if not step.is_over:  # the update has failed
            step.end()
        harmful, step.largest, losses = step.look.read()
        if step.update is not None:
            step.update.settle(harmful)
        self._on_known(step, losses)
