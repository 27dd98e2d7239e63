"""Short-time Fourier transforms: round trips and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

SIGNAL = np.random.default_rng(0).normal(size=(2, 100))


@pytest.mark.parametrize("hop", [2, 4, 5])
@pytest.mark.parametrize("normalized", [False, True])
def test_istft_inverts_stft(hop: int, normalized: bool) -> None:
    x = rg.from_numpy(SIGNAL)
    how: dict[str, Any] = {"hop_length": hop, "window": rg.hann_window(16, dtype=rg.float64), "normalized": normalized}
    spectra = rg.stft(x, 16, return_complex=True, **how)
    np.testing.assert_allclose(rg.istft(spectra, 16, length=100, **how).numpy(), SIGNAL, atol=1e-12)
    np.testing.assert_allclose(x.stft(16, return_complex=True, **how).istft(16, length=100, **how).numpy(), SIGNAL)


def test_stft_with_align_to_window() -> None:
    """The first window begins with the signal, and there is a frame for each window that fits."""
    x, window = rg.from_numpy(SIGNAL), rg.hann_window(5, dtype=rg.float64)
    spectra = rg.stft(x, 8, 2, 5, window, center=False, return_complex=True, align_to_window=True)
    windows = np.lib.stride_tricks.sliding_window_view(SIGNAL, 5, -1)[:, ::2] * window.numpy()
    expected = np.fft.rfft(np.pad(windows, ((0, 0), (0, 0), (1, 2)))).swapaxes(1, 2)
    np.testing.assert_allclose(spectra.numpy(), expected, atol=1e-12)


MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "complex or not": (lambda m: m.stft(m.ones(40), 8, window=m.ones(8)), "return_complex"),
    "aligned and in the middle": (
        lambda m: m.stft(m.ones(40), 8, window=m.ones(8), return_complex=True, align_to_window=False),
        "center = false",
    ),
    "three dimensions": (lambda m: m.stft(m.ones(2, 2, 40), 8, window=m.ones(8), return_complex=True), "1D or 2D"),
    "a short signal": (
        lambda m: m.stft(m.ones(5), 8, window=m.ones(8), center=False, return_complex=True),
        "n_fft <= 5, but got n_fft=8",
    ),
    "no hop": (lambda m: m.stft(m.ones(40), 8, 0, window=m.ones(8), return_complex=True), "hop_length=0"),
    "a long window": (lambda m: m.stft(m.ones(40), 8, win_length=9, return_complex=True), "win_length=9"),
    "another window": (lambda m: m.stft(m.ones(40), 8, window=m.ones(5), return_complex=True), r"size \[5\]"),
    "integers": (
        lambda m: m.stft(m.ones(40, dtype=m.int64), 8, window=m.ones(8), return_complex=True),
        "floating point or complex",
    ),
    "half of a complex one": (
        lambda m: m.stft(m.ones(40, dtype=m.complex64), 8, window=m.ones(8), onesided=True),
        "onesided",
    ),
    "real spectra": (lambda m: m.istft(m.ones(5, 9), 8, window=m.ones(8)), "return_complex=True"),
    "other frequencies": (
        lambda m: m.istft(m.ones(3, 9, dtype=m.complex64), 8, window=m.ones(8)),
        "n_fft / 2 \\+ 1 = 5 when onesided=True, but got 3",
    ),
    "a gap": (lambda m: m.istft(m.ones(5, 9, dtype=m.complex64), 8, window=m.zeros(8)), "window overlap add min: 0"),
    "no signal": (lambda m: m.istft(m.ones(5, 9, dtype=m.complex64), 8, window=m.ones(8), length=-1), "length > 0"),
    "no spectra": (lambda m: m.istft(m.ones(0, 3, dtype=m.complex64), 4), r"non-empty.*\[0, 3\]"),
    "complex from half": (
        lambda m: m.istft(m.ones(3, 5, dtype=m.complex64), 4, window=m.ones(4), onesided=True, return_complex=True),
        "onesided",
    ),
    "real from a complex window": (
        lambda m: m.istft(m.ones(4, 5, dtype=m.complex64), 4, window=m.ones(4, dtype=m.complex64), onesided=False),
        "return_complex=True",
    ),
    "frames apart": (lambda m: m.istft(m.ones(5, 9, dtype=m.complex64), 8, 9, window=m.ones(8)), "hop_length"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_stft_and_istft_refuse_wrong_arguments(name: str) -> None:
    mistake, words = MISTAKES[name]
    with pytest.raises(RuntimeError):
        mistake(torch)
    with pytest.raises(RuntimeError, match=words):
        mistake(rg)


def test_stft_warnings() -> None:
    with pytest.warns(UserWarning, match="hann_window"):
        spectra = rg.stft(rg.from_numpy(SIGNAL), 16, return_complex=True)
    with pytest.warns(UserWarning, match="the frames end 4 before") as told:
        longer = rg.istft(spectra, 16, window=rg.ones(16, dtype=rg.float64), length=112)
    assert told[0].filename == __file__
    assert longer.shape == (2, 112)
    assert not longer[:, 108:].any()
