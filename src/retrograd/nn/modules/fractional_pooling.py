"""Fractional max pooling as modules."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules._errors import MISFITS, misshaped_places
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.utils import ntuple

__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class _FractionalMaxPool(Module):
    spatial: int  # how many dimensions the windows have
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, self.spatial
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = ntuple(kernel_size, n)
        if min(self.kernel_size) <= 0:
            raise ValueError(f"kernel_size must be greater than zero, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else ntuple(output_size, n)
        self.output_ratio = None if output_ratio is None else ntuple(output_ratio, n)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Return the maxima, with their indices if asked for."""
        pool = F.fractional_max_pool2d if self.spatial == 2 else F.fractional_max_pool3d
        try:
            return pool(
                input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
            )
        except MISFITS as error:
            raise misshaped_places(self, error, input) from None


class FractionalMaxPool2d(_FractionalMaxPool):
    """The maxima over windows of ``(N, C, H, W)`` at random, roughly equal distances (Graham, 2014).

    Parameters
    ----------
    kernel_size
        One number, or one per dimension.
    output_size
        The size of the output; one number, or one per dimension. Give it or ``output_ratio``.
    output_ratio
        The size of the output by that of the input; between 0 and 1.
    return_indices
        Return the places of the maxima, too, for :class:`MaxUnpool2d`.

    Examples
    --------
    >>> pool = rg.nn.FractionalMaxPool2d(2, output_ratio=0.7)
    >>> pool(rg.randn(1, 3, 9, 9)).shape
    retrograd.Size([1, 3, 6, 6])
    """

    spatial = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The maxima over random windows of ``(N, C, D, H, W)``; see :class:`FractionalMaxPool2d`."""

    spatial = 3
