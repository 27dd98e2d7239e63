"""Nested containers taken apart and put together again, under the names of torch's ``utils._pytree``.

Anything but a tuple, list, dict, deque or named tuple is a leaf; None is a leaf, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from retrograd.tree import Structure as TreeSpec
from retrograd.tree import flatten as tree_flatten
from retrograd.tree import unflatten

__all__ = [
    "PyTree",
    "TreeSpec",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Return the tree of that structure with these leaves."""
    return unflatten(treespec, list(leaves))


def tree_leaves(tree: PyTree) -> list[Any]:
    """Return the leaves, in order."""
    return tree_flatten(tree)[0]


def tree_iter(tree: PyTree) -> Iterable[Any]:
    """Return an iterator over the leaves."""
    return iter(tree_leaves(tree))


def tree_structure(tree: PyTree) -> TreeSpec:
    """Return how the leaves are nested."""
    return tree_flatten(tree)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree) -> PyTree:
    """Return the tree with ``func`` of every leaf, and of what further trees have in its place.

    >>> from retrograd.utils._pytree import tree_map
    >>> tree_map(lambda x: 2 * x, {"a": 1, "b": [2, 3]})
    {'a': 2, 'b': [4, 6]}
    """
    leaves, structure = tree_flatten(tree)
    others = [list(_up_to(structure, rest)) for rest in rests]
    return unflatten(structure, [func(*each) for each in zip(leaves, *others, strict=True)])


def _up_to(structure: TreeSpec, tree: Any) -> Iterator[Any]:
    """The subtrees of a tree at the leaves of a structure."""
    if structure.kind is None:
        yield tree
        return
    kind: Any = type(tree)
    keys = structure.keys if issubclass(kind, dict) else range(len(structure.children))
    if kind is not structure.kind or len(tree) != len(keys) or (structure.keys and tree.keys() != set(keys)):
        raise ValueError(f"a tree has {tree!r} where the first one has {structure}")
    for key, child in zip(keys, structure.children, strict=True):
        yield from _up_to(child, tree[key])


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree) -> PyTree:
    """Call ``func`` with every leaf, for its side effects, and return the tree."""
    tree_map(func, tree, *rests)
    return tree


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: PyTree) -> PyTree:
    """Return the tree with ``func`` of every leaf of a type, or of one for which the function ``kind`` holds."""
    is_meant = kind if callable(kind) and not isinstance(kind, type) else lambda leaf: isinstance(leaf, kind)
    return tree_map(lambda leaf: func(leaf) if is_meant(leaf) else leaf, tree)


def tree_all(pred: Callable[[Any], bool], tree: PyTree) -> bool:
    """Return whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree) -> bool:
    """Return whether ``pred`` holds for some leaf."""
    return any(map(pred, tree_leaves(tree)))
