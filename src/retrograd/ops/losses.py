"""Losses of numbers against numbers: regression, probabilities, and distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.errors import check_broadcast
from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.dtypes import promote_types
from retrograd.ops._checks import check_constant, check_kind, check_tensors
from retrograd.ops._losses import REDUCTIONS, check_reduction, checked_reduction, reduce_losses, reduced, spread
from retrograd.ops._rules import everywhere
from retrograd.ops.activations import log1p_exp_below, logistic
from retrograd.ops.special import xlogy

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

# --- arguments --------------------------------------------------------------------------------------------------------


def _paired(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Input and target in a common shape, with a warning if that needs broadcasting, and in a common dtype."""
    check_tensors(name, input=input, target=target)
    if input.shape != target.shape:
        warn_user(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )
        check_broadcast(name, input, target)
        input, target = np.broadcast_arrays(input, target)
    return _in_one_dtype(input, target)


def _in_one_dtype(input: Any, target: Any) -> tuple[Any, Any]:
    if input.dtype == target.dtype:
        return input, target
    dtype = promote_types(input.dtype, target.dtype)
    return input.to(dtype), target.to(dtype)


def _check_weight(weight: Any, input: Any) -> None:
    if weight.shape != input.shape:
        raise ValueError(
            f"Weights and input must have the same size, got {list(weight.shape)} and {list(input.shape)}."
        )


def _weighted(losses: Any, weight: Any, reduction: str) -> Any:
    """Losses times weights; the mean is weighted."""
    weighted = losses * weight
    return weighted.sum() / weight.sum() if reduction == "mean" else reduce_losses(weighted, reduction)


# --- regression -------------------------------------------------------------------------------------------------------


def _squared(g: Any, first: Any, second: Any, reduction: str) -> Any:
    return spread(g, reduction, first) * (2 * (first - second))


@op(
    name="mse_loss",
    public=False,
    method=False,
    input=lambda g, input, target, reduction: _squared(g, input, target, reduction),
    target=lambda g, input, target, reduction: _squared(g, target, input, reduction),
)
def _mse_loss(input, target, reduction: str):
    check_kind("mse_loss", "f", input)
    difference = input - target
    difference *= difference
    return reduced(difference, reduction)


