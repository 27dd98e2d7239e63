"""Whether a step's gradients are finite: decided on the device, and read by the host when needed."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.gradient_checks.gradients import grouped, number_of
from retrograd.anomaly.adapters.torch.runtime.synchronization import waits

_HARMFUL: dict[tuple[str, ...], Callable[[Tensor], Tensor]] = {
    ("nan",): torch.isnan,
    ("inf",): torch.isinf,
    ("nan", "inf"): lambda numbers: numbers - numbers,  # zero, or NaN, which counts as true
}


class DeviceCheck:
    """One check of gradients and losses, without waiting for the result.

    The largest absolute value of a gradient cannot overflow, and a NaN counts as the largest of all, so it is finite
    if and only if all elements are. These numbers are put together on the device.

    Parameters
    ----------
    gradients
        Of one step.
    losses
        Of the same step.
    harmful
        Which kinds make the step one that must not be applied: "nan", "inf", both or none.

    Attributes
    ----------
    harm
        A truth value on the device of the first gradient, or else loss: whether the step must not be applied. None if
        no kind forbids that.
    """

    def __init__(self, gradients: Sequence[Tensor], losses: Sequence[Tensor], harmful: Sequence[str]) -> None:
        self._harmful = tuple(harmful)
        self._sizes = len(gradients), len(losses)
        self._order: list[int] = []  # of the gradients and losses to which the numbers belong
        self._numbers = self._launched(gradients, losses)
        self.harm = _HARMFUL[self._harmful](self._numbers).any() if self._harmful else None

    def _launched(self, gradients: Sequence[Tensor], losses: Sequence[Tensor]) -> Tensor:
        """The largest absolute values and the losses, computed with as few operations as possible."""
        numbers: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        places: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for (device, _), group in grouped(gradients)[0].items():
            filled = {place: each for place, each in group.items() if each.numel()}
            if filled:
                largest = torch._foreach_norm(list(filled.values()), math.inf)
                kind = device, largest[0].dtype
                numbers.setdefault(kind, []).extend(largest)
                places.setdefault(kind, []).extend(filled)
        for place, loss in enumerate(losses, len(gradients)):
            number = number_of(loss)
            if number is not None:
                kind = number.device, number.dtype
                numbers.setdefault(kind, []).append(number)
                places.setdefault(kind, []).append(place)
        self._order = [place for group in places.values() for place in group]
        rows = [torch.stack(each) for each in numbers.values()]
        if len(rows) == 1:
            return rows[0]
        device = rows[0].device if rows else torch.device("cpu")
        return torch.cat([torch.zeros(0, device=device), *(sent(each, device) for each in rows)])

    def sent(self) -> Look:
        """Start copying the present numbers to the host; those of a graph change with each replay."""
        return Look(self._numbers, self._order, self._sizes, self._harmful)


class Look:
    """The numbers of a :class:`DeviceCheck`, copied to the host after the work that is already queued.

    Parameters
    ----------
    numbers
        On the device: the largest absolute values, the losses.
    order
        Which of all gradients and losses the numbers belong to; the others cannot be read.
    sizes
        How many gradients and how many losses there are.
    harmful
        Which kinds make the step one that must not be applied.
    """

    def __init__(self, numbers: Tensor, order: Sequence[int], sizes: tuple[int, int], harmful: Sequence[str]) -> None:
        self._order, self._sizes, self._harmful = order, sizes, harmful
        self._landing = _landing(numbers)
        self._landing.begin(numbers)

    @waits
    def read(self) -> tuple[bool, list[float], list[float]]:
        """Wait for the results: whether the step is harmful, the largest absolute values by gradient, the losses."""
        numbers = self._landing.read()
        known = [0.0] * sum(self._sizes)
        for place, number in zip(self._order, numbers, strict=True):
            known[place] = number
        kinds = {"nan" if math.isnan(each) else "inf" for each in numbers if not math.isfinite(each)}
        gradients = self._sizes[0]
        return not kinds.isdisjoint(self._harmful), known[:gradients], known[gradients:]


class _Landing:
    """Where numbers arrive: for a GPU, memory that is pinned once, and an event after the copy.

    The memory is never freed but reused: freeing pinned memory makes torch query the device, and if the device has
    failed, that aborts the process, at the latest when Python exits.
    """

    def __init__(self, kind: tuple[torch.device, torch.dtype, int]) -> None:
        device, dtype, size = self._kind = kind
        self.here = torch.empty(size, dtype=dtype, pin_memory=device.type == "cuda")
        self._copied = torch.cuda.Event() if device.type == "cuda" else None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.here))

    def begin(self, numbers: Tensor) -> None:
        """Copy numbers after the work that is already queued."""
        self.here.copy_(numbers, non_blocking=self._copied is not None)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(numbers.device))

    def read(self) -> list[float]:
        """Wait for the numbers; afterwards the landing is free for others."""
        if self._copied is not None:
            self._copied.synchronize()
        numbers = self.here.tolist()
        _free[self._kind].append(self)
        return numbers


# Landings that are free for reuse.
_free: dict[tuple[torch.device, torch.dtype, int], list[_Landing]] = {}


def _landing(numbers: Tensor) -> _Landing:
    kind = numbers.device, numbers.dtype, len(numbers)
    free = _free.setdefault(kind, [])
    return free.pop() if free else _Landing(kind)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor copied to a device; waits only if that is the CPU, where it could otherwise be read too early."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=device.type != "cpu")
