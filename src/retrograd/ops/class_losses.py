"""Losses of classes: cross entropy and the negative log likelihood."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching import unbatched
from retrograd.core.op import kernel, op
from retrograd.core.reductions import reduce
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.gpu import put_within, take_within
from retrograd.ops._checks import check_constant, check_kind, check_tensors
from retrograd.ops._losses import check_reduction, checked_reduction, reduction_of
from retrograd.ops._rules import keep
from retrograd.ops.activations import log_softmax, softmax

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

# Up to this many classes, rows are too short for NumPy's loops: the classes go to the front.
FEW = 24

# --- targets ----------------------------------------------------------------------------------------------------------


def _check_targets(name: str, input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Raise unless ``target`` may hold classes for an input of shape (C,), (N, C) or (N, C, d1, ...)."""
    x, classes = input._data, target._data
    if weight is None and x.ndim == 2 and classes.shape == x.shape[:1] and classes.dtype == np.int64:
        check_kind(name, "f", x)
        return
    if input.ndim == 0:
        raise ValueError(f"{name}: Expected 1 or more dimensions (got 0)")
    shapes = f"for an input of shape {list(input.shape)}"
    if input.ndim > 1 and target.shape[:1] != input.shape[:1]:
        raise ValueError(
            f"{name}: Expected input batch_size ({len(input)}) to match target batch_size "
            f"({len(target) if target.ndim else 1}), got a target of shape {list(target.shape)} {shapes}"
        )
    if input.ndim == 1 and target.ndim == 1 and len(target) != 1:
        raise ValueError(f"{name}: For 1D input, 1D target must have size 1, but got target size: {len(target)}")
    check_kind(name, "f", input)
    if target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(
            f"{name}: expected target dtype to be Long or Byte, but got {target.dtype} {list(target.shape)}; convert "
            f"classes with .long(), or give one probability per class, {list(input.shape)}"
        )
    if input.ndim <= 2 and target.ndim > 1:
        raise RuntimeError(
            f"{name}: 0D or 1D target tensor expected, multi-target not supported, got {list(target.shape)} {shapes}"
        )
    expected = [*input.shape[:1], *input.shape[2:]]
    if input.ndim > 2 and list(target.shape) != expected:
        raise RuntimeError(f"{name}: Expected target size {expected}, got {list(target.shape)}, {shapes}")
    _check_weight(name, weight, input.shape[_dim(input.shape)])
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(f"{name}: expected weight of {input.dtype}, as the input, but found {weight.dtype}")
    check_constant("nll_loss_forward", weight=weight)


def _check_weight(name: str, weight: Tensor | None, number: int) -> None:
    if weight is not None and tuple(weight.shape) != (number,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {number} classes or no classes but got weight "
            f"tensor of shape: {list(weight.shape)}"
        )


def _dim(shape: tuple[int, ...]) -> int:
    """The dimension of the classes."""
    return 1 if len(shape) > 1 else 0


def _read(target: Any, classes: int, weight: Any, ignore_index: int, dtype: Any) -> tuple[Any, Any]:
    """Targets in a row, all of them within bounds, and their weights; None if every one weighs 1.

    Raises
    ------
    IndexError
        If a target is no class and not to be ignored.
    """
    if target.ndim != 1 or target.dtype != np.int64:
        target = target.reshape(-1).astype(np.int64)
    # negative numbers are too large, too, as unsigned ones; the samples of a batch go the same way
    largest = int(np.maximum.reduce(unbatched(target).view(np.uint64), None, initial=0))
    counts = None
    if largest >= classes or 0 <= ignore_index < classes:
        counts = target != ignore_index
        wrong = unbatched(counts & ((target < 0) | (target >= classes)))
        if wrong.any():
            first = unbatched(target)[wrong][0]
            raise IndexError(f"Target {first} is out of bounds: there are {classes} classes, from 0 to {classes - 1}")
        target = np.where(counts, target, 0)
    if weight is None:
        return target, None if counts is None else counts.astype(dtype)
    weights = weight.take(target) if classes else np.zeros_like(weight, shape=target.shape)
    return target, weights if counts is None else weights * counts


