"""Error functions of many float32 numbers, and digamma near its negative root, agree with SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.ops._digamma import digamma_of
from tests.ops.harness import assert_same

special_functions = pytest.importorskip("scipy.special")

RANDOM = np.random.default_rng(0)
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38]
WIDE = np.concatenate([RANDOM.uniform(-15, 15, 1 << 14), RANDOM.normal(size=1 << 12), SPECIAL]).astype(np.float32)
UNIT = np.concatenate(
    [RANDOM.uniform(-1, 1, 1 << 14), 1 - 10.0 ** RANDOM.uniform(-7.3, 0, 1 << 12), [1 - 2**-24, 2**-24 - 1], SPECIAL]
).astype(np.float32)


@pytest.mark.parametrize(("name", "x"), [("erfc", WIDE), ("ndtr", WIDE), ("erfinv", UNIT)])
def test_float32_error_functions_are_rounded_float64_results(name: str, x: np.ndarray[Any, Any]) -> None:
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = getattr(rg.special, name)(rg.from_numpy(x)).numpy()
    exact = getattr(special_functions, name)(x.astype(np.float64))
    assert found.dtype == np.float32
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(found[~finite], exact[~finite])
    spacing = np.spacing(np.abs(exact[finite]).astype(np.float32))
    assert np.max(np.abs(found[finite] - exact[finite]) / spacing) < (0.76 if name == "ndtr" else 0.52)


@pytest.mark.parametrize("function", [lambda m, x: m.erfc(x), lambda m, x: m.special.ndtr(x), lambda m, x: m.erfinv(x)])
def test_gradients_and_layouts_of_float32_error_functions(function: Callable[[Any, Any], Any]) -> None:
    x = RANDOM.uniform(-0.95, 0.95, (90, 120)).astype(np.float32)
    for array in (x, x.T, x[:, ::2], x[::-1]):
        ours = rg.from_numpy(array.copy()).requires_grad_()
        theirs = torch.from_numpy(array.copy()).requires_grad_()
        results = function(rg, ours), function(torch, theirs)
        assert_same(*results)
        for result in results:
            result.sum().backward()
        assert_same(ours.grad, theirs.grad)


ROOT = -0.504083008264455409
NEAR_ROOT = np.concatenate(
    [
        *(RANDOM.uniform(-0.85, -0.15, 300), ROOT + RANDOM.normal(size=200) * 1e-2, RANDOM.normal(size=100)),
        *(ROOT + RANDOM.normal(size=100) * 1e-12, [ROOT, np.nextafter(ROOT, 0), -0.5, 0.0, -0.0, np.nan, np.inf, -1]),
    ]
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digamma_near_its_negative_root(dtype: Any) -> None:
    x = NEAR_ROOT.astype(dtype)
    found, expected = digamma_of(x), special_functions.psi(x.astype(np.float64)).astype(dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1.2e-7 if dtype is np.float32 else 4e-15)
    assert_same(digamma_of(np.array(x[7])), found[7])


def test_digamma_changes_sign_at_its_negative_root() -> None:
    below, above = digamma_of(np.array([np.nextafter(ROOT, -1), np.nextafter(ROOT, 0)]))
    assert below < 0 < above
    assert above - below < 2.1 * np.spacing(-ROOT) * 8.94


def test_gradient_of_lgamma_is_digamma_near_its_root() -> None:
    x = rg.from_numpy(NEAR_ROOT[:600]).requires_grad_()
    (gradient,) = rg.autograd.grad(rg.lgamma(x).sum(), x)
    assert_same(gradient, torch.digamma(torch.from_numpy(NEAR_ROOT[:600])), 10)
