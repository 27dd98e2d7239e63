"""What optimizers remember about their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.leaf_names import nameless
from retrograd.anomaly.adapters.optimizer_state import BadState, named_state
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import kind_of
from retrograd.anomaly.adapters.torch.postmortem.describe import first_of, statistics, value_at
from retrograd.anomaly.adapters.torch.records.calls import can_be_bad, is_bad
from retrograd.anomaly.adapters.torch.runtime.modes import unseen
from retrograd.anomaly.adapters.torch.tensor_names import Names


def first_bad_state(optimizer: Any, model: Any, frame: FrameType | None) -> BadState | None:
    """The first number that is not finite in what an optimizer remembers."""
    with torch.no_grad(), unseen():
        for param in (each for group in optimizer.param_groups for each in group["params"]):
            for key, values in state_tensors(optimizer, param):
                if is_bad(values):
                    names, index = Names(model, frame), first_of(values)
                    name, value = names.tensor(param) or nameless(param), value_at(values, index, values.shape)
                    return BadState(kind_of([values]), key, name, index, value, statistics(values))
    return None


def state_tensors(optimizer: Any, param: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The tensors that an optimizer keeps for a parameter, by name."""
    named = named_state(optimizer.state.get(param, {}))
    return ((key, value) for key, value in named if isinstance(value, Tensor) and can_be_bad(value))