def _coefficient(weights: Any, reduction: str, count: int) -> Any:
    """The factor of every target's loss in a reduced loss: one number, or one for each target."""
    if weights is None:
        return 1 / count if reduction == "mean" and count else 1.0
    if reduction != "mean":
        return weights
    total = np.add.reduce(weights)
    return weights / np.where(total == 0, 1, total)  # the mean of no losses is NaN, and does not depend on the logits


def _shares(g: Any, coefficient: Any) -> Any:
    """The gradient of every target's loss; zero for targets of weight 0, even if ``g`` is not finite."""
    shares = g.reshape((-1,)) * coefficient
    return keep(shares, coefficient != 0) if np.ndim(coefficient) else shares


def _reduced(loss: Any, weights: Any, reduction: str, target: Any, input: Any) -> Any:
    """The losses of all targets, reduced as ``reduction`` says; targets of weight 0 do not count."""
    if weights is not None:
        loss = keep(loss, weights != 0) * weights
    if reduction == "none":
        return loss.reshape(target.shape if input.ndim > 1 else ())
    total = np.add.reduce(loss)
    if reduction == "sum":
        return total
    return total / (loss.size if weights is None else np.add.reduce(weights))


# --- negative log likelihood ------------------------------------------------------------------------------------------


def _positions(target: Any, shape: tuple[int, ...]) -> Any:
    """Where the class of every target is in an array of shape (C,), (N, C) or (N, C, d1, ...), counted in rows."""
    if len(shape) == 1:
        return target
    samples, classes, inner = shape[0], shape[1], math.prod(shape[2:])
    if inner == 1:
        return np.arange(0, samples * classes, classes) + target
    first = np.arange(samples)[:, None] * (classes * inner) + np.arange(inner)
    return (first + target.reshape(samples, inner) * inner).reshape(-1)


@kernel(public=False, method=False, input=lambda g, input_shape, target: place_classes(g, target, input_shape))
def pick_classes(input, target):
    """The elements of ``input`` at the classes in the row ``target``."""
    if not input.size:  # no samples, or no classes because all targets are ignored
        return np.zeros_like(input, shape=target.shape)
    return take_within(input.reshape(-1), _positions(target, input.shape))


@kernel(public=False, method=False, g=lambda G, target: pick_classes(G, target))
def place_classes(g, target, shape):
    """Zeros of ``shape`` with the elements of ``g``, or the only one, at the classes in the row ``target``."""
    placed = np.zeros_like(g, shape=shape)
    if placed.size:
        put_within(placed.reshape(-1), _positions(target, shape), g)
    return placed


def _nll_gradient(g, input_shape, target, weight, ignore_index, reduction, classes, coefficient):
    if classes is None:
        number = input_shape[_dim(input_shape)]
        classes, weights = _read(target, number, weight, ignore_index, g.dtype)
        coefficient = _coefficient(weights, reduction, classes.size)
    return place_classes(-_shares(g, coefficient), classes, input_shape)


@op(
    name="nll_loss",
    public=False,
    method=False,
    node_name="NllLossBackward0",
    byproducts=("classes", "coefficient"),
    input=_nll_gradient,
)
def _nll_loss(input, target, weight=None, ignore_index: int = -100, reduction: str = "mean"):
    classes, weights = _read(target, input.shape[_dim(input.shape)], weight, ignore_index, input.dtype)
    loss = _reduced(-pick_classes(input, classes), weights, reduction, target, input)
    return loss, classes, _coefficient(weights, reduction, classes.size)


