"""The base classes of losses."""

from __future__ import annotations

from retrograd.core.tensor import Tensor
from retrograd.nn.modules.module import Module
from retrograd.ops._losses import reduction_of

__all__ = ["_Loss", "_WeightedLoss"]


class _Loss(Module):
    """A loss.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"``, or ``"none"`` for one loss per element.
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if any(isinstance(option, Tensor) for option in (size_average, reduce, reduction)):
            name = type(self).__name__
            raise TypeError(
                f"{name} takes options, not tensors: create the loss first, then call it, {name}()(input, target)"
            )
        self.reduction: str = reduction_of(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with weights, which are a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
