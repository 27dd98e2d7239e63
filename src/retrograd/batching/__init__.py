"""Arrays that hide a batch: what NumPy's functions, and with them every operation and rule, do to all samples at once.

This package knows nothing of tensors. :class:`~retrograd.batching.array.BatchedArray` is one more array type behind
NumPy's dispatch (NEP 13 and NEP 18): an operation's function and its rules see the shape of one sample.
"""

from retrograd.batching.array import (
    BatchedArray,
    Level,
    as_array,
    has_room,
    hide,
    lift,
    reveal,
    total,
    unbatched,
    with_room,
)
from retrograd.batching.per_sample import compute_per_sample, holds_batch

__all__ = [
    "BatchedArray",
    "Level",
    "as_array",
    "compute_per_sample",
    "has_room",
    "hide",
    "holds_batch",
    "lift",
    "reveal",
    "total",
    "unbatched",
    "with_room",
]
