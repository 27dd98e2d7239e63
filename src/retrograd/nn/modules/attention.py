"""Attention with several heads (Vaswani et al., 2017)."""

from __future__ import annotations

import math
import warnings
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import empty, zeros
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules.linear import Linear
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.ops.joining import cat

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """:class:`Linear` under the name that it has inside torch's attention."""


class MultiheadAttention(Module):
    """Attention of every head to its own projections of query, key and value.

    Parameters
    ----------
    embed_dim
        The size of query and output; a multiple of ``num_heads``.
    num_heads
        How many heads.
    dropout
        The probability of dropout of the attention weights.
    bias
        Whether the projections have biases.
    add_bias_kv
        Add one learned key and value to every sequence.
    add_zero_attn
        Add a key and a value of zeros to every sequence.
    kdim, vdim
        The sizes of key and value; ``embed_dim`` by default.
    batch_first
        Whether sequences are ``(N, L, E)`` instead of ``(L, N, E)``.

    Attributes
    ----------
    in_proj_weight
        The projections of query, key and value, of shape ``(3 * embed_dim, embed_dim)``; or ``q_proj_weight``,
        ``k_proj_weight`` and ``v_proj_weight``, if they are of different sizes.
    in_proj_bias
        Of shape ``(3 * embed_dim,)``, or None.
    out_proj
        The projection of the output.

    Examples
    --------
    >>> attention = rg.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = rg.randn(3, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (retrograd.Size([3, 5, 8]), retrograd.Size([3, 5, 5]))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": (embed_dim, embed_dim),
            "k_proj_weight": (embed_dim, self.kdim),
            "v_proj_weight": (embed_dim, self.vdim),
            "in_proj_weight": None,
        }
        if self._qkv_same_embed_dim:
            shapes = {**dict.fromkeys(shapes), "in_proj_weight": (3 * embed_dim, embed_dim)}
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        shapes["bias_k"] = shapes["bias_v"] = (1, 1, embed_dim) if add_bias_kv else None
        for name, shape in shapes.items():
            parameter = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, parameter)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    @property
    def _qkv_same_embed_dim(self) -> bool:
        return self.kdim == self.vdim == self.embed_dim

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and, if asked for, the attention weights.

        Parameters
        ----------
        query, key, value
            Of shapes ``(L, N, E)``, ``(S, N, kdim)`` and ``(S, N, vdim)``, with ``batch_first`` the batch first; or
            without the batch.
        key_padding_mask
            Of shape ``(N, S)``: True, or minus infinity, for keys to leave out.
        need_weights
            Whether to return the weights; without them it is faster.
        attn_mask
            Of shape ``(L, S)`` or ``(N * num_heads, L, S)``: True, or a number to add.
        average_attn_weights
            Whether the weights are the mean over the heads or apart, ``(N, num_heads, L, S)``.
        is_causal
            Says that ``attn_mask`` is causal, which must be given nevertheless.
        """
        self._check(query, key, value, key_padding_mask, attn_mask, is_causal)
        batched = query.ndim == 3
        q, k, v = self._projections(query, key, value, batched)
        mask = self._mask(attn_mask, key_padding_mask, q, k, batched)
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (
                self._with_row(x, extra.expand(1, q.shape[1], -1)) for x, extra in ((k, self.bias_k), (v, self.bias_v))
            )
            mask = _with_column(mask)
        q, k, v = (self._heads(x) for x in (q, k, v))
        if self.add_zero_attn:
            k, v = (cat([x, zeros(*x.shape[:2], 1, x.shape[3], dtype=x.dtype, device=x.device)], 2) for x in (k, v))
            mask = _with_column(mask)
        dropout = self.dropout if self.training else 0.0
        output, weights = _attend(q, k, v, mask, dropout, need_weights)
        output = self.out_proj(output.permute(2, 0, 1, 3).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return output.squeeze(1), None if weights is None else weights.squeeze(0)
        return (output.transpose(0, 1) if self.batch_first else output), weights

    def _check(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
    ) -> None:
        name = f"MultiheadAttention(embed_dim={self.embed_dim}, num_heads={self.num_heads})"
        if query.ndim not in (2, 3):
            raise AssertionError(
                f"{name}: query should be unbatched 2D or batched 3D but received {query.ndim}-D query tensor"
            )
        for what, tensor, size in (
            ("query", query, self.embed_dim),
            ("key", key, self.kdim),
            ("value", value, self.vdim),
        ):
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
                f"{name}: key shape {list(key.shape)} does not match value shape {list(value.shape)} in sequence and "
                "batch"
            )
        if is_causal and attn_mask is None:
            raise RuntimeError(f"{name}: Need attn_mask if specifying the is_causal hint.")
        if key_padding_mask is not None and attn_mask is not None and key_padding_mask.dtype != attn_mask.dtype:
            warnings.warn(
                "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.",
                UserWarning,
                stacklevel=5,
            )

    def _projections(self, query: Tensor, key: Tensor, value: Tensor, batched: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value after their projections, as ``(L, N, E)``."""

        def arranged(x: Tensor) -> Tensor:
            return x.unsqueeze(1) if not batched else x.transpose(0, 1) if self.batch_first else x

        if query is key is value and self.in_proj_weight is not None:
            return F.linear(arranged(query), self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        weights: Any = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        biases: Any = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (
            F.linear(arranged(x), weight, bias)
            for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        return q, k, v

    def _heads(self, x: Tensor) -> Tensor:
        """``(L, N, E)`` as ``(N, heads, L, head_dim)``."""
        return x.unflatten(2, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)

    @staticmethod
    def _with_row(x: Tensor, row: Tensor) -> Tensor:
        return cat([x, row], 0)

    def _mask(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, k: Tensor, batched: bool
    ) -> Tensor | None:
        """Both masks as one, to be added to scores of shape ``(N, heads, L, S)``."""
        (length, batch, _), keys = q.shape, k.shape[0]
        mask = None
        if attn_mask is not None:
            many = () if attn_mask.ndim == 2 else (batch * self.num_heads,)
            mask = _additive("attn_mask", attn_mask, (*many, length, keys), q)
            if mask.ndim == 3:
                mask = mask.unflatten(0, (batch, self.num_heads))
        if key_padding_mask is not None:
            expected = (batch, keys) if batched else (keys,)
            padding = _additive("key_padding_mask", key_padding_mask, expected, q).reshape(batch, 1, 1, keys)
            mask = padding if mask is None else mask + padding
        return mask


def _additive(name: str, mask: Tensor, expected: tuple[int, ...], like: Tensor) -> Tensor:
    """A mask as numbers to add."""
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The shape of {name} is {list(mask.shape)}, but should be {list(expected)}.")
    if mask.dtype.is_floating_point:
        return mask
    if mask.dtype.name != "bool":
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -math.inf)


def _with_column(mask: Tensor | None) -> Tensor | None:
    """The mask for one more key, which everything attends to."""
    return None if mask is None else F.pad(mask, (0, 1))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Weighted sums of values, and the weights if they are needed."""
    if not need_weights:
        return F.scaled_dot_product_attention(q, k, v, mask, dropout), None
    scores = (q * math.sqrt(1 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = F.softmax(scores if mask is None else scores + mask, dim=-1)
    if dropout:
        weights = F.dropout(weights, dropout)
    return weights @ v, weights
