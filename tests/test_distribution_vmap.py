"""Distributions inside ``vmap``: one for each sample of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import retrograd as rg
from tests.distributions import follows
from tests.parity import parity

d = rg.distributions
Maker = Callable[[Any], Any]

# a distribution made from a vector of numbers between 0 and 1, and a value in its support
MAKERS: dict[str, tuple[Maker, list[float]]] = {
    "Bernoulli": (lambda p: d.Bernoulli(p), [1.0, 0.0]),
    "Beta": (lambda p: d.Beta(p, 2 * p), [0.3, 0.6]),
    "Binomial": (lambda p: d.Binomial(3, p), [1.0, 3.0]),
    "Categorical": (lambda p: d.Categorical(logits=p), [1.0]),
    "Cauchy": (lambda p: d.Cauchy(p, p), [0.3, -0.6]),
    "Dirichlet": (lambda p: d.Dirichlet(p), [0.3, 0.7]),
    "Exponential": (lambda p: d.Exponential(p), [0.3, 0.6]),
    "Gamma": (lambda p: d.Gamma(p, 2 * p), [0.3, 0.6]),
    "Geometric": (lambda p: d.Geometric(p), [1.0, 3.0]),
    "Gumbel": (lambda p: d.Gumbel(p, p), [0.3, -0.6]),
    "Independent": (lambda p: d.Independent(d.Normal(p, p), 1), [0.3, -0.6]),
    "Laplace": (lambda p: d.Laplace(p, p), [0.3, -0.6]),
    "LogNormal": (lambda p: d.LogNormal(p, p), [0.3, 0.6]),
    "LowRankMultivariateNormal": (lambda p: d.LowRankMultivariateNormal(p, p[:, None], p), [0.3, -0.6]),
    "MixtureSameFamily": (lambda p: d.MixtureSameFamily(d.Categorical(p), d.Normal(p, p)), [0.3]),
    "Multinomial": (lambda p: d.Multinomial(3, p), [1.0, 2.0]),
    "MultivariateNormal": (lambda p: d.MultivariateNormal(p, p.diag_embed()), [0.3, -0.6]),
    "Normal": (lambda p: d.Normal(p, p), [0.3, -0.6]),
    "Poisson": (lambda p: d.Poisson(p), [1.0, 3.0]),
    "StudentT": (lambda p: d.StudentT(p), [0.3, -0.6]),
    "Uniform": (lambda p: d.Uniform(-p, 2 * p), [0.1, -0.1]),
    "Wishart": (lambda p: d.Wishart(p.sum() + 1, p.diag_embed()), [[2.0, 0.5], [0.5, 1.0]]),  # type: ignore[dict-item]
}
BATCH = rg.tensor([[0.2, 0.9], [0.5, 0.6], [0.7, 0.4]], dtype=rg.float64)


@pytest.mark.parametrize("name", MAKERS)
def test_log_prob_and_gradient_under_vmap_equal_those_of_a_loop(name: str) -> None:
    make, value = MAKERS[name]
    at = rg.tensor(value, dtype=rg.float64)
    at = at[0] if at.shape == (1,) else at

    def log_prob(p: Any) -> Any:
        return make(p).log_prob(at).sum()

    def whole(p: Any) -> Any:
        return rg.func.grad_and_value(log_prob)(p)

    for found, wanted in zip(rg.vmap(whole)(BATCH), zip(*map(whole, BATCH), strict=True), strict=True):
        rg.testing.assert_close(found, rg.stack(wanted))


@pytest.mark.parametrize("in_dims", [0, None])
@pytest.mark.parametrize("name", MAKERS)
def test_samples_under_vmap_follow_the_randomness_option(name: str, in_dims: int | None) -> None:
    make, _ = MAKERS[name]
    same = BATCH[:1].expand(3, 2)

    def draw(randomness: str) -> Any:
        parameters = same if in_dims == 0 else same[0]
        return rg.vmap(lambda p, _: make(p).sample((40,)), in_dims=(in_dims, 0), randomness=randomness)(
            parameters, rg.zeros(3)
        )

    different = draw("different")
    assert different.shape == (3, *make(BATCH[0]).sample((40,)).shape)
    assert len({tuple(sample.ravel().tolist()) for sample in different}) == 3
    with pytest.raises(RuntimeError, match="randomness error mode"):
        draw("error")
    if in_dims is None:
        once = draw("same")
        assert bool((once == once[0]).all())


def test_samples_under_vmap_follow_the_parameters_of_each_sample() -> None:
    shapes = rg.tensor([0.5, 3.0])
    gamma = rg.vmap(lambda a: d.Gamma(a, 1.0).sample((2000,)), randomness="different")(shapes)
    normal = rg.vmap(lambda a: d.Normal(a, a).rsample((2000,)), randomness="different")(shapes)
    for k, a in enumerate(shapes.tolist()):
        assert follows(gamma[k], stats.gamma(a))
        assert follows(normal[k], stats.norm(a, a))


def test_randomness_same_uses_one_noise_for_all_parameters() -> None:
    locations = rg.tensor([0.0, 5.0, -1.0])
    found = rg.vmap(lambda loc: d.Normal(loc, 1.0).sample((4,)), randomness="same")(locations)
    np.testing.assert_allclose(found - locations[:, None], found[:1].expand(3, 4), atol=1e-6)


@pytest.mark.parametrize("which", range(3))
def test_invalid_parameter_or_value_of_one_sample_raises_under_vmap(which: int) -> None:
    scales = rg.ones(3)
    scales[which] = -2.0
    with pytest.raises(ValueError, match="scale") as refused:
        rg.vmap(lambda s: d.Normal(0.0, s).sample(), randomness="different")(scales)
    assert "-2." in str(refused.value)
    with pytest.raises(ValueError, match="within the support"):
        rg.vmap(lambda x: d.Exponential(1.0).log_prob(x))(scales)


@parity
def test_per_sample_gradients_of_a_log_likelihood_match_torch(m: Any) -> Any:
    data, loc = m.tensor([[0.5, 1.0], [2.0, -1.0], [0.0, 0.25]]), m.tensor([0.1, 0.2])

    def log_likelihood(loc: Any, x: Any) -> Any:
        return m.distributions.Normal(loc, 2.0).log_prob(x).sum()

    score = m.func.vmap(m.func.grad(log_likelihood), in_dims=(None, 0))
    return score(loc, data), m.func.hessian(log_likelihood)(loc, data[0])
