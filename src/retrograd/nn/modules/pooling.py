"""Pooling as modules. What they compute is said in :mod:`retrograd.nn.functional`."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules._errors import MISFITS, misshaped_places
from retrograd.nn.modules.fractional_pooling import FractionalMaxPool2d, FractionalMaxPool3d
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.utils import ntuple

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _Pool(Module):
    """Pooling over windows."""

    spatial: int  # how many dimensions the window has
    function: str  # the functional form, without its dimensions

    def _pool(self, input: Tensor, *args: Any) -> Any:
        try:
            return getattr(F, f"{self.function}{self.spatial}d")(input, *args)
        except MISFITS as error:
            raise misshaped_places(self, error, input) from None


class _MaxPool(_Pool):
    function = "max_pool"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Return the maxima, with their indices if asked for."""
        return self._pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        """Return the parameters."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The maxima over windows of ``(N, C, L)``; the parameters are those of :class:`MaxPool2d`."""

    spatial = 1


class MaxPool2d(_MaxPool):
    """The maxima over windows of ``(N, C, H, W)``.

    Parameters
    ----------
    kernel_size, stride, padding, dilation
        One number, or one per dimension; the stride is the kernel size by default.
    return_indices
        Return the places of the maxima, too, for :class:`MaxUnpool2d`.
    ceil_mode
        Whether windows may reach over the end.
    """

    spatial = 2


class MaxPool3d(_MaxPool):
    """The maxima over windows of ``(N, C, D, H, W)``; the parameters are those of :class:`MaxPool2d`."""

    spatial = 3


class _MaxUnpool(_Pool):
    function = "max_unpool"

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = ntuple(kernel_size, self.spatial)
        self.stride = ntuple(kernel_size if stride is None else stride, self.spatial)
        self.padding = ntuple(padding, self.spatial)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return the values at their places, and zeros elsewhere."""
        return self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Put maxima that :class:`MaxPool1d` returned with their indices where they were."""

    spatial = 1


class MaxUnpool2d(_MaxUnpool):
    """Put maxima that :class:`MaxPool2d` returned with their indices where they were, and zeros elsewhere.

    Parameters
    ----------
    kernel_size, stride, padding
        Those of the pooling.
    """

    spatial = 2


class MaxUnpool3d(_MaxUnpool):
    """Put maxima that :class:`MaxPool3d` returned with their indices where they were."""

    spatial = 3


class _AvgPool(_Pool):
    function = "avg_pool"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The means over windows of ``(N, C, L)``.

    Parameters
    ----------
    kernel_size, stride, padding
        Numbers, or tuples of one; the stride is the kernel size by default.
    ceil_mode
        Whether windows may reach over the end.
    count_include_pad
        Whether the padding counts.
    """

    spatial = 1

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.kernel_size = ntuple(self.kernel_size, 1)
        self.stride = ntuple(self.stride, 1)
        self.padding = ntuple(padding, 1)

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_AvgPool):
    """The means over windows of ``(N, C, H, W)``.

    Parameters
    ----------
    kernel_size, stride, padding
        One number, or one per dimension; the stride is the kernel size by default.
    ceil_mode
        Whether windows may reach over the end.
    count_include_pad
        Whether the padding counts.
    divisor_override
        What to divide by instead of the size of the window.
    """

    spatial = 2


class AvgPool3d(_AvgPool):
    """The means over windows of ``(N, C, D, H, W)``; the parameters are those of :class:`AvgPool2d`."""

    spatial = 3


class _LPPool(_Pool):
    function = "lp_pool"

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        return self._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norms over windows of ``(N, C, L)``; the parameters are those of :class:`LPPool2d`."""

    spatial = 1


class LPPool2d(_LPPool):
    """The p-norms over windows of ``(N, C, H, W)``.

    Parameters
    ----------
    norm_type
        The order p.
    kernel_size, stride
        One number, or one per dimension; the stride is the kernel size by default.
    ceil_mode
        Whether windows may reach over the end.
    """

    spatial = 2


class LPPool3d(_LPPool):
    """The p-norms over windows of ``(N, C, D, H, W)``; the parameters are those of :class:`LPPool2d`."""

    spatial = 3


class _AdaptivePool(_Pool):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        """Return the pooled input."""
        return self._pool(input, self.output_size)

    def extra_repr(self) -> str:
        """Return the size of the output."""
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    function = "adaptive_avg_pool"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means over as many windows of ``(N, C, L)`` as the output has elements."""

    spatial = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means over as many windows of ``(N, C, H, W)`` as the output has elements.

    Parameters
    ----------
    output_size
        One number, or one per dimension; None keeps that of the input.
    """

    spatial = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means over as many windows of ``(N, C, D, H, W)`` as the output has elements."""

    spatial = 3


class _AdaptiveMaxPool(_AdaptivePool):
    function = "adaptive_max_pool"

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Return the maxima, with their indices if asked for."""
        return self._pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The maxima over as many windows of ``(N, C, L)`` as the output has elements."""

    spatial = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The maxima over as many windows of ``(N, C, H, W)`` as the output has elements.

    Parameters
    ----------
    output_size
        One number, or one per dimension; None keeps that of the input.
    return_indices
        Return the places of the maxima, too.
    """

    spatial = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The maxima over as many windows of ``(N, C, D, H, W)`` as the output has elements."""

    spatial = 3
