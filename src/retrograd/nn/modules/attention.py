"""Attention with several heads (Vaswani et al., 2017)."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import empty
from retrograd.nn import init
from retrograd.nn._multi_head import Heads, attend_with_heads
from retrograd.nn.modules.linear import Linear
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter

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
        heads = Heads(
            name=f"MultiheadAttention(embed_dim={self.embed_dim}, num_heads={self.num_heads})",
            sizes=(self.embed_dim, self.kdim, self.vdim),
            num_heads=self.num_heads,
            in_proj_weight=self.in_proj_weight,
            separate=(self.q_proj_weight, self.k_proj_weight, self.v_proj_weight),
            in_proj_bias=self.in_proj_bias,
            out_proj=self.out_proj,
            bias_k=self.bias_k,
            bias_v=self.bias_v,
            add_zero_attn=self.add_zero_attn,
            dropout=self.dropout if self.training else 0.0,
            batch_first=self.batch_first,
        )
        return attend_with_heads(
            heads, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )
