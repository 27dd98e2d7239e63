"""KL divergences: every pair of families that torch registers, and the cases that torch gets wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions.kl import _KL_REGISTRY

import retrograd as rg
from tests.parity import attempt, parity, run

A, B = [[0.5], [1.5], [3.0]], [0.7, 2.5]
MATRIX = [[2.0, 0.3, 0.0], [0.3, 1.0, -0.4], [0.0, -0.4, 0.5]]
FACTOR = [[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]]

# parameters of p and of q
FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Bernoulli": ({"probs": [0.2, 0.7]}, {"probs": [0.5, 0.6]}),
    "Beta": (
        {"concentration1": A, "concentration0": B},
        {"concentration1": [3.0, 0.4], "concentration0": 2.0},
    ),
    "Binomial": ({"total_count": 4, "probs": [0.2, 0.7]}, {"total_count": 4, "probs": [0.5, 0.6]}),
    "Categorical": ({"probs": [[0.2, 0.5, 0.3]] * 2}, {"probs": [0.1, 0.6, 0.3]}),
    "Cauchy": ({"loc": B, "scale": A}, {"loc": 0.3, "scale": [3.0, 0.4]}),
    "ContinuousBernoulli": ({"probs": [[0.1], [0.4], [0.9]]}, {"logits": [3.0, 0.4]}),
    "Dirichlet": ({"concentration": [[0.5, 1.0, 2.0]] * 2}, {"concentration": [3.0, 4.0, 5.0]}),
    "Exponential": ({"rate": A}, {"rate": B}),
    "InverseGamma": ({"concentration": A, "rate": B}, {"concentration": 2.0, "rate": [3.0, 0.4]}),
    "Gamma": ({"concentration": A, "rate": B}, {"concentration": 2.0, "rate": [3.0, 0.4]}),
    "Geometric": ({"probs": [0.2, 0.7]}, {"probs": [0.5, 0.6]}),
    "Gumbel": ({"loc": B, "scale": A}, {"loc": 0.3, "scale": [3.0, 1.4]}),
    "HalfNormal": ({"scale": A}, {"scale": B}),
    "Laplace": ({"loc": B, "scale": A}, {"loc": 0.3, "scale": [3.0, 0.4]}),
    "LowRankMultivariateNormal": (
        {"loc": [0.1, 0.2, 0.3], "cov_factor": [FACTOR] * 2, "cov_diag": [0.5, 1.0, 2.0]},
        {"loc": [[0.0, 0.5, 0.0]] * 2, "cov_factor": [[0.5], [1.0], [-1.0]], "cov_diag": [1.0, 0.3, 0.7]},
    ),
    "MultivariateNormal": (
        {"loc": [0.1, 0.2, 0.3], "covariance_matrix": MATRIX},
        {"loc": [[0.0, 0.5, 0.0]] * 2, "precision_matrix": MATRIX},
    ),
    "Normal": ({"loc": B, "scale": A}, {"loc": 0.3, "scale": [3.0, 0.4]}),
    "OneHotCategorical": ({"probs": [[0.2, 0.5, 0.3]] * 2}, {"probs": [0.1, 0.6, 0.3]}),
    "Pareto": ({"scale": [[0.5], [0.8], [2.0]], "alpha": [2.5, 3.5]}, {"scale": [0.4, 0.7], "alpha": 1.5}),
    "Poisson": ({"rate": [0.5, 4.0]}, {"rate": [1.0, 2.0]}),
    "Uniform": ({"low": [0.1, 0.75], "high": [0.9, 1.75]}, {"low": [[-0.1, 0.6]] * 3, "high": 1.5}),
}


def made(m: Any, name: str, parameters: dict[str, Any]) -> tuple[Any, list[Any]]:
    leaves = {
        key: m.tensor(value, dtype=m.float64, requires_grad=key != "total_count") for key, value in parameters.items()
    }
    return getattr(m.distributions, name)(**leaves), [leaf for leaf in leaves.values() if leaf.requires_grad]


def torchs_pairs() -> list[tuple[str, str]]:
    general = (torch.distributions.Independent, torch.distributions.ExponentialFamily)
    pairs = sorted({(p.__name__, q.__name__) for p, q in _KL_REGISTRY if p not in general})
    return [pair for pair in pairs if pair[0] != "TransformedDistribution"]


PAIRS = [*torchs_pairs(), ("InverseGamma", "InverseGamma")]  # torch wants equal transforms in the last pair


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_kl_divergence_of_every_pair_that_torch_registers(p: str, q: str) -> None:
    def compare(m: Any) -> Any:
        (first, leaves), (second, others) = made(m, p, FAMILIES[p][0]), made(m, q, FAMILIES[q][1])
        divergence = m.distributions.kl_divergence(first, second)
        divergence = divergence.expand(
            m.broadcast_shapes(first.batch_shape, second.batch_shape)
        )  # torch's may be smaller
        finite = divergence[divergence.isfinite()]
        if not finite.requires_grad or not finite.numel():
            return [divergence]
        grads = m.autograd.grad(finite.sum(), leaves + others, allow_unused=True, materialize_grads=True)
        return [divergence, [grad.nan_to_num() for grad in grads]]

    assert repr(run(compare, rg)) == repr(run(compare, torch))


@parity
def test_kl_divergence_of_transformed_distributions(m: Any) -> Any:
    d = m.distributions
    wide, narrow = m.tensor([2.0, 3.0]), m.tensor(0.5)
    return [
        d.kl_divergence(d.LogNormal(1.0, wide), d.LogNormal(0.0, narrow)),
        d.kl_divergence(d.HalfCauchy(wide), d.HalfCauchy(narrow)),
        d.kl_divergence(d.LogisticNormal(m.zeros(2), wide), d.LogisticNormal(m.ones(2), wide)),
        attempt(lambda: d.kl_divergence(d.LogNormal(1.0, wide), d.HalfNormal(narrow))),
        attempt(lambda: d.kl_divergence(d.Weibull(1.0, wide), d.Weibull(1.0, narrow))),
        d.kl_divergence(d.Weibull(1.0, wide), d.Weibull(1.0, wide)),
        d.kl_divergence(d.Chi2(wide), d.Chi2(narrow)),
        attempt(lambda: d.kl_divergence(d.Bernoulli(0.5), d.Normal(0.0, 1.0))),
    ]


@pytest.mark.parametrize(
    ("p", "q", "divergence"),
    [
        ({"loc": 1.0, "scale": 2.0}, {"low": -1.0, "high": 5.0}, np.inf),
        ({"loc": 1.0, "scale": 2.0}, {"loc": 0.0, "scale": 1.0}, None),
    ],
)
def test_kl_divergence_is_the_mean_difference_of_log_densities(p: Any, q: Any, divergence: float | None) -> None:
    """A divergence is the mean of log p(x) - log q(x)."""
    d = rg.distributions
    second = d.Uniform(**q) if "low" in q else d.Laplace(**q)
    found = d.kl_divergence(d.Normal(**p), second).item()
    if divergence is None:
        grid = np.linspace(-30, 30, 200001)
        density = stats.norm(1, 2).pdf(grid)
        difference = stats.norm(1, 2).logpdf(grid) - stats.laplace(0, 1).logpdf(grid)
        divergence = float(np.trapezoid(density * difference, grid))
    assert found == pytest.approx(divergence, rel=1e-5)


def test_kl_divergence_of_a_batch_of_wishart_distributions() -> None:
    """torch sums over the batch; for a single distribution it is right."""

    def single(m: Any, df: float) -> Any:
        matrix = m.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=m.float64)
        p = m.distributions.Wishart(m.tensor(df, dtype=m.float64), covariance_matrix=matrix)
        q = m.distributions.Wishart(m.tensor(5.0, dtype=m.float64), scale_tril=m.eye(2, dtype=m.float64))
        return m.distributions.kl_divergence(p, q).item()

    matrix = rg.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=rg.float64)
    p = rg.distributions.Wishart(rg.tensor([3.0, 6.5], dtype=rg.float64), covariance_matrix=matrix)
    q = rg.distributions.Wishart(rg.tensor(5.0, dtype=rg.float64), scale_tril=rg.eye(2, dtype=rg.float64))
    found = rg.distributions.kl_divergence(p, q)
    assert found.tolist() == pytest.approx([single(torch, 3.0), single(torch, 6.5)])
    assert found.tolist() == pytest.approx([single(rg, 3.0), single(rg, 6.5)])
    assert not found.requires_grad


# --- exponential families ---------------------------------------------------------------------------------------------


def line(m: Any) -> type:
    """Return the exponential distribution defined only by its natural parameter."""

    class Line(m.distributions.ExponentialFamily):
        _mean_carrier_measure = 0

        def __init__(self, rate: Any) -> None:
            self.rate = rate
            super().__init__(rate.shape, validate_args=False)

        @property
        def _natural_params(self) -> tuple[Any, ...]:
            return (-self.rate,)

        def _log_normalizer(self, x: Any) -> Any:
            return -(-x).log()

    return Line


def test_entropy_and_kl_divergence_of_exponential_families() -> None:
    rate, other = rg.tensor([0.5, 2.0], requires_grad=True), rg.tensor([1.0, 0.3], requires_grad=True)
    family = line(rg)
    p, q = family(rate), family(other)
    by_formula = rg.distributions.Exponential(rate), rg.distributions.Exponential(other)
    for found, expected in (
        (p.entropy(), by_formula[0].entropy()),
        (rg.distributions.kl_divergence(p, q), rg.distributions.kl_divergence(*by_formula)),
    ):
        assert found.tolist() == pytest.approx(expected.tolist())
        leaves = [rate, other]
        grads = [
            rg.autograd.grad(x.sum(), leaves, allow_unused=True, materialize_grads=True) for x in (found, expected)
        ]
        for one, two in zip(*grads, strict=True):
            assert one.tolist() == pytest.approx(two.tolist(), abs=1e-6)


NATURAL: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (name, *FAMILIES[name])
    for name in ("Bernoulli", "Beta", "ContinuousBernoulli", "Dirichlet", "Exponential", "Gamma", "Normal", "Poisson")
]


@pytest.mark.parametrize(("name", "p", "q"), NATURAL, ids=[name for name, *_ in NATURAL])
def test_kl_divergence_by_natural_parameters_equals_the_formula(
    name: str, p: dict[str, Any], q: dict[str, Any]
) -> None:
    """Both ways to compute the divergence agree."""
    first, second = made(rg, name, p)[0], made(rg, name, q)[0]
    assert isinstance(first, rg.distributions.ExponentialFamily)
    assert issubclass(getattr(torch.distributions, name), torch.distributions.ExponentialFamily)
    expected = rg.distributions.kl_divergence(first, second).detach().numpy()
    np.testing.assert_allclose(first._divergence(second).detach().numpy(), expected, rtol=1e-9)
