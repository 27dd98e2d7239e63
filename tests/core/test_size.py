"""Size: slices and sums of shapes are shapes, too."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import attempt, parity


@parity
def test_slices_and_sums_of_sizes(lib: Any) -> Any:
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
def test_copies_of_sizes(copied: Any) -> None:
    assert repr(copied(rg.ones(2, 3).shape)) == "retrograd.Size([2, 3])"


@parity
def test_size_takes_only_integers(lib: Any) -> Any:
    made = lib.Size([lib.tensor(2), np.int64(3), 4])
    wrong = [[2.5], ["a"], [2, None], [lib.tensor(2.0)], [lib.tensor([1, 2])], 3, None]
    return [tuple(made), lib.zeros(made).shape == (2, 3, 4), [attempt(lambda w=w: lib.Size(w)) for w in wrong]]


def test_error_about_a_wrong_size_names_the_item() -> None:
    with pytest.raises(TypeError, match=r"item 1 is 2\.5, of type float"):
        rg.Size([1, 2.5])


@parity
def test_strides_of_tensors_without_elements(lib: Any) -> Any:
    x = lib.ones(2, 3)
    made = [lib.empty(2, 0, 3), lib.empty(0), lib.empty(0, 3) + 1, x[:, 1:1], x[2:], lib.empty(2, 0, 3).sum(2)]
    return [item.stride() for item in made]
