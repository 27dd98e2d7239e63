"""Sequences of different lengths."""

from __future__ import annotations

from collections.abc import Iterable

from retrograd.core.tensor import Tensor
from retrograd.creation import full

__all__ = ["pad_sequence", "unpad_sequence"]


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
        If there are no sequences, or if the side is unknown.

    Examples
    --------
    >>> rg.nn.utils.rnn.pad_sequence([rg.ones(2), rg.ones(3)], batch_first=True)
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    found = list(sequences)
    if not found:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(len(sequence) for sequence in found)
    first = found[0]
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
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequence[: int(length)] for sequence, length in zip(batch, lengths, strict=True)]
