"""Normalisations, whose weights, biases and statistics have one number per channel."""

from __future__ import annotations

from collections.abc import Sequence

from retrograd.anomaly.operation_names import canonical, is_normalisation


def works_by_channel(op: str) -> bool:
    """Whether an operation makes each element from the input's at its position and its channel's numbers."""
    return is_normalisation(op) and canonical(op) not in ("layer_norm", "rms_norm")


def channel_of(op: str, index: Sequence[int] | None, shape: Sequence[int], own: Sequence[int]) -> tuple[int] | None:
    """The element of an argument of shape ``own`` that belongs to the channel of an element of the result.

    Channels are the second dimension. None if the argument has not one number per channel, or for other operations.

    Examples
    --------
    >>> from retrograd.anomaly.adapters.elements.channels import channel_of
    >>> channel_of("native_batch_norm", (0, 2, 5, 5), (8, 4, 6, 6), (4,))
    (2,)
    """
    if index is None or not 1 < len(index) == len(shape) or tuple(own) != (shape[1],) or not works_by_channel(op):
        return None
    return (index[1],)
