"""A unique name for each leaf, by which gradients are compared from step to step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any


def nameless(leaf: Any) -> str:
    """A description that serves as the name of an unnamed leaf."""
    return f"a leaf of shape {list(leaf.shape)}"


class LeafNames:
    """The names of leaves of any library: each is looked up once, and kept as long as the leaf lives."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def names(self, leaves: Iterable[Any], search: Callable[[], Callable[[Any], str | None]]) -> list[str]:
        """The names of leaves; ``search()`` is called only if a leaf is new; it returns the function to find names."""
        found = []
        find = None
        for leaf in leaves:
            known = self._known.get(id(leaf))
            if known is None or known[0]() is not leaf:
                find = find or search()
                known = self._known[id(leaf)] = weakref.ref(leaf), self._new(find(leaf), leaf)
            found.append(known[1])
        return found

    def _new(self, name: str | None, leaf: Any) -> str:
        self._known = {key: each for key, each in self._known.items() if each[0]() is not None}
        taken = {each for _, each in self._known.values()}
        name = name or nameless(leaf)
        names = (name, *(f"{name} ({number})" for number in range(2, len(taken) + 3)))
        return next(each for each in names if each not in taken)
