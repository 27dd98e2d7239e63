"""Tables of vectors that are looked up by index."""

from __future__ import annotations

from typing import Any, Self

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.creation import empty
from retrograd.dtypes import int32, int64
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules._errors import MISFITS, describe, misfit
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.utils import unless_default
from retrograd.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _size_of_table(embeddings: Tensor) -> tuple[int, int]:
    """How many rows a table has, and their length."""
    if embeddings.ndim != 2:
        raise AssertionError(f"Embeddings parameter is expected to be 2-dimensional, got {embeddings.ndim}")
    rows, length = embeddings.shape
    return rows, length


class _Table(Module):
    """What both tables share: the weight, one row per index."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        weight: Tensor | None,
        freeze: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"padding_idx must be within num_embeddings, but got {padding_idx} for {num_embeddings} embeddings"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        if weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype), not freeze)
            self.reset_parameters()
        elif list(weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError(
                f"Shape of weight {list(weight.shape)} does not match num_embeddings and embedding_dim: "
                f"{[num_embeddings, embedding_dim]}"
            )
        else:
            self.weight = Parameter(weight, not freeze)

    def reset_parameters(self) -> None:
        """Draw the weight anew from the normal distribution; the row of ``padding_idx`` becomes 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _misfit(self, error: Exception, input: Any) -> Exception:
        expected = f"a tensor of indices from 0 to {self.num_embeddings - 1}, of any shape"
        fits = isinstance(input, Tensor) and input.dtype in (int32, int64) and not isinstance(error, IndexError)
        return misfit(self, error, expected, describe(input), fits=fits)


class Embedding(_Table):
    """Look up rows of a table by index.

    Shapes: ``(...) -> (..., embedding_dim)``.

    Parameters
    ----------
    num_embeddings, embedding_dim
        How many rows there are, and their length.
    padding_idx
        The row of this index begins as 0 and gets no gradient.
    max_norm
        Rows that are looked up are first scaled down to this norm.
    norm_type
        The order of that norm.
    scale_grad_by_freq
        Divide the gradient of a row by how often its index is there.
    sparse
        Accepted for compatibility; gradients are dense.

    Attributes
    ----------
    weight
        Of shape ``(num_embeddings, embedding_dim)``, standard normal to begin with.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows of the weight at these indices."""
        try:
            return F.embedding(
                input,
                self.weight,
                self.padding_idx,
                self.max_norm,
                self.norm_type,
                self.scale_grad_by_freq,
                self.sparse,
            )
        except MISFITS as error:
            raise self._misfit(error, input) from None

    def extra_repr(self) -> str:
        """Return the parameters that are not those by default."""
        options = {
            "padding_idx": (self.padding_idx, None),
            "max_norm": (self.max_norm, None),
            "norm_type": (self.norm_type, 2),
            "scale_grad_by_freq": (self.scale_grad_by_freq, False),
        }
        text = f"{self.num_embeddings}, {self.embedding_dim}{unless_default(options)}"
        return text + ", sparse=True" * self.sparse

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Return a layer with a given table.

        Parameters
        ----------
        embeddings
            The table, of shape ``(num_embeddings, embedding_dim)``.
        freeze
            Whether it stays as it is: requires no grad.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
            As of the class.
        """
        return cls(
            *_size_of_table(embeddings),
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            embeddings,
            freeze,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of the rows of a table at bags of indices.

    Parameters
    ----------
    num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse
        As of :class:`Embedding`.
    mode
        ``"sum"``, ``"mean"`` or ``"max"``.
    include_last_offset
        Whether the offsets end with the number of indices.
    padding_idx
        Indices with this value have no part in it.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one row per bag: per row of a matrix ``input``, or per offset into a vector ``input``."""
        try:
            return F.embedding_bag(
                input,
                self.weight,
                offsets,
                self.max_norm,
                self.norm_type,
                self.scale_grad_by_freq,
                self.mode,
                self.sparse,
                per_sample_weights,
                self.include_last_offset,
                self.padding_idx,
            )
        except MISFITS as error:
            raise self._misfit(error, input) from None

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Return a layer with a given table.

        Parameters
        ----------
        embeddings
            The table, of shape ``(num_embeddings, embedding_dim)``.
        freeze
            Whether it stays as it is: requires no grad.
        max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx
            As of the class.
        """
        layer = cls(
            *_size_of_table(embeddings),
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        layer.weight.requires_grad_(not freeze)
        return layer

    def extra_repr(self) -> str:
        """Return the parameters that are not those by default."""
        options = {
            "max_norm": (self.max_norm, None),
            "norm_type": (self.norm_type, 2),
            "scale_grad_by_freq": (self.scale_grad_by_freq, False),
        }
        text = f"{self.num_embeddings}, {self.embedding_dim}{unless_default(options)}, mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
