"""Connectionist temporal classification (Graves et al., 2006): sequences of labels without alignment.

A path through the frames passes the labels in order, with blanks before, between and behind them; a blank may be left
out, but not between equal labels. Labels and blanks in a row are the states.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from retrograd.batching import BatchedArray, unbatched
from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind, check_tensors, first_where
from retrograd.ops._fused import gradient_of, sample_by_sample
from retrograd.ops._losses import check_reduction, reduce_losses
from retrograd.ops.indexing import index_
from retrograd.ops.reductions import logsumexp

# The logarithm of the probability of the impossible; minus infinity would have no derivative.
NEVER = -1e30

# --- states -----------------------------------------------------------------------------------------------------------


class _States(NamedTuple):
    """The states of every sample.

    Attributes
    ----------
    labels
        (N, S): the class of every state.
    jumps
        (N, S): 0 where the state before one may be left out: a blank between different labels; else NEVER.
    last
        (N,): the last state, a blank.
    """

    labels: Any
    jumps: Any
    last: Any


@sample_by_sample
def _states(targets: Any, target_lengths: Any, blank: int) -> _States:
    count, longest = targets.shape
    labels = np.full_like(targets, blank, shape=(count, 2 * longest + 1), order="C")
    labels[:, 1::2] = np.where(np.arange(longest) < target_lengths[:, None], targets, blank)
    jumps = np.full(labels.shape, NEVER, like=labels)
    jumps[:, 2:][labels[:, 2:] != labels[:, :-2]] = 0
    return _States(labels, jumps, 2 * target_lengths)


def _gap(x: Any) -> Any:
    """Two impossible states, to be concatenated with the states of every sample."""
    return np.full((len(x), 2), NEVER, x.dtype)


def _any_of(*parts: Any) -> Any:
    """The logarithm of a sum of probabilities, from their logarithms."""
    if isinstance(parts[0], Tensor):
        return logsumexp(np.stack(parts), 0)
    if type(parts[0]) is not np.ndarray:
        return functools.reduce(np.logaddexp, parts)
    each = np.array(parts)
    largest = np.maximum.reduce(each, initial=NEVER)
    each -= largest
    total = np.add.reduce(np.exp(each, out=each))
    return np.log(np.maximum(total, 1)) + largest  # below 1 where all are minus infinity


def _forward_step(behind: Any, jumps: Any) -> Any:
    """Log probabilities of arriving at every state, from those of having been in one, with a gap in front."""
    return _any_of(behind[:, 2:], behind[:, 1:-1], behind[:, :-2] + jumps)


def _backward_step(ahead: Any, jumps: Any) -> Any:
    """The same for everything after every state; ``jumps`` says which states lead to the next but one."""
    return _any_of(ahead[:, :-2], ahead[:, 1:-1], ahead[:, 2:] + jumps)


def _emissions(log_probs: Any, states: _States) -> Any:
    """(T, N, S): the logarithm of the probability of every state's class."""
    return np.take_along_axis(log_probs, states.labels[None], 2)


def _alphas(emissions: Any, states: _States) -> Any:
    """(T, N, S): the logarithm of the probability of everything up to a state."""
    frames, samples, width = emissions.shape
    behind = np.full_like(emissions, NEVER, shape=(frames, samples, width + 2), order="C")  # with a gap in front
    alphas = behind[:, :, 2:]
    alphas[0, :, 0] = emissions[0, :, 0]
    if width > 1:
        alphas[0, :, 1] = np.where(states.last > 0, emissions[0, :, 1], NEVER)
    jumps = states.jumps.astype(alphas.dtype)
    for t in range(1, frames):
        np.add(_forward_step(behind[t - 1], jumps), emissions[t], out=alphas[t])
    return alphas


def _ends(at_end: Any, states: _States) -> Any:
    """The logarithm of the probability of being in the last blank or the last label."""
    samples = np.arange(len(states.last))
    in_label = np.where(states.last > 0, index_(at_end, [samples, np.maximum(states.last - 1, 0)]), NEVER)
    return _any_of(index_(at_end, [samples, states.last]), in_label)


