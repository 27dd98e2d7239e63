"""What losses share: their reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.reductions import reduce
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: Any, known: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise for an unknown reduction."""
    if reduction not in known:
        raise ValueError(f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'")


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, also from the two flags that torch had for it once."""
    if size_average is None and reduce is None:
        return reduction
    if isinstance(size_average, str):
        raise TypeError(f"size_average must be a bool, not {size_average!r}; say reduction={size_average!r}")
    for name, value in (("size_average", size_average), ("reduce", reduce)):
        if isinstance(value, (Tensor, np.ndarray)):
            raise TypeError(f"{name} must be a bool, but got a tensor of shape {list(value.shape)}")
    wanted = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn_user(f"size_average and reduce args will be deprecated, please use reduction='{wanted}' instead.")
    return wanted


def checked_reduction(
    size_average: bool | None, reduce: bool | None, reduction: str, known: tuple[str, ...] = REDUCTIONS
) -> str:
    """The same, which must be one of those ``known``; a module reports an unknown one only when it is called."""
    reduction = reduction_of(size_average, reduce, reduction)
    check_reduction(reduction, known)
    return reduction


def reduced(loss: Any, reduction: str) -> Any:
    """The losses of all elements as ``reduction`` says."""
    if reduction == "none":
        return loss
    total = reduce(np.add, loss, None, dtype=np.float32 if loss.dtype == np.float16 else None)
    return (total / loss.size if reduction == "mean" else total).astype(loss.dtype, copy=False)


def spread(g: Any, reduction: str, x: Any) -> Any:
    """Turn the gradient of a reduced loss into that of the loss of every element of ``x``, up to broadcasting."""
    return g / math.prod(x.shape) if reduction == "mean" and math.prod(x.shape) else g


def reduce_losses(losses: Any, reduction: str) -> Any:
    """The same as :func:`reduced` for a Tensor."""
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses
