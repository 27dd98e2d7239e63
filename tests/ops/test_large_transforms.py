"""Large single-precision Fourier transforms, which SciPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError
from retrograd.ops import _fourier
from tests.ops.harness import assert_same

pytest.importorskip("scipy.fft")

LINES = [{}, {"n": 5}, {"n": 9, "norm": "ortho"}, {"dim": 0, "norm": "forward"}]
GRIDS = [{}, {"s": (5, 9)}, {"dim": (0, 2), "norm": "ortho"}, {"s": (2, -1), "dim": (1, 0), "norm": "forward"}]
CALLS = [
    *[(name, options) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for options in LINES],
    *[(name, options) for name in ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn") for options in GRIDS],
]


@pytest.mark.parametrize(("name", "options"), CALLS)
def test_large_transforms_agree_with_torch_in_every_layout(
    name: str, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fourier, "_MANY", 0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 7)).astype(np.float32)
    if name not in ("rfft", "ihfft", "rfftn", "ihfftn"):
        x = x + 1j * rng.normal(size=x.shape).astype(np.float32)
    for each in (x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2]):
        found = []
        for library in (rg, torch):
            leaf = library.from_numpy(each).requires_grad_()
            result = getattr(library.fft, name)(leaf, **options)
            weight = library.linspace(-1, 1, result.numel()).reshape(result.shape)
            (result * weight).sum().abs().backward()
            found += [result.detach(), leaf.grad]
            leaf.grad = None
        result, gradient, expected, expected_gradient = found
        assert_same(result, expected, 100, what=f"{name} {options}")
        assert_same(gradient, expected_gradient, 100, what=f"gradient of {name} {options}")


def test_overflow_in_large_transforms_is_reported_as_in_small_ones() -> None:
    for n in (_fourier._MANY // 2, _fourier._MANY * 2):
        with rg.anomaly.watch():
            x = rg.full((n,), 3e38, requires_grad=True)
            with pytest.raises(AnomalyError, match="born in fft_fft at"):
                rg.fft.fft(x * 1.0).abs().sum().backward()


def test_overflow_in_gradients_of_large_transforms_is_reported_as_in_small_ones() -> None:
    for n in (_fourier._MANY // 2, _fourier._MANY * 2):
        with rg.anomaly.watch():
            x = rg.zeros(n, requires_grad=True)
            with pytest.raises(AnomalyError, match="born in FftR2CBackward0 at"):
                (rg.fft.rfft(x).real * 3e38).sum().backward()
