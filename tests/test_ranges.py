"""Ranges, evenly spaced numbers and triangle indices, with torch as the oracle."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.outcomes import cases, compare
from tests.parity import parity


@cases(
    lambda lib: lib.arange(5),
    lambda lib: lib.arange(5.0),
    lambda lib: lib.arange(5.5),
    lambda lib: lib.arange(1, 5),
    lambda lib: lib.arange(1, 5, 2),
    lambda lib: lib.arange(1, 5.0, 2),
    lambda lib: lib.arange(1, 5, 0.5),
    lambda lib: lib.arange(5, 1, -2),
    lambda lib: lib.arange(5.0, 1, -1.5),
    lambda lib: lib.arange(0),
    lambda lib: lib.arange(1, 1),
    lambda lib: lib.arange(end=5),
    lambda lib: lib.arange(start=1, end=5),
    lambda lib: lib.arange(1, end=5, step=2),
    lambda lib: lib.arange(0, 1, 0.1),
    lambda lib: lib.arange(0.1, 0.5, 0.1, dtype=lib.float64),
    lambda lib: lib.arange(2**53, 2**53 + 3),
    lambda lib: lib.arange(2**62, 2**62 + 3),
    lambda lib: lib.arange(0, 1e-3, 3e-4),
    lambda lib: lib.arange(5, dtype=lib.float64),
    lambda lib: lib.arange(5.0, dtype=lib.int64),
    lambda lib: lib.arange(0.5, 2.7, dtype=lib.int64),
    lambda lib: lib.arange(0.5, 5, 1.5, dtype=lib.int64),
    lambda lib: lib.arange(0.5, 5, 1.5, dtype=lib.int32),
    lambda lib: lib.arange(-3, 300, 100, dtype=lib.uint8),
    lambda lib: lib.arange(3, dtype=lib.int8, layout=lib.strided, device="cpu", pin_memory=False),
    lambda lib: lib.arange(5.0, requires_grad=True),
    lambda lib: lib.arange(lib.tensor(5)),
    lambda lib: lib.arange(lib.tensor(5.0)),
    lambda lib: lib.arange(lib.tensor(1, dtype=lib.int32), 4),
    lambda lib: lib.arange(True),
    lambda lib: lib.arange(np.int64(5)),
    lambda lib: lib.arange(np.float32(5)),
    lambda lib: lib.arange(5, out=lib.empty(0, dtype=lib.int32)),
    lambda lib: lib.arange(5, out=lib.empty(5)),
    lambda lib: lib.arange(6, out=lib.empty(2, 3)),
    lambda lib: lib.arange(6.0, out=lib.empty(3, 2).t()),
    # errors
    lambda lib: lib.arange(),
    lambda lib: lib.arange(5, step=2),
    lambda lib: lib.arange(1, 2, 3, 4),
    lambda lib: lib.arange(5, 1),
    lambda lib: lib.arange(1, 5, -1),
    lambda lib: lib.arange(1, 5, 0),
    lambda lib: lib.arange(-1),
    lambda lib: lib.arange(float("nan")),
    lambda lib: lib.arange(float("inf")),
    lambda lib: lib.arange(1e-38, 1e38),
    lambda lib: lib.arange(lib.tensor([5])),
    lambda lib: lib.arange(1j),
    lambda lib: lib.arange("a"),
    lambda lib: lib.arange(5, dtype=lib.bool),
    lambda lib: lib.arange(5, dtype=lib.complex64),
    lambda lib: lib.arange(5, requires_grad=True),
)
def test_arange_matches_torch(call):
    compare(call, 1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float16", "float32", "float64"])
def test_arange_with_every_dtype_start_end_and_step(dtype):
    tolerance = 1e-3 if dtype == "float16" else 1e-6
    for start, end, step in itertools.product((0, 2, -3, 0.5), (0, 7, 12.25), (1, 2, 0.75, -1)):
        if dtype == "int64" and step == 0.75:
            continue  # a step of 0 after truncation; torch raises ValueError there and RuntimeError elsewhere
        compare(lambda lib, a=(start, end, step): lib.arange(*a, dtype=getattr(lib, dtype)), tolerance)


@cases(
    lambda lib: lib.linspace(0, 1, 5),
    lambda lib: lib.linspace(0, 1, 1),
    lambda lib: lib.linspace(0, 1, 0),
    lambda lib: lib.linspace(0, 1, 2),
    lambda lib: lib.linspace(3, 3, 3),
    lambda lib: lib.linspace(5, -5, 7),
    lambda lib: lib.linspace(start=0, end=1, steps=3),
    lambda lib: lib.linspace(0, 1, 3, requires_grad=True),
    lambda lib: lib.linspace(0, 10, 4, dtype=lib.int64),
    lambda lib: lib.linspace(0, -10, 4, dtype=lib.int64),
    lambda lib: lib.linspace(0, 255, 4, dtype=lib.uint8),
    lambda lib: lib.linspace(0, 1, 101, dtype=lib.float64),
    lambda lib: lib.linspace(0, 1j, 3),
    lambda lib: lib.linspace(0, 1, 3, dtype=lib.complex128),
    lambda lib: lib.linspace(lib.tensor(0.0), lib.tensor(1.0), 3),
    lambda lib: lib.linspace(lib.tensor(0.0, dtype=lib.float64), 1, 3),
    lambda lib: lib.linspace(lib.ones(2, requires_grad=True)[0], 3, 3),
    lambda lib: lib.linspace(float("nan"), 1, 3),
    lambda lib: lib.linspace(0, float("inf"), 3),
    lambda lib: lib.linspace(0, 1, 3, out=lib.empty(0, dtype=lib.float64)),
    lambda lib: lib.linspace(0, 1, 6, out=lib.empty(2, 3)),
    lambda lib: lib.linspace(0, 1, 4, out=lib.empty(1, 3)),
    lambda lib: lib.logspace(0, 1, 6, out=lib.empty(2, 3)),
    lambda lib: lib.logspace(0, 2, 3),
    lambda lib: lib.logspace(0, 2, 3, 2),
    lambda lib: lib.logspace(0, 2, 3, base=2.5, dtype=lib.float64),
    lambda lib: lib.logspace(0, 2, 5, dtype=lib.int64),
    lambda lib: lib.logspace(0, 2, 1),
    lambda lib: lib.logspace(0, 2, 0),
    lambda lib: lib.logspace(0, 2, 3, base=-2),
    lambda lib: lib.logspace(0, 2, 3, base=0),
    lambda lib: lib.logspace(0, 2j, 3),
    lambda lib: lib.logspace(0, 2, 3, dtype=lib.complex64),
    lambda lib: lib.logspace(lib.tensor(0.0), 2, 3, base=lib.tensor(2.0)),
    # errors
    lambda lib: lib.linspace(0, 1, -1),
    lambda lib: lib.linspace(0, 1),
    lambda lib: lib.linspace(0, 1, 3.5),
    lambda lib: lib.linspace(0, 1, True),
    lambda lib: lib.linspace("a", 1, 3),
    lambda lib: lib.linspace(lib.tensor([0.0]), 1, 3),
    lambda lib: lib.linspace(0, 1j, 3, dtype=lib.float32),
    lambda lib: lib.linspace(0, 10, 4, dtype=lib.bool),
    lambda lib: lib.linspace(0, 10, 4, dtype=lib.int64, requires_grad=True),
    lambda lib: lib.linspace(0, 1, 3, dtype=lib.float32, out=lib.empty(0, dtype=lib.float64)),
    lambda lib: lib.logspace(0, 2, -1),
    lambda lib: lib.logspace(0, 2),
    lambda lib: lib.logspace(0, 2, 3, dtype=lib.bool),
    lambda lib: lib.linspace(0, float("nan"), 3, dtype=lib.int64),
    lambda lib: lib.linspace(float("-inf"), 1, 3, dtype=lib.uint8),
    lambda lib: lib.linspace(0, 300, 3, dtype=lib.int8),
    lambda lib: lib.linspace(-3, 300, 3, dtype=lib.int16),
    lambda lib: lib.linspace(1e30, 0, 3, dtype=lib.float16),
    lambda lib: lib.linspace(1e60, 0, 3),
    lambda lib: lib.logspace(0, float("inf"), 3, dtype=lib.int32),
    lambda lib: lib.linspace(0, 1, 2**62),
)
def test_linspace_and_logspace_match_torch(call):
    compare(call, 1e-6)


def test_linspace_hits_both_ends():
    for steps in range(2, 50):
        numbers = rg.linspace(0.1, 0.7, steps, dtype=rg.float64).tolist()
        assert (numbers[0], numbers[-1], len(numbers)) == (0.1, 0.7, steps)


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (4, 2), (0, 4), (4, 0), (1, 1), (-1, 4), (3, -4)])
@pytest.mark.parametrize("offset", [-9, -2, -1, 0, 1, 2, 9])
def test_tril_and_triu_indices(name, shape, offset):
    compare(lambda lib: getattr(lib, name)(*shape, offset))


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@cases(
    lambda f, lib: f(row=3, col=2, offset=1),
    lambda f, lib: f(3, 2, dtype=lib.int32),
    lambda f, lib: f(3, 2, dtype=lib.float32),
    lambda f, lib: f(3, 2, dtype=lib.bool),
    lambda f, lib: f(3, 2, dtype=lib.uint8),
    lambda f, lib: f(3),
    lambda f, lib: f(3.0, 2),
)
def test_invalid_arguments_of_tril_and_triu_indices_raise(name, call):
    compare(lambda lib: call(getattr(lib, name), lib))


@pytest.mark.filterwarnings("ignore:.*range is deprecated")
@cases(
    lambda lib: lib.range(1, 4),
    lambda lib: lib.range(1, 4, 0.5),
    lambda lib: lib.range(4, 1, -1),
    lambda lib: lib.range(0, 3.7),
    lambda lib: lib.range(0, 1, 0.1),
    lambda lib: lib.range(0, 5, 2, dtype=lib.int64),
    lambda lib: lib.range(0.5, 3, dtype=lib.int64),
    lambda lib: lib.range(1, 3, requires_grad=True),
    lambda lib: lib.range(4, 1),
    lambda lib: lib.range(1, 4, 0),
    lambda lib: lib.range(3),
    lambda lib: lib.range(-5, float("nan")),
    lambda lib: lib.range(0, float("inf")),
    lambda lib: lib.range(0, float("-inf"), -1, dtype=lib.int64),
    lambda lib: lib.range(0, 1, float("nan")),
)
def test_range_matches_torch(call):
    compare(call, 1e-6)


def test_range_is_deprecated():
    with pytest.warns(UserWarning, match=r"retrograd\.range is deprecated .* use retrograd\.arange"):
        rg.range(0, 1)


@parity
def test_linspace_into_a_part_of_a_tensor(lib: Any) -> Any:
    x = lib.zeros(2, 3)
    lib.linspace(0, 3, 4, out=x[:, 1:])
    return x
