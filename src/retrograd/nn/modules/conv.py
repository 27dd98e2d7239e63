"""Convolutions, and their transposes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import empty
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules._errors import MISFITS, misshaped_places
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.utils import ntuple, unless_default
from retrograd.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """The base of all convolutions, also users' own; like torch's, it takes a tuple for every size."""

    spatial: int  # how many dimensions the kernel has
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, but got {groups}")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups, but {channels} is not divisible by {groups}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {list(_PADDING_MODES)}, but got padding_mode={padding_mode!r}"
            )
        if not hasattr(self, "spatial"):
            self.spatial = len(kernel_size)
        n = self.spatial
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size: tuple[Any, ...] = ntuple(kernel_size, n)
        self.stride: tuple[Any, ...] = ntuple(stride, n)
        self.padding: str | tuple[Any, ...] = padding if isinstance(padding, str) else ntuple(padding, n)
        self.dilation: tuple[Any, ...] = ntuple(dilation, n)
        self.transposed = transposed
        self.output_padding: tuple[Any, ...] = ntuple(output_padding, n)
        self.groups = groups
        self.padding_mode = padding_mode
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
            if padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        self._reversed_padding_repeated_twice = self._padding_around()
        outer, inner = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(empty(outer, inner // groups, *self.kernel_size, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _padding_around(self) -> list[int]:
        """The argument of :func:`~retrograd.nn.functional.pad`: both sides of every dimension, the last one first."""
        if not isinstance(self.padding, str):
            return [int(width) for width in reversed(self.padding) for _ in range(2)]
        sides: list[int] = []
        for k in reversed(range(self.spatial)):
            total = 0 if self.padding == "valid" else self.dilation[k] * (self.kernel_size[k] - 1)
            sides += [total // 2, total - total // 2]
        return sides

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform on ``±1 / sqrt(fan_in)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        """Return the parameters that are not those by default."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        options = {
            "padding": (self.padding, (0,) * len(self.padding)),
            "dilation": (self.dilation, (1,) * len(self.dilation)),
            "output_padding": (self.output_padding, (0,) * len(self.output_padding)),
            "groups": (self.groups, 1),
            "bias": (self.bias is not None, True),
            "padding_mode": (self.padding_mode, "zeros"),
        }
        return text + unless_default(options)


class _Conv(_ConvNd):
    """A convolution; see :class:`Conv2d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            False,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    # layers made of this one call it with weights of their own, or put another in its place, as they do in torch
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolution = getattr(F, f"conv{self.spatial}d")
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        return convolution(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of ``input``."""
        try:
            return self._conv_forward(input, self.weight, self.bias)
        except MISFITS as error:
            raise misshaped_places(self, error, input, self.in_channels) from None


class Conv1d(_Conv):
    """Convolve ``(N, C, L)`` or ``(C, L)``; the parameters are those of :class:`Conv2d`."""

    spatial = 1


class Conv2d(_Conv):
    """Convolve ``(N, C, H, W)`` or ``(C, H, W)``, in the sense of neural networks: cross-correlate.

    Weight and bias begin uniform on ``±1 / sqrt(in_channels / groups * product of kernel_size)``.

    Parameters
    ----------
    in_channels, out_channels
        The numbers of channels of input and output.
    kernel_size, stride, padding, dilation
        One number, or one per dimension; ``padding`` may be ``"same"`` or ``"valid"``.
    groups
        In how many groups of channels to work; every one sees its own inputs only.
    bias
        Whether there is one.
    padding_mode
        ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.

    Attributes
    ----------
    weight
        Of shape ``(out_channels, in_channels / groups, *kernel_size)``.
    bias
        Of shape ``(out_channels,)``, or None.
    """

    spatial = 2


class Conv3d(_Conv):
    """Convolve ``(N, C, D, H, W)`` or ``(C, D, H, W)``; the parameters are those of :class:`Conv2d`."""

    spatial = 3


class _ConvTranspose(_ConvNd):
    """A transposed convolution; see :class:`ConvTranspose2d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            True,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution of ``input``.

        Parameters
        ----------
        output_size
            Which of the possible sizes the output should have, with a stride above 1.
        """
        padding = self.output_padding if output_size is None else self._padding_for(input, list(output_size))
        convolution = getattr(F, f"conv_transpose{self.spatial}d")
        try:
            return convolution(
                input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
            )
        except MISFITS as error:
            raise misshaped_places(self, error, input, self.in_channels) from None

    def _padding_for(self, input: Tensor, output_size: list[int]) -> tuple[int, ...]:
        n = self.spatial
        others = input.ndim - n
        if len(output_size) == input.ndim:
            output_size = output_size[others:]
        if len(output_size) != n:
            raise ValueError(
                f"{type(self).__name__}: for {input.ndim}D input, output_size must have {n} or {input.ndim} elements "
                f"(got {len(output_size)})"
            )
        least = [
            (input.shape[others + k] - 1) * self.stride[k]
            - 2 * self.padding[k]
            + self.dilation[k] * (self.kernel_size[k] - 1)
            + 1
            for k in range(n)
        ]
        most = [size + step - 1 for size, step in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, output_size, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} (for an "
                f"input of {list(input.shape[others:])})"
            )
        return tuple(size - low for size, low in zip(output_size, least, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """The transpose of :class:`Conv1d`; the parameters are those of :class:`ConvTranspose2d`."""

    spatial = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of :class:`Conv2d` as a linear map: its backward as a layer.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, groups, bias, dilation
        As of :class:`Conv2d`.
    output_padding
        Added to one side of the output, whose size the others do not determine.
    padding_mode
        Only ``"zeros"``.

    Attributes
    ----------
    weight
        Of shape ``(in_channels, out_channels / groups, *kernel_size)``.
    bias
        Of shape ``(out_channels,)``, or None.
    """

    spatial = 2


class ConvTranspose3d(_ConvTranspose):
    """The transpose of :class:`Conv3d`; the parameters are those of :class:`ConvTranspose2d`."""

    spatial = 3
