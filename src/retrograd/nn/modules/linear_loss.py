"""A linear layer with a loss behind it."""

from __future__ import annotations

import math
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules._errors import MISFITS, misshaped
from retrograd.nn.modules.linear import Linear
from retrograd.nn.modules.module import Module

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(Module):
    """The cross entropy between the output of a linear layer, :attr:`linear`, and the target.

    Parameters
    ----------
    in_features
        The length of the last dimension of the input.
    num_classes
        The number of classes.
    out_features
        The shape of what is classified for each sample; ``()`` for one class per sample.
    bias
        Whether the linear layer has one.
    reduction, weight, ignore_index, label_smoothing
        As of :class:`CrossEntropyLoss`; no class is ignored for probabilities.
    options
        torch's options for work in chunks; only None is accepted.

    Examples
    --------
    >>> criterion = rg.nn.LinearCrossEntropyLoss(8, 5)
    >>> criterion(rg.randn(3, 8), rg.tensor([0, 4, 2])).shape
    retrograd.Size([])
    """

    linear: Linear
    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.reduction = reduction
        self.register_buffer("weight", weight)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        outputs = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        try:
            return F.linear_cross_entropy(
                input,
                self.linear.weight.reshape(*shape, self.linear.in_features),
                target,
                linear_bias=None if bias is None else bias.reshape(shape),
                weight=self.weight,
                reduction=self.reduction,
                ignore_index=self.ignore_index,
                label_smoothing=self.label_smoothing,
                options=self.options,
            )
        except MISFITS as error:
            raise misshaped(self, error, input, f"N, {self.linear.in_features}") from None

    def extra_repr(self) -> str:
        """Return the parameters."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
