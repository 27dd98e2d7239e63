"""Losses as modules. What they compute is said in :mod:`retrograd.nn.functional`."""

from __future__ import annotations

from typing import Any

from retrograd.core.errors import kind_name
from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules._loss_bases import _Loss, _WeightedLoss
from retrograd.nn.modules.linear_loss import LinearCrossEntropyLoss
from retrograd.nn.modules.margin_loss import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


# --- regression -------------------------------------------------------------------------------------------------------


class L1Loss(_Loss):
    """The absolute difference of input and target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared difference of input and target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """A squared difference near 0, an absolute one beyond.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    beta
        Where the one becomes the other.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """A squared difference near 0, an absolute one beyond, times ``delta``.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    delta
        Where the one becomes the other.

    Raises
    ------
    TypeError
        If ``delta`` is not a number.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {kind_name(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """Minus the logarithm of the likelihood of counts under a Poisson distribution.

    Parameters
    ----------
    log_input
        Whether the input is the logarithm of the rate.
    full
        Add Stirling's approximation of the constant term.
    eps
        Added to the rate where ``log_input`` is False.
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """Minus the logarithm of the likelihood of the target under a normal distribution.

    Parameters
    ----------
    full
        Add the constant term.
    eps
        The least variance.
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Return the loss for the means ``input`` and the variances ``var``."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# --- classification ---------------------------------------------------------------------------------------------------


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy of logits and classes, or probabilities of classes.

    Parameters
    ----------
    weight
        One per class.
    ignore_index
        Targets of this class have no part in it.
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    label_smoothing
        How much of the target is spread over all classes.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """Minus the input, logarithms of probabilities, at the target classes.

    Parameters
    ----------
    weight
        One per class.
    ignore_index
        Targets of this class have no part in it.
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The same as :class:`NLLLoss`; torch's old name for images."""


class BCELoss(_WeightedLoss):
    """The cross entropy of probabilities and targets between 0 and 1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """The cross entropy of logits and targets between 0 and 1.

    Parameters
    ----------
    weight
        One per element of the batch.
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    pos_weight
        The weight of positive examples, one per class.
    """

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence, for an input of logarithms of probabilities.

    Parameters
    ----------
    reduction
        ``"batchmean"``, which is the divergence, ``"mean"``, ``"sum"``, or ``"none"``.
    log_target
        Whether the target is of logarithms, too.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CTCLoss(_Loss):
    """The connectionist temporal classification loss of sequences without alignment (Graves et al., 2006).

    Parameters
    ----------
    blank
        The class that stands for nothing.
    reduction
        ``"mean"``, ``"sum"``, or ``"none"``.
    zero_infinity
        Make infinite losses, of inputs too short for their targets, zero.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Return the loss."""
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.zero_infinity,
        )
