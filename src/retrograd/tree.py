"""Nested tuples, lists, deques and dictionaries, taken apart into their leaves and put together again."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Structure(NamedTuple):
    """How leaves are nested.

    Attributes
    ----------
    kind
        The type of a container, or None for a leaf.
    keys
        The keys of a dictionary, in order.
    children
        The structures inside.
    option
        What else a container is made with: what a defaultdict makes missing values with, how long a deque may be.
    """

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    option: Any = None

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        parts = list(map(str, self.children))
        if issubclass(self.kind, dict):
            return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(self.keys, parts, strict=True)) + "}"
        inside = ", ".join(parts) + ("," if len(parts) == 1 and self.kind is tuple else "")
        if issubclass(self.kind, list):
            return f"[{inside}]"
        return f"({inside})" if self.kind is tuple else f"{self.kind.__name__}({inside})"


_LEAF = Structure(None)
_SEQUENCES = (tuple, list, deque)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, in order, and how they are nested. Anything that is not a container is a leaf."""
    leaves: list[Any] = []
    return leaves, _take_apart(tree, leaves)


def _take_apart(tree: Any, leaves: list[Any]) -> Structure:
    kind = type(tree)
    if isinstance(tree, dict):
        option = tree.default_factory if isinstance(tree, defaultdict) else None
        return Structure(kind, tuple(tree), tuple([_take_apart(item, leaves) for item in tree.values()]), option)
    if kind in _SEQUENCES or hasattr(kind, "_fields"):
        option = tree.maxlen if kind is deque else None
        return Structure(kind, (), tuple([_take_apart(item, leaves) for item in tree]), option)
    leaves.append(tree)
    return _LEAF


def unflatten(structure: Structure, leaves: list[Any]) -> Any:
    """The tree of that structure with these leaves."""
    return _put_together(structure, iter(leaves))


# not inside of unflatten: a function that calls itself from a closure is in a cycle, and keeps the leaves with it
def _put_together(structure: Structure, remaining: Iterator[Any]) -> Any:
    if structure.kind is None:
        return next(remaining)
    children = [_put_together(child, remaining) for child in structure.children]
    kind: Any = structure.kind
    if issubclass(kind, dict):
        items = zip(structure.keys, children, strict=True)
        return kind(structure.option, items) if issubclass(kind, defaultdict) else kind(items)
    if kind is deque:
        return deque(children, structure.option)
    return kind(*children) if hasattr(kind, "_fields") else kind(children)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with ``function`` of every leaf."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [function(leaf) for leaf in leaves])


def spread(prefix: Any, structure: Structure) -> list[Any] | None:
    """The value of ``prefix`` for every leaf of ``structure``; a leaf of it covers all below. None on a mismatch."""
    kind = type(prefix)
    if isinstance(prefix, dict):
        fits = structure.kind is kind and prefix.keys() == set(structure.keys)
        parts: Any = [prefix[key] for key in structure.keys] if fits else ()
    elif kind in _SEQUENCES or hasattr(kind, "_fields"):
        fits = structure.kind is kind and len(prefix) == len(structure.children)
        parts = prefix
    else:
        return [prefix] * _count(structure)
    if not fits:
        return None
    found = [spread(part, child) for part, child in zip(parts, structure.children, strict=True)]
    return None if None in found else [leaf for each in found for leaf in each or ()]


def _count(structure: Structure) -> int:
    return 1 if structure.kind is None else sum(map(_count, structure.children))