@composite(method=False, reported=False)
def mse_loss(
    input, target, size_average: Truth | None = None, reduce: Truth | None = None, reduction: str = "mean", weight=None
) -> Tensor:
    """Return the squared differences of input and target.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.
    weight
        One per element; the mean is weighted.

    Raises
    ------
    ValueError
        If the weight has another shape than the input.

    Examples
    --------
    >>> rg.nn.functional.mse_loss(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    input, target = _paired("mse_loss", input, target)
    reduction = checked_reduction(size_average, reduce, reduction)
    if weight is None:
        return _mse_loss(input, target, reduction)
    _check_weight(weight, input)
    return _weighted(_mse_loss(input, target, "none"), weight, reduction)


@composite(method=False)
def l1_loss(
    input, target, size_average: Truth | None = None, reduce: Truth | None = None, reduction: str = "mean", weight=None
) -> Tensor:
    """Return the absolute differences of input and target; the arguments are those of :func:`mse_loss`."""
    input, target = _paired("l1_loss", input, target)
    reduction = checked_reduction(size_average, reduce, reduction)
    losses = (input - target).abs()
    if weight is None:
        return reduce_losses(losses, reduction)
    _check_weight(weight, input)
    return _weighted(losses, weight, reduction)


def _huber(g: Any, first: Any, second: Any, reduction: str, delta: float) -> Any:
    return spread(g, reduction, first) * _limited(first - second, delta)


def _limited(x: Any, limit: float) -> Any:
    """``x`` clipped to ``limit``; the derivative at the limits is 0."""
    return x.clip(-limit, limit) if type(x) is np.ndarray else np.where(np.abs(x) < limit, x, limit * np.sign(x))


@op(
    name="huber_loss",
    public=False,
    method=False,
    input=lambda g, input, target, reduction, delta: _huber(g, input, target, reduction, delta),
    target=lambda g, input, target, reduction, delta: _huber(g, target, input, reduction, delta),
)
def _huber_loss(input, target, reduction: str, delta: float):
    check_kind("huber_loss", "f", input)
    size = np.abs(input - target)
    limited = size.clip(0, delta)
    return reduced(limited * (size - 0.5 * limited), reduction)


@composite(method=False, reported=False)
def huber_loss(input, target, reduction: str = "mean", delta: float = 1.0, weight=None) -> Tensor:
    """Return half the squared differences up to ``delta``, and ``delta`` times the absolute ones beyond.

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.
    delta
        Positive.
    weight
        One per element.

    Raises
    ------
    RuntimeError
        If ``delta`` is not positive.

    Examples
    --------
    >>> rg.nn.functional.huber_loss(rg.tensor([0.5, 3.0]), rg.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    input, target = _paired("huber_loss", input, target)
    check_reduction(reduction)
    if not delta > 0:  # or NaN
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    if weight is None:
        return _huber_loss(input, target, reduction, delta)
    _check_weight(weight, input)
    return reduce_losses(_huber_loss(input, target, "none", delta) * weight, reduction)


def _smooth(g: Any, first: Any, second: Any, reduction: str, beta: float) -> Any:
    return spread(g, reduction, first) * (_limited(first - second, beta) / beta)


@op(
    name="smooth_l1_loss",
    public=False,
    method=False,
    node_name="SmoothL1LossBackward0",
    input=lambda g, input, target, reduction, beta: _smooth(g, input, target, reduction, beta),
    target=lambda g, input, target, reduction, beta: _smooth(g, target, input, reduction, beta),
)
def _smooth_l1_loss(input, target, reduction: str, beta: float):
    check_kind("smooth_l1_loss", "f", input)
    size = np.abs(input - target)
    limited = size.clip(0, beta) / beta
    return reduced(limited * (size - 0.5 * beta * limited), reduction)


@composite(method=False, reported=False)
def smooth_l1_loss(
    input,
    target,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return the absolute differences less ``beta / 2``, made square below ``beta`` (Girshick, 2015).

    Parameters
    ----------
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.
    beta
        Not negative; 0 gives :func:`l1_loss`.

    Raises
    ------
    RuntimeError
        If ``beta`` is negative.
    """
    input, target = _paired("smooth_l1_loss", input, target)
    reduction = checked_reduction(size_average, reduce, reduction)
    if not beta >= 0:  # or NaN
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    if beta == 0:
        return reduce_losses((input - target).abs(), reduction)
    return _smooth_l1_loss(input, target, reduction, beta)


# --- probabilities ----------------------------------------------------------------------------------------------------

# what the logarithm of 0 counts as, and the product of two probabilities, as in torch
LEAST_LOG, LEAST_PRODUCT = -100.0, 1e-12


def _weigh(g: Any, weight: Any) -> Any:
    return g if weight is None else g * weight


def _bce_input(g, input, target, weight, reduction):
    each = _weigh(spread(g, reduction, input), weight)
    return each * (input - target) / np.maximum((1 - input) * input, LEAST_PRODUCT)


def _bce_target(g, input, target, weight, reduction):
    each = _weigh(spread(g, reduction, input), weight)
    return each * (np.maximum(np.log1p(-input), LEAST_LOG) - np.maximum(np.log(input), LEAST_LOG))


def _check_unit_interval(name: str, values: Any, advice: str) -> None:
    inside = (values >= 0) & (values <= 1)
    if not inside.all():
        raise RuntimeError(
            f"binary_cross_entropy: all elements of {name} should be between 0 and 1, but there is "
            f"{values[~inside].flat[0]}; {advice}"
        )


@op(name="binary_cross_entropy", public=False, method=False, input=_bce_input, target=_bce_target)
def _binary_cross_entropy(input, target, weight, reduction: str):
    _check_unit_interval("input", input, "for logits there is binary_cross_entropy_with_logits")
    _check_unit_interval("target", target, "for classes there is cross_entropy")
    with np.errstate(divide="ignore"):  # the logarithm of 0 counts as -100
        likely, unlikely = np.log(input), np.log1p(-input)
    losses = (target - 1) * np.maximum(unlikely, LEAST_LOG) - target * np.maximum(likely, LEAST_LOG)
    return reduced(_weigh(losses, weight), reduction)


def _check_probabilities(name: str, input: Any, target: Any) -> None:
    check_tensors(name, input=input, target=target)
    if input.shape != target.shape:
        raise ValueError(
            f"{name}: Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})"
        )
    check_kind(name, "f", input)


@composite(method=False, reported=False)
def binary_cross_entropy(
    input, target, weight=None, size_average: Truth | None = None, reduce: Truth | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the cross entropy of probabilities and targets between 0 and 1.

    Logarithms count as at least -100, so that it is finite for probabilities of 0 and 1, too.

    Parameters
    ----------
    weight
        To be broadcast to the input.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ.
    RuntimeError
        If an element of the input is no probability, or if the dtypes differ.

    Examples
    --------
    >>> rg.nn.functional.binary_cross_entropy(rg.tensor([0.5, 1.0]), rg.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    _check_probabilities("binary_cross_entropy", input, target)
    if target.dtype != input.dtype:
        raise RuntimeError(f"binary_cross_entropy: Found target of dtype {target.dtype} but expected {input.dtype}")
    check_constant("binary_cross_entropy", weight=weight)
    return _binary_cross_entropy(input, target, _broadcast("binary_cross_entropy", "weight", weight, input), reduction)


def _broadcast(function: str, name: str, weight: Any, input: Any) -> Any:
    try:
        return None if weight is None else np.broadcast_to(weight, input.shape)
    except RuntimeError:
        raise RuntimeError(
            f"{function}: {name} of shape {list(weight.shape)} does not broadcast to the shape of the input, "
            f"{list(input.shape)}"
        ) from None


def _softplus(x: Any) -> Any:
    """``log(1 + exp(x))``, without overflow."""
    return np.maximum(x, 0) + log1p_exp_below(x)


def _logits_input(g, input, target, weight, pos_weight, reduction):
    each = _weigh(spread(g, reduction, input), weight)
    if pos_weight is None:
        return each * (logistic(input) - target)
    return each * (1 - target - (1 + (pos_weight - 1) * target) * logistic(-input))


def _logits_target(g, input, weight, pos_weight, reduction):
    each = _weigh(spread(g, reduction, input), weight)
    return each * (-input if pos_weight is None else (pos_weight - 1) * _softplus(-input) - input)


@op(
    name="binary_cross_entropy_with_logits",
    public=False,
    method=False,
    input=_logits_input,
    target=_logits_target,
)
def _binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction: str):
    if pos_weight is None:
        losses = np.maximum(input, 0) - input * target
        losses += log1p_exp_below(input)
    else:
        losses = (1 - target) * input + (1 + (pos_weight - 1) * target) * _softplus(-input)
    return reduced(_weigh(losses, weight), reduction)


@composite(method=False, reported=False)
def binary_cross_entropy_with_logits(
    input,
    target,
    weight=None,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
    pos_weight=None,
) -> Tensor:
    """Return the cross entropy of logits and targets between 0 and 1, without overflow.

    Parameters
    ----------
    weight
        To be broadcast to the input.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.
    pos_weight
        The weight of positive targets, to be broadcast to the input.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> rg.nn.functional.binary_cross_entropy_with_logits(rg.tensor([0.0, 1000.0]), rg.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    name = "binary_cross_entropy_with_logits"
    _check_probabilities(name, input, target)
    if target.dtype.kind in "iub":
        raise RuntimeError(
            f"{name}: expected a target of {input.dtype}, but found {target.dtype}; convert it with .to()"
        )
    input, target = _in_one_dtype(input, target)
    check_constant(name, weight=weight, pos_weight=pos_weight)
    weight = _broadcast(name, "weight", weight, input)
    pos_weight = _broadcast(name, "pos_weight", pos_weight, input)
    return _binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


# --- distributions ----------------------------------------------------------------------------------------------------


@composite(method=False)
def kl_div(
    input,
    target,
    size_average: Truth | None = None,
    reduce: Truth | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the terms of the Kullback-Leibler divergence of the target from the input.

    Parameters
    ----------
    input
        Logarithms of probabilities.
    target
        Probabilities, or with ``log_target`` their logarithms.
    reduction
        ``"batchmean"`` for the divergence, ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> p, q = rg.tensor([[0.5, 0.5]]), rg.tensor([[0.9, 0.1]])
    >>> rg.nn.functional.kl_div(q.log(), p, reduction="batchmean")
    tensor(0.5108)
    """
    check_tensors("kl_div", input=input, target=target)
    if not input.dtype.kind == target.dtype.kind == "f":
        raise RuntimeError(
            f"kl_div: expected real floating-point numbers, but got {input.dtype} and {target.dtype}; convert them, "
            "for example with .float()"
        )
    if size_average is None and reduce is None and reduction == "mean":
        warn_user(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release."
        )
    reduction = checked_reduction(size_average, reduce, reduction, (*REDUCTIONS, "batchmean"))
    terms = np.exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction != "batchmean":
        return reduce_losses(terms, reduction)
    return terms.sum() / input.shape[0] if input.ndim else terms.sum()


@composite(method=False)
def poisson_nll_loss(
    input,
    target,
    log_input: bool = True,
    full: bool = False,
    size_average: Truth | None = None,
    eps: float = 1e-8,
    reduce: Truth | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the logarithms of the likelihood of counts under Poisson distributions.

    Parameters
    ----------
    input
        The rates, or with ``log_input`` their logarithms.
    full
        Add Stirling's approximation of the constant term, for targets above 1.
    eps
        Added to rates.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> rg.nn.functional.poisson_nll_loss(rg.tensor([0.0]), rg.tensor([2.0]))
    tensor(1.)
    """
    check_tensors("poisson_nll_loss", input=input, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    losses = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    if full:
        large = target > 1
        count = np.where(large, target, 1.0)
        stirling = count * np.log(count) - count + 0.5 * np.log(2 * math.pi * count)
        constant: Any = np.where(large, stirling, 0.0)
        losses = losses + constant.to(losses.dtype)
    return reduce_losses(losses, reduction)


@composite(method=False)
def gaussian_nll_loss(input, target, var, full: Truth = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Return minus the logarithms of the likelihood of targets under normal distributions.

    Parameters
    ----------
    input
        The means.
    var
        The variances: a number, or of the input's shape, where the last dimension may be missing or one may be 1.
    full
        Add the constant term.
    eps
        The least variance; below it, the gradient is the one at ``eps``.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        For negative variances, or if their shape does not fit.

    Examples
    --------
    >>> rg.nn.functional.gaussian_nll_loss(rg.tensor([1.0]), rg.tensor([3.0]), 1.0)
    tensor(2.)
    """
    check_tensors("gaussian_nll_loss", input=input, target=target)
    if isinstance(var, (int, float)):
        var = input.new_full(input.shape, float(var))
    if not everywhere(~(var < 0)):
        raise ValueError(f"var has negative entry/entries, the least is {var.min().item()}")
    if var.shape != input.shape:
        ones = [own for own, whole in zip(var.shape, input.shape, strict=False) if own != whole]
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or sum(ones) != 1:
            raise ValueError(f"var is of incorrect size {list(var.shape)} for an input of size {list(input.shape)}")
    check_reduction(reduction)
    var = var + np.maximum(eps - var.detach(), 0.0)
    losses = 0.5 * (np.log(var) + (input - target) ** 2 / var)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduce_losses(losses, reduction)
