"""Losses with margins: between classes, and between distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._checks import check_constant, check_kind, check_tensors
from retrograd.ops._losses import check_reduction, checked_reduction, reduce_losses, reduction_of
from retrograd.ops._rules import everywhere
from retrograd.ops.activations import logsigmoid
from retrograd.ops.conditional import clamp_min
from retrograd.ops.linalg_norms import pairwise_distance

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

# --- two classes ------------------------------------------------------------------------------------------------------


@composite(method=False)
def soft_margin_loss(
    input, target, size_average: Truth | None = None, reduce: Truth | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the logistic losses ``log(1 + exp(-target * input))`` of targets 1 and -1, without overflow.

    Examples
    --------
    >>> rg.nn.functional.soft_margin_loss(rg.tensor([0.0, 1000.0]), rg.tensor([1.0, -1.0]))
    tensor(500.3466)
    """
    check_tensors("soft_margin_loss", input=input, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    check_constant("soft_margin_loss", target=target)
    losses = -logsigmoid(target * input)
    if losses.shape != input.shape:  # scores (N, 1) and targets (N,) would be all pairs of them
        raise RuntimeError(
            f"soft_margin_loss: target of shape {list(target.shape)} cannot be broadcast to input of shape "
            f"{list(input.shape)}; reshape one of them"
        )
    return reduce_losses(losses, reduction)


@composite(method=False)
def hinge_embedding_loss(
    input,
    target,
    margin: float = 1.0,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the input where the target is 1, and ``max(0, margin - input)`` where it is -1.

    Examples
    --------
    >>> rg.nn.functional.hinge_embedding_loss(rg.tensor([0.2, 0.2]), rg.tensor([1, -1]), reduction="none")
    tensor([0.2000, 0.8000])
    """
    check_tensors("hinge_embedding_loss", input=input, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    near = np.where(target != -1, input, 0.0)
    far = np.where(target != 1, clamp_min(margin - input, 0), 0.0)
    return reduce_losses(near + far, reduction)


# --- several classes --------------------------------------------------------------------------------------------------


@composite(method=False)
def multi_margin_loss(
    input,
    target,
    p: float = 1,
    margin: float = 1.0,
    weight=None,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over the wrong classes of ``max(0, margin - input[target] + input[wrong]) ** p``.

    Shapes: ``(N, C), (N,)`` or ``(C,), ()``.

    Parameters
    ----------
    target
        Classes from 0 to C - 1.
    p
        1 or 2.
    weight
        One per class; the weight of the target counts.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    RuntimeError, ValueError
        If shapes do not fit, or if a target is no class.

    Examples
    --------
    >>> rg.nn.functional.multi_margin_loss(rg.tensor([[0.1, 0.8, 0.3]]), rg.tensor([1]))
    tensor(0.2667)
    """
    check_tensors("multi_margin_loss", input=input, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}")
    check_constant("multi_margin_loss", weight=weight)
    check_kind("multi_margin_loss", "f", input)
    x = input.reshape((1, -1)) if input.ndim < 2 else input
    if x.ndim != 2 or target.numel() != len(x) or target.ndim > 1:
        raise RuntimeError(
            f"multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples. Expected "
            f"target size {[len(x)]}, but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    number = x.shape[1]
    _check_indices("multi_margin_loss", target, 0, number)
    if weight is not None and tuple(weight.shape) != (number,):
        raise RuntimeError(
            f"multi_margin_loss: inconsistent weight size, expected {number} but got {list(weight.shape)}"
        )
    index = target.reshape((-1, 1))
    losses = clamp_min(margin - x.gather(1, index) + x, 0)
    losses = losses * losses if p == 2 else losses
    if weight is not None:
        losses = losses * weight[index]
    right = np.arange(number) == index._data
    losses = np.where(right, 0.0, losses).sum(1) / number
    return reduce_losses(losses.reshape(target.shape), reduction)


def _check_indices(name: str, target: Any, lowest: int, number: int) -> None:
    if number == 0:
        raise RuntimeError(
            f"{name}: Expected at least one class, but there are no columns, for targets {list(target.shape)}"
        )
    if target.dtype.name != "int64":
        raise RuntimeError(f"{name}: expected scalar type Long but found {target.dtype}")
    wrong = (target._data < lowest) | (target._data >= number)
    if not everywhere(~wrong):
        raise RuntimeError(f"{name}: target out of range: {target._data[wrong][0]}, for {number} classes")


@composite(method=False)
def multilabel_margin_loss(
    input, target, size_average: Truth | None = None, reduce: Truth | None = None, reduction: str = "mean"
) -> Tensor:
    """Return ``max(0, 1 - input[right] + input[wrong])``, summed over right and wrong classes, per class.

    Shapes: twice ``(N, C)`` or ``(C,)``.

    Parameters
    ----------
    target
        The right classes of every sample, up to the first -1.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    RuntimeError
        If the shapes differ, or if a target is no class.

    Examples
    --------
    >>> rg.nn.functional.multilabel_margin_loss(rg.tensor([0.1, 0.2, 0.4]), rg.tensor([2, -1, 0]))
    tensor(0.5000)
    """
    check_tensors("multilabel_margin_loss", input=input, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    check_kind("multilabel_margin_loss", "f", input)
    single = input.ndim < 2 and target.ndim < 2  # one class may be given as a number or as a vector
    if input.ndim > 2 or (target.numel() != input.numel() if single else target.shape != input.shape):
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of size: "
            f"{list(input.shape)}"
        )
    x = input.reshape((1, -1)) if single else input
    number = x.shape[1]
    _check_indices("multilabel_margin_loss", target, -1, number)
    classes = target._data.reshape(x.shape)
    counts = np.logical_and.accumulate(classes >= 0, 1)
    if type(counts) is np.ndarray:  # every pair of a target and a class has a loss: only as many as some sample has
        most = np.count_nonzero(counts.any(0))
        counts, classes = counts[:, :most], classes[:, :most]
    index = np.where(counts, classes, 0)
    right = (counts[:, :, None] & (index[:, :, None] == np.arange(number))).any(1)
    losses = clamp_min(1 - x.gather(1, wrap(index)).unsqueeze(2) + x.unsqueeze(1), 0)
    losses = np.where(counts[:, :, None] & ~right[:, None, :], losses, 0.0).sum((1, 2)) / max(number, 1)
    return reduce_losses(losses.reshape(()) if single else losses, reduction)


@composite(method=False)
def multilabel_soft_margin_loss(
    input, target, weight=None, size_average: Truth | None = None, reduce: Truth | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the logistic losses of several classes, each right or wrong, averaged over the classes.

    Parameters
    ----------
    target
        1 for right classes, 0 for wrong ones.
    weight
        One per class.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> rg.nn.functional.multilabel_soft_margin_loss(rg.zeros(1, 2), rg.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    check_tensors("multilabel_soft_margin_loss", input=input, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduce_losses(losses.sum(-1) / input.shape[-1], reduction)


# --- distances --------------------------------------------------------------------------------------------------------


@composite(method=False)
def cosine_embedding_loss(
    input1,
    input2,
    target,
    margin: float = 0,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 minus the cosine of the angle where the target is 1, its excess over ``margin`` where it is -1.

    Shapes: twice ``(N, D)`` and ``(N,)``, or twice ``(D,)`` and ``()``.

    Raises
    ------
    RuntimeError
        If the shapes do not fit.

    Examples
    --------
    >>> a, b = rg.tensor([[1.0, 0.0]]), rg.tensor([[0.0, 1.0]])
    >>> rg.nn.functional.cosine_embedding_loss(a, b, rg.tensor([1]))
    tensor(1.)
    """
    check_tensors("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    if target.ndim > 1 or target.ndim + 1 != input1.ndim or input1.ndim != input2.ndim:
        raise RuntimeError(
            f"cosine_embedding_loss: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    squares = ((x * x).sum(-1) + 1e-12 for x in (input1, input2))
    first, second = squares
    cosine = (input1 * input2).sum(-1) / np.sqrt(first * second)
    losses = np.where(target == 1, 1 - cosine, 0.0) + np.where(target == -1, clamp_min(cosine - margin, 0), 0.0)
    return reduce_losses(losses, reduction)


@composite(method=False)
def margin_ranking_loss(
    input1,
    input2,
    target,
    margin: float = 0,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, -target * (input1 - input2) + margin)``: with a target of 1, the first should be larger.

    Raises
    ------
    RuntimeError
        If the numbers of dimensions differ.

    Examples
    --------
    >>> rg.nn.functional.margin_ranking_loss(rg.tensor([1.0]), rg.tensor([3.0]), rg.tensor([1.0]))
    tensor(2.)
    """
    check_tensors("margin_ranking_loss", input1=input1, input2=input2, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)}"
        )
    return reduce_losses(clamp_min(-target * (input1 - input2) + float(margin), 0), reduction)


def _triplet(
    anchor: Any, positive: Any, negative: Any, distance: Any, margin: float, swap: bool, reduction: str
) -> Any:
    check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = np.minimum(far, distance(positive, negative))
    return reduce_losses(clamp_min(margin + near - far, 0), reduction)


@composite(method=False)
def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, margin + |anchor - positive| - |anchor - negative|)``, with the norm of order ``p``.

    Parameters
    ----------
    margin
        Positive.
    eps
        Added to differences.
    swap
        Use the distance of positive and negative, if that is less (Balntas et al., 2016).
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the margin is not positive.
    RuntimeError
        If the numbers of dimensions differ.

    Examples
    --------
    >>> a, b, c = rg.tensor([[0.0]]), rg.tensor([[2.0]]), rg.tensor([[1.0]])
    >>> rg.nn.functional.triplet_margin_loss(a, b, c)
    tensor(2.)
    """
    check_tensors("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    reduction = reduction_of(size_average, reduce, reduction)

    def distance(x: Any, y: Any) -> Any:
        return pairwise_distance(x, y, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


@composite(method=False)
def triplet_margin_with_distance_loss(
    anchor,
    positive,
    negative,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Do as :func:`triplet_margin_loss` with any distance; by default :func:`pairwise_distance`."""
    check_tensors("triplet_margin_with_distance_loss", anchor=anchor, positive=positive, negative=negative)
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)