def _posteriors(emissions: Any, alphas: Any, losses: Any, states: _States, input_lengths: Any) -> Any:
    """(T, N, S): the probability of every state, given the labels."""
    frames, samples, width = emissions.shape
    position = np.arange(width)
    ends = np.where((position == states.last[:, None]) | (position == states.last[:, None] - 1), 0.0, NEVER)
    beta = np.full_like(emissions, NEVER, shape=(samples, width))
    ahead = np.full_like(emissions, NEVER, shape=(samples, width + 2))  # with a gap behind
    betas = np.empty_like(emissions)
    jumps = np.concatenate([states.jumps.astype(beta.dtype), _gap(beta)], 1)[:, 2:]
    for t in reversed(range(frames)):
        if t + 1 < frames:
            np.add(beta, emissions[t + 1], out=ahead[:, :-2])
            beta = _backward_step(ahead, jumps)
        betas[t] = beta = np.where((input_lengths == t + 1)[:, None], ends, beta)
    return np.exp(alphas + betas + losses[:, None])


def _compose(log_probs: Any, states: _States, input_lengths: Any) -> Any:
    """The losses in ordinary operations."""
    frames = log_probs.shape[0]
    emissions = _emissions(log_probs, states)
    first = np.arange(emissions.shape[2]) < np.where(states.last > 0, 2, 1)[:, None]
    alpha = np.where(first, emissions[0], NEVER)
    at_end = np.where((input_lengths == 1)[:, None], alpha, NEVER)
    gap, jumps = _gap(alpha), states.jumps.astype(alpha.dtype)
    for t in range(1, frames):
        alpha = _forward_step(np.concatenate([gap, alpha], 1), jumps) + emissions[t]
        at_end = np.where((input_lengths == t + 1)[:, None], alpha, at_end)
    return -_ends(at_end, states)


def _losses(alphas: Any, states: _States, input_lengths: Any) -> Any:
    """Minus the logarithm of the probability of the labels; infinite, where there is no path."""
    samples = np.arange(len(input_lengths))
    empty = np.where(states.last > 0, NEVER, 0.0).astype(alphas.dtype)  # no frames
    at_end = index_(alphas, [np.maximum(input_lengths - 1, 0), samples])
    losses = -np.where(input_lengths > 0, _ends(at_end, states), empty)
    return np.where(losses >= -NEVER / 2, np.inf, losses)


# --- the operation ----------------------------------------------------------------------------------------------------


def _ctc_gradient(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, losses, alphas):
    """As in torch, the gradient for the input of log_softmax: the probabilities minus those given the labels."""
    states = _states(targets, target_lengths, blank)
    recorded = losses is None
    if recorded:
        data = log_probs._data if isinstance(log_probs, Tensor) else log_probs
        losses = _losses(_alphas(_emissions(data, states), states), states, input_lengths)
    impossible = np.isinf(losses)
    seen = (np.arange(len(log_probs))[:, None] < input_lengths)[:, :, None]
    if recorded:
        counted = g * np.where(impossible, 0.0 if zero_infinity else np.nan, 1.0).astype(g.dtype)
        of_paths = gradient_of(_compose, g, [log_probs, states, input_lengths], 0)
        gradient = np.where(impossible[:, None], 0.0, of_paths) + np.exp(log_probs) * counted[:, None]
        return np.where(seen, gradient, 0.0)
    emissions = _emissions(log_probs, states)
    posteriors = _posteriors(emissions, alphas, np.where(impossible, 0, losses), states, input_lengths)
    of_class = (states.labels[:, :, None] == np.arange(log_probs.shape[2])).astype(log_probs.dtype)
    gradient = np.exp(log_probs) - (posteriors.swapaxes(0, 1) @ of_class).swapaxes(0, 1)
    gradient[:, impossible] = 0 if zero_infinity else np.nan
    return np.where(seen, gradient * g[:, None], 0)


@op(name="ctc_loss", public=False, method=False, byproducts=("losses", "alphas"), log_probs=_ctc_gradient)
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank: int, zero_infinity: bool):
    states = _states(targets, target_lengths, blank)
    alphas = _alphas(_emissions(log_probs, states), states)
    losses = _losses(alphas, states, input_lengths)
    return (np.where(np.isinf(losses), 0, losses) if zero_infinity else losses), losses, alphas


