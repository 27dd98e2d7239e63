"""Gradients that no optimizer may use."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

import numpy as np

from retrograd.anomaly.adapters.retrograd.elements import is_bad
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.monitor import Watch
from retrograd.core.tensor import Tensor, wrap


class MarkedGradients:
    """Marks on the gradients of leaves for as long as these have them, without keeping any alive."""

    def __init__(self) -> None:
        self._grads: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        self._is_used = False  # read in every step, as that is faster than taking a length

    def __bool__(self) -> bool:
        return self._is_used and bool(self._grads)

    def __contains__(self, gradient: int) -> bool:
        return gradient in self._grads

    def add(self, leaves: Iterable[Tensor]) -> None:
        """Mark the gradients that leaves have now."""
        self._is_used = True
        self._grads.update((id(leaf._grad), leaf._grad) for leaf in leaves if leaf._grad is not None)

    def has(self, leaf: Tensor) -> bool:
        """Whether the gradient that a leaf has is one of them."""
        return leaf._grad is not None and self._grads.get(id(leaf._grad)) is leaf._grad

    def remove(self, leaf: Tensor) -> None:
        """Take the mark from the gradient that a leaf has."""
        self._grads.pop(id(leaf._grad), None)


class WithheldGradients:
    """Gradients that were zeroed, and bad ones about which an error was raised that the program may have caught."""

    def __init__(self) -> None:
        self._zeros, self._bad = MarkedGradients(), MarkedGradients()
        self._versions: dict[int, int] = {}  # of leaves whose gradients were zeroed, by the leaves' ids
        self._to_come: list[Tensor] = []  # leaves of an update that a rerun step has not made yet
        self._raised: tuple[str, NaNEvent] | None = None  # about the bad ones

    def __bool__(self) -> bool:
        return bool(self._zeros) or bool(self._bad)

    def made_zero(self, leaves: Sequence[Tensor]) -> None:
        """Have the step that would use the gradients of some leaves left out."""
        self._zeros.add(leaves)
        kept = {key: version for key, version in self._versions.items() if key in self._zeros}
        self._versions = kept | {id(leaf._grad): leaf._version for leaf in leaves}

    def _is_held(self, leaf: Tensor) -> bool:
        """Whether a leaf has such a gradient and is unchanged since; a write means that an update by hand is over."""
        return self._zeros.has(leaf) and self._versions[id(leaf._grad)] == leaf._version

    def first_run_ends(self, leaves: Iterable[Tensor]) -> None:
        """Find out whether the update of a step that is about to be run again is still to come."""
        self._to_come = [leaf for leaf in leaves if self._is_held(leaf)]

    def second_run_ends(self) -> None:
        """Have that update left out completely, even if the gradients of earlier micro-batches are restored."""
        leaves, self._to_come = self._to_come, []
        gathered = [leaf for leaf in leaves if leaf._grad is not None]
        for leaf in () if gathered else leaves:
            leaf._grad = wrap(np.zeros_like(leaf._data))
        self.made_zero(gathered or leaves)

    def raised(self, kind: str, event: NaNEvent, leaves: Iterable[Tensor]) -> None:
        """Have the same error raised again by a step that would use these gradients."""
        self._raised = kind, event
        self._bad.add(leaves)

    def passes(self, params: Sequence[Tensor], watch: Watch) -> bool:
        """Whether a step may use the gradients of some parameters."""
        bad = (each._grad._data for each in params if self._bad.has(each) and each._grad is not None)
        if self._raised is not None and any(map(is_bad, bad)):
            return watch.found(*self._raised, exact=True) != "withhold"
        held = [each for each in params if self._is_held(each)]
        for each in held:
            self._zeros.remove(each)
        return not held
