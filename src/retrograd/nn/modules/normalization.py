"""Normalisation over features and over groups of channels."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import empty
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules._errors import MISFITS, misshaped
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def reset_affine(weight: Tensor | None, bias: Tensor | None) -> None:
    """Set the weight to 1 and the bias to 0, where they are."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)


class _ShapeNorm(Module):
    """Normalisation over the last dimensions."""

    normalized_shape: tuple[int, ...]
    eps: Any  # a float; of RMSNorm possibly None
    weight: Parameter | None

    def __init__(self, normalized_shape: Any, eps: float | None, elementwise_affine: bool, **factory: Any) -> None:
        super().__init__()
        is_length = isinstance(normalized_shape, int)
        self.normalized_shape = (normalized_shape,) if is_length else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", Parameter(empty(self.normalized_shape, **factory)) if elementwise_affine else None
        )

    def reset_parameters(self) -> None:
        """Set the weight to 1, and the bias, if there is one, to 0."""
        reset_affine(self.weight, self._parameters.get("bias"))

    def _misfit(self, error: Exception, input: Any) -> Exception:
        shape = ", ".join(["...", *map(str, self.normalized_shape)])
        return misshaped(self, error, input, shape)


class LayerNorm(_ShapeNorm):
    """Subtract the mean over the last dimensions and divide by the standard deviation (Ba, Kiros, Hinton, 2016).

    Parameters
    ----------
    normalized_shape
        The lengths of these dimensions.
    eps
        Added to the variance.
    elementwise_affine
        Whether there is a weight, and a bias.
    bias
        Whether there is a bias.

    Attributes
    ----------
    weight, bias
        Of shape ``normalized_shape``, 1 and 0 to begin with, or None.
    """

    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device=device, dtype=dtype)
        has_bias = elementwise_affine and bias
        self.register_parameter(
            "bias", Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if has_bias else None
        )
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        try:
            return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        except MISFITS as error:
            raise self._misfit(error, input) from None

    def extra_repr(self) -> str:
        """Return the parameters."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_ShapeNorm):
    """Divide by the root of the mean square over the last dimensions (Zhang, Sennrich, 2019).

    Parameters
    ----------
    normalized_shape
        The lengths of these dimensions.
    eps
        Added to the mean square; by default the epsilon of the dtype.
    elementwise_affine
        Whether there is a weight.
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input."""
        try:
            return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
        except MISFITS as error:
            raise self._misfit(error, x) from None

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalise every sample over groups of channels (Wu, He, 2018).

    Parameters
    ----------
    num_groups
        How many groups; ``num_channels`` must be a multiple.
    num_channels
        The length of the second dimension.
    eps
        Added to the variance.
    affine
        Whether there is a weight and a bias per channel.
    bias
        Whether there is a bias.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups <= 0:
            raise ValueError(f"num_groups must be positive, but got {num_groups}")
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels must be divisible by num_groups, but got {num_channels} channels and {num_groups} groups"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(
                name, Parameter(empty(num_channels, device=device, dtype=dtype)) if wanted else None
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        try:
            return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
        except MISFITS as error:
            raise misshaped(self, error, input, f"N, {self.num_channels}, ...") from None

    def extra_repr(self) -> str:
        """Return the parameters."""
        has_bias = self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={has_bias}"


class LocalResponseNorm(Module):
    """Divide by a power of the mean square over neighbouring channels (Krizhevsky et al., 2012).

    Parameters
    ----------
    size
        How many channels are neighbours.
    alpha, beta, k
        The divisor is ``(k + alpha * mean square) ** beta``.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Divide by a power of the sum of squares over neighbouring channels, as Torch's first version did.

    :class:`LocalResponseNorm` is the one to use; this one is for models that were made with it. As there, the first
    channel is never taken out of the sum again, so that it has a part in the divisor of all later channels. The
    gradient is that of what is computed, which torch's is not.

    Shapes: ``(N, C, H, W) -> (N, C, H, W)``.

    Parameters
    ----------
    size
        How many channels are neighbours.
    alpha, beta, k
        The divisor is ``(k + alpha / size * sum) ** beta``.

    Raises
    ------
    ValueError
        If the input has other than 4 dimensions.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        taken = _neighbours(input.shape[1], self.size)
        squares = (input * input).flatten(2)
        sums = (input.new_tensor(taken) @ squares).reshape(input.shape)
        return input / (sums * (self.alpha / self.size) + self.k) ** self.beta

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _neighbours(channels: int, size: int) -> list[list[int]]:
    """For every channel the ones in its sum: those of the channel before, one more ahead, and one less behind."""
    ahead = int((size - 1) / 2 + 1)
    row = [int(channel < ahead) for channel in range(channels)]
    rows = [row]
    for channel in range(1, channels):
        row = row.copy()
        if channel + ahead - 1 < channels:
            row[channel + ahead - 1] = 1
        if channel > ahead:
            row[channel - ahead] = 0
        rows.append(row)
    return rows
