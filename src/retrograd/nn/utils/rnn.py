"""Sequences of different lengths: padded to one tensor, or packed for recurrent layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor
from retrograd.creation import full, tensor
from retrograd.nn._packed_sequence import PackedSequence, invert_permutation

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

# --- padded -----------------------------------------------------------------------------------------------------------


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences of different lengths as one tensor, padded to the longest.

    Parameters
    ----------
    sequences
        Of shapes ``(L_k, ...)``, equal but for the first dimension.
    batch_first
        Return ``(N, L, ...)`` instead of ``(L, N, ...)``.
    padding_value
        What to pad with.
    padding_side
        ``"right"`` or ``"left"``.

    Raises
    ------
    RuntimeError
        If there are no sequences, if their shapes do not fit, or if the side is unknown.

    Examples
    --------
    >>> rg.nn.utils.rnn.pad_sequence([rg.ones(2), rg.ones(3)], batch_first=True)
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    found = list(sequences)
    if not found:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    for number, sequence in enumerate(found):
        if not isinstance(sequence, Tensor):
            raise TypeError(f"pad_sequence: expected Tensor as element {number}, but got {type(sequence).__name__}")
    first = found[0]
    if any(sequence.ndim == 0 or sequence.shape[1:] != first.shape[1:] for sequence in found):
        shapes = ", ".join(str(list(sequence.shape)) for sequence in found)
        raise RuntimeError(
            f"pad_sequence: sequences need at least one dimension, and only the first may differ in size, got {shapes}"
        )
    longest = max(len(sequence) for sequence in found)
    padded = full((len(found), longest, *first.shape[1:]), padding_value, dtype=first.dtype, device=first.device)
    for number, sequence in enumerate(found):
        start = longest - len(sequence) if padding_side == "left" else 0
        padded[number, start : start + len(sequence)] = sequence
    return padded if batch_first else padded.transpose(0, 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences that :func:`pad_sequence` put into one tensor.

    Parameters
    ----------
    padded_sequences
        Of shape ``(L, N, ...)``, or ``(N, L, ...)`` if ``batch_first``.
    lengths
        The lengths of the sequences.
    batch_first
        Which of the first two dimensions is that of the sequences.

    Raises
    ------
    ValueError
        If there is not one length for each sequence.

    Examples
    --------
    >>> rg.nn.utils.rnn.unpad_sequence(rg.tensor([[1, 3], [2, 0]]), rg.tensor([2, 1]))
    [tensor([1, 2]), tensor([3])]
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    if len(lengths) != len(batch):
        raise ValueError(
            f"unpad_sequence: got {len(lengths)} lengths for {len(batch)} sequences, in a tensor of shape "
            f"{list(padded_sequences.shape)} with batch_first={batch_first}"
        )
    return [sequence[: int(length)] for sequence, length in zip(batch, lengths, strict=True)]


# --- packed -----------------------------------------------------------------------------------------------------------


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return padded sequences packed: step by step, without the padding.

    Parameters
    ----------
    input
        Of shape ``(L, N, ...)``, or ``(N, L, ...)`` if ``batch_first``.
    lengths
        The length of every sequence.
    batch_first
        Which of the first two dimensions is that of the sequences.
    enforce_sorted
        Whether the sequences must come in the order of decreasing length; otherwise they are brought into it, and
        :func:`pad_packed_sequence` restores the order they came in.

    Raises
    ------
    RuntimeError
        If the lengths do not fit to the input, are not positive, or not sorted.

    Examples
    --------
    >>> padded = rg.tensor([[1, 2, 3], [4, 5, 0]])
    >>> packed = rg.nn.utils.rnn.pack_padded_sequence(padded, [3, 2], batch_first=True)
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """
    counts = _counts(lengths)
    if input.ndim < 2:
        raise IndexError(
            f"pack_padded_sequence: expected an input of at least 2 dimensions, steps and sequences, got "
            f"{list(input.shape)}"
        )
    longest, batch = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    if len(counts) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={batch})"
        )
    if counts.min() <= 0:
        raise RuntimeError(
            f"Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0: "
            f"{counts.tolist()}"
        )
    if counts.max() > longest:
        raise RuntimeError(
            f"pack_padded_sequence: the input {list(input.shape)} has {longest} steps, fewer than the longest of "
            f"lengths, {counts.max()}; are the first two dimensions swapped (batch_first={batch_first})?"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-counts, kind="stable")
    elif (np.diff(counts) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True, got "
            f"{counts.tolist()}. You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "have the sequences sorted."
        )
    step, place = _rows(counts if order is None else counts[order])
    sequence = place if order is None else order[place]
    data = input[(sequence, step) if batch_first else (step, sequence)]
    sorted_indices = None if order is None else tensor(order, device=input.device)
    return PackedSequence(data, tensor(np.bincount(step)), sorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return packed sequences padded to one tensor, in the order in which they were before packing, and their lengths.

    Parameters
    ----------
    sequence
        What :func:`pack_padded_sequence` or a recurrent layer gave.
    batch_first
        Return ``(N, L, ...)`` instead of ``(L, N, ...)``.
    padding_value
        What to pad with.
    total_length
        Pad to this many steps instead of to the longest sequence.

    Raises
    ------
    ValueError
        If ``total_length`` is less than the longest sequence.

    Examples
    --------
    >>> packed = rg.nn.utils.rnn.pack_sequence([rg.tensor([1]), rg.tensor([2, 3])], enforce_sorted=False)
    >>> rg.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 0],
            [2, 3]]), tensor([1, 2]))
    """
    data, back = sequence.data, sequence.unsorted_indices
    sizes = sequence.batch_sizes.numpy()
    longest = len(sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    counts = _lengths(sizes)
    step, place = _rows(counts)
    if back is not None:
        order = back.cpu().numpy()
        counts, place = counts[order], np.argsort(order)[place]
    shape = (len(counts), longest) if batch_first else (longest, len(counts))
    padded = full((*shape, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded[(place, step) if batch_first else (step, place)] = data
    return padded, tensor(counts)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences packed: the first steps of all, then the second ones, and so on.

    Parameters
    ----------
    sequences
        Of shapes ``(L_k, ...)``, equal but for the first dimension.
    enforce_sorted
        As of :func:`pack_padded_sequence`.

    Examples
    --------
    >>> rg.nn.utils.rnn.pack_sequence([rg.tensor([1, 2, 3]), rg.tensor([4, 5]), rg.tensor([6])]).data
    tensor([1, 4, 6, 2, 5, 3])
    """
    padded = pad_sequence(sequences)
    return pack_padded_sequence(padded, [len(sequence) for sequence in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that :func:`pack_sequence` packed.

    Examples
    --------
    >>> packed = rg.nn.utils.rnn.pack_sequence([rg.tensor([1, 2, 3]), rg.tensor([4, 5])])
    >>> rg.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2, 3]), tensor([4, 5])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


def _counts(lengths: Any) -> np.ndarray:
    """The lengths of sequences as integers."""
    counts = lengths.detach().cpu().numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)
    if counts.ndim != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {counts.ndim}D; pass one length per sequence"
        )
    return counts.astype(np.int64)


def _lengths(batch_sizes: np.ndarray) -> np.ndarray:
    """The lengths of packed sequences, from the number of sequences at every step."""
    return np.count_nonzero(batch_sizes[:, None] > np.arange(batch_sizes[0] if len(batch_sizes) else 0), axis=0)


def _rows(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The step and the sequence of every row of packed sequences of decreasing lengths."""
    step, sequence = np.nonzero(np.arange(lengths.max(initial=0))[:, None] < lengths)
    return step, sequence
