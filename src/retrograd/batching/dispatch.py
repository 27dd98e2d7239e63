"""NumPy's functions on batched arrays (NEP 18)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from retrograd.batching import axes, manipulation  # noqa: F401 (they fill the table)
from retrograd.batching.array import BatchedArray, samples_apart
from retrograd.batching.per_sample import per_sample
from retrograd.batching.rules import RULES

# Functions with ``like=``: what they make is the same for every sample.
_MADE_LIKE: frozenset[Any] = frozenset((np.zeros, np.ones, np.empty, np.full, np.eye, np.arange, np.asarray))


def batched_function(
    batch: BatchedArray, function: Any, types: Iterable[type], args: Any, kwargs: dict[str, Any]
) -> Any:
    """Answer ``np.sum(batched)`` and the like: by a rule, or sample by sample."""
    for kind in types:
        if not issubclass(kind, (BatchedArray, np.ndarray)) and not hasattr(kind, "__cuda_array_interface__"):
            return NotImplemented  # a Tensor answers
    if function in _MADE_LIKE:
        return function(*args, **kwargs, like=batch.array)
    answer = RULES.get(function)
    if answer is not None:
        result = answer(*args, **kwargs)
        if result is not NotImplemented:
            return samples_apart(result)
    return per_sample(function, args, kwargs)
