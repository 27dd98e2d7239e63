"""Shapes: parts and sums of them are shapes, too."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, parity


@parity
def test_parts_and_sums(lib: Any) -> Any:
    size = lib.zeros(2, 3, 4).shape
    made = [size + (1,), (1,) + size, size * 2, 2 * size, size[1:], size[::-1], size[:0], size + size]  # noqa: RUF005
    return [
        *([type(item).__name__, tuple(item), item.numel()] for item in made),
        size[0],
        size[-1],
        size == (2, 3, 4),
        hash(size) == hash((2, 3, 4)),
        lib.ones(size[1:]),
        attempt(lambda: size + [1]),  # noqa: RUF005
        attempt(lambda: [1] + size),  # noqa: RUF005
        attempt(lambda: size[3]),
        attempt(lambda: size["a"]),
    ]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda size: pickle.loads(pickle.dumps(size))])
def test_copies(copied: Any) -> None:
    assert repr(copied(rg.ones(2, 3).shape)) == "retrograd.Size([2, 3])"
