"""Padding as modules."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules._errors import MISFITS, misshaped_places
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.utils import ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Padding at the ends of the last dimensions.

    Parameters
    ----------
    padding
        One number for all sides, or two per dimension, the last one first: ``(left, right, top, bottom, ...)``.
    """

    spatial: int  # how many dimensions are padded
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding: tuple[Any, ...] = ntuple(padding, 2 * self.spatial)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        try:
            return F.pad(input, self.padding, self.mode)
        except MISFITS as error:
            raise misshaped_places(self, error, input) from None

    def extra_repr(self) -> str:
        """Return the padding."""
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the padding and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pad the last dimension with a number."""

    spatial = 1


class ConstantPad2d(_ConstantPad):
    """Pad the last two dimensions with a number.

    Parameters
    ----------
    padding
        One number for all sides, or ``(left, right, top, bottom)``.
    value
        What to pad with.
    """

    spatial = 2


class ConstantPad3d(_ConstantPad):
    """Pad the last three dimensions with a number."""

    spatial = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the padding."""
        return str(self.padding)


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pad the last dimension with zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pad the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pad the last three dimensions with zeros."""


class ReflectionPad1d(_Pad):
    """Pad the last dimension with its mirror image, without the element at the end."""

    spatial = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Pad the last two dimensions with their mirror image, without the elements at the ends."""

    spatial = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Pad the last three dimensions with their mirror image, without the elements at the ends."""

    spatial = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """Pad the last dimension with the element at the end."""

    spatial = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Pad the last two dimensions with the elements at the ends."""

    spatial = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """Pad the last three dimensions with the elements at the ends."""

    spatial = 3
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        if isinstance(input, Tensor) and input.ndim - self.spatial not in (1, 2):
            error = ValueError(f"expected {self.spatial + 1}D or {self.spatial + 2}D input (got {input.ndim}D input)")
            raise misshaped_places(self, error, input)
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pad the last dimension as if it repeated itself."""

    spatial = 1


class CircularPad2d(_CircularPad):
    """Pad the last two dimensions as if they repeated themselves."""

    spatial = 2


class CircularPad3d(_CircularPad):
    """Pad the last three dimensions as if they repeated themselves."""

    spatial = 3
