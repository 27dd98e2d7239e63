"""The size of a model's gradients, without the scale of a gradient scaler."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.records.calls import can_be_bad, dense, readable
from retrograd.anomaly.adapters.torch.runtime.synchronization import waits

NARROW = (torch.float16, torch.bfloat16)
_SMALLEST = 1e-15  # below it, squares underflow in single precision


@waits
def norms(gradients: Sequence[Tensor]) -> list[float]:
    """The Euclidean norms, even if squares over- or underflow; NaN or infinite only if an element is, 0 if unknown.

    They are computed together for each device and type, and read with one synchronisation each.
    """
    groups: dict[Any, list[int]] = {}
    found = [0.0] * len(gradients)
    values: dict[int, Tensor] = {}
    for number, gradient in enumerate(gradients):
        each = readable(gradient.coalesce() if gradient.layout is torch.sparse_coo else gradient)
        if type(each) is Tensor:
            values[number] = each
            groups.setdefault((each.device, each.dtype), []).append(number)
        else:
            found[number] = norm_of_subclass(each) or 0.0
    for (_, dtype), numbers in groups.items():
        wide = torch.float32 if dtype in NARROW else None
        together = torch._foreach_norm([values[number] for number in numbers], 2.0, wide)
        for number, norm in zip(numbers, torch.stack(together).tolist(), strict=True):
            found[number] = norm if _SMALLEST < norm < math.inf else _exact_norm(values[number])
    return found


def are_at_hand(tensor: Tensor) -> bool:
    """Whether all elements are in this process and in memory, which FSDP frees until they are needed again."""
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return False
    return can_be_bad(tensor)


def norm_of_subclass(values: Tensor | None) -> float | None:
    """The Euclidean norm of a tensor of a user's class; None if the class refuses to compute it."""
    with contextlib.suppress(Exception):
        return None if values is None else abs(torch.linalg.vector_norm(values).item())
    return None


def begun_norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The norms in the range of single precision, launched without waiting for them."""
    values = [dense(each.detach()) for each in tensors]
    wide = [torch.float32 if each.dtype in NARROW else None for each in values]
    return [torch.linalg.vector_norm(each, dtype=dtype) for each, dtype in zip(values, wide, strict=True)]


def _exact_norm(values: Tensor) -> float:
    """The norm, computed with a scale of its own if the largest element is finite."""
    largest = values.abs().max().item() if values.numel() else 0.0
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    wide = values.to(torch.complex128 if values.is_complex() else torch.float64)
    return largest * torch.linalg.vector_norm(wide / largest).item()


class GradientScale:
    """Follows the program's gradient scalers: the factor by which the present gradients are scaled."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._scaler: weakref.ref[Any] | None = None
        self._unscaled = False

    def start(self) -> None:
        self._patches.wrap(torch.amp.GradScaler, "scale", self._scale)
        self._patches.wrap(torch.amp.GradScaler, "unscale_", self._unscale)

    def remove(self) -> None:
        """Stop following the gradient scalers."""
        self._patches.undo()
        self._scaler = None

    @property
    def in_use(self) -> bool:
        """Whether losses are scaled, so that non-finite gradients are expected."""
        return self._scaler is not None and self._scaler() is not None

    @property
    def factor(self) -> float:
        """The number by which to divide the gradients."""
        scaler = None if self._scaler is None or self._unscaled else self._scaler()
        return 1.0 if scaler is None else scaler.get_scale()

    def _scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        if scaler.is_enabled():
            self._scaler, self._unscaled = weakref.ref(scaler), False
        return original(scaler, outputs)

    def _unscale(self, original: Any, scaler: Any, optimizer: Any) -> Any:
        self._unscaled = True
        return original(scaler, optimizer)
