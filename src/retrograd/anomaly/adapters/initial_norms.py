"""The norms of leaves before the first updates, to tell by how much these have changed them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from retrograd.anomaly.adapters.leaf_names import nameless

FIRST = 3  # steps in which new leaves are measured
_LAST = 16  # updates after which growth is no longer blamed on the first ones
_GREW = 10.0  # factor of growth, more than a first update causes
_SIZE = 0.5  # least root mean square of the elements: tiny weights may grow


class InitialNorms:
    """Remembers the norms of leaves of any library.

    Parameters
    ----------
    norms
        Computes the norms of leaves.
    begun
        The same without reading them yet: ``float`` converts each to a number.
    """

    def __init__(
        self,
        norms: Callable[[Sequence[Any]], Sequence[float]],
        begun: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self._norms, self._begun = norms, begun or norms
        self._known: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def note(self, leaves: Iterable[Any]) -> None:
        """Measure the leaves that have not been measured yet."""
        new = [leaf for leaf in leaves if self._of(leaf) is None]
        for leaf, norm in zip(new, self._begun(new), strict=True):
            self._known[id(leaf)] = weakref.ref(leaf), norm

    def _of(self, leaf: Any) -> Any:
        reference, norm = self._known.get(id(leaf), (None, None))
        return norm if reference is not None and reference() is leaf else None

    def told(self, updates: int, name_of: Callable[[Any], str | None]) -> dict[str, Any]:
        """The leaf that has grown most in the first updates, for an event's context; empty if none has grown much."""
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
