"""An update that is held back on the device, before anybody here knows that it is a bad one."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.snapshot import copied

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
    others weights and state are copied before the update, and chosen between after it. Numbers on the CPU, such as
    step counts, are put back when the harm is known there.

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
        return type(value) in (Tensor, torch.nn.Parameter) and value.layout is torch.strided
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
    """Copies of weights and state, chosen instead of the new values by a truth value on the device."""

    def __init__(self, optimizer: Any, harm: Tensor) -> None:
        self._harm = harm
        self._here = _Here(optimizer)
        weights = [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
        state = [value for part in optimizer.state.values() for value in part.values() if isinstance(value, Tensor)]
        arrays = [each.detach() for each in (*weights, *state) if not _is_count(each)]
        self._arrays = list(zip(arrays, copied(arrays), strict=True))
        self._counts = [(each.detach(), each.detach().clone()) for each in (*weights, *state) if _is_count(each)]

    def updated(self) -> None:
        with torch.no_grad():
            for array, kept in self._arrays:
                torch.where(self._harm.to(array.device, non_blocking=True), kept, array, out=array)
        self._arrays = []
        self._here.updated()

    def settle(self, harmful: bool) -> None:
        if harmful:
            for count, kept in self._counts:
                count.copy_(kept)
            self._here.put_back()


class _Here:
    """What an update changes of the optimizer's own dictionaries: numbers, and state that it creates or replaces.

    That cannot wait for the device, and is put back when the harm is known.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._parts = [*optimizer.state.values(), *optimizer.param_groups]
        self._before = [dict(part) for part in self._parts]
        self._known = set(optimizer.state)
        self._changed: list[tuple[dict[str, Any], str, Any, Any]] = []
        self._created: list[Any] = []

    def updated(self) -> None:
        """Find out what has been changed."""
        for part, before in zip(self._parts, self._before, strict=True):
            for key in part.keys() | before.keys():
                old, new = before.get(key, _GONE), part.get(key, _GONE)
                if old is not new:
                    self._changed.append((part, key, old, new))
        self._created = [each for each in self._optimizer.state if each not in self._known]

    def put_back(self) -> None:
        for part, key, old, new in self._changed:
            if part.get(key, _GONE) is not new:
                continue  # somebody has set it since, such as a schedule
            if old is _GONE:
                del part[key]
            else:
                part[key] = old
        for parameter in self._created:
            self._optimizer.state.pop(parameter, None)


def _is_count(tensor: Tensor) -> bool:
    """Whether it is a number on the CPU, such as a step count, which an optimizer reads here."""
    return tensor.dim() == 0 and tensor.device.type == "cpu"
