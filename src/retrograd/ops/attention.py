"""Scaled dot-product attention (Vaswani et al., 2017), some queries at a time.

The matrix of scores, queries times keys, is never there as a whole: backward computes it again, from the largest score
of every row and the sum of its exponentials, as in Dao et al., "FlashAttention", 2022. Only where there are so few keys
that the weights take no more room than the result are they kept instead.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from retrograd.core.blocks import block_size, share_out, threads_for
from retrograd.core.layout import dense_like
from retrograd.core.op import op
from retrograd.core.unbroadcast import sum_to
from retrograd.ops._checks import check_number, check_tensors
from retrograd.ops._fused import gradients_of, samples_in_front
from retrograd.ops._rows import largest, row_sums
from retrograd.ops.activations import softmax
from retrograd.ops.norm_layers import in_single

# How many scores are processed at a time; they take half of the second-level cache (measured).
BLOCK = 1 << 17
# How many scores it takes for threads to share the work (measured).
LARGE = 1 << 19


class Options(NamedTuple):
    """The options shared by all scores.

    Attributes
    ----------
    scale
        The factor of the scores.
    causal
        Whether query i attends to the keys up to i only.
    dropout, seed
        The probability that a weight is dropped, and the seed of the random numbers.
    """

    scale: float
    causal: bool = False
    dropout: float = 0.0
    seed: int = 0


class _Part(NamedTuple):
    """A unit of work: some queries of some samples.

    Attributes
    ----------
    samples
        The slices of the dimensions in front.
    queries
        The slice of the queries.
    keys
        How many of the first keys these attend to.
    number
        The index of the part.
    is_whole
        Whether it covers all samples, queries and keys.
    """

    samples: tuple[slice, ...]
    queries: slice
    keys: int
    number: int
    is_whole: bool

    def of_queries(self, x: Any) -> Any:
        return x if self.is_whole else x[(*self.samples, self.queries)]

    def of_keys(self, x: Any) -> Any:
        return x if self.is_whole else x[(*self.samples, slice(self.keys))]

    def of_scores(self, x: Any) -> Any:
        return x if self.is_whole else x[(*self.samples, self.queries, slice(self.keys))]


class _Operands:
    """Query, key, value and masks, with the dimensions in front of the last two broadcast, and at least one of them."""

    def __init__(self, tensors: Any, allowed: Any) -> None:
        query, key, value, *masks = in_single(*tensors)
        given = [x for x in (query, key, value, *masks, allowed) if x is not None]
        batch = np.broadcast_shapes((1,), *(x.shape[:-2] for x in given))
        self.shape = batch, query.shape[-2], key.shape[-2]
        scores = (*batch, *self.shape[1:])
        self.query, self.key, self.value = (_expanded(x, (*batch, *x.shape[-2:])) for x in (query, key, value))
        self.mask = _expanded(masks[0], scores) if masks else None
        self.allowed = None if allowed is None else _expanded(allowed, scores)

    def scores(self, scaled: Any, part: _Part, causal: bool) -> Any:
        """The scores of some queries, minus infinity where they are masked."""
        scores = scaled @ part.of_keys(self.key).mT
        if self.mask is not None:
            scores += part.of_scores(self.mask)
        if self.allowed is not None:
            np.copyto(scores, -np.inf, where=~part.of_scores(self.allowed))
        if causal:
            here = np.arange(part.queries.start, part.queries.stop, like=scores)
            np.copyto(scores, -np.inf, where=np.arange(part.keys, like=scores) > here[:, None])
        return scores


def _expanded(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _ndim(tensors: Any, allowed: Any) -> int:
    """How many dimensions the result has."""
    return max(each.ndim for each in (*tensors, *([] if allowed is None else [allowed])))


def _parts(shape: Any, options: Options, like: Any) -> list[list[_Part]]:
    """The parts, those of the same samples together; for dropout the same on every device, as they seed its numbers."""
    return _cut(*shape, options.causal, BLOCK if options.dropout else block_size(BLOCK, like))


@functools.lru_cache(maxsize=64)  # for few scores it takes as long as all the rest
def _cut(batch: tuple[int, ...], queries: int, keys: int, causal: bool, block: int) -> list[list[_Part]]:
    """Parts of ``block`` scores or somewhat less."""
    number = itertools.count()
    step = max(min(queries, block // max(keys, 1)), 1)
    cuts = [slice(start, min(start + step, queries)) for start in range(0, queries, step)]
    many = list(_samples(batch, max(block // max(queries * keys, 1), 1)))
    reached = [min(cut.stop, keys) if causal else keys for cut in cuts]
    is_whole = len(many) == len(cuts) == 1 and reached[0] == keys
    return [
        [_Part(samples, cut, reach, next(number), is_whole) for cut, reach in zip(cuts, reached, strict=True)]
        for samples in many
    ]


def _samples(batch: tuple[int, ...], at_once: int) -> Iterator[tuple[slice, ...]]:
    """Slices that split the leading dimensions, the first ones first, into at most ``at_once`` samples each."""
    slices = []
    for position, size in enumerate(batch):
        inner = math.prod(batch[position + 1 :])
        step = max(min(at_once // max(inner, 1), size), 1)
        slices.append([slice(start, min(start + step, size)) for start in range(0, size, step)])
    return itertools.product(*slices)


def _kept(part: _Part, shape: Any, options: Options, dtype: Any) -> Any:
    """The factors of some weights for dropout."""
    rng = np.random.default_rng((options.seed, part.number))
    keys = shape[2]
    some = (*(each.stop - each.start for each in (*part.samples, part.queries)), keys)
    scale = 0.0 if options.dropout == 1 else 1 / (1 - options.dropout)
    kept = np.multiply(rng.random(some, np.float32) >= options.dropout, scale, dtype=dtype)
    return kept[..., : part.keys]


def _share(work: Callable[[list[_Part]], None], parts: list[list[_Part]], x: _Operands, apart: bool = True) -> None:
    """Call ``work`` on lists of parts, in all threads at once if these are ``apart`` and there are enough scores."""
    batch, queries, keys = x.shape
    if apart and threads_for(x.query) > 1 and math.prod(batch) * queries * keys >= LARGE:
        share_out(work, [(each,) for each in parts], products=True)
    else:
        for each in parts:
            work(each)


# --- gradients --------------------------------------------------------------------------------------------------------


def attention_weights(query: Any, key: Any, mask: Any, allowed: Any, options: Options) -> Any:
    """The factors of the values, before dropout, in ordinary operations and all at once."""
    scores = (query * options.scale) @ key.mT
    if mask is not None:
        scores = scores + mask
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    if options.causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    dead = np.max(scores.detach(), axis=-1, keepdims=True) == -np.inf if scores.shape[-1] else False
    return np.where(dead, 0.0, softmax(np.where(dead, 0.0, scores), -1))


def _compose(query: Any, key: Any, value: Any, mask: Any, allowed: Any, options: Options) -> Any:
    """The same in ordinary operations, with all scores at once."""
    weights = attention_weights(query, key, mask, allowed, options)
    if options.dropout:
        batch = np.broadcast_shapes((1,), weights.shape[:-2], value.shape[:-2])
        shape = batch, *weights.shape[-2:]
        kept = np.zeros((*batch, *weights.shape[-2:]), query._data.dtype)
        for part in itertools.chain.from_iterable(_parts(shape, options, kept)):
            part.of_scores(kept)[...] = _kept(part, shape, options, kept.dtype)
        weights = weights * kept.reshape(kept.shape[-max(weights.ndim, value.ndim) :])
    return weights @ value


def _attention_gradients(g, tensors, allowed, options, result, largest, sums, weights, needs):
    """The gradients of query, key, value and, if there is one, of a mask of numbers."""
    if sums is None:
        with_mask = [*tensors, *[None] * (4 - len(tensors))]
        wanted = tuple(position for position, needed in enumerate(needs) if needed)
        found = gradients_of(_compose, g, [*with_mask, allowed, options], wanted)
        return [found[wanted.index(position)] if needed else None for position, needed in enumerate(needs)]
    return _gradients(g, tensors, allowed, options, result, largest, sums, weights, needs)


@samples_in_front
def _gradients(
    g: Any,
    tensors: Any,
    allowed: Any,
    options: Options,
    result: Any,
    largest: Any,
    sums: Any,
    all_weights: Any,
    needs: tuple[bool, ...],
) -> list[Any]:
    x = _Operands(tensors, allowed)
    scale, causal, dropout, _ = options
    g, result = (each.reshape(x.query.shape[:-1] + each.shape[-1:]) for each in in_single(g, result))
    parts = _parts(x.shape, options, x.query)
    of_query = np.empty(x.query.shape, x.query.dtype, like=x.query)
    # the parts of a sample add to the gradients of its keys and values; a single part that has all keys writes them
    whole = all(len(each) == 1 and each[0].keys == x.shape[2] for each in parts)
    make = np.empty if whole else np.zeros
    of_key, of_value = (make(each.shape, each.dtype, like=each) for each in (x.key, x.value))
    of_mask = np.zeros_like(tensors[3]) if len(needs) == 4 and needs[3] else None

    def work(parts: list[_Part]) -> None:
        for part in parts:
            own, keys, scaled = part.of_queries(g), part.of_keys(x.key), part.of_queries(x.query) * scale
            if all_weights is None:
                weights = x.scores(scaled, part, causal)
                weights -= part.of_queries(largest)
                np.exp(weights, out=weights)
                own = own / part.of_queries(sums)  # instead of the weights, which are more
            else:
                weights = part.of_scores(all_weights)
            of_scores = own @ part.of_keys(x.value).mT
            kept_weights = weights
            if dropout:
                kept = _kept(part, x.shape, options, weights.dtype)
                kept_weights = weights * kept
                of_scores *= kept
            of_scores -= np.vecdot(own, part.of_queries(result))[..., None]
            of_scores *= weights
            for target, scores, factor in ((of_value, kept_weights, own), (of_key, of_scores, scaled)):
                here = part.of_keys(target)
                if whole:
                    np.matmul(scores.mT, factor, out=here)
                else:
                    here += scores.mT @ factor
            np.matmul(of_scores, keys, out=part.of_queries(of_query))
            if of_mask is not None:
                _add_to_mask(of_mask, of_scores, part)

    _share(work, parts, x, apart=of_mask is None)
    of_query *= scale
    ndim = _ndim(tensors, allowed)
    gradients = [gradient.reshape(gradient.shape[-ndim:]) for gradient in (of_query, of_key, of_value)]
    return [gradient if needed else None for gradient, needed in zip([*gradients, of_mask], needs, strict=False)]


def _add_to_mask(of_mask: Any, of_scores: Any, part: _Part) -> None:
    """Add the gradient of some scores to the gradient of the mask that was broadcast to them."""
    whole = of_mask.reshape((1,) * (of_scores.ndim - of_mask.ndim) + of_mask.shape)
    index = (*part.samples, part.queries, slice(part.keys))
    target = whole[tuple(slice(None) if n == 1 else own for n, own in zip(whole.shape, index, strict=True))]
    target += sum_to(of_scores, target.shape)


def _place_for_result(x: _Operands, options: Options) -> Any:
    """An array that lies in memory as the query does, as in torch, so that transposed heads go back without a copy."""
    shape = (*x.query.shape[:-1], x.value.shape[-1])
    if type(x.query) is np.ndarray and x.query.shape == shape and 0 not in x.query.strides and not options.dropout:
        return dense_like(x.query)
    return np.empty(shape, x.query.dtype, like=x.query)


# --- the operation ----------------------------------------------------------------------------------------------------


@op(
    name="scaled_dot_product_attention",
    public=False,
    method=False,
    sequence="tensors",
    byproducts=("largest", "sums", "weights"),
    tensors=_attention_gradients,
)
@samples_in_front
def attend(tensors, allowed, options: Options):
    """Return the weighted sums of values.

    Parameters
    ----------
    tensors
        Query, key, value, and perhaps numbers to add to the scores.
    allowed
        Booleans: which keys a query attends to; or None.
    """
    x = _Operands(tensors, allowed)
    result = _place_for_result(x, options)
    # not one number, the largest plus the logarithm of the sum: of the latter nothing is left beside a mask of -1e9
    all_largest, all_sums = (np.empty((*x.query.shape[:-1], 1), x.query.dtype, like=x.query) for _ in range(2))
    keys, width = x.value.shape[-2:]
    lowest = np.finfo(x.query.dtype).min
    all_weights = np.zeros((*x.query.shape[:-1], keys), x.query.dtype, like=x.query) if keys <= width else None

    def work(parts: list[_Part]) -> None:
        for part in parts:
            weights = x.scores(part.of_queries(x.query) * options.scale, part, options.causal)
            top = largest(weights, -1)
            # where all keys are masked, all weights are 0, and so is the result: the sum of others is at least 1
            weights -= np.maximum(top, lowest, out=part.of_queries(all_largest))
            np.exp(weights, out=weights)
            sums = np.maximum(row_sums(weights), 1, out=part.of_queries(all_sums))
            if all_weights is not None:
                np.divide(weights, sums, out=part.of_scores(all_weights))
            if options.dropout:
                weights *= _kept(part, x.shape, options, weights.dtype)
            here = part.of_queries(result)
            np.matmul(weights, part.of_keys(x.value), out=here)
            here /= sums

    _share(work, _parts(x.shape, options, x.query), x)
    ndim = _ndim(tensors, allowed)
    made = result.reshape(result.shape[-ndim:]).astype(tensors[0].dtype, copy=False)
    return made, all_largest, all_sums, all_weights


def _shapes(query: Any, key: Any, value: Any) -> str:
    return f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"


def check_attention(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float) -> None:
    """Raise for arguments that attention cannot be computed from.

    Raises
    ------
    TypeError
        For what is no tensor.
    RuntimeError
        For dtypes and shapes that do not fit.
    """
    check_tensors("scaled_dot_product_attention", query=query, key=key, value=value)
    q, k, v = query._data, key._data, value._data
    if not q.dtype == k.dtype == v.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if q.dtype.kind != "f":
        raise RuntimeError(f"scaled_dot_product_attention: expected a floating-point dtype but found {query.dtype}")
    if q.ndim < 2 or k.ndim < 2 or v.ndim < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.ndim} "
            f"key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(
            f"scaled_dot_product_attention: {_shapes(query, key, value)}: query and key must have the same last "
            "dimension, key and value the same number of rows"
        )
    if not 0 <= check_number("scaled_dot_product_attention", "dropout_p", dropout_p) <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if attn_mask is None:
        return
    if attn_mask.dtype.kind != "b" and attn_mask.dtype not in (query.dtype, np.float32):
        # to be added to the scores, or 1 for the keys that take part
        remedy = ".to(query.dtype)" if attn_mask.dtype.kind == "f" else ".bool()"
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype} and  query.dtype: {query.dtype} instead; convert it with {remedy}"
        )
    try:
        expected = (*np.broadcast_shapes(query.shape[:-2], key.shape[:-2]), query.shape[-2], key.shape[-2])
        np.broadcast_to(attn_mask._data, np.broadcast_shapes(expected, attn_mask.shape[-2:]))
    except ValueError:
        raise RuntimeError(
            f"scaled_dot_product_attention: attn_mask {list(attn_mask.shape)} does not fit scores of shape "
            f"{list(expected)}, from {_shapes(query, key, value)}"
        ) from None


__all__ = ["Options", "attend", "check_attention"]