@composite(method=False, reported=False)
def nll_loss(
    input,
    target,
    weight=None,
    size_average: Truth | None = None,
    ignore_index: int = -100,
    reduce: Truth | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the elements of ``input``, logarithms of probabilities, at the classes in ``target``.

    Shapes: ``(C,), ()`` or ``(N, C), (N,)`` or ``(N, C, d1, ...), (N, d1, ...)``; the result is a number, or with
    ``reduction="none"`` of the shape of the target.

    Parameters
    ----------
    target
        Classes from 0 to C - 1, or ``ignore_index``.
    weight
        One per class; the mean is weighted.
    ignore_index
        Targets of this class have no part in it.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    IndexError
        If a target is no class.
    RuntimeError, ValueError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> log_probabilities = rg.tensor([[0.7, 0.3], [0.5, 0.5]]).log()
    >>> rg.nn.functional.nll_loss(log_probabilities, rg.tensor([0, 1]))
    tensor(0.5249)
    """
    check_tensors("nll_loss", input=input, target=target)
    reduction = checked_reduction(size_average, reduce, reduction)
    _check_targets("nll_loss", input, target, weight)
    return _nll_loss(input, target, weight, ignore_index, reduction)


# --- cross entropy ----------------------------------------------------------------------------------------------------


def _classes_first(input: Any) -> Any:
    """An array of shape (C,), (N, C) or (N, C, d1, ...) as (C, samples)."""
    if input.ndim == 2:
        return input.T
    if input.ndim == 1:
        return input[:, None]
    return input.swapaxes(0, 1).reshape(input.shape[1], math.prod(input.shape) // input.shape[1])


def _classes_back(grad: Any, shape: tuple[int, ...]) -> Any:
    """The inverse of :func:`_classes_first`."""
    if len(shape) == 2:
        return grad.T
    return grad[:, 0] if len(shape) == 1 else grad.reshape((shape[1], shape[0], *shape[2:])).swapaxes(0, 1)


def _over_classes(ufunc: np.ufunc, x: Any) -> Any:
    """Reduce an array of shape (C, samples); one that lies in memory as (samples, C) by rows, which is faster."""
    return reduce(ufunc, x.T, 1) if x.T.flags.c_contiguous else ufunc.reduce(x, 0)


def _cross_entropy_gradient(g, input, target, weight, ignore_index, reduction, slopes, scale):
    """The gradient of the logits: softmax minus 1 at the target, times the gradient of the target's loss."""
    if slopes is not None:
        return _classes_back(slopes * _shares(g, scale), input.shape)
    dim = _dim(input.shape)
    classes, weights = _read(target, input.shape[dim], weight, ignore_index, input.dtype)
    each = np.broadcast_to(_shares(g, _coefficient(weights, reduction, classes.size)), classes.shape)
    across = (*target.shape[:dim], 1, *target.shape[dim:])
    spread_out = each.reshape(across) if input.ndim > 1 else each
    probabilities = softmax(input, dim) if isinstance(input, Tensor) else softmax.op.forward(input, dim)
    return probabilities * spread_out - place_classes(each, classes, input.shape)


@op(
    name="cross_entropy",
    public=False,
    method=False,
    byproducts=("slopes", "scale"),
    input=_cross_entropy_gradient,
)
def _cross_entropy(input, target, weight=None, ignore_index: int = -100, reduction: str = "mean"):
    logits = _classes_first(input)
    if logits.dtype == np.float16:
        logits = logits.astype(np.float32)
    if len(logits) <= FEW and not logits.flags.c_contiguous:
        logits = logits.copy()
    number, count = logits.shape
    classes, weights = _read(target, number, weight, ignore_index, logits.dtype)

    slopes = logits - _over_classes(np.maximum, logits)
    flat = slopes.ravel("K")
    of_class, of_sample = [step // slopes.itemsize for step in slopes.strides]
    at = classes * of_class
    at += np.arange(0, count * of_sample, of_sample or 1, like=at)
    chosen = take_within(flat, at)
    np.exp(slopes, out=slopes)
    sums = _over_classes(np.add, slopes)
    loss = np.log(sums)
    loss -= chosen
    # softmax minus 1 at the target, before the division by the sum
    np.exp(chosen, out=chosen)
    chosen -= sums
    put_within(flat, at, chosen)
    result = _reduced(loss, weights, reduction, target, input)
    if result.dtype != input.dtype:
        result = result.astype(input.dtype)
    return result, slopes, _coefficient(weights, reduction, count) / sums


@composite(method=False, reported=False)
def cross_entropy(
    input,
    target,
    weight=None,
    size_average: Truth | None = None,
    ignore_index: int = -100,
    reduce: Truth | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of logits and classes, or probabilities of classes.

    Minus the logarithm of the softmax of ``input`` at the target, without overflow or loss of small probabilities.

    Shapes: ``(C,), ()`` or ``(N, C), (N,)`` or ``(N, C, d1, ...), (N, d1, ...)`` for classes, twice the same for
    probabilities; the result is a number, or with ``reduction="none"`` of the input's shape without ``C``.

    Parameters
    ----------
    input
        Logits: logarithms of probabilities up to a constant.
    target
        Classes from 0 to C - 1, or ``ignore_index``; or one probability per class.
    weight
        One per class; for classes, the mean is weighted.
    ignore_index
        Targets of this class have no part in it.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.
    label_smoothing
        How much of the target is spread evenly over all classes, from 0 to 1.

    Raises
    ------
    IndexError
        If a target is no class.
    RuntimeError, ValueError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> logits = rg.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> rg.nn.functional.cross_entropy(logits, rg.tensor([0, 1]))
    tensor(0.2201)
    """
    if type(input) is not Tensor or type(target) is not Tensor:
        check_tensors("cross_entropy", input=input, target=target)
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    check_reduction(reduction)
    if target._data.shape == input._data.shape:
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    _check_targets("cross_entropy", input, target, weight)
    if label_smoothing > 0:
        return _of_smoothed_classes(input, target, weight, ignore_index, reduction, label_smoothing)
    if not input._data.size:  # there is no softmax of no logits
        return _nll_loss(input, target, weight, ignore_index, reduction)
    return _cross_entropy(input, target, weight, ignore_index, reduction)


def _check_smoothing(label_smoothing: float) -> None:
    if label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")


def _per_class(weight: Any, input: Any) -> Any:
    """The weights of the classes, to be broadcast against ``input``."""
    return weight.reshape((-1,) + (1,) * (input.ndim - 2))


def _of_probabilities(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    _check_smoothing(label_smoothing)
    dim = _dim(input.shape)
    if target.dtype.kind != "f":
        raise RuntimeError(
            f"cross_entropy: Expected floating point type for target with class probabilities, got {target.dtype}; "
            f"classes have the shape {[*input.shape[:dim], *input.shape[dim + 1 :]]}"
        )
    if ignore_index >= 0:
        raise RuntimeError(
            f"cross_entropy: ignore_index is not supported for floating point target, but is {ignore_index}; to leave "
            "a sample out, set all its probabilities to 0"
        )
    number = input.shape[dim]
    _check_weight("cross_entropy", weight, number)
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / max(number, 1)
    parts = log_softmax(input, dim) * target
    if weight is not None:
        parts = parts * _per_class(weight, input)
    if reduction == "none":
        return -parts.sum(dim)
    total = -parts.sum()
    return total / (input.numel() / max(number, 1)) if reduction == "mean" else total


def _of_smoothed_classes(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    _check_smoothing(label_smoothing)
    dim = _dim(input.shape)
    number = input.shape[dim]
    logarithms = log_softmax(input, dim)
    at_target = _nll_loss(logarithms, target, weight, ignore_index, reduction)
    weighted = logarithms if weight is None else logarithms * _per_class(weight, input)
    counts = target != ignore_index
    everywhere = np.where(counts, -weighted.sum(dim), 0.0)
    if reduction != "none":
        everywhere = everywhere.sum()
    if reduction == "mean":
        weights = counts if weight is None else np.where(counts, weight[np.where(counts, target, 0)], 0.0)
        everywhere = everywhere / weights.sum()
    return at_target * (1 - label_smoothing) + everywhere * (label_smoothing / max(number, 1))
