"""How large the leaves were before the first updates, to tell by how much these have changed them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from retrograd.anomaly.adapters.leaves import nameless

FIRST = 3  # steps in which leaves are measured that were not there before
_LAST = 16  # updates after which a change is no longer laid at the door of the first ones
_GREW = 10.0  # so many times as large: more than a first update does
_SIZE = 0.5  # and as large as that, on the average of the elements: tiny weights may grow


class Beginnings:
    """Remembers the norms of leaves, of whatever library.

    Parameters
    ----------
    norms
        Gives the norms of leaves.
    begun
        The same, where they are not read yet: they become numbers by ``float``.
    """

    def __init__(
        self,
        norms: Callable[[Sequence[Any]], Sequence[float]],
        begun: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self._norms, self._begun = norms, begun or norms
        self._known: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def note(self, leaves: Iterable[Any]) -> None:
        """Measure those leaves that have not been measured yet."""
        new = [leaf for leaf in leaves if self._of(leaf) is None]
        for leaf, norm in zip(new, self._begun(new), strict=True):
            self._known[id(leaf)] = weakref.ref(leaf), norm

    def _of(self, leaf: Any) -> Any:
        reference, norm = self._known.get(id(leaf), (None, None))
        return norm if reference is not None and reference() is leaf else None

    def told(self, updates: int, name_of: Callable[[Any], str | None]) -> dict[str, Any]:
        """The leaf that has grown most in the first updates, for the context of an event; empty if none has by much."""
        leaves = [leaf for reference, _ in self._known.values() if (leaf := reference()) is not None]
        found = []
        for leaf, size in zip(leaves, self._norms(leaves), strict=True) if 0 < updates <= _LAST else ():
            before = float(self._of(leaf))
            is_large = size > _SIZE * math.sqrt(math.prod(leaf.shape))
            if before > 0 and math.isfinite(size) and size > _GREW * before and is_large:
                found.append((size / before, before, size, leaf))
        if not found:
            return {}
        _, before, size, leaf = max(found, key=lambda each: each[0])
        name = name_of(leaf) or nameless(leaf)
        return {"grown": {"name": name, "before": before, "now": size, "updates": updates}}
