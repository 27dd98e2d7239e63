"""Sequences of different lengths, packed for recurrent layers."""

from __future__ import annotations

from typing import Any, NamedTuple

from retrograd.core.tensor import Tensor
from retrograd.creation import arange, empty_like
from retrograd.dtypes import float16, float32, float64, int8, int16, int32, int64, uint8


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths, step by step without padding, as all recurrent layers take them.

    Made by :func:`pack_padded_sequence` and :func:`pack_sequence`. Of the sequences ``ab``, ``c`` the data are
    ``acb``, and the batch sizes are 2, 1.

    Attributes
    ----------
    data
        Of shape ``(rows, ...)``: the first steps of all sequences, then the second steps, and so on.
    batch_sizes
        How many sequences take every step; integers that do not increase.
    sorted_indices
        The order in which the sequences are packed, the longest first; None if they came in that order.
    unsorted_indices
        The inverse of that order.

    Examples
    --------
    >>> from retrograd.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([rg.tensor([1, 2, 3]), rg.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("PackedSequence: without batch_sizes, data must be a pair (data, batch_sizes)")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Convert the data to another dtype or device; the arguments are those of :meth:`retrograd.Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if each is None else each.to(data.device) for each in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move the data to the CPU; further arguments as of :meth:`to`."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move the data to a GPU; further arguments as of :meth:`to`."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def double(self) -> PackedSequence:
        """Convert the data to float64."""
        return self.to(float64)

    def float(self) -> PackedSequence:
        """Convert the data to float32."""
        return self.to(float32)

    def half(self) -> PackedSequence:
        """Convert the data to float16."""
        return self.to(float16)

    def long(self) -> PackedSequence:
        """Convert the data to int64."""
        return self.to(int64)

    def int(self) -> PackedSequence:
        """Convert the data to int32."""
        return self.to(int32)

    def short(self) -> PackedSequence:
        """Convert the data to int16."""
        return self.to(int16)

    def char(self) -> PackedSequence:
        """Convert the data to int8."""
        return self.to(int8)

    def byte(self) -> PackedSequence:
        """Convert the data to uint8."""
        return self.to(uint8)

    def pin_memory(self) -> PackedSequence:
        """Return the sequences as they are: memory is not pinned here."""
        return self

    def is_pinned(self) -> bool:
        """Return False: memory is not pinned here."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes another one; None for None.

    Examples
    --------
    >>> rg.nn.utils.rnn.invert_permutation(rg.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = empty_like(permutation)
    inverse[permutation] = arange(len(permutation), dtype=permutation.dtype, device=permutation.device)
    return inverse
