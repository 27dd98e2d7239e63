"""Containers of the program may change while the watch reads them, because another thread works on."""

from __future__ import annotations

import gc
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from retrograd.anomaly.adapters.program.variables import _entries, _first_entries, _items


def nothing_hidden(value: Any, name: str) -> bool:
    return False


@pytest.mark.parametrize("held", [[0, 1], {0, 1}, deque([0, 1]), {"a": 0, "b": 1}, SimpleNamespace(a=0, b=1)])
def test_a_container_that_grows_is_read_up_to_its_former_end(held: Any) -> None:
    found = []
    for nr, each in enumerate(_items(held, nothing_hidden)):
        found.append(each)
        if isinstance(held, set):
            held.add(f"new {nr}")
        elif isinstance(held, (list, deque)):
            held.append(f"new {nr}")
        else:
            (held if isinstance(held, dict) else vars(held))[f"new {nr}"] = 2
    assert found == [0, 1]


def test_the_attributes_of_an_object_that_grows_are_read_once() -> None:
    batch = SimpleNamespace(stored={"x": 0, "y": 1})
    found = []
    for key, item in _entries(batch):
        found.append((key, item))
        batch.stored[f"{key} again"] = vars(batch)[f"more {key}"] = 2
    assert found == [("x", 0), ("y", 1)]


def test_a_dictionary_that_grows_during_a_collection_is_read() -> None:
    held: dict[Any, Any] = {"x": 0, "y": 1, "z": 2}

    def add(phase: str, info: dict[str, int]) -> None:
        if len(held) < 9:
            held[f"added {len(held)}"] = 3

    threshold = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(1)
    try:
        found = _first_entries(held)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(add)
    assert found[:3] == [("x", 0), ("y", 1), ("z", 2)]
