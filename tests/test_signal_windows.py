"""Window functions, with torch as the oracle."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from tests.outcomes import cases, compare
from tests.parity import attempt

NAMES = ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 8, 400])
@pytest.mark.parametrize("periodic", [True, False])
def test_values(name: str, length: int, periodic: bool) -> None:
    # torch computes in float32, with cancellation at the ends
    compare(lambda lib: getattr(lib, name)(length, periodic), 2e-6)
    compare(lambda lib: getattr(lib, name)(length, periodic, dtype=lib.float64), 1e-12)


@cases(
    lambda lib: lib.hamming_window(6, True, 0.5, 0.4),
    lambda lib: (
        lib.hamming_window(6, alpha=0.6, periodic=False, beta=0.3)
        if lib is rg
        else lib.hamming_window(6, False, 0.6, 0.3)
    ),
    lambda lib: lib.kaiser_window(7, True, 4.0),
    lambda lib: lib.kaiser_window(7, False, 0.0),
    lambda lib: lib.hann_window(4, requires_grad=True),
    lambda lib: lib.hann_window(4, dtype=lib.float16),
    lambda lib: lib.hann_window(window_length=4, periodic=False, device="cpu"),
    # errors
    lambda lib: lib.hann_window(-1),
    lambda lib: lib.hann_window(4, dtype=lib.int64),
    lambda lib: lib.hann_window(4.5),
    lambda lib: lib.hann_window(),
)
def test_forms(call: Any) -> None:
    compare(call, 2e-3 if "float16" in str(attempt(lambda: call(rg))) else 2e-6)
