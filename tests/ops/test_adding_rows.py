"""Rows that are added where an index says, however often it says the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.ops import _positions
from retrograd.ops._positions import ALL, add_picked, add_rows

DRAWS = {
    "evenly": lambda rng, length, count: rng.integers(0, length, count),
    "negative, too": lambda rng, length, count: rng.integers(-length, length, count),
    "one only": lambda rng, length, count: np.full(count, length - 1),
    "most of them once": lambda rng, length, count: rng.permutation(max(length, count))[:count] % length,
    "some very often": lambda rng, length, count: np.minimum(rng.zipf(1.3, count), length) - 1,
}


@pytest.fixture
def for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_positions, "_WIDE", 1)
    monkeypatch.setattr(_positions, "_MANY", 1)


@pytest.mark.usefixtures("for_all_sizes")
@pytest.mark.parametrize("width", [(16,), (128,), (3, 5, 2)])
@pytest.mark.parametrize("length", [1, 40, 1000])
@pytest.mark.parametrize("draw", DRAWS)
def test_is_what_numpy_adds(draw: str, length: int, width: tuple[int, ...]) -> None:
    rng = np.random.default_rng(length)
    index = DRAWS[draw](rng, length, 1500)
    rows = rng.standard_normal((1500, *width))
    expected = rng.standard_normal((length, *width))
    target = expected.copy()
    np.add.at(expected, index, rows)
    assert add_rows(target, index, rows)
    np.testing.assert_allclose(target, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("for_all_sizes")
def test_rows_in_half_precision_are_rounded_once() -> None:
    index, rows = np.arange(3000) % 2, np.ones((3000, 4), np.float16)
    rows[:, 1:] += np.arange(1, 4, dtype=np.float16) / 8
    target = np.zeros((2, 4), np.float16)
    assert add_rows(target, index, rows)
    np.testing.assert_array_equal(target, [(1500 * rows[0].astype(float)).astype(np.float16)] * 2)


@given(st.lists(st.integers(-9, 8), max_size=60), st.integers(0, 40))
def test_all_ways_from_many_to_few(numbers: list[int], few: int) -> None:
    index = np.array(numbers, int).reshape(-1)
    rows = np.arange(len(numbers) * 16.0).reshape(-1, 16) ** 2
    expected, target = np.zeros((2, 9, 16))
    np.add.at(expected, index, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_positions, "_FEW", few)
        patch.setattr(_positions, "_WIDE", 1)
        patch.setattr(_positions, "_MANY", 1)
        done = add_rows(target, index, rows)
    assert done == bool(numbers)
    np.testing.assert_array_equal(target, expected if done else 0)


PICKED: dict[str, tuple[Any, ...]] = {
    "one dimension": (np.array([0, -1, 0, 2]),),
    "two": (np.array([[0, 0], [-3, 2]]), np.array([3, 3])),
    "the last": (ALL, np.array([1, 1, 0])),
    "apart": (np.array([1, 1]), ALL, np.array([0, 0])),
    "a mask": (np.array([True, False, True]), ALL, np.array([1, 0])),
    "nothing": (np.array([], int),),
}


@pytest.mark.parametrize("several", [0, 10**6])
@pytest.mark.parametrize("dtype", ["float16", "float64", "complex128", "int64", "bool"])
@pytest.mark.parametrize("name", PICKED)
def test_elements_are_added_alike_whether_few_or_many(
    name: str, dtype: str, several: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_positions, "_SEVERAL", several)
    indices = PICKED[name]
    target = (np.arange(24).reshape(3, 4, 2) % 3).astype(dtype)
    values = np.arange(target[indices].size).reshape(target[indices].shape).astype(dtype)
    expected = target.copy()
    np.add.at(expected, indices, values)
    add_picked(target, indices, values)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("padding", [None, 3])
def test_embedding(padding: int | None) -> None:
    rng = np.random.default_rng(0)
    table, g = rng.standard_normal((50, 128)), rng.standard_normal((20, 30, 128))
    words = rng.integers(0, 50, (20, 30))
    found = []
    for t in (rg, torch):
        weight = t.tensor(table, requires_grad=True)
        result: Any = t.nn.functional.embedding(t.tensor(words), weight, padding_idx=padding)
        result.backward(t.tensor(g))
        found.append(weight.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-10)


def test_index_by_negative_and_positive_numbers_of_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    given, g = rng.standard_normal((10, 128)), rng.standard_normal((800, 128))
    numbers = rng.integers(-10, 10, 800)
    found = []
    for t in (rg, torch):
        x = t.tensor(given, requires_grad=True)
        x[t.tensor(numbers)].backward(t.tensor(g))
        found.append(x.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-10)
