"""What optimizers remember about their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

from numpy import ndarray

from retrograd.anomaly.adapters.leaf_names import nameless
from retrograd.anomaly.adapters.optimizer_state import BadState, named_state
from retrograd.anomaly.adapters.retrograd.elements import first_not_finite, harm_of, is_bad, statistics
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.core.tensor import Tensor


def first_bad_state(optimizer: Any, model: Any, frame: FrameType | None) -> BadState | None:
    """The first number that is not finite in what an optimizer remembers."""
    for param in (each for group in optimizer.param_groups for each in group["params"]):
        for key, array in state_arrays(optimizer.state.get(param, {})):
            index = first_not_finite(array) if is_bad(array) else None
            if index is not None:
                name = Names(model, frame).array(param._data) or nameless(param)
                return BadState(harm_of([array]), key, name, index, array[index].item(), statistics(array))
    return None


def state_arrays(state: Any) -> Iterator[tuple[str, ndarray]]:
    """The floating-point arrays that an optimizer keeps for a parameter, by name."""
    for key, value in named_state(state):
        if isinstance(value, Tensor) and isinstance(value._data, ndarray) and value._data.dtype.kind in "fc":
            yield key, value._data
