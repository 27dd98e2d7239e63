"""The size of gradients and updates: for a policy about spikes, and as evidence."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.initial_norms import FIRST, InitialNorms
from retrograd.anomaly.adapters.leaf_names import LeafNames
from retrograd.anomaly.adapters.progress import progress
from retrograd.anomaly.adapters.torch.gradient_checks.norms import GradientScale, are_at_hand, begun_norms, norms
from retrograd.anomaly.adapters.torch.records.graph import leaves_behind
from retrograd.anomaly.adapters.torch.tensor_names import Names
from retrograd.anomaly.monitor import Watch


def _norms_at_hand(leaves: Sequence[Tensor]) -> list[float]:
    """The norms of leaves; 0 of those that are not in memory."""
    present = [leaf for leaf in leaves if are_at_hand(leaf)]
    known = {id(leaf): norm for leaf, norm in zip(present, norms(present), strict=True)}
    return [known.get(id(leaf), 0.0) for leaf in leaves]


class Growth:
    """Measures the gradients of a step and the update before it; the weights are copied for that."""

    def __init__(self) -> None:
        self._scale = GradientScale()
        self._names = LeafNames()
        self._before: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}
        self._initial_norms = InitialNorms(_norms_at_hand, begun_norms)

    def start(self) -> None:
        self._scale.start()

    def stop(self) -> None:
        self._scale.remove()
        self._names, self._before = LeafNames(), {}
        self._initial_norms = InitialNorms(_norms_at_hand, begun_norms)

    def step_ended(self, watch: Watch, roots: Sequence[Tensor]) -> None:
        """Measure the leaves of the first steps, which have not been updated yet."""
        if watch.step <= FIRST:
            self._initial_norms.note(filter(are_at_hand, leaves_behind(roots)))

    def told(self, watch: Watch, updates: int, rehearsing: bool, names: Names) -> dict[str, Any]:
        """The progress of the training after some updates by an optimizer or by hand, for the context of an event."""
        grown = self._initial_norms.told(updates or watch.step - rehearsing, names.tensor)
        return {**progress(watch), "updates": updates, **grown}

    def gradients(self, leaves: Sequence[Tensor], names: Callable[[], Names]) -> dict[str, float] | None:
        """The norms by parameter, without the scale of a gradient scaler; None if one is not finite."""
        scale = self._scale.factor
        values = [norm / scale for norm in norms([leaf.grad for leaf in leaves if leaf.grad is not None])]
        if not all(map(math.isfinite, values)):
            return None
        return dict(zip(self._names.names(leaves, lambda: names().tensor), values, strict=True))

    def update_ratio(self, leaves: Sequence[Tensor]) -> float | None:
        """The norm of the change since the last call, relative to the norm of the weights; None if nothing changed."""
        with torch.no_grad():
            weights = [leaf.detach() for leaf in leaves]
            known = [(new, *self._before.get(id(leaf), (None, None)), leaf) for new, leaf in zip(weights, leaves)]  # noqa: B905
            pairs = [
                (new, old)
                for new, reference, old, leaf in known
                if reference is not None and old is not None and reference() is leaf and old.shape == new.shape
            ]
            change = math.hypot(*norms([new - old for new, old in pairs]))
            size = math.hypot(*norms([old for _, old in pairs]))
            self._before = {
                id(leaf): (weakref.ref(leaf), new.clone()) for new, leaf in zip(weights, leaves, strict=True)
            }
        return change / size if change > 0.0 and size > 0.0 else None
