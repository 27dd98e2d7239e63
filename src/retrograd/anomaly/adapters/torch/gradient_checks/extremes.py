"""Summarising a tensor: one pass gives its minimum and maximum, which are NaN if any element is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.records.calls import dense
from retrograd.anomaly.adapters.torch.runtime.synchronization import waits
from retrograd.anomaly.layer_detector.adapter import Look

_is_transformed = torch._C._functorch.is_functorch_wrapped_tensor


def has_elements(value: Any) -> bool:
    """Whether a value is a tensor with elements that can be NaN and can be read."""
    return (
        isinstance(value, Tensor)
        and (value.is_floating_point() or value.is_complex())
        and value.numel() > 0
        and not value.is_meta
        and not _is_transformed(value)
        and type(value).__name__ != "FakeTensor"  # its class is not imported before it is used
    )


def look(tensor: Tensor) -> Look:
    """Summarise a tensor."""
    reals = _reals(tensor)
    low, high = torch.aminmax(reals)
    found = _look(low.item(), high.item())
    if not found.nan:
        return found
    return Look(True, bool(torch.isposinf(reals).any()), bool(torch.isneginf(reals).any()))


def absmin(tensor: Tensor) -> float:
    """The smallest absolute value."""
    return _reals(tensor).abs().min().item()


def extremes(tensor: Tensor) -> Tensor:
    """The minimum and the negated maximum, on the tensor's device; both NaN if any element is."""
    low, high = torch.aminmax(_reals(tensor))
    return torch.stack((low, -high))


@waits
def read(asked: Sequence[Tensor]) -> list[Look]:
    """Read some ``extremes``, with one copy for each device and type."""
    groups: dict[Any, list[int]] = {}
    for number, each in enumerate(asked):
        groups.setdefault((each.device, each.dtype), []).append(number)
    found: dict[int, Look] = {}
    for numbers in groups.values():
        rows = torch.stack([asked[number] for number in numbers]).tolist()
        found.update((number, _look(low, -high)) for number, (low, high) in zip(numbers, rows, strict=True))
    return [found[number] for number in range(len(asked))]


def _look(low: float, high: float) -> Look:
    if low != low:
        return Look(nan=True)
    return Look(False, high == math.inf, low == -math.inf, low, high)


def _reals(tensor: Tensor) -> Tensor:
    """The elements as real numbers of a type that torch can compare."""
    values = tensor.detach() if tensor.layout is torch.strided and type(tensor) is Tensor else dense(tensor)
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    elif values.dtype.itemsize == 1:
        values = values.float()
    return values if values.numel() else values.new_zeros(1)


class Tally:
    """The extremes of all outputs of a layer in compiled code since the last read.

    Such code calls no Python, so updating the tally is compiled into it.

    Parameters
    ----------
    device
        Where the layer works.
    """

    def __init__(self, device: torch.device) -> None:
        wide = torch.float32 if device.type == "mps" else torch.float64
        self._reached = torch.full((2,), math.inf, dtype=wide, device=device)

    def add(self, output: Any) -> None:
        """Add an output of the layer; to be compiled."""
        with torch.no_grad():
            for tensor in _tensors(output):
                reached = extremes(tensor.detach()).to(self._reached)
                self._reached.copy_(torch.minimum(self._reached, reached))

    @staticmethod
    def read(tallies: Sequence[Tally]) -> list[Look | None]:
        """Read some tallies and reset them; None for those to which nothing was added."""
        if not tallies:
            return []
        reached = [each._reached for each in tallies]
        rows = torch.stack(reached).tolist()
        with torch.no_grad():
            torch._foreach_copy_(reached, [torch.full_like(reached[0], math.inf)] * len(reached))
        return [None if low == high == math.inf else _look(low, -high) for low, high in rows]


def _tensors(output: Any) -> Iterator[Tensor]:
    """The tensors in a layer's output, found by code that can be compiled."""
    if isinstance(output, Tensor):
        if output.is_floating_point() or output.is_complex():
            yield output
    elif isinstance(output, (list, tuple)):
        for each in output:
            yield from _tensors(each)
    elif isinstance(output, dict):
        for each in output.values():
            yield from _tensors(each)
    elif dataclasses.is_dataclass(output):
        for field in dataclasses.fields(output):
            yield from _tensors(getattr(output, field.name))
