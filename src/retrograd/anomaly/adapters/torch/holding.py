"""An update that is held back on the device, before anybody here knows that it is a bad one."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.snapshot import copied
from retrograd.anomaly.adapters.torch.verdict import sent

_GONE = object()


class Hold(Protocol):
    """What keeps one update from changing anything if the device finds it to be harmful."""

    def updated(self) -> None:
        """The optimizer has done its work, as far as this process is concerned."""

    def settle(self, harmful: bool) -> None:
        """It is known here now; to be called before the optimizer's next step."""


def hold(optimizer: Any, harm: Tensor) -> Hold | None:
    """Hold an update back if ``harm`` turns out to be true; to be called just before it.

    Fused optimizers look at ``found_inf`` themselves, as they do for gradient scalers, which costs nothing. For all
    others weights and state are copied before the update, and put back after it. Numbers on the CPU, such as step
    counts, are put back when the harm is known there.

    Returns
    -------
    Hold or None
        None if this optimizer keeps something that cannot be put back.
    """
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        return _ByOptimizer(optimizer, harm)
    values = [value for state in optimizer.state.values() for value in state.values()]
    values += [each for group in optimizer.param_groups for each in group["params"]]
    return _ByCopies(optimizer, harm) if all(map(_can_be_put_back, values)) else None


def _can_be_put_back(value: Any) -> bool:
    if isinstance(value, Tensor):
        plain = type(value) in (Tensor, torch.nn.Parameter) and value.layout is torch.strided
        return plain and value.dtype.itemsize in _BITS and not (value.is_conj() or value.is_neg())
    return value is None or isinstance(value, (bool, int, float, complex, str))


class _ByOptimizer:
    def __init__(self, optimizer: Any, harm: Tensor) -> None:
        self._optimizer = optimizer
        self._here = _Here(optimizer)
        optimizer.found_inf = harm.to(torch.float32)

    def updated(self) -> None:
        del self._optimizer.found_inf
        self._here.updated()

    def settle(self, harmful: bool) -> None:
        if harmful:
            self._here.put_back()


class _ByCopies:
    """Copies of weights and state, which take the place of the new values by a truth value on the device."""

    @torch.no_grad()
    def __init__(self, optimizer: Any, harm: Tensor) -> None:
        self._harm = harm
        self._here = _Here(optimizer)
        kept = [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
        kept += [value for part in optimizer.state.values() for value in part.values() if isinstance(value, Tensor)]
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
        self._here.updated()

    @torch.no_grad()
    def settle(self, harmful: bool) -> None:
        if harmful:
            for count, before in zip(self._counts, self._counts_before, strict=True):
                count.copy_(before)
            self._here.put_back()


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the bytes of an element


def _put_back_if(harm: Tensor, arrays: list[Tensor], before: list[Tensor]) -> None:
    """Give arrays of integers what they were before if ``harm`` is true: a few operations for any number of arrays.

    One of the two is multiplied by zero, which works on the bits of floating-point numbers only: NaN times zero is NaN.
    """
    old = sent(harm, arrays[0].device).to(arrays[0].dtype)
    torch._foreach_mul_(before, old)
    torch._foreach_mul_(arrays, 1 - old)
    torch._foreach_add_(arrays, before)


class _Here:
    """What an update changes of the optimizer's own dictionaries: numbers, and state that it creates or replaces.

    That cannot wait for the device, and is put back when the harm is known.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._parts: list[dict[str, Any]] = [*optimizer.state.values(), *optimizer.param_groups]
        self._before = list(map(dict, self._parts))
        self._known = list(optimizer.state)
        self._after: list[dict[str, Any]] = []
        self._known_after: list[Any] = []

    def updated(self) -> None:
        """Note what is there now, which is compared only if it has to be put back."""
        self._after = list(map(dict, self._parts))
        self._known_after = list(self._optimizer.state)

    def put_back(self) -> None:
        for part, before, after in zip(self._parts, self._before, self._after, strict=True):
            for key in after.keys() | before.keys():
                old, new = before.get(key, _GONE), after.get(key, _GONE)
                if old is new or part.get(key, _GONE) is not new:
                    continue  # unchanged, or somebody has set it since, such as a schedule
                if old is _GONE:
                    del part[key]
                else:
                    part[key] = old
        known = set(map(id, self._known))
        for parameter in self._known_after:
            if id(parameter) not in known:
                self._optimizer.state.pop(parameter, None)


def _is_count(tensor: Tensor) -> bool:
    """Whether it is a number on the CPU, such as a step count, which an optimizer reads here."""
    return tensor.dim() == 0 and tensor.device.type == "cpu"
