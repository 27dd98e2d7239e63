"""Window functions, with torch as the oracle."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd as rg
from tests.outcomes import cases, compare
from tests.parity import attempt

NAMES = ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 8, 400])
@pytest.mark.parametrize("periodic", [True, False])
def test_window_functions_match_torch(name: str, length: int, periodic: bool) -> None:
    # torch computes in float32, with cancellation near the end points
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
def test_options_of_window_functions(call: Any) -> None:
    compare(call, 2e-3 if "float16" in str(attempt(lambda: call(rg))) else 2e-6)


SIGNAL_NAMES = {
    "bartlett": {},
    "blackman": {},
    "cosine": {},
    "exponential": {"tau": 2.5},
    "gaussian": {"std": 3.0},
    "general_cosine": {"a": [0.4, 0.3, 0.2, 0.1]},
    "general_hamming": {"alpha": 0.6},
    "hamming": {},
    "hann": {},
    "kaiser": {"beta": 5.0},
    "nuttall": {},
}


@pytest.mark.parametrize("name", SIGNAL_NAMES)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 8, 400])
@pytest.mark.parametrize("sym", [True, False])
def test_signal_windows_match_torch(name: str, length: int, sym: bool) -> None:
    options = SIGNAL_NAMES[name]
    for given in (options, {} if name != "general_cosine" else options):
        compare(lambda lib, given=given: getattr(lib.signal.windows, name)(length, sym=sym, **given), 1e-5)
        compare(
            lambda lib, given=given: getattr(lib.signal.windows, name)(length, sym=sym, **given, dtype=lib.float64),
            1e-10,
        )


def test_names_in_signal_windows() -> None:
    from retrograd.signal import windows
    from retrograd.signal.windows import hann

    assert windows is rg.signal.windows
    assert hann is windows.hann
    assert set(windows.__all__) == set(torch.signal.windows.__all__) == set(SIGNAL_NAMES)


@cases(
    lambda lib: lib.signal.windows.exponential(6, center=1.5, sym=False),
    lambda lib: lib.signal.windows.kaiser(6, beta=0),
    lambda lib: lib.signal.windows.general_cosine(6, a=(0.5, 0.2)),
    lambda lib: lib.signal.windows.hann(6, requires_grad=True).requires_grad,
    lambda lib: lib.signal.windows.hann(6, dtype=lib.float64, device="cpu", layout=lib.strided),
    # errors
    lambda lib: lib.signal.windows.hann(-1),
    lambda lib: lib.signal.windows.hann(4.5),
    lambda lib: lib.signal.windows.hann(4, False),
    lambda lib: lib.signal.windows.hann(4, dtype=lib.float16),
    lambda lib: lib.signal.windows.hann(4, dtype=lib.int64),
    lambda lib: lib.signal.windows.exponential(4, tau=0),
    lambda lib: lib.signal.windows.exponential(4, center=1.0),
    lambda lib: lib.signal.windows.gaussian(4, std=-1.0),
    lambda lib: lib.signal.windows.kaiser(4, beta=-1.0),
    lambda lib: lib.signal.windows.general_cosine(4),
    lambda lib: lib.signal.windows.general_cosine(4, a=[]),
    lambda lib: lib.signal.windows.general_cosine(4, a=3),
)
def test_options_of_signal_windows(call: Any) -> None:
    compare(call, 2e-6)
