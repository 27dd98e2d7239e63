"""Holding a bad update back on the device, before the host knows that it is bad."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.boundaries.optimizer_snapshot import OptimizerSnapshot
from retrograd.anomaly.adapters.torch.gradient_checks.device_check import sent
from retrograd.anomaly.adapters.torch.second_run.snapshot import copied


class Hold(Protocol):
    """Keeps one update from changing anything if the device finds it harmful."""

    def updated(self) -> None:
        """Called when the optimizer has launched all its work."""

    def settle(self, harmful: bool) -> None:
        """Called once the host knows the result, before the optimizer's next step."""


def hold(optimizer: Any, harm: Tensor) -> Hold | None:
    """Hold an update back if ``harm`` turns out to be true; to be called just before it.

    Fused optimizers check ``found_inf`` themselves, as they do for gradient scalers, which costs nothing. For all
    others weights and state are copied before the update, and put back after it. Numbers, containers, and scalar
    tensors on the CPU, such as step counts, cannot wait for the device: they are put back once the harm is known on
    the host.

    Returns
    -------
    Hold or None
        None if this optimizer keeps tensors that cannot be put back.
    """
    memory = OptimizerSnapshot(optimizer)
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        return _ByOptimizer(optimizer, harm, memory)
    return _ByCopies(harm, memory) if all(map(_can_be_put_back, memory.tensors)) else None


def _can_be_put_back(tensor: Tensor) -> bool:
    plain = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return plain and tensor.dtype.itemsize in _BITS and not (tensor.is_conj() or tensor.is_neg())


class _ByOptimizer:
    def __init__(self, optimizer: Any, harm: Tensor, memory: OptimizerSnapshot) -> None:
        self._optimizer = optimizer
        self._memory = memory
        optimizer.found_inf = harm.to(torch.float32)

    def updated(self) -> None:
        del self._optimizer.found_inf
        self._memory.updated()

    def settle(self, harmful: bool) -> None:
        if harmful:
            self._memory.put_back()


class _ByCopies:
    """Copies of weights and state, which replace the new values if a truth value on the device says so."""

    @torch.no_grad()
    def __init__(self, harm: Tensor, memory: OptimizerSnapshot) -> None:
        self._harm = harm
        self._memory = memory
        kept = [each for each in memory.tensors if not (each.requires_grad and each.grad is None)]
        groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for each in kept:
            if not _is_count(each):
                bits = each.view(_BITS[each.dtype.itemsize])
                groups.setdefault((bits.device, bits.dtype), []).append(bits)
        self._arrays = [(group, copied(group)) for group in groups.values()]
        self._counts = [each for each in kept if _is_count(each)]
        self._counts_before = copied(self._counts)

    @torch.no_grad()
    def updated(self) -> None:
        for arrays, before in self._arrays:
            _put_back_if(self._harm, arrays, before)
        self._arrays = []
        self._memory.updated()

    @torch.no_grad()
    def settle(self, harmful: bool) -> None:
        if harmful:
            for count, before in zip(self._counts, self._counts_before, strict=True):
                count.copy_(before)
            self._memory.put_back()


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the bytes of an element


def _put_back_if(harm: Tensor, arrays: list[Tensor], before: list[Tensor]) -> None:
    """Restore arrays of integers if ``harm`` is true: a few operations for any number of arrays.

    Either the old or the new one is multiplied by zero; the bits must be used, as NaN times zero is NaN.
    """
    old = sent(harm, arrays[0].device).to(arrays[0].dtype)
    torch._foreach_mul_(before, old)
    torch._foreach_mul_(arrays, 1 - old)
    torch._foreach_add_(arrays, before)


def _is_count(tensor: Tensor) -> bool:
    """Whether it is a scalar on the CPU, such as a step count, which an optimizer reads on the host."""
    return tensor.dim() == 0 and tensor.device.type == "cpu"
