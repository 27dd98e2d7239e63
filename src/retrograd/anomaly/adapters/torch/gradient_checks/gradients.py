"""A look at all gradients in one pass."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.gradient_checks.norms import NARROW, norm_of_subclass
from retrograd.anomaly.adapters.torch.gradient_checks.norms import norms as exact_norms
from retrograd.anomaly.adapters.torch.records.calls import can_be_bad, has_nan, is_bad, readable
from retrograd.anomaly.adapters.torch.runtime.synchronization import waits

_CPU = torch.device("cpu")
_LARGEST_ROOT = 1 << 16  # elements of the tensor that backward starts from, if it has several

item = torch._C.TensorBase.item  # which is not replaced, as that of ``Tensor`` is under a watch


def gradients_of(optimizer: Any) -> list[tuple[Tensor, Tensor]]:
    """The parameters of an optimizer that have a gradient, with these gradients."""
    return [
        (parameter, gradient)
        for group in optimizer.param_groups
        for parameter in group["params"]
        if (gradient := parameter.grad) is not None
    ]


def finite_norm(gradients: Sequence[Tensor], losses: Sequence[Tensor] = ()) -> float | None:
    """The total Euclidean norm of gradients; None if any element of these or of the losses is not finite.

    One norm per tensor, launched together for each device and type, and read from each device in one go. Finite norms
    prove that all elements are finite; a non-finite one may have overflowed, so then the elements are checked.
    """
    launched, numbers, found = _launched(gradients), numbers_of(losses), []
    for device in dict.fromkeys([*launched, *(each.device for each in numbers)]):
        norms = launched.get(device, [])
        read = numbers_on(device, [*norms, *(each for each in numbers if each.device == device)])
        if not all(map(math.isfinite, read)):
            is_fine = not any(is_bad(each) for each in (*gradients, *losses))
            return math.hypot(*exact_norms(gradients)) if is_fine else None
        found += read[: len(norms)]
    return math.hypot(*found)


def _launched(gradients: Sequence[Tensor]) -> dict[torch.device, list[Tensor]]:
    """The norm of each gradient, by device."""
    groups, alone = grouped(gradients)
    norms: dict[torch.device, list[Tensor]] = {}
    norms[_CPU] = [torch.tensor(norm) for norm in map(norm_of_subclass, alone) if norm is not None]
    for (device, dtype), group in groups.items():
        wide = torch.float32 if dtype in NARROW else None
        norms.setdefault(device, []).extend(torch._foreach_norm(list(group.values()), 2.0, wide))
    return norms


def grouped(
    gradients: Sequence[Tensor],
) -> tuple[dict[tuple[torch.device, torch.dtype], dict[int, Tensor]], list[Tensor | None]]:
    """The elements of gradients that are in memory, by device and type and by index, and those of all others.

    This runs for every parameter in every step, so plain tensors are spared checks for what they cannot be.
    """
    groups: dict[tuple[torch.device, torch.dtype], dict[int, Tensor]] = {}
    alone: list[Tensor | None] = []
    for place, gradient in enumerate(gradients):
        if type(gradient) is not Tensor or gradient.layout is not torch.strided or gradient.requires_grad:
            values = readable(gradient)
            if type(values) is not Tensor:
                alone.append(values)
                continue
            gradient = values
        groups.setdefault((gradient.device, gradient.dtype), {})[place] = gradient
    for device, dtype in list(groups):
        if device.type == "meta":
            del groups[device, dtype]
        elif dtype.itemsize == 1:
            groups[device, dtype] = {place: each.float() for place, each in groups[device, dtype].items()}
    return groups, alone


def numbers_of(losses: Iterable[Tensor]) -> list[Tensor]:
    """For each readable loss, a number that is finite if and only if the loss is."""
    return [number for number in map(number_of, losses) if number is not None]


def number_of(loss: Tensor) -> Tensor | None:
    """A loss as one real number, or the largest absolute value of several; None if it cannot be read."""
    values = readable(loss)
    if type(values) is not Tensor or not values.numel():
        return None
    if values.numel() == 1 and not values.is_complex():
        return values.reshape(()) if values.dim() else values
    return values.abs().amax()


class Seen:
    """Remembers which gradients were checked, in which version, without keeping them alive.

    Parameters
    ----------
    gradients
        The gradients, with their parameters.
    """

    def __init__(self, gradients: Sequence[tuple[Tensor, Tensor]]) -> None:
        # an id alone could be reused by another gradient once this one is gone
        self._known = {id(each): (weakref.ref(each), each._version) for _, each in gradients}

    def covers(self, gradients: Sequence[tuple[Tensor, Tensor]]) -> bool:
        """Whether all given gradients are among them and unchanged since."""
        return all(self._has(each) for _, each in gradients)

    def are_just(self, gradients: Sequence[tuple[Tensor, Tensor]]) -> bool:
        """Whether these are the given gradients, unchanged, and no others."""
        return len(gradients) == len(self._known) and self.covers(gradients)

    def _has(self, gradient: Tensor) -> bool:
        reference, version = self._known.get(id(gradient), (None, 0))
        return reference is not None and reference() is gradient and version == gradient._version


def is_here(device: torch.device) -> bool:
    """Whether numbers on a device can be read without waiting."""
    return device.type == "cpu"


@waits
def numbers_on(device: torch.device, numbers: Sequence[Tensor]) -> list[float]:
    """The values of one-element tensors on one device, read in one go."""
    if is_here(device):
        return list(map(item, numbers))
    return torch.stack([each if each.dtype is torch.float32 else each.float() for each in numbers]).tolist()


def loss_is_bad(loss: Tensor) -> bool:
    """Whether the tensor that backward starts from is not finite; large ones are not checked."""
    return can_be_bad(loss) and root_is_bad(loss, loss_number(loss))


def root_is_bad(loss: Tensor, number: complex | None) -> bool:
    """The same for one whose :func:`loss_number` is known, and that can be bad."""
    if number is not None:
        return not is_finite_number(number)
    return loss.numel() <= _LARGEST_ROOT and is_bad(loss)


def loss_number(loss: Tensor) -> complex | None:
    """The value of a loss; None if it is on a device, cannot be read, or has several elements."""
    if loss.numel() != 1 or not is_here(loss.device):
        return None
    values = loss if type(loss) is Tensor else readable(loss)
    if type(values) is Tensor:
        return item(values) if can_be_bad(values) else None
    with contextlib.suppress(Exception):  # subclasses may refuse anything
        return None if values is None else values.item()
    return None


def bad_ones(gradients: Iterable[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """The parameters whose gradient is not finite, with these gradients."""
    return [(parameter, gradient) for parameter, gradient in gradients if can_be_bad(gradient) and is_bad(gradient)]


def kind_of(tensors: Iterable[Tensor]) -> str:
    """ "nan" if any of the tensors contains one, otherwise "inf"."""
    return "nan" if any(map(has_nan, tensors)) else "inf"


def is_finite_number(value: complex) -> bool:
    """Whether a number, real or complex, is neither NaN nor infinite."""
    return math.isfinite(value.real) and math.isfinite(value.imag)
