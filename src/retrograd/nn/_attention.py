"""Attention as ``torch.nn.functional`` calls it; the mathematics is in :mod:`retrograd.ops.attention`."""

from __future__ import annotations

import math

import numpy as np

from retrograd.core.state import local
from retrograd.core.tensor import Tensor
from retrograd.nn._dropout import dropout
from retrograd.ops._checks import check_flags
from retrograd.ops.attention import Options, attend, attention_weights, check_attention
from retrograd.random.generator import default_generator

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return sums of values, weighted by the softmax of the products of query and keys.

    All scores of a long sequence are never in memory at once. A query that may attend to no key gets zeros.

    Shapes: ``(..., L, E), (..., S, E), (..., S, Ev) -> (..., L, Ev)``.

    Parameters
    ----------
    attn_mask
        To be broadcast to ``(..., L, S)``: booleans, False for keys to leave out, or numbers to add to the scores.
    dropout_p
        The probability of a weight to be dropped, also outside of training.
    is_causal
        Let query i attend to the keys up to i only.
    scale
        The factor of the scores; ``1 / sqrt(E)`` by default.
    enable_gqa
        Let several heads of the query share a head of key and value, third dimension from the end.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> q, k, v = rg.zeros(1, 4), rg.randn(2, 4), rg.tensor([[0.0], [1.0]])
    >>> rg.nn.functional.scaled_dot_product_attention(q, k, v)
    tensor([[0.5000]])
    """
    check_flags("scaled_dot_product_attention", is_causal=is_causal, enable_gqa=enable_gqa)
    if enable_gqa:
        key, value = (_shared(x, query) for x in (key, value))
    check_attention(query, key, value, attn_mask, dropout_p)
    tensors, allowed = [query, key, value], None
    if attn_mask is not None and attn_mask.dtype.kind == "b":
        allowed = attn_mask
    elif attn_mask is not None:
        tensors.append(attn_mask.to(query.dtype))
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    if dropout_p and local.vmaps:  # whose samples may want numbers of their own
        mask = tensors[3] if len(tensors) > 3 else None
        weights = attention_weights(query, key, mask, allowed, Options(scale, is_causal))
        return dropout(weights, dropout_p) @ value
    seed = int(default_generator.on(np).integers(1 << 62)) if dropout_p else 0
    return attend(tensors, allowed, Options(scale, is_causal, dropout_p, seed))


def _shared(x: Tensor, query: Tensor) -> Tensor:
    """Keys or values with every head repeated for the query heads that share it."""
    if x.ndim < 3 or query.ndim < 3 or query.shape[-3] % x.shape[-3]:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, but got query "
            f"{list(query.shape)} and key or value {list(x.shape)}"
        )
    return x.repeat_interleave(query.shape[-3] // x.shape[-3], -3)
