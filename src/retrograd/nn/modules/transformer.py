"""The transformer (Vaswani et al., 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from retrograd.autograd.grad_mode import is_grad_enabled
from retrograd.core.tensor import Tensor
from retrograd.creation import full
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules.activation import GELU, ReLU
from retrograd.nn.modules.attention import MultiheadAttention
from retrograd.nn.modules.container import ModuleList
from retrograd.nn.modules.dropout import Dropout
from retrograd.nn.modules.linear import Linear
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.normalization import LayerNorm
from retrograd.ops.diagonals import triu

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _get_clones(layer: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(n)])


def _attended(attention: Module, x: Tensor, memory: Tensor, mask: Any, padding: Any, is_causal: bool) -> Tensor:
    options = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": is_causal}
    return attention(x, memory, memory, need_weights=False, **options)[0]


class _Layer(Module):
    """What the layers of encoder and decoder share: self-attention, and a network of two linear layers."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: Any,
        dtype: Any,
        attentions: tuple[str, ...],
    ) -> None:
        super().__init__()
        factory = {"bias": bias, "device": device, "dtype": dtype}
        for name in attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **factory))
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        parts = len(attentions) + 1
        for number in range(1, parts + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, **factory))
        for number in range(1, parts + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    # The parts have torch's names and arguments, because layers made of these replace them, or call them in a
    # ``forward`` of their own.

    def _sa_block(self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
        return self.dropout1(_attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _residual(self, x: Tensor, norm: Module, part: Callable[[Tensor], Tensor]) -> Tensor:
        """The input plus the output of a part, normalised before or after."""
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))


class TransformerEncoderLayer(_Layer):
    """Self-attention, and a network of two linear layers, each with a residual connection and layer normalisation.

    Parameters
    ----------
    d_model, nhead
        The size of the features, and the number of heads.
    dim_feedforward
        The size between the linear layers.
    dropout
        Its probability.
    activation
        ``"relu"``, ``"gelu"``, or a function.
    layer_norm_eps
        The ``eps`` of the normalisations.
    batch_first
        Whether sequences are ``(N, L, E)`` instead of ``(L, N, E)``.
    norm_first
        Normalise before attention and network, instead of after.
    bias
        Whether the linear layers and the normalisations have biases.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            ("self_attn",),
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the encoded sequence; the masks are those of :class:`MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)

        return self._residual(self._residual(src, self.norm1, attend), self.norm2, self._ff_block)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a network of two linear layers.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        As of :class:`TransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            ("self_attn", "multihead_attn"),
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoded sequence.

        Parameters
        ----------
        tgt
            The sequence to decode.
        memory
            What the encoder has made of the source.
        tgt_mask, memory_mask
            Which positions of ``tgt``, and of ``memory``, a position must not attend to: True, or added to the scores.
        tgt_key_padding_mask, memory_key_padding_mask
            For each sequence of the batch, which positions of it are padding, that nothing attends to.
        tgt_is_causal, memory_is_causal
            Hints that the masks are those of :meth:`Transformer.generate_square_subsequent_mask`.
        """

        def attend(x: Tensor) -> Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, is_causal=tgt_is_causal)

        def attend_memory(x: Tensor) -> Tensor:
            return self._mha_block(x, memory, memory_mask, memory_key_padding_mask, is_causal=memory_is_causal)

        x = self._residual(self._residual(tgt, self.norm1, attend), self.norm2, attend_memory)
        return self._residual(x, self.norm3, self._ff_block)

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        return self.dropout2(_attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))


def _can_be_nested(layer: Module) -> bool:
    """Whether torch's encoder of such layers leaves padding out."""
    return (
        isinstance(layer, TransformerEncoderLayer)
        and not layer.norm_first
        and layer.self_attn.batch_first
        and layer.self_attn.num_heads % 2 == 0
        and layer.self_attn.in_proj_bias is not None
        and (layer.activation in (F.relu, F.gelu) or isinstance(layer.activation, (ReLU, GELU)))
        and layer.norm1.eps == layer.norm2.eps
    )


class TransformerEncoder(Module):
    """Encoder layers over each other.

    Parameters
    ----------
    encoder_layer
        Copied for every layer.
    num_layers
        How many.
    norm
        Applied at the end, or None.
    enable_nested_tensor
        Give zeros for the padding in evaluation, as torch does, which computes without it then: where nothing is
        recorded, the layers are as they are by default but for ``batch_first=True``, the heads are even in number,
        and ``src_key_padding_mask`` is the only mask.
    mask_check
        Do so only if all padding is at the ends of the sequences.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and _can_be_nested(encoder_layer)
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the encoded sequence; the masks are those of :class:`MultiheadAttention`."""
        padding = self._left_out(src, mask, src_key_padding_mask)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        if padding is not None:
            src = src.masked_fill(padding.unsqueeze(-1), 0)
        return src if self.norm is None else self.norm(src)

    def _left_out(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
        """The padding, if torch computes without it."""
        if padding is None or mask is not None or src.ndim != 3 or not self.use_nested_tensor:
            return None
        if self.layers[0].training or (
            is_grad_enabled() and any(x.requires_grad for x in (src, *self.layers[0].parameters()))
        ):
            return None
        left_out = padding != 0  # minus infinity, if it is not bool
        if not self.mask_check:
            return left_out
        resumes = left_out[:, :-1] & ~left_out[:, 1:]
        return left_out & ~resumes.any()


class TransformerDecoder(Module):
    """Decoder layers over each other.

    Parameters
    ----------
    decoder_layer
        Copied for every layer.
    num_layers
        How many.
    norm
        Applied at the end, or None.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoded sequence; the masks are those of :class:`MultiheadAttention`."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder.

    Parameters
    ----------
    d_model, nhead
        The size of the features, and the number of heads.
    num_encoder_layers, num_decoder_layers
        How many layers each has.
    dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        As of :class:`TransformerEncoderLayer`.
    custom_encoder, custom_decoder
        Used instead of those that would be made.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        factory = {"bias": bias, "device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(
                TransformerEncoderLayer(*layer, **factory),
                num_encoder_layers,
                LayerNorm(d_model, eps=layer_norm_eps, **factory),
            )
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(*layer, **factory),
                num_decoder_layers,
                LayerNorm(d_model, eps=layer_norm_eps, **factory),
            )
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return what the decoder makes of ``tgt`` and the encoded ``src``.

        Parameters
        ----------
        src, tgt
            The sequence to encode, and the one to decode.
        src_mask, tgt_mask, memory_mask
            Which positions of ``src``, of ``tgt``, and of the encoded ``src`` a position must not attend to: True, or
            added to the scores.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask
            For each sequence of the batch, which positions of it are padding, that nothing attends to.
        src_is_causal, tgt_is_causal, memory_is_causal
            Hints that the masks are those of :meth:`generate_square_subsequent_mask`.

        Raises
        ------
        RuntimeError
            If the batches of ``src`` and ``tgt`` differ, or their last dimensions are not ``d_model``.
        """
        if src.ndim == 3 and tgt.ndim == 3:
            batch = 0 if self.batch_first else 1
            if src.shape[batch] != tgt.shape[batch]:
                raise RuntimeError(
                    f"the batch number of src and tgt must be equal, but the shapes are {list(src.shape)} and "
                    f"{list(tgt.shape)}"
                )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model ({self.d_model}), but the shapes are "
                f"{list(src.shape)} and {list(tgt.shape)}"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the mask under which every position attends to itself and those before: ``-inf`` above the diagonal.

        Examples
        --------
        >>> rg.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return triu(full((sz, sz), -math.inf, device=device, dtype=dtype), 1)
