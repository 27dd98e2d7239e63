"""Affine maps, and the identity."""

from __future__ import annotations

import math
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import empty
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules._errors import MISFITS, describe, has_shape, in_words, misfit, misshaped
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Return the input as it is; arguments of the constructor are ignored.

    Parameters
    ----------
    *args, **kwargs
        Anything.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input``."""
        return input


class Linear(Module):
    """Return ``input @ weight.T + bias``.

    Shapes: ``(..., in_features) -> (..., out_features)``. Weight and bias begin uniform on ``±1 / sqrt(in_features)``.

    Parameters
    ----------
    in_features, out_features
        The lengths of the last dimensions of input and output.
    bias
        Whether there is one.

    Attributes
    ----------
    weight
        Of shape ``(out_features, in_features)``.
    bias
        Of shape ``(out_features,)``, or None.

    Examples
    --------
    >>> layer = rg.nn.Linear(20, 30)
    >>> layer(rg.randn(128, 20)).shape
    retrograd.Size([128, 30])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias``."""
        try:
            return F.linear(input, self.weight, self.bias)
        except MISFITS as error:
            raise misshaped(self, error, input, f"..., {self.in_features}") from None

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """Return ``input1 @ weight[k] @ input2 + bias[k]`` for every output feature ``k``.

    Shapes: ``(..., in1_features), (..., in2_features) -> (..., out_features)``.

    Parameters
    ----------
    in1_features, in2_features, out_features
        The lengths of the last dimensions of the inputs and the output.
    bias
        Whether there is one.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the bilinear form of the inputs."""
        try:
            return F.bilinear(input1, input2, self.weight, self.bias)
        except MISFITS as error:
            shapes = f"..., {self.in1_features}", f"..., {self.in2_features}"
            expected = (
                f"inputs of shapes {' and '.join(in_words(shape) for shape in shapes)}, of dtype {self.weight.dtype}"
            )
            fits = has_shape(input1, shapes[0]) and has_shape(input2, shapes[1])
            got = f"{describe(input1)} and {describe(input2)}"
            raise misfit(self, error, expected, got, fits=fits) from None

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
