"""Losses with a linear layer in front."""

from __future__ import annotations

import math
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_tensors
from retrograd.ops.class_losses import cross_entropy
from retrograd.ops.linear import linear

__all__ = ["linear_cross_entropy"]


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got {tuple(linear_bias.shape)}"
        )
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return the cross entropy between ``linear(input, linear_weight, linear_bias)`` and the target.

    Shapes: ``(N, in_features), (C, d1, ..., dK, in_features), (N, d1, ..., dK)``, where target may be probabilities as
    well, ``(N, C, d1, ..., dK)``; all without N for one sample.

    Parameters
    ----------
    linear_weight, linear_bias
        Those of the linear layer; the first dimension is that of the classes.
    weight, reduction, label_smoothing
        As of :func:`cross_entropy`.
    ignore_index
        The class that does not count; -100 by default. Not for probabilities.
    options
        torch's options for work in chunks. There are none here, and only None is accepted.

    Raises
    ------
    RuntimeError
        If shapes do not fit, or ``ignore_index`` is given for probabilities.

    Examples
    --------
    >>> x, w = rg.randn(4, 3), rg.zeros(5, 3)
    >>> rg.nn.functional.linear_cross_entropy(x, w, rg.tensor([0, 1, 2, 3]))
    tensor(1.6094)
    """
    if options is not None:
        raise NotImplementedError("linear_cross_entropy(): chunking options are not available; pass None")
    check_tensors("linear_cross_entropy", input=input, linear_weight=linear_weight, target=target)
    _check(input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    if ignore_index is not None and tuple(target.shape) == shape:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    outputs = math.prod(linear_weight.shape[:-1])
    bias = None if linear_bias is None else linear_bias.reshape(outputs)
    logits = linear(input, linear_weight.reshape(outputs, input.shape[-1]), bias).reshape(shape)
    return cross_entropy(
        logits,
        target,
        weight=weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
