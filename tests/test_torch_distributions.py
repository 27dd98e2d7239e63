"""Distributions: formulas compared with torch, samples compared with their distribution function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy import stats

import retrograd as rg
from tests.parity import Program, attempt, message, parity, run

A = [[0.5], [1.5], [3.0]]
B = [0.7, 2.5]
SIMPLEX = [[0.2, 0.5, 0.3], [0.6, 0.0, 0.4]]
MATRIX = [[2.0, 0.3, 0.0], [0.3, 1.0, -0.4], [0.0, -0.4, 0.5]]
WISHART = [[5.0, 1.0, 0.5], [1.0, 4.0, -1.0], [0.5, -1.0, 3.0]]
LOW_RANK = {
    "loc": [0.1, 0.2, 0.3],
    "cov_factor": [[[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]]] * 2,
    "cov_diag": [0.5, 1.0, 2.0],
}

# name, parameters, values of the support
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("Normal", {"loc": B, "scale": A}, [[-1.5, 0.3]]),
    ("HalfNormal", {"scale": A}, [0.0, 0.4, 2.0]),
    ("Laplace", {"loc": B, "scale": A}, [[-1.5, 0.3]]),
    ("Cauchy", {"loc": B, "scale": A}, [[-1.5, 0.3]]),
    ("Gumbel", {"loc": B, "scale": A}, [[-1.5, 0.3]]),
    ("Exponential", {"rate": A}, [0.1, 2.0]),
    ("Uniform", {"low": [-1.0, 0.0], "high": [2.0, 3.0]}, [[0.5, 1.5], [1.9, 0.1]]),
    ("LogNormal", {"loc": B, "scale": A}, [[0.2, 3.0]]),
    ("Gamma", {"concentration": A, "rate": B}, [[0.2, 3.0]]),
    ("Chi2", {"df": A}, [0.2, 3.0]),
    ("InverseGamma", {"concentration": A, "rate": B}, [[0.2, 3.0]]),
    ("FisherSnedecor", {"df1": [[0.5], [2.0], [5.0]], "df2": [0.7, 4.5]}, [[0.2, 3.0]]),
    ("StudentT", {"df": [[0.5], [1.5], [3.0]], "loc": B, "scale": 2.0}, [[-0.2, 3.0]]),
    ("Beta", {"concentration1": A, "concentration0": B}, [[0.2, 0.9]]),
    ("Dirichlet", {"concentration": [[0.5, 1.0, 2.0], [3.0, 4.0, 5.0]]}, [0.2, 0.5, 0.3]),
    ("Bernoulli", {"probs": [0.0, 0.2, 0.5, 1.0]}, [[0.0], [1.0]]),
    ("Bernoulli", {"logits": [-3.0, 0.0, 40.0]}, [[0.0], [1.0]]),
    ("Geometric", {"probs": [0.2, 0.7]}, [[0.0], [3.0]]),
    ("Geometric", {"logits": [-1.0, 0.5]}, [[0.0], [3.0]]),
    ("Binomial", {"total_count": 4, "probs": [0.2, 0.7]}, [[0.0], [3.0], [4.0]]),
    ("Binomial", {"total_count": [3.0, 5.0], "logits": [-1.0, 0.5]}, [[0.0], [3.0]]),
    ("Binomial", {"total_count": 3, "probs": [0.5, 0.25]}, [[0.0], [3.0]]),
    ("Poisson", {"rate": [0.0, 0.5, 4.0]}, [[0.0], [0.0]]),
    ("Poisson", {"rate": [0.5, 4.0]}, [[2.0], [7.0]]),
    ("Categorical", {"probs": SIMPLEX}, [[0.0, 2.0], [2.0, 0.0]]),
    ("Categorical", {"logits": [[0.1, -2.0, 3.0], [0.0, 0.0, 0.0]]}, [1.0]),
    ("OneHotCategorical", {"probs": SIMPLEX}, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    ("MultivariateNormal", {"loc": [0.1, 0.2, 0.3], "covariance_matrix": MATRIX}, [[1.0, 0.0, -1.0]] * 2),
    ("MultivariateNormal", {"loc": [[0.1, 0.2, 0.3]] * 2, "precision_matrix": MATRIX}, [1.0, 0.0, -1.0]),
    ("MultivariateNormal", {"loc": [0.1, 0.2], "scale_tril": [[[2.0, 0.0], [0.3, 1.0]]] * 2}, [1.0, 0.0]),
    ("LowRankMultivariateNormal", LOW_RANK, [[1.0, 0.0, -1.0]] * 2),
    ("HalfCauchy", {"scale": A}, [0.0, 0.4, 2.0]),
    ("Weibull", {"scale": A, "concentration": [1.5, 2.5]}, [[0.2, 3.0]]),
    ("Pareto", {"scale": [[0.5], [0.8], [1.0]], "alpha": [2.5, 3.5]}, [[1.2, 3.0]]),
    ("Kumaraswamy", {"concentration1": A, "concentration0": B}, [[0.2, 0.9]]),
    ("LogisticNormal", {"loc": [[0.1, -1.0]] * 3, "scale": [0.5, 2.0]}, [0.2, 0.5, 0.3]),
    ("VonMises", {"loc": B, "concentration": [[0.01], [1.5], [50.0]]}, [[-1.5, 0.3]]),
    ("ContinuousBernoulli", {"probs": [0.02, 0.3, 0.52, 0.7, 0.98]}, [[0.0], [0.3], [0.9], [1.0]]),
    ("ContinuousBernoulli", {"logits": [-3.0, 0.01, 0.5, 1.5, 8.0]}, [[0.0], [0.3], [1.0]]),
    ("NegativeBinomial", {"total_count": [0.5, 3.0], "probs": [0.2, 0.7]}, [[0.0], [3.0]]),
    ("NegativeBinomial", {"total_count": [4.0, 3.0], "logits": [-1.0, 0.5]}, [[0.0], [3.0]]),
    ("Multinomial", {"total_count": 4, "probs": SIMPLEX}, [[2.0, 1.0, 1.0], [3.0, 0.0, 1.0]]),
    ("Multinomial", {"total_count": 3, "logits": [[0.1, -2.0, 3.0], [0.0, 0.0, 0.0]]}, [0.0, 1.0, 2.0]),
    ("OneHotCategoricalStraightThrough", {"logits": [[0.1, -2.0, 3.0]]}, [0.0, 1.0, 0.0]),
    ("RelaxedBernoulli", {"temperature": 0.7, "probs": [0.2, 0.9]}, [[0.2], [0.9]]),
    ("RelaxedBernoulli", {"temperature": 2.0, "logits": [-1.0, 3.0]}, [[0.2], [0.9]]),
    ("RelaxedOneHotCategorical", {"temperature": 0.7, "probs": [[0.1, 0.6, 0.3]] * 2}, [0.2, 0.5, 0.3]),
    ("RelaxedOneHotCategorical", {"temperature": 2.0, "logits": [0.1, -2.0, 3.0]}, [[0.2, 0.5, 0.3]] * 2),
    ("Wishart", {"df": [3.5, 7.0], "covariance_matrix": MATRIX}, WISHART),
    ("Wishart", {"df": 4.0, "precision_matrix": [MATRIX] * 2}, WISHART),
]
IDS = [f"{name}-{next(reversed(parameters))}" for name, parameters, _ in CASES]


def make(m: Any, name: str, parameters: dict[str, Any], **options: Any) -> tuple[Any, list[Any]]:
    """Return the distribution and its parameters as leaves."""
    leaves = {
        key: value
        if isinstance(value, int)
        else m.tensor(value, dtype=m.float64, requires_grad=name != "Binomial" or key != "total_count")
        for key, value in parameters.items()
    }
    d = getattr(m.distributions, name)(**leaves, **options)
    return d, [leaf for leaf in leaves.values() if isinstance(leaf, m.Tensor) and leaf.requires_grad]


def check(program: Program) -> None:
    """Compare like ``parity``, with NaN equal to NaN."""
    assert repr(run(program, rg)) == repr(run(program, torch))


def text(thing: Any) -> str:
    return repr(thing).replace("retrograd.", "torch.")


def with_gradients(m: Any, result: Any, leaves: list[Any]) -> list[Any]:
    if not isinstance(result, m.Tensor) or not result.requires_grad:
        return [result]
    finite = result.where(result.isfinite(), m.zeros((), dtype=result.dtype)).sum()
    return [result.detach(), *m.autograd.grad(finite, leaves, retain_graph=True, allow_unused=True)]


@pytest.mark.parametrize(("name", "parameters", "values"), CASES, ids=IDS)
def test_formulas_and_gradients_match_torch(name: str, parameters: dict[str, Any], values: Any) -> None:
    def compare(m: Any) -> Any:
        d, leaves = make(m, name, parameters)
        value = m.tensor(values, dtype=m.float64)

        def report(function: Callable[[], Any]) -> Any:
            return attempt(lambda: with_gradients(m, function(), leaves))

        return {
            "shapes": (d.batch_shape, d.event_shape, d.has_rsample),
            "repr": text(d) if name not in SUBCLASSES else None,
            "log_prob": report(lambda: d.log_prob(value)),
            "cdf": report(lambda: d.cdf(value)),
            "entropy": report(d.entropy),
            "moments": [report(lambda key=key: getattr(d, key)) for key in ("mean", "variance", "stddev")],
            "support": [d.support.event_dim, d.support.is_discrete, d.support.check(value)],
            "mode": attempt(lambda: d.mode) if name not in WRONG_MODES else None,
            "values": attempt(lambda: [d.enumerate_support(), d.enumerate_support(expand=False)]),
            "both": [d.probs, d.logits] if hasattr(d, "probs") else None,
        }

    check(compare)


WRONG_MODES = {"Kumaraswamy"}  # torch's mode does not maximize the density

# torch does not show these
SUBCLASSES = {
    "LogNormal",
    "HalfNormal",
    "HalfCauchy",
    "Chi2",
    "Beta",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "InverseGamma",
    "LogisticNormal",
    "Multinomial",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "Wishart",
}
QUANTILES = {
    "Normal",
    "HalfNormal",
    "HalfCauchy",
    "Laplace",
    "Cauchy",
    "Gumbel",
    "Exponential",
    "Uniform",
    "LogNormal",
    "Weibull",
    "Pareto",
    "Kumaraswamy",
    "ContinuousBernoulli",
}
WITH_QUANTILES = [case[:2] for case in CASES if case[0] in QUANTILES]


@pytest.mark.parametrize(("name", "parameters"), WITH_QUANTILES, ids=[case[0] for case in WITH_QUANTILES])
def test_quantiles_match_torch(name: str, parameters: dict[str, Any]) -> None:
    def compare(m: Any) -> Any:
        d, leaves = make(m, name, parameters)
        level = m.tensor([[0.1], [0.5], [0.9]], dtype=m.float64)
        return [with_gradients(m, d.icdf(level), leaves), d.perplexity()]

    check(compare)


SCALARS: list[tuple[str, dict[str, float], Any]] = [
    ("Normal", {"loc": 1.0, "scale": 2.0}, stats.norm(1, 2)),
    ("HalfNormal", {"scale": 2.0}, stats.halfnorm(0, 2)),
    ("Laplace", {"loc": 1.0, "scale": 2.0}, stats.laplace(1, 2)),
    ("Cauchy", {"loc": 1.0, "scale": 2.0}, stats.cauchy(1, 2)),
    ("Gumbel", {"loc": 1.0, "scale": 2.0}, stats.gumbel_r(1, 2)),
    ("Exponential", {"rate": 2.0}, stats.expon(0, 0.5)),
    ("Uniform", {"low": -1.0, "high": 2.0}, stats.uniform(-1, 3)),
    ("LogNormal", {"loc": 1.0, "scale": 0.5}, stats.lognorm(0.5, scale=np.e)),
    ("Gamma", {"concentration": 0.5, "rate": 2.0}, stats.gamma(0.5, scale=0.5)),
    ("Chi2", {"df": 3.0}, stats.chi2(3)),
    ("InverseGamma", {"concentration": 1.5, "rate": 2.0}, stats.invgamma(1.5, scale=2.0)),
    ("FisherSnedecor", {"df1": 3.0, "df2": 5.0}, stats.f(3, 5)),
    ("StudentT", {"df": 3.0, "loc": 1.0, "scale": 2.0}, stats.t(3, 1, 2)),
    ("Beta", {"concentration1": 0.5, "concentration0": 2.0}, stats.beta(0.5, 2)),
    ("HalfCauchy", {"scale": 2.0}, stats.halfcauchy(0, 2)),
    ("Weibull", {"scale": 2.0, "concentration": 1.5}, stats.weibull_min(1.5, scale=2)),
    ("Pareto", {"scale": 2.0, "alpha": 1.5}, stats.pareto(1.5, scale=2)),
    ("GeneralizedPareto", {"loc": 1.0, "scale": 2.0, "concentration": 0.4}, stats.genpareto(0.4, 1, 2)),
    ("GeneralizedPareto", {"loc": 1.0, "scale": 2.0, "concentration": -0.4}, stats.genpareto(-0.4, 1, 2)),
    ("VonMises", {"loc": 0.0, "concentration": 1e-6}, stats.vonmises(1e-6)),
    ("VonMises", {"loc": 0.5, "concentration": 2.0}, stats.vonmises(2.0, 0.5)),
    ("VonMises", {"loc": 0.5, "concentration": 5e3}, stats.vonmises(5e3, 0.5)),
    ("VonMises", {"loc": 0.5, "concentration": 4e6}, stats.norm(0.5, 5e-4)),
]


@pytest.mark.parametrize(("name", "parameters", "reference"), SCALARS, ids=[case[0] for case in SCALARS])
def test_continuous_samples_follow_their_distribution(name: str, parameters: dict[str, float], reference: Any) -> None:
    rg.manual_seed(1)
    d = getattr(rg.distributions, name)(**parameters)
    samples = d.sample((2000,))
    assert samples.shape == (2000,)
    assert samples.dtype == rg.float32
    assert not samples.requires_grad
    assert stats.kstest(samples.numpy().astype(float), reference.cdf).pvalue > 1e-4


DISCRETE: list[tuple[str, dict[str, Any], Any]] = [
    ("Bernoulli", {"probs": 0.3}, [0.7, 0.3]),
    ("Geometric", {"probs": 0.4}, stats.geom(0.4, loc=-1).pmf(np.arange(40))),
    ("Binomial", {"total_count": 3, "probs": 0.4}, stats.binom(3, 0.4).pmf(np.arange(4))),
    ("Poisson", {"rate": 1.5}, stats.poisson(1.5).pmf(np.arange(20))),
    ("NegativeBinomial", {"total_count": 2.5, "probs": 0.4}, stats.nbinom(2.5, 0.6).pmf(np.arange(40))),
    ("Categorical", {"probs": [0.1, 0.2, 0.7]}, [0.1, 0.2, 0.7]),
]


@pytest.mark.parametrize(("name", "parameters", "expected"), DISCRETE, ids=[case[0] for case in DISCRETE])
def test_discrete_samples_follow_their_distribution(name: str, parameters: dict[str, Any], expected: Any) -> None:
    rg.manual_seed(2)
    given = {key: rg.tensor(value) if isinstance(value, list) else value for key, value in parameters.items()}
    samples = getattr(rg.distributions, name)(**given).sample((3000,)).numpy().astype(int)
    observed = np.bincount(samples, minlength=len(expected))
    likely = np.asarray(expected) * 3000 >= 5
    scaled = np.asarray(expected)[likely] / np.sum(np.asarray(expected)[likely]) * observed[likely].sum()
    assert stats.chisquare(observed[likely], scaled).pvalue > 1e-4


@pytest.mark.parametrize(("name", "parameters"), [case[:2] for case in CASES], ids=IDS)
def test_sample_shapes_match_torch(name: str, parameters: dict[str, Any]) -> None:
    def compare(m: Any) -> Any:
        d, _ = make(m, name, parameters)
        shapes = [d.sample(), d.sample((4,)), d.sample(m.Size([2, 3])), d.expand((5, *d.batch_shape)).sample()]
        larger = d.expand((5, *d.batch_shape))
        log_prob = larger.log_prob(larger.sample((2,)))
        return [[s.shape for s in shapes], shapes[0].dtype, larger.batch_shape, larger.event_shape, log_prob.shape]

    check(compare)


# rejection sampling: with the same random numbers these may jump (see test_implicit_samples.py)
IMPLICIT = {"Gamma", "Chi2", "InverseGamma", "FisherSnedecor", "Beta", "Dirichlet", "StudentT", "Wishart"}
REPARAMETRISED = [
    (name, parameters)
    for name, parameters, _ in CASES
    if getattr(torch.distributions, name).has_rsample and name not in IMPLICIT
]


@pytest.mark.parametrize(("name", "parameters"), REPARAMETRISED, ids=[name for name, _ in REPARAMETRISED])
def test_gradients_of_reparametrised_samples_match_differences(name: str, parameters: dict[str, Any]) -> None:
    """The differences use samples at two parameters with the same random numbers."""
    leaves = {key: rg.tensor(value, dtype=rg.float64, requires_grad=True) for key, value in parameters.items()}
    kind = getattr(rg.distributions, name)

    def sample(values: dict[str, Any]) -> Any:
        rg.manual_seed(3)
        return kind(**values, validate_args=False).rsample((3,)).sum()

    grads = rg.autograd.grad(sample(leaves), list(leaves.values()))
    for (key, leaf), grad in zip(leaves.items(), grads, strict=True):
        step = 1e-6 * rg.ones_like(leaf)
        if key in ("covariance_matrix", "precision_matrix"):
            step = 1e-6 * rg.eye(3, dtype=rg.float64)
        if key == "scale_tril":
            step = step.tril()
        up = sample({**leaves, key: leaf.detach() + step})
        down = sample({**leaves, key: leaf.detach() - step})
        assert (up - down).item() / 2 == pytest.approx((grad * step).sum().item(), rel=1e-4, abs=1e-12)


def test_rsample_of_a_discrete_distribution_raises() -> None:
    with pytest.raises(NotImplementedError, match="use sample\\(\\) and the gradient of log_prob\\(\\)"):
        rg.distributions.Bernoulli(0.5).rsample()


# --- divergences ------------------------------------------------------------------------------------------------------

PAIRS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Normal", {"loc": B, "scale": A}, {"loc": 0.0, "scale": [3.0, 0.4]}),
    ("LogNormal", {"loc": B, "scale": A}, {"loc": 0.0, "scale": [3.0, 0.4]}),
    ("Laplace", {"loc": B, "scale": A}, {"loc": 0.0, "scale": [3.0, 0.4]}),
    ("Gumbel", {"loc": B, "scale": A}, {"loc": 0.0, "scale": [3.0, 0.4]}),
    ("Exponential", {"rate": A}, {"rate": B}),
    ("Uniform", {"low": [0.0, 0.0], "high": [1.0, 2.0]}, {"low": [-1.0, 0.5], "high": [1.0, 2.5]}),
    ("Gamma", {"concentration": A, "rate": B}, {"concentration": 2.0, "rate": [3.0, 0.4]}),
    ("Beta", {"concentration1": A, "concentration0": B}, {"concentration1": 2.0, "concentration0": [3.0, 0.4]}),
    ("Dirichlet", {"concentration": [[0.5, 1.0, 2.0]] * 2}, {"concentration": [3.0, 4.0, 5.0]}),
    ("Bernoulli", {"probs": [0.0, 0.2, 1.0]}, {"probs": [0.5, 0.7, 0.9]}),
    ("Binomial", {"total_count": 4, "probs": [0.2, 0.7]}, {"total_count": 4, "probs": [0.5, 0.6]}),
    ("Geometric", {"probs": [0.2, 0.7]}, {"probs": [0.5, 0.6]}),
    ("Poisson", {"rate": [0.5, 4.0]}, {"rate": [1.0, 2.0]}),
    ("Categorical", {"probs": SIMPLEX}, {"probs": [0.1, 0.6, 0.3]}),
    ("Categorical", {"probs": [0.1, 0.6, 0.3]}, {"probs": SIMPLEX}),
    ("OneHotCategorical", {"probs": SIMPLEX}, {"probs": [0.1, 0.6, 0.3]}),
    (
        "MultivariateNormal",
        {"loc": [0.1, 0.2, 0.3], "covariance_matrix": MATRIX},
        {"loc": [[0.0, 0.5, 0.0]] * 2, "precision_matrix": MATRIX},
    ),
]


@pytest.mark.parametrize(("name", "p", "q"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_kl_divergences_match_torch(name: str, p: dict[str, Any], q: dict[str, Any]) -> None:
    def compare(m: Any) -> Any:
        (first, leaves), (second, others) = make(m, name, p), make(m, name, q)
        return with_gradients(m, m.distributions.kl_divergence(first, second), leaves + others)

    check(compare)


@parity
def test_kl_divergence_of_independent(m: Any) -> Any:
    d = m.distributions
    p = d.Independent(d.Normal(m.zeros(4, 3), 1.0), 1)
    q = d.Independent(d.Normal(m.ones(4, 3), 2.0), 1)
    other = d.Independent(d.Normal(m.ones(4, 3), 2.0), 2)
    return [
        d.kl_divergence(p, q),
        attempt(lambda: d.kl_divergence(p, other)),
        attempt(lambda: d.kl_divergence(p, d.Normal(0.0, 1.0))),
        attempt(lambda: d.kl_divergence(d.Binomial(2, 0.5), d.Binomial(3, 0.5))),
        d.kl_divergence(d.Binomial(3, 0.5), d.Binomial(2, 0.5)),
    ]


@parity
def test_kl_divergences_of_a_mixin(m: Any) -> Any:
    """A class that is no distribution by itself, from which a library's distributions inherit beside torch's."""
    d = m.distributions

    class Counted:
        pass

    class CountedNormal(Counted, d.Normal):  # type: ignore[misc]
        pass

    class Own(d.Laplace):  # type: ignore[misc]
        pass

    d.register_kl(Own, Counted)(lambda p, q: q.loc - p.loc)
    return d.kl_divergence(Own(0.0, 1.0), CountedNormal(3.0, 1.0))


def test_user_defined_kl_divergence() -> None:
    d = rg.distributions

    class Mine(d.Normal):
        pass

    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 1.0)).item() == 0.0, (
        "the divergence of the parent class should apply"
    )
    d.register_kl(Mine, d.Normal)(lambda p, q: rg.tensor(7.0))
    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 1.0)).item() == 7.0
    with pytest.raises(TypeError, match="Normal"):
        d.register_kl(d.Normal(0.0, 1.0), d.Normal)
    with pytest.raises(NotImplementedError, match=r"type Normal and q type Categorical; add one with register_kl"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Categorical(rg.ones(2)))


# --- independent and transformed --------------------------------------------------------------------------------------


@parity
def test_independent_matches_torch(m: Any) -> Any:
    d = m.distributions
    base = d.Normal(m.zeros(4, 3), m.tensor([1.0, 2.0, 3.0]))
    one, zero = d.Independent(base, 1), d.Independent(d.Bernoulli(m.tensor([0.2, 0.4])), 0)
    return [
        (one.batch_shape, one.event_shape, one.has_rsample, one.sample((2,)).shape, one.rsample().shape),
        (text(one), one.entropy(), one.log_prob(m.ones(4, 3)), one.mean, one.variance, one.mode),
        (one.expand((5, 4)).batch_shape, one.expand((5, 4)).event_shape),
        (one.support.event_dim, one.support.check(m.ones(4, 3)), zero.enumerate_support(), zero.has_enumerate_support),
        attempt(one.enumerate_support),
        attempt(lambda: d.Independent(base, 3)),
        attempt(lambda: one.log_prob(m.ones(4, 2))),
    ]


TRANSFORMS: list[tuple[str, Callable[[Any], Any]]] = [
    ("exp", lambda t: t.ExpTransform()),
    ("sigmoid", lambda t: t.SigmoidTransform()),
    ("tanh", lambda t: t.TanhTransform()),
    ("affine", lambda t: t.AffineTransform(1.0, -2.0)),
    ("inverse", lambda t: t.ExpTransform().inv.inv),
    ("inverse affine", lambda t: t.AffineTransform(1.0, 2.0).inv),
    ("composed", lambda t: t.ComposeTransform([t.AffineTransform(0.5, 0.3), t.TanhTransform(cache_size=1)])),
]


@pytest.mark.parametrize(("name", "build"), TRANSFORMS, ids=[name for name, _ in TRANSFORMS])
def test_transforms_match_torch(name: str, build: Callable[[Any], Any]) -> None:
    def compare(m: Any) -> Any:
        t = build(m.distributions.transforms)
        x = m.tensor([-1.5, 0.2, 3.0], dtype=m.float64, requires_grad=True)
        y = t(x)
        back = t.inv(y)
        d = m.distributions.TransformedDistribution(m.distributions.Normal(m.zeros(3, dtype=m.float64), 1.5), [t])
        level = m.tensor([0.2, 0.5, 0.8], dtype=m.float64)
        return [
            with_gradients(m, t.log_abs_det_jacobian(x, y), [x]),
            with_gradients(m, t.inv.log_abs_det_jacobian(y, x), [x]),
            [y, back],
            [d.log_prob(y.detach()), d.cdf(y.detach()), d.icdf(level), d.support.check(y), d.batch_shape],
        ]

    check(compare)


@parity
def test_log_prob_of_a_squashed_policy(m: Any) -> Any:
    """Soft actor-critic needs the log-probability of the action, which the cache makes exact."""
    d = m.distributions
    mean = m.tensor([[0.0, 30.0]], dtype=m.float64, requires_grad=True)
    squashed = d.TransformedDistribution(d.Normal(mean, 1e-3), [d.TanhTransform(cache_size=1)])
    action = squashed.rsample()
    policy = d.Independent(squashed, 1, validate_args=False)
    log_prob = policy.log_prob(action)
    return [m.autograd.grad(action.sum(), mean)[0].shape, action.shape, bool(log_prob.isfinite().all())]


# --- arguments --------------------------------------------------------------------------------------------------------

MISTAKES: list[Callable[[Any], Any]] = [
    lambda m: m.distributions.Normal(0.0, -1.0),
    lambda m: m.distributions.Normal(m.zeros(2), m.tensor([1.0, -1.0])),
    lambda m: m.distributions.Normal(m.zeros(2), m.ones(3)),
    lambda m: m.distributions.Normal("a", 1.0),
    lambda m: m.distributions.Normal(float("nan"), 1.0),
    lambda m: m.distributions.Normal(0.0, 1.0).log_prob(1.0),
    lambda m: m.distributions.Normal(0.0, 1.0).log_prob(m.tensor(float("nan"))),
    lambda m: m.distributions.Normal(m.zeros(2), 1.0).log_prob(m.zeros(3)),
    lambda m: m.distributions.Normal(0.0, 1.0).expand((2,)).log_prob(0.1),
    lambda m: m.distributions.Uniform(1.0, 0.0),
    lambda m: m.distributions.Uniform(0.0, 1.0).log_prob(m.tensor(2.0)),
    lambda m: m.distributions.Exponential(1.0).log_prob(m.tensor(-1.0)),
    lambda m: m.distributions.Categorical(),
    lambda m: m.distributions.Categorical(m.ones(2), m.ones(2)),
    lambda m: m.distributions.Categorical(m.tensor(1.0)),
    lambda m: m.distributions.Categorical(m.tensor([-1.0, 2.0])),
    lambda m: m.distributions.Categorical(m.ones(3)).log_prob(m.tensor(3)),
    lambda m: m.distributions.Categorical(m.ones(3)).log_prob(m.tensor(0.5)),
    lambda m: m.distributions.OneHotCategorical(m.ones(3)).log_prob(m.tensor([1.0, 1.0, 0.0])),
    lambda m: m.distributions.Bernoulli(2.0),
    lambda m: m.distributions.Bernoulli(0.5).log_prob(m.tensor(0.5)),
    lambda m: m.distributions.Geometric(0.0),
    lambda m: m.distributions.Poisson(-1.0),
    lambda m: m.distributions.Poisson(1.0).log_prob(m.tensor(1.5)),
    lambda m: m.distributions.Beta(0.0, 1.0),
    lambda m: m.distributions.Dirichlet(m.tensor(1.0)),
    lambda m: m.distributions.Dirichlet(m.ones(2)).log_prob(m.ones(2)),
    lambda m: m.distributions.MultivariateNormal(m.zeros(2)),
    lambda m: m.distributions.MultivariateNormal(m.zeros(2), m.ones(2, 2)),
    lambda m: m.distributions.MultivariateNormal(m.zeros(2), scale_tril=m.ones(2, 2)),
    lambda m: m.distributions.MultivariateNormal(m.tensor(0.0), m.eye(1)),
    lambda m: m.distributions.MultivariateNormal(m.zeros(2), m.ones(2)),
    lambda m: m.distributions.Poisson(1.0).entropy(),
    lambda m: m.distributions.Normal(0.0, 1.0).enumerate_support(),
    lambda m: m.distributions.Normal(0.0, 1.0).sample(3),
    lambda m: m.distributions.TransformedDistribution(m.distributions.Normal(0.0, 1.0), [m.exp]),
    lambda m: m.distributions.Distribution.set_default_validate_args("yes"),
    lambda m: m.distributions.LowRankMultivariateNormal(m.tensor(0.0), m.ones(2, 1), m.ones(2)),
    lambda m: m.distributions.LowRankMultivariateNormal(m.zeros(2), m.ones(2), m.ones(2)),
    lambda m: m.distributions.LowRankMultivariateNormal(m.zeros(2), m.ones(3, 1), m.ones(2)),
    lambda m: m.distributions.LowRankMultivariateNormal(m.zeros(2), m.ones(2, 1), m.ones(3)),
    lambda m: m.distributions.LowRankMultivariateNormal(m.zeros(2), m.ones(2, 1), m.tensor(1.0)),
    lambda m: m.distributions.LowRankMultivariateNormal(m.zeros(2), m.ones(4, 2, 1), m.ones(3, 2)),
    lambda m: m.distributions.LKJCholesky(1),
    lambda m: m.distributions.LKJCholesky(3, -1.0),
    lambda m: m.distributions.LKJCholesky(3).log_prob(m.ones(3, 3)),
    lambda m: m.distributions.LKJCholesky(3).mean,
    lambda m: m.distributions.Wishart(m.tensor(1.0), m.eye(2)),
    lambda m: m.distributions.Wishart(m.tensor(4.0), m.ones(2)),
    lambda m: m.distributions.Wishart(m.tensor(4.0), m.ones(2, 2)),
    lambda m: m.distributions.Wishart(m.tensor(4.0), m.eye(2)).log_prob(m.ones(2, 2)),
    lambda m: m.distributions.Multinomial(m.tensor([3, 2]), m.ones(3)),
    lambda m: m.distributions.Multinomial(-3, m.ones(3)),
    lambda m: m.distributions.Multinomial(3),
    lambda m: m.distributions.Multinomial(3, m.ones(3)).log_prob(m.tensor([1.0, 1.0, 2.0])),
    lambda m: m.distributions.Multinomial(3, m.ones(3)).log_prob(m.tensor([-1.0, 2.0, 2.0])),
    lambda m: m.distributions.NegativeBinomial(3.0),
    lambda m: m.distributions.NegativeBinomial(-3.0, m.tensor(0.5)),
    lambda m: m.distributions.NegativeBinomial(3.0, m.tensor(1.0)),
    lambda m: m.distributions.NegativeBinomial(3.0, m.tensor(0.5)).log_prob(m.tensor(1.5)),
    lambda m: m.distributions.NegativeBinomial(3.0, m.tensor(0.5)).rsample(),
    lambda m: m.distributions.RelaxedBernoulli(m.tensor(0.5), 2.0),
    lambda m: m.distributions.RelaxedBernoulli(m.tensor(0.5)),
    lambda m: m.distributions.RelaxedBernoulli(m.tensor(0.5), 0.3).mean,
    lambda m: m.distributions.RelaxedOneHotCategorical(m.tensor(0.5), m.ones(3)).log_prob(m.ones(3)),
    lambda m: m.distributions.VonMises(m.tensor(0.0), m.tensor(-1.0)),
    lambda m: m.distributions.VonMises(m.tensor(0.0), m.tensor(1.0)).rsample(),
    lambda m: m.distributions.Weibull(1.0, 0.0),
    lambda m: m.distributions.Weibull(1.0, 1.0).log_prob(m.tensor(-1.0)),
    lambda m: m.distributions.Pareto(1.0, 0.0),
    lambda m: m.distributions.Pareto(1.0, 1.0).log_prob(m.tensor(0.5)),
    lambda m: m.distributions.GeneralizedPareto(0.0, 1.0, -0.5).log_prob(m.tensor(3.0)),
    lambda m: m.distributions.Kumaraswamy(-1.0, 1.0),
    lambda m: m.distributions.HalfCauchy(-1.0),
    lambda m: m.distributions.HalfCauchy(1.0).log_prob(m.tensor(-1.0)),
    lambda m: m.distributions.ContinuousBernoulli(),
    lambda m: m.distributions.ContinuousBernoulli(2.0, validate_args=True),
    lambda m: m.distributions.LogisticNormal(m.zeros(2), -m.ones(2)),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_invalid_distributions_raise_as_in_torch(mistake: Callable[[Any], Any]) -> None:
    expected = attempt(lambda: mistake(torch))
    assert isinstance(expected, str)
    assert attempt(lambda: mistake(rg)) == expected


def test_messages_name_the_parameter_and_the_values() -> None:
    for mistake in (
        lambda m: m.distributions.Normal(m.zeros(2), m.tensor([1.0, -1.0])),
        lambda m: m.distributions.Categorical(m.tensor([-1.0, 2.0])),
        lambda m: m.distributions.Uniform(1.0, 0.0),
        lambda m: m.distributions.Bernoulli(0.5).log_prob(m.tensor(3.0)),
        lambda m: m.distributions.Categorical(m.ones(3)).log_prob(m.tensor(3)),
        lambda m: m.distributions.MultivariateNormal(m.zeros(2), m.ones(2, 2)),
        lambda m: m.distributions.Dirichlet(m.tensor([0.0, 1.0])),
        lambda m: m.distributions.NegativeBinomial(3.0, m.tensor(1.0)),
        lambda m: m.distributions.Pareto(1.0, 1.0).log_prob(m.tensor(0.5)),
        lambda m: m.distributions.GeneralizedPareto(0.0, 1.0, -0.5).log_prob(m.tensor(3.0)),
        lambda m: m.distributions.LKJCholesky(1),
    ):
        ours = message(lambda mistake=mistake: mistake(rg))
        assert ours.replace("retrograd.", "torch.") == message(lambda mistake=mistake: mistake(torch)).replace(
            "Parameter", "Tensor"
        )


@parity
def test_validation_can_be_switched_off(m: Any) -> Any:
    d = m.distributions
    unchecked = d.Normal(0.0, 1.0, validate_args=False)
    results = [
        unchecked.log_prob(2),
        unchecked.expand((2,)).log_prob(2),
        d.Normal(0.0, -1.0, validate_args=False).scale,
    ]
    d.Distribution.set_default_validate_args(False)
    try:
        results.append(d.Exponential(1.0).log_prob(m.tensor(-1.0)))
    finally:
        d.Distribution.set_default_validate_args(True)
    return results


@parity
def test_distributions_of_numbers_and_their_dtypes(m: Any) -> Any:
    d = m.distributions
    return [
        d.Normal(0, 1).sample().dtype,
        d.Normal(m.zeros(2, dtype=m.float64), 1.0).scale,
        d.Bernoulli(0.3).probs,
        d.Categorical(m.ones(2, dtype=m.float64)).sample().dtype,
        d.OneHotCategorical(m.ones(2, dtype=m.float64)).sample().dtype,
        text(d.Normal(0.0, 1.0)),
        text(d.Categorical(logits=m.zeros(2, 3))),
        [str(c) for c in (d.constraints.real, d.constraints.positive, d.constraints.simplex, d.Normal.support)],
    ]


def test_user_defined_distribution() -> None:
    class Constant(rg.distributions.Distribution):
        arg_constraints: ClassVar = {"value": rg.distributions.constraints.real}
        support = rg.distributions.constraints.real

        def __init__(self, value: Any, validate_args: bool | None = None) -> None:
            self.value = value
            super().__init__(value.shape, (), validate_args)

        def rsample(self, sample_shape: Any = ()) -> Any:
            return self.value.expand(self._extended_shape(sample_shape))

    constant = Constant(rg.tensor([1.0, 2.0]))
    assert constant.sample((3,)).shape == (3, 2)
    assert constant.expand((4, 2)).batch_shape == (4, 2)
    with pytest.raises(NotImplementedError, match="Constant has no entropy"):
        constant.entropy()
    with pytest.raises(ValueError, match="parameter value"):
        Constant(rg.tensor(float("nan")))
