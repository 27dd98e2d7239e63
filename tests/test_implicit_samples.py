"""Gradients of gamma-family samples, checked with distribution functions, moments and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import retrograd as rg
from retrograd.distributions._implicit import beta_slope, gamma_slope

SIZES = (0.2, 0.7, 3.0, 9.9, 10.1, 40.0, 300.0)
LEVELS = np.array([1e-4, 0.02, 0.3, 0.6, 0.95, 0.9999])


@pytest.mark.parametrize("a", SIZES)
def test_gradient_of_a_gamma_sample_keeps_its_quantile(a: float) -> None:
    """Moving the sample along its gradient for a small step of the concentration keeps the probability below it."""
    x = stats.gamma.ppf(LEVELS, a)
    moved = stats.gamma.ppf(LEVELS, a + 1e-4 * a) - stats.gamma.ppf(LEVELS, a - 1e-4 * a)
    np.testing.assert_allclose(gamma_slope(np.full_like(x, a), x), moved / (2e-4 * a), rtol=2e-5)


@pytest.mark.parametrize("b", SIZES)
@pytest.mark.parametrize("a", SIZES)
def test_gradient_of_a_beta_sample_keeps_its_quantile(a: float, b: float) -> None:
    x = stats.beta.ppf(LEVELS, a, b)
    level, x = LEVELS[x < 1 - 1e-9], x[x < 1 - 1e-9]
    up, down = (stats.beta.ppf(level, a * (1 + step), b) for step in (1e-4, -1e-4))
    moved = (up - down) / (2e-4 * a)
    np.testing.assert_allclose(beta_slope(np.array(a), np.array(b), x) * (1 - x), moved, rtol=2e-5, atol=1e-13)


def test_gradients_of_samples_match_torch() -> None:
    make = np.random.default_rng(0)
    a, b = make.uniform(0.1, 50, (2, 400))
    x, y = make.standard_gamma(a), make.beta(a, b)
    np.testing.assert_allclose(gamma_slope(a, x), torch._standard_gamma_grad(*map(torch.tensor, (a, x))), rtol=5e-3)
    expected = torch._dirichlet_grad(*map(torch.tensor, (y, a, a + b)))
    np.testing.assert_allclose(beta_slope(a, b, y), expected, rtol=3e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_extreme_samples_are_finite(dtype: Any) -> None:
    tiny, one = np.finfo(dtype).tiny, dtype(1)
    for a in (1e-3, 1.0, 1e6):
        assert np.isfinite(gamma_slope(np.full(2, a, dtype), np.array([tiny, a], dtype))).all()
        for b in (1e-3, 1.0, 1e6):
            values = np.array([tiny, 0.5, one - np.finfo(dtype).epsneg, one], dtype)
            assert np.isfinite(beta_slope(np.full(4, a, dtype), np.full(4, b, dtype), values)).all()


CASES: dict[str, dict[str, Any]] = {
    "Gamma": {"concentration": 2.5, "rate": 0.8},
    "Chi2": {"df": 3.0},
    "InverseGamma": {"concentration": 9.0, "rate": 2.0},
    "FisherSnedecor": {"df1": 4.0, "df2": 30.0},
    "StudentT": {"df": 20.0, "loc": 0.3, "scale": 2.0},
    "Beta": {"concentration1": 0.8, "concentration0": 2.0},
    "Dirichlet": {"concentration": [0.5, 2.0, 12.0]},
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_samples_have_the_right_mean(name: str) -> None:
    """The mean gradient of the samples' squares is the gradient of the second moment."""
    rg.manual_seed(0)
    for key in CASES[name]:
        leaves = {k: rg.tensor(v, dtype=rg.float64, requires_grad=k == key) for k, v in CASES[name].items()}
        kind, leaf = getattr(rg.distributions, name), leaves[key]
        d = kind(**leaves)
        (expected,) = rg.autograd.grad((d.variance + d.mean**2).sum(), leaf)
        means = []
        for _ in range(20):
            (mean,) = rg.autograd.grad((kind(**leaves).rsample((2000,)) ** 2).mean(0).sum(), leaf)
            means.append(mean.numpy())
        error = np.std(means, axis=0) / np.sqrt(20)
        assert (np.abs(np.mean(means, axis=0) - expected.numpy()) <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("name", CASES)
def test_samples_require_grad_if_a_parameter_does(name: str) -> None:
    parameters = {key: rg.tensor(value, requires_grad=True) for key, value in CASES[name].items()}
    d = getattr(rg.distributions, name)(**parameters)
    assert d.has_rsample
    assert d.rsample((2,)).requires_grad
    assert not d.sample((2,)).requires_grad
    assert d.rsample((2,)).dtype == rg.float32


def test_grad_fn_names_of_samples_match_torch() -> None:
    for m in (torch, rg):
        a = m.ones(2, requires_grad=True)
        assert m.distributions.Dirichlet(a).rsample().grad_fn.name() in ("DirichletBackward0", "_DirichletBackward")
        gamma = m.distributions.Gamma(a, 1.0).rsample().grad_fn
        assert gamma.next_functions[0][0].name() == "StandardGammaBackward0"


def test_second_derivative_of_samples_raises() -> None:
    """torch raises too; its error names the kernel."""
    for m in (torch, rg):
        a = m.ones(2, requires_grad=True)
        with pytest.raises((NotImplementedError, RuntimeError), match=r"not implemented|not differentiable"):
            m.autograd.grad(m.distributions.Gamma(a, 1.0).rsample().sum(), a, create_graph=True)[0].sum().backward()
