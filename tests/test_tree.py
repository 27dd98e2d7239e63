"""Nested containers, taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.tree import flatten, spread, tree_map, unflatten


class Pair(NamedTuple):
    x: Any
    y: Any


LEAVES = st.integers() | st.none() | st.text(max_size=2)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3).map(lambda items: defaultdict(list, items))
        | st.lists(inner, max_size=3).map(deque)
    ),
    max_leaves=8,
)


@given(TREES)
def test_unflatten_undoes_flatten(tree: Any) -> None:
    leaves, structure = flatten(tree)
    again = unflatten(structure, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert flatten(again) == (leaves, structure)
    assert spread(tree, structure) == leaves
    assert spread(7, structure) == [7] * len(leaves)


def test_flatten_keeps_container_types() -> None:
    tree = {"a": Pair([1], (2,)), "b": OrderedDict(z=3, y=4)}
    doubled = tree_map(lambda leaf: 2 * leaf, tree)
    assert doubled == {"a": Pair([2], (4,)), "b": OrderedDict(z=6, y=8)}
    assert type(doubled["a"]) is Pair
    assert list(doubled["b"]) == ["z", "y"]
    assert tree_map(lambda leaf: leaf, defaultdict(list, a=1))["b"] == []
    assert tree_map(lambda leaf: leaf, deque([1, 2], maxlen=2)).maxlen == 2


def test_prefix_applies_to_everything_below() -> None:
    _, structure = flatten((1, {"a": [2, 3], "b": 4}))
    assert spread((0, {"a": 1, "b": None}), structure) == [0, 1, 1, None]
    assert spread((0, {"b": None, "a": [1, 2]}), structure) == [0, 1, 2, None]


@pytest.mark.parametrize("prefix", [(0,), [0, 1], (0, {"a": 1}), (0, {"a": (1, 2), "b": 3}), ((0,), 1)])
def test_prefix_with_another_structure_gives_none(prefix: Any) -> None:
    _, structure = flatten((1, {"a": [2, 3], "b": 4}))
    assert spread(prefix, structure) is None


def test_tree_structures_have_a_readable_str() -> None:
    assert str(flatten((1, {"a": [2, 3]}, Pair(4, (5,))))[1]) == "(*, {'a': [*, *]}, Pair(*, (*,)))"
