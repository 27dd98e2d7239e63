"""Whether a step's gradients are finite: decided on the device, and known here when it is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.gradients import grouped, number_of

_HARMFUL: dict[tuple[str, ...], Callable[[Tensor], Tensor]] = {
    ("nan",): torch.isnan,
    ("inf",): torch.isinf,
    ("nan", "inf"): lambda numbers: numbers - numbers,  # zero, or NaN, which counts as true
}


class Landing:
    """Where numbers of a GPU arrive: memory that is pinned once, and an event behind the copy.

    Parameters
    ----------
    numbers
        The first of them; others of the same kind may follow when these have been read.
    """

    def __init__(self, numbers: Tensor) -> None:
        self._kind = _kind(numbers)
        self._here = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        self._copied = torch.cuda.Event()

    def fits(self, numbers: Tensor) -> bool:
        return self._kind == _kind(numbers)

    def begin(self, numbers: Tensor) -> None:
        """Copy numbers behind what is queued."""
        self._here.copy_(numbers, non_blocking=True)
        self._copied.record(torch.cuda.current_stream(numbers.device))

    def read(self) -> list[float]:
        """Wait for them."""
        self._copied.synchronize()
        return self._here.tolist()


def _kind(numbers: Tensor) -> tuple[torch.device, torch.dtype, int]:
    return numbers.device, numbers.dtype, len(numbers)


class Verdict:
    """One look at gradients and losses for which nobody waits.

    The largest absolute value of a gradient cannot overflow, and a NaN is the largest of all, so that it is finite just
    if all elements are. These numbers are put together on the device and copied to pinned memory behind what is queued.

    Parameters
    ----------
    gradients
        Of one step.
    losses
        Of the same step.
    harmful
        Which kinds make the step one that must not be applied: "nan", "inf", both or none.
    landings
        Those of earlier verdicts, which have been read; this one takes one of them, and puts it back in the end.

    Attributes
    ----------
    harm
        A truth value on the device of the first gradient: whether it must not. None if no kind makes it so.
    """

    def __init__(
        self,
        gradients: Sequence[Tensor],
        losses: Sequence[Tensor],
        harmful: Sequence[str],
        landings: list[Landing] | None = None,
    ) -> None:
        self._harmful = tuple(harmful)
        self._known = [0.0] * (len(gradients) + len(losses))  # of what cannot be read for ever
        self._gradients = len(gradients)
        self._order: list[int] = []  # of gradients and losses, in the numbers
        self._numbers = self._launched(gradients, losses)
        self.harm = _HARMFUL[self._harmful](self._numbers).any() if self._harmful else None
        self._landings = [] if landings is None else landings
        self._landing: Landing | None = None
        if self._numbers.is_cuda:
            self._landing = next((each for each in self._landings if each.fits(self._numbers)), None)
            if self._landing is None:
                self._landing = Landing(self._numbers)
            else:
                self._landings.remove(self._landing)
            self._landing.begin(self._numbers)

    def _launched(self, gradients: Sequence[Tensor], losses: Sequence[Tensor]) -> Tensor:
        """The largest absolute values and the losses, as few operations as that takes."""
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

    def read(self) -> tuple[bool, list[float], list[float]]:
        """Whether the step is harmful, the largest absolute value of each gradient, the losses; waits for them."""
        numbers = self._numbers.tolist() if self._landing is None else self._landing.read()
        if self._landing is not None:
            self._landings.append(self._landing)
            self._landing = None
        for place, number in zip(self._order, numbers, strict=True):
            self._known[place] = number
        kinds = {"nan" if math.isnan(each) else "inf" for each in numbers if not math.isfinite(each)}
        largest, losses = self._known[: self._gradients], self._known[self._gradients :]
        return not kinds.isdisjoint(self._harmful), largest, losses


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on some device; only on the CPU somebody waits for it, where it could be read too early otherwise."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=device.type != "cpu")
