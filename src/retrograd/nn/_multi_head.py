"""Attention with several heads, as :class:`~retrograd.nn.MultiheadAttention` and the functional form do it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import zeros
from retrograd.nn._activations import softmax
from retrograd.nn._attention import scaled_dot_product_attention
from retrograd.nn._dropout import dropout
from retrograd.ops.joining import cat
from retrograd.ops.linear import linear
from retrograd.ops.rearranging import pad

__all__ = ["Heads", "attend_with_heads", "multi_head_attention_forward"]


class Heads(NamedTuple):
    """The parts of attention with several heads.

    Parameters
    ----------
    name
        What errors call it.
    sizes
        The last dimensions of query, key and value.
    num_heads
        How many heads.
    in_proj_weight, separate
        The weights of the projections of query, key and value: in one, or three of them.
    in_proj_bias
        Their biases in one, or None.
    out_proj
        The projection of the output.
    bias_k, bias_v
        One key and one value for every sequence, or None.
    add_zero_attn
        Whether every sequence gets a key and a value of zeros.
    dropout
        The probability of dropout of the attention weights.
    batch_first
        Whether sequences are ``(N, L, E)`` instead of ``(L, N, E)``.
    static_k, static_v
        What replaces projected keys and values, ``(N * num_heads, S, head_dim)``, or None.
    """

    name: str
    sizes: tuple[int, int, int]
    num_heads: int
    in_proj_weight: Tensor | None
    separate: tuple[Tensor | None, Tensor | None, Tensor | None]
    in_proj_bias: Tensor | None
    out_proj: Callable[[Tensor], Tensor]
    bias_k: Tensor | None = None
    bias_v: Tensor | None = None
    add_zero_attn: bool = False
    dropout: float = 0.0
    batch_first: bool = False
    static_k: Tensor | None = None
    static_v: Tensor | None = None


def attend_with_heads(
    heads: Heads,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    average_attn_weights: bool,
    is_causal: bool,
) -> tuple[Tensor, Tensor | None]:
    """The output and, if asked for, the attention weights."""
    _check(heads, query, key, value, key_padding_mask, attn_mask, is_causal)
    batched = query.ndim == 3
    q, k, v = _projections(heads, query, key, value, batched)
    _check_static(heads, q.shape[1], q.shape[2] // heads.num_heads)
    batch, keys = q.shape[1], (k.shape[0] if heads.static_k is None else heads.static_k.shape[1])
    mask = _mask(heads.num_heads, attn_mask, key_padding_mask, q, keys, batched)
    if heads.bias_k is not None and heads.bias_v is not None:
        extras = (heads.bias_k, heads.bias_v)
        k, v = (cat([x, extra.expand(1, batch, -1)], 0) for x, extra in zip((k, v), extras, strict=True))
        mask = _with_column(mask)
    q, k, v = (
        _split(x, heads.num_heads) if fixed is None else fixed.unflatten(0, (batch, heads.num_heads))
        for x, fixed in ((q, None), (k, heads.static_k), (v, heads.static_v))
    )
    if heads.add_zero_attn:
        k, v = (cat([x, zeros(*x.shape[:2], 1, x.shape[3], dtype=x.dtype, device=x.device)], 2) for x in (k, v))
        mask = _with_column(mask)
    output, weights = _attend(q, k, v, mask, heads.dropout, need_weights)
    batch_is_first = batched and heads.batch_first
    output = heads.out_proj(output.permute(*((0, 2, 1, 3) if batch_is_first else (2, 0, 1, 3))).flatten(2))
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not batched:
        return output.squeeze(1), None if weights is None else weights.squeeze(0)
    return output, weights


def _check(
    heads: Heads,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> None:
    name = heads.name
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"{name}: query should be unbatched 2D or batched 3D but received {query.ndim}-D query tensor"
        )
    for what, tensor, size in zip(("query", "key", "value"), (query, key, value), heads.sizes, strict=True):
        if tensor.ndim != query.ndim:
            raise AssertionError(
                f"{name}: For {query.ndim}-D query, expected {what} to be {query.ndim}-D but found {tensor.ndim}-D"
            )
        if tensor.shape[-1] != size:
            raise AssertionError(
                f"{name}: was expecting embedding dimension of {size} for {what}, but got {tensor.shape[-1]}"
            )
    if list(key.shape[:-1]) != list(value.shape[:-1]):
        raise AssertionError(
            f"{name}: key shape {list(key.shape)} does not match value shape {list(value.shape)} in sequence and batch"
        )
    batch = 0 if heads.batch_first else 1
    if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
        raise RuntimeError(
            f"{name}: query of shape {list(query.shape)} and key of shape {list(key.shape)} differ in the batch, which "
            f"is dimension {batch} with batch_first={heads.batch_first}"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            f"{name}: Need attn_mask if specifying the is_causal hint; make one with "
            "Transformer.generate_square_subsequent_mask"
        )
    if key_padding_mask is not None and attn_mask is not None and key_padding_mask.dtype != attn_mask.dtype:
        warn_user(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead."
        )


def _check_static(heads: Heads, batch: int, head_dim: int) -> None:
    """Raise unless replacements of projected keys and values have their shape and nothing is to be appended."""
    for what, static in (("static_k", heads.static_k), ("static_v", heads.static_v)):
        if static is None:
            continue
        if heads.bias_k is not None and heads.bias_v is not None:
            raise AssertionError(f"{heads.name}: bias_k and bias_v cannot be added to {what}; append them first")
        count = batch * heads.num_heads
        if static.ndim != 3 or static.shape[0] != count or static.shape[2] != head_dim:
            raise AssertionError(
                f"{heads.name}: expected {what} of shape [N * num_heads, S, head_dim] = [{count}, S, {head_dim}], "
                f"but got {list(static.shape)}"
            )


def _projections(
    heads: Heads, query: Tensor, key: Tensor, value: Tensor, batched: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value after their projections, as ``(L, N, E)``."""

    def arranged(x: Tensor) -> Tensor:  # before projection, which needs that order
        return x.unsqueeze(1) if not batched else x.transpose(0, 1) if heads.batch_first else x

    if query is key is value and heads.in_proj_weight is not None:
        q, k, v = arranged(linear(query, heads.in_proj_weight, heads.in_proj_bias)).chunk(3, -1)
        return q, k, v
    weights = heads.separate if heads.in_proj_weight is None else heads.in_proj_weight.chunk(3)
    biases = (None,) * 3 if heads.in_proj_bias is None else heads.in_proj_bias.chunk(3)
    q, k, v = (
        arranged(linear(x, weight, bias)) for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    return q, k, v


def _split(x: Tensor, num_heads: int) -> Tensor:
    """``(L, N, E)`` as ``(N, heads, L, head_dim)``."""
    return x.unflatten(2, (num_heads, x.shape[2] // num_heads)).permute(1, 2, 0, 3)


def _mask(
    num_heads: int, attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, keys: int, batched: bool
) -> Tensor | None:
    """Both masks as one, to be added to scores of shape ``(N, heads, L, S)``."""
    length, batch, _ = q.shape
    mask = None
    if attn_mask is not None:
        many = () if attn_mask.ndim == 2 else (batch * num_heads,)
        mask = _additive("attn_mask", attn_mask, (*many, length, keys), q)
        if mask.ndim == 3:
            mask = mask.unflatten(0, (batch, num_heads))
    if key_padding_mask is not None:
        expected = (batch, keys) if batched else (keys,)
        padding = _additive("key_padding_mask", key_padding_mask, expected, q).reshape(batch, 1, 1, keys)
        mask = padding if mask is None else mask + padding
    return mask


def _additive(name: str, mask: Tensor, expected: tuple[int, ...], like: Tensor) -> Tensor:
    """A mask as numbers to add."""
    if tuple(mask.shape) != expected:
        error = RuntimeError if name == "attn_mask" and mask.ndim in (2, 3) else AssertionError  # as in torch
        raise error(f"The shape of {name} is {list(mask.shape)}, but should be {list(expected)}.")
    if mask.dtype.is_floating_point:
        return mask
    if mask.dtype.name != "bool":
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -math.inf)


def _with_column(mask: Tensor | None) -> Tensor | None:
    """The mask for one more key, which everything attends to."""
    return None if mask is None else pad(mask, (0, 1))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Weighted sums of values, and the weights if they are needed."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, p), None
    scores = (q * math.sqrt(1 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = softmax(scores if mask is None else scores + mask, dim=-1)
    if p:
        weights = dropout(weights, p)
    return weights @ v, weights


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return what :class:`~retrograd.nn.MultiheadAttention` with these weights returns.

    Shapes: ``(L, N, E), (S, N, E), (S, N, E) -> (L, N, E), (N, L, S)``, or without the batch.

    Parameters
    ----------
    embed_dim_to_check
        The size of the query.
    in_proj_weight, in_proj_bias
        The projections of query, key and value in one.
    use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight
        Whether the weights of the projections are three instead, and which.
    bias_k, bias_v
        One key and one value to be added to every sequence.
    out_proj_weight, out_proj_bias
        The projection of the output.
    training
        Whether attention weights are dropped with probability ``dropout_p``.
    static_k, static_v
        What replaces projected keys and values, of shape ``(N * num_heads, S, E / num_heads)``.
    key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        As of :meth:`MultiheadAttention.forward`.

    Raises
    ------
    AssertionError, RuntimeError
        If shapes do not fit.
    """
    name = f"multi_head_attention_forward(embed_dim_to_check={embed_dim_to_check}, num_heads={num_heads})"
    if embed_dim_to_check % num_heads:
        raise AssertionError(f"{name}: embed_dim must be divisible by num_heads")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    if use_separate_proj_weight and any(weight is None for weight in separate):
        raise AssertionError(f"{name}: use_separate_proj_weight is True but a projection weight is None")
    if not use_separate_proj_weight and in_proj_weight is None:
        raise AssertionError(f"{name}: use_separate_proj_weight is False but in_proj_weight is None")
    sizes = [embed_dim_to_check] * 3
    if use_separate_proj_weight:
        sizes = [weight.shape[1] for weight in separate if weight is not None]
    heads = Heads(
        name=name,
        sizes=(sizes[0], sizes[1], sizes[2]),
        num_heads=num_heads,
        in_proj_weight=None if use_separate_proj_weight else in_proj_weight,
        separate=separate,
        in_proj_bias=in_proj_bias,
        out_proj=lambda x: linear(x, out_proj_weight, out_proj_bias),
        bias_k=bias_k,
        bias_v=bias_v,
        add_zero_attn=add_zero_attn,
        dropout=dropout_p if training else 0.0,
        static_k=static_k,
        static_v=static_v,
    )
    return attend_with_heads(
        heads, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
    )
