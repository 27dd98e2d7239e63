"""Whether a step's gradients are finite: decided on the device, and known here when it is asked for."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.calls import can_be_bad, readable
from retrograd.anomaly.adapters.torch.waiting import waits

_HARMFUL: dict[tuple[str, ...], Callable[[Tensor], Tensor]] = {
    (): lambda numbers: torch.zeros_like(numbers, dtype=torch.bool),
    ("nan",): torch.isnan,
    ("inf",): torch.isinf,
    ("nan", "inf"): lambda numbers: ~torch.isfinite(numbers),
}


class Verdict:
    """One look at gradients and losses for which nobody waits.

    The largest absolute value of a gradient cannot overflow, and a NaN is the largest of all, so that it is finite just
    if all elements are. These numbers are put together on the device.

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
        A truth value on the device of the first gradient, or else loss: whether it must not.
    """

    def __init__(self, gradients: Sequence[Tensor], losses: Sequence[Tensor], harmful: Sequence[str]) -> None:
        self._gradients = len(gradients)
        self._order: list[int] = []  # of the gradients, in the numbers
        device = next((each.device for each in (*gradients, *losses) if can_be_bad(each)), torch.device("cpu"))
        wide = torch.float32 if device.type == "mps" else torch.float64
        parts = [torch.zeros(0, device=device), *self._largest(gradients), *(_number(each, device) for each in losses)]
        numbers = torch.cat([each.to(device, wide, non_blocking=True) for each in parts])
        self.harm = _HARMFUL[tuple(harmful)](numbers).any()
        self._numbers = torch.cat([self.harm.to(wide).reshape(1), numbers])

    def _largest(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The largest absolute values, for each device and type one tensor."""
        groups: dict[tuple[torch.device, torch.dtype], dict[int, Tensor]] = {}
        for place, gradient in enumerate(gradients):
            elements = readable(gradient)
            if elements is not None and type(elements) is Tensor and elements.numel():
                groups.setdefault((elements.device, elements.dtype), {})[place] = elements
        for group in groups.values():
            self._order += group
        return [torch.stack(torch._foreach_norm(list(group.values()), math.inf)) for group in groups.values()]

    def sent(self) -> Look:
        """What the numbers are now, on their way here; those of a graph are others after each replay."""
        return Look(self._numbers, self._gradients, self._order)


class Look:
    """The numbers of a :class:`Verdict`, copied to pinned memory behind what is queued.

    Parameters
    ----------
    numbers
        On the device: whether the step is harmful, the largest absolute values, the losses.
    gradients
        How many there are.
    order
        Which of them the largest values belong to.
    """

    def __init__(self, numbers: Tensor, gradients: int, order: Sequence[int]) -> None:
        self._gradients = gradients
        self._order = order
        self._copied: torch.cuda.Event | None = None
        on_gpu = numbers.device.type == "cuda"
        self._kind = len(numbers), numbers.dtype, on_gpu
        self._here = _memory(*self._kind)
        self._here.copy_(numbers, non_blocking=on_gpu)
        if on_gpu:
            self._copied = torch.cuda.Event()
            self._copied.record(torch.cuda.current_stream(numbers.device))

    @waits
    def read(self) -> tuple[bool, list[float], list[float]]:
        """Whether the step is harmful, the largest absolute value of each gradient, the losses; waits for them."""
        if self._copied is not None:
            self._copied.synchronize()
        harm, *numbers = self._here.tolist()
        _free[self._kind].append(self._here)
        largest = [0.0] * self._gradients
        for place, number in zip(self._order, numbers, strict=False):
            largest[place] = number
        return bool(harm), largest, numbers[len(self._order) :]


# Memory that has been read and can be used again, by size, type, and whether it is pinned.
_free: dict[tuple[int, torch.dtype, bool], list[Tensor]] = {}


def _memory(size: int, dtype: torch.dtype, pinned: bool) -> Tensor:
    """Memory to copy numbers to.

    It is never given back, but used again: torch asks the device when pinned memory is freed, and if that has failed,
    the process is aborted, when Python ends at the latest.
    """
    kept = _free.setdefault((size, dtype, pinned), [])
    if kept:
        return kept.pop()
    made = torch.empty(size, dtype=dtype, pin_memory=pinned)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def _number(loss: Tensor, device: torch.device) -> Tensor:
    """A loss as one real number, or the largest absolute value of several; 0 on a device if it cannot be read."""
    values = readable(loss)
    if values is None or type(values) is not Tensor or not values.numel():
        return torch.zeros(1, device=device)
    if values.numel() == 1 and not values.is_complex():
        return values.reshape(1)
    return values.abs().amax().reshape(1)