def _lengths(name: str, lengths: Any, count: int, most: int) -> Any:
    if isinstance(lengths, Tensor):
        lengths = lengths._data if type(lengths._data) is BatchedArray else lengths.numpy(force=True)
    values = np.atleast_1d(lengths)
    if values.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: {name} must be integral, got {values.dtype}")
    if values.shape != (count,):
        raise RuntimeError(f"ctc_loss: {name} must be of size batch_size, {count}, got {list(values.shape)}")
    wrong = first_where((values < 0) | (values > most), values)
    if wrong is not None:
        limit = f"at least 0, but got value {wrong}" if wrong < 0 else f"at most {most}, but got value {wrong}"
        raise RuntimeError(f"ctc_loss: Expected {name} to have value {limit}")
    return values.astype(np.int64)


def _padded(targets: Any, lengths: Any) -> Any:
    """Targets that were joined into a vector, as one row per sample."""
    places = np.arange(int(unbatched(lengths).max(initial=0)))
    used = places < lengths[:, None]
    starts = np.cumsum(lengths) - lengths
    return np.where(used, index_(targets, [np.where(used, starts[:, None] + places, 0)]), 0)


@composite(method=False)
def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return minus the logarithms of the probabilities of sequences of labels, over all alignments.

    Shapes: ``(T, N, C), (N, S) or (sum of lengths,), (N,), (N,)`` or ``(T, C), (S,), (), ()``.

    Parameters
    ----------
    log_probs
        Logarithms of probabilities for every frame, sample and class, from log_softmax: as in torch, the gradient is
        the one that log_softmax passes on to the logits.
    targets
        Classes other than the blank, padded or joined.
    input_lengths, target_lengths
        How many frames and labels the samples have.
    blank
        The class that stands for nothing.
    reduction
        ``"mean"``, where every loss is first divided by the length of its target, ``"sum"`` or ``"none"``.
    zero_infinity
        Make infinite losses, of too few frames for the labels, and their gradients zero.

    Raises
    ------
    RuntimeError
        If shapes, lengths or classes do not fit.

    Examples
    --------
    >>> log_probs = rg.full((2, 1, 2), 0.5).log()  # two frames, one sample, blank and one label
    >>> rg.nn.functional.ctc_loss(log_probs, rg.tensor([[1]]), [2], [1]).exp()  # 3 of 4 paths
    tensor(1.3333)
    """
    check_tensors("ctc_loss", log_probs=log_probs, targets=targets)
    check_reduction(reduction)
    check_kind("ctc_loss", "f", log_probs)
    if targets.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: targets must be integral, got {targets.dtype}; convert them with .long()")
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(f"ctc_loss: log_probs must be of shape [T, N, C] or [T, C], got {list(log_probs.shape)}")
    if 0 in log_probs.shape:
        raise RuntimeError(f"ctc_loss: log_probs must not be empty, got {list(log_probs.shape)}")
    single = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    frames, count, classes = x.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range, from 0 to {classes - 1}, got {blank}")
    labels = targets._data
    longest = labels.shape[1] if labels.ndim == 2 else labels.size
    inputs = _lengths("input_lengths", input_lengths, count, frames)
    lengths = _lengths("target_lengths", target_lengths, count, longest)
    if labels.ndim == 1:
        joined = lengths.sum()
        wrong = first_where(joined != labels.size, joined)
        if wrong is not None and not single:
            raise RuntimeError(
                f"ctc_loss: Expected targets to have size {wrong}, the sum of target_lengths, at dimension 0, but got "
                f"size {labels.size}"
            )
        labels = _padded(labels, lengths)
    elif labels.ndim != 2 or len(labels) != count:
        raise RuntimeError(f"ctc_loss: targets must be of shape [{count}, S] or a vector, got {list(labels.shape)}")
    used = np.arange(labels.shape[1]) < lengths[:, None]
    wrong = first_where(used & ((labels < 0) | (labels >= classes)), labels)
    if wrong is not None:
        raise RuntimeError(f"ctc_loss: target out of range: {wrong}, for {classes} classes")
    inputs, lengths = (
        values if type(values) is BatchedArray else np.asarray(values, like=x._data) for values in (inputs, lengths)
    )
    # a matrix of targets is given as the tensor that it is, so that a write to it before the backward is noticed
    losses = _ctc_loss(x, targets if labels is targets._data else labels, inputs, lengths, blank, zero_infinity)
    if reduction == "mean":
        return (losses / np.maximum(lengths, 1).astype(losses._data.dtype)).mean()
    return losses.squeeze(0) if single and reduction == "none" else reduce_losses(losses, reduction)
