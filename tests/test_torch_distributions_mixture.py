"""Mixture distributions, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats

import retrograd as rg
from tests.parity import attempt, parity

WEIGHTS = [0.2, 0.5, 0.3]


def numbers(m: Any, *batch: int) -> tuple[Any, list[Any]]:
    """Return a mixture of three normals with the same weights and different means in the batch."""
    logits = m.tensor(WEIGHTS, dtype=m.float64).log().requires_grad_()
    loc = (m.tensor([-2.0, 0.5, 4.0], dtype=m.float64) * m.ones(*batch, 3, dtype=m.float64)).requires_grad_()
    scale = m.tensor([0.5, 1.0, 2.0], dtype=m.float64, requires_grad=True)
    d = m.distributions
    return d.MixtureSameFamily(d.Categorical(logits=logits), d.Normal(loc, scale)), [logits, loc, scale]


def vectors(m: Any) -> tuple[Any, list[Any]]:
    logits = m.tensor([WEIGHTS, WEIGHTS[::-1]], dtype=m.float64).log().requires_grad_()
    loc = m.arange(12.0, dtype=m.float64).reshape(2, 3, 2).requires_grad_()
    d = m.distributions
    return d.MixtureSameFamily(d.Categorical(logits=logits), d.Independent(d.Normal(loc, 1.5), 1)), [logits, loc]


@pytest.mark.parametrize("batch", [(), (2,)])
def test_mixture_formulas_match_torch(batch: tuple[int, ...]) -> None:
    @parity
    def check(m: Any) -> Any:
        mixture, leaves = numbers(m, *batch)
        value = m.tensor([[0.3], [-5.0], [2.0]], dtype=m.float64)
        value = value if batch else value[:, 0]
        density = mixture.log_prob(value)
        density.sum().backward()
        gradients = [leaf.grad for leaf in leaves]
        return density, mixture.cdf(value), mixture.mean, mixture.variance, mixture.stddev, gradients

    check()


@parity
def test_mixture_of_vector_distributions(m: Any) -> Any:
    mixture, leaves = vectors(m)
    density = mixture.log_prob(m.zeros(4, 1, 2, dtype=m.float64))
    density.sum().backward()
    shapes = tuple(mixture.sample((5,)).shape), tuple(mixture.batch_shape), tuple(mixture.event_shape)
    return density, mixture.mean, mixture.variance, shapes, [leaf.grad for leaf in leaves]


@parity
def test_expanding_a_mixture(m: Any) -> Any:
    mixture = numbers(m)[0].expand((4, 2))
    return mixture.log_prob(m.zeros(4, 2, dtype=m.float64)), mixture.mean, tuple(mixture.sample((3,)).shape)


def test_mixture_samples_follow_the_distribution() -> None:
    rg.manual_seed(0)
    mixture, _ = numbers(rg)
    samples = mixture.sample((4000,))
    assert not samples.requires_grad
    quantiles = mixture.cdf(samples).detach().numpy()
    assert stats.kstest(quantiles, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("case", ["no categories", "no distribution", "too few", "other batch", "shape"])
def test_invalid_mixtures_raise_as_in_torch(case: str) -> None:
    def program(m: Any) -> Any:
        d = m.distributions
        three, normal = d.Categorical(m.ones(3)), d.Normal(m.zeros(3), 1.0)
        return {
            "no categories": lambda: d.MixtureSameFamily(normal, normal),
            "no distribution": lambda: d.MixtureSameFamily(three, m.ones(3)),
            "too few": lambda: d.MixtureSameFamily(d.Categorical(m.ones(2)), normal),
            "other batch": lambda: d.MixtureSameFamily(d.Categorical(m.ones(2, 3)), d.Normal(m.zeros(4, 3), 1.0)),
            "shape": lambda: d.MixtureSameFamily(three, d.Normal(m.zeros(2, 3), 1.0), validate_args=True).log_prob(
                m.zeros(5)
            ),
        }[case]()

    assert attempt(lambda: program(rg)) == attempt(lambda: program(torch)) == "raises ValueError"
