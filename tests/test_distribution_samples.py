"""Samples and formulas of distributions that cannot be compared with torch number by number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import retrograd as rg
from tests.distributions import counts_follow, follows
from tests.parity import run

d = rg.distributions
MATRIX = rg.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=rg.float64)


def near_means(samples: Any, mean: Any, variance: Any) -> bool:
    """Check that the means over the first dimension are within five standard errors."""
    array = samples.detach().numpy()
    error = np.sqrt(variance.detach().numpy() / len(array))
    return bool((np.abs(array.mean(0) - mean.detach().numpy()) <= 5 * error + 1e-12).all())


def test_sample_n_is_deprecated() -> None:
    with pytest.warns(FutureWarning, match="sample_n"):
        assert d.Normal(0.0, 1.0).sample_n(3).shape == (3,)


# --- values cached by sample() and used with gradients later ----------------------------------------------------------


@pytest.mark.parametrize("name", ["Categorical", "OneHotCategorical", "Bernoulli", "Geometric"])
def test_sampling_first_does_not_change_gradients(name: str) -> None:
    """Policy gradients sample an action first and then take its probability and the entropy."""

    def gradient(sample_first: bool) -> list[float]:
        logits = rg.tensor([0.3, 1.0, -2.0], requires_grad=True)
        policy = getattr(d, name)(logits=logits)
        if sample_first:
            policy.sample()
        policy.entropy().sum().backward()
        return logits.grad.tolist()

    assert gradient(True) == pytest.approx(gradient(False))


def test_sampling_first_does_not_change_gradients_of_a_covariance() -> None:
    covariance = MATRIX.clone().requires_grad_()
    normal = d.MultivariateNormal(rg.zeros(2, dtype=rg.float64), covariance)
    normal.sample()
    normal.log_prob(rg.ones(2, dtype=rg.float64)).backward()
    assert covariance.grad is not None


# --- vectors and matrices ---------------------------------------------------------------------------------------------


def test_low_rank_normal_samples_have_the_given_covariance() -> None:
    rg.manual_seed(0)
    normal = d.LowRankMultivariateNormal(
        rg.tensor([1.0, -1.0, 0.0]), rg.tensor([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]]), rg.tensor([0.5, 1.0, 2.0])
    )
    samples = normal.sample((20000,))
    assert near_means(samples, normal.mean, normal.variance)
    assert np.abs(np.cov(samples.numpy().T) - normal.covariance_matrix.numpy()).max() < 0.15
    with pytest.raises(ValueError, match="Expected parameter cov_diag"):
        d.LowRankMultivariateNormal(rg.zeros(2), rg.ones(2, 1), -rg.ones(2))
    quantiles = (samples - normal.mean).unsqueeze(-2) @ normal.precision_matrix @ (samples - normal.mean).unsqueeze(-1)
    assert follows(quantiles, stats.chi2(3))


def test_low_rank_normal_has_the_matrices_of_the_full_one() -> None:
    def report(m: Any) -> Any:
        factor = m.tensor([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]], dtype=m.float64)
        normal = m.distributions.LowRankMultivariateNormal(
            m.zeros(3, dtype=m.float64), factor, m.ones(3, dtype=m.float64)
        )
        return normal.covariance_matrix, normal.precision_matrix, normal.scale_tril

    assert run(report, rg) == run(report, torch)
    covariance, precision, triangle = report(rg)
    assert (covariance @ precision).numpy() == pytest.approx(np.eye(3))
    assert (triangle @ triangle.mT).numpy() == pytest.approx(covariance.numpy())


def test_wishart_samples_have_the_expected_moments() -> None:
    rg.manual_seed(1)
    wishart = d.Wishart(rg.tensor([3.5, 9.0], dtype=rg.float64), MATRIX)
    samples = wishart.sample((8000,))
    assert samples.shape == (8000, 2, 2, 2)
    assert near_means(samples, wishart.mean, wishart.variance)
    # the first diagonal element, over its scale, is a chi-squared variable
    assert follows(samples[:, 0, 0, 0] / 2.0, stats.chi2(3.5))
    entropy = -wishart.log_prob(samples)
    assert near_means(entropy, wishart.entropy(), entropy.var(0))


def test_gradients_of_wishart_samples_have_the_right_mean() -> None:
    rg.manual_seed(2)
    df = rg.tensor(4.0, dtype=rg.float64, requires_grad=True)
    scale = rg.linalg.cholesky(MATRIX).requires_grad_()
    samples = d.Wishart(df, scale_tril=scale).rsample((20000,))
    found = rg.autograd.grad(samples.mean(0).diagonal().sum(), [df, scale])  # of the mean: df times the trace
    assert found[0].item() == pytest.approx(3.0, rel=0.03)
    assert found[1].numpy() == pytest.approx((8 * scale).detach().numpy(), rel=0.1, abs=0.15)


def test_wishart_with_few_degrees_of_freedom_warns() -> None:
    with pytest.warns(UserWarning, match="Low df values detected"):
        low = d.Wishart(rg.tensor(1.5), rg.eye(2))
    assert low.mode.isnan().all()
    by_triangle = d.Wishart(rg.tensor(4.0, dtype=rg.float64), scale_tril=rg.linalg.cholesky(MATRIX))
    by_matrix = d.Wishart(rg.tensor(4.0, dtype=rg.float64), MATRIX)
    assert by_triangle.log_prob(MATRIX).item() == pytest.approx(by_matrix.log_prob(MATRIX).item())
    assert by_triangle.log_prob(MATRIX).item() == pytest.approx(stats.wishart(4, MATRIX.numpy()).logpdf(MATRIX.numpy()))


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_lkj_cholesky_samples_have_beta_distributed_correlations(dim: int) -> None:
    """Each correlation, scaled to the unit interval, is a beta variable (Lewandowski, Kurowicka, Joe, 2009)."""
    rg.manual_seed(3)
    lkj = d.LKJCholesky(dim, rg.tensor([0.7, 2.5]))
    samples = lkj.sample((4000,))
    assert samples.shape == (4000, 2, dim, dim)
    assert bool(d.constraints.corr_cholesky.check(samples).all())
    correlations = (samples @ samples.mT).numpy()
    for column, concentration in enumerate((0.7, 2.5)):
        shape = concentration + (dim - 2) / 2
        for row in range(1, dim):
            assert follows((correlations[:, column, row, row - 1] + 1) / 2, stats.beta(shape, shape))


def test_lkj_cholesky_log_prob() -> None:
    def report(m: Any) -> Any:
        concentration = m.tensor([[0.5], [1.0], [4.0]], dtype=m.float64, requires_grad=True)
        triangle = m.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.8, 0.6]], dtype=m.float64)
        lkj = m.distributions.LKJCholesky(3, concentration)
        density = lkj.log_prob(triangle)
        wide = lkj.expand((2, 3, 1))
        shapes = wide.batch_shape, wide.event_shape, wide.sample((4,)).shape, lkj.support.event_dim, wide.dim
        return density, m.autograd.grad(density.sum(), concentration)[0], shapes, lkj.has_rsample

    assert run(report, rg) == run(report, torch)


def test_multinomial_samples_count_categories() -> None:
    rg.manual_seed(4)
    probs = rg.tensor([[0.2, 0.5, 0.3], [0.6, 0.0, 0.4]])
    samples = d.Multinomial(5, probs).sample((3000,))
    assert samples.shape == (3000, 2, 3)
    assert bool((samples.sum(-1) == 5).all())
    assert bool((samples[:, 1, 1] == 0).all())
    for row, column in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        assert counts_follow(samples[:, row, column], stats.binom(5, probs[row, column].item()).pmf(np.arange(6)))
    assert d.Multinomial(0, probs).sample((2,)).tolist() == rg.zeros(2, 2, 3).tolist()


# --- relaxations ------------------------------------------------------------------------------------------------------


def test_relaxed_bernoulli_samples_follow_their_density() -> None:
    rg.manual_seed(5)
    relaxed = d.RelaxedBernoulli(rg.tensor(0.7, dtype=rg.float64), probs=rg.tensor(0.3, dtype=rg.float64))

    def cdf(points: Any) -> Any:
        grid = np.linspace(1e-7, 1 - 1e-7, 200001)
        density = relaxed.log_prob(rg.tensor(grid)).exp().numpy()
        return np.interp(points, grid, integrate.cumulative_simpson(density, x=grid, initial=0))

    samples = relaxed.sample((3000,)).numpy()
    assert stats.kstest(samples, cdf).pvalue > 1e-4
    assert (samples > 0.5).mean() == pytest.approx(0.3, abs=0.05)


def test_relaxed_one_hot_categorical_samples() -> None:
    rg.manual_seed(6)
    probs = rg.tensor([0.1, 0.6, 0.3])
    relaxed = d.RelaxedOneHotCategorical(rg.tensor(0.5), probs=probs)
    samples = relaxed.sample((4000,))
    assert bool(relaxed.support.check(samples).all())
    assert counts_follow(samples.argmax(-1), [0.1, 0.6, 0.3])
    two = d.RelaxedOneHotCategorical(rg.tensor(0.7), probs=rg.tensor([0.3, 0.7])).log_prob(rg.tensor([0.2, 0.8]))
    one = d.RelaxedBernoulli(rg.tensor(0.7), probs=rg.tensor(0.3)).log_prob(rg.tensor(0.2))
    assert two.item() == pytest.approx(one.item(), rel=1e-5)


def test_temperature_of_relaxed_distributions() -> None:
    def report(m: Any) -> Any:
        temperature = m.tensor(0.7, requires_grad=True)
        relaxed = m.distributions.RelaxedBernoulli(temperature, probs=m.tensor([0.3, 0.4]))
        (grad,) = m.autograd.grad(relaxed.log_prob(m.tensor([0.2, 0.9])).sum(), temperature)
        wide = relaxed.expand((3, 2))
        categories = m.distributions.RelaxedOneHotCategorical(temperature, probs=m.tensor([0.3, 0.4, 0.3]))
        more = categories.expand((2,))
        return grad, wide.temperature, wide.probs, more.temperature, more.probs, more.batch_shape, more.event_shape

    assert run(report, rg) == run(report, torch)
    assert repr(d.RelaxedBernoulli(0.5, rg.tensor(0.25))) == "RelaxedBernoulli(probs: 0.25, temperature: 0.5)"


def test_straight_through_gradients_are_those_of_the_probabilities() -> None:
    logits = rg.tensor([0.3, 1.0, -2.0], requires_grad=True)
    weights = rg.tensor([1.0, 2.0, 3.0])
    sample = d.OneHotCategoricalStraightThrough(logits=logits).rsample((4,))
    assert sorted(set(sample.detach().round(decimals=5).flatten().tolist())) == [0.0, 1.0]
    (found,) = rg.autograd.grad((sample * weights).sum(), logits)
    (expected,) = rg.autograd.grad(4 * (logits.softmax(-1) * weights).sum(), logits)
    assert found.tolist() == pytest.approx(expected.tolist())


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concentration", [-0.4, 0.0, 1e-9, 0.3, 0.7])
def test_generalized_pareto_equals_scipy(concentration: float) -> None:
    reference = stats.genpareto(concentration, 1, 2)
    xi = rg.tensor(concentration, dtype=rg.float64, requires_grad=True)
    tail = d.GeneralizedPareto(rg.tensor(1.0, dtype=rg.float64), 2.0, xi)
    value = rg.tensor([1.0, 1.001, 2.5, 5.0], dtype=rg.float64)
    level = np.array([0.0, 0.1, 0.5, 0.99])
    for found, expected in (
        (tail.log_prob(value), reference.logpdf(value.numpy())),
        (tail.cdf(value), reference.cdf(value.numpy())),
        (tail.log_survival_function(value), reference.logsf(value.numpy())),
        (tail.log_cdf(value[1:]), reference.logcdf(value[1:].numpy())),
        (tail.icdf(rg.tensor(level)), reference.ppf(level)),
        (tail.mean, reference.mean()),
        (tail.variance, reference.var() if concentration < 0.5 else np.inf),
        (tail.entropy(), reference.entropy()),
    ):
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-8)
    assert tail.mode.item() == 1.0
    # the derivative with respect to the concentration is that of the formula nearby
    step = 1e-5
    for function in (tail.log_prob, lambda value: tail.icdf(rg.tensor(level))):
        (found,) = rg.autograd.grad(function(value).sum(), xi)
        other = [d.GeneralizedPareto(1.0, 2.0, rg.tensor(concentration + s, dtype=rg.float64)) for s in (step, -step)]
        if function == tail.log_prob:
            up, down = (one.log_prob(value).sum().item() for one in other)
        else:
            up, down = (one.icdf(rg.tensor(level)).sum().item() for one in other)
        assert found.item() == pytest.approx((up - down) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("logit", [-300.0, -40.0, -3.0, -0.9, -0.7, -1e-3, -1e-7, 0.0, 1e-5, 0.79, 0.81, 5.0, 300.0])
def test_continuous_bernoulli_equals_integrals_of_its_density(logit: float) -> None:
    """The same holds on both sides of 1/2 and close to it."""
    eta = rg.tensor(logit, dtype=rg.float64, requires_grad=True)
    cb = d.ContinuousBernoulli(logits=eta)
    x = np.concatenate([np.linspace(0, 1, 2001), np.geomspace(1e-6, 1, 2001), 1 - np.geomspace(1e-6, 1, 2001)])
    x = np.unique(x)
    weight = np.exp(logit * x - max(logit, 0))
    total = integrate.simpson(weight, x=x)
    mean = integrate.simpson(weight * x, x=x) / total
    variance = integrate.simpson(weight * (x - mean) ** 2, x=x) / total
    below = integrate.cumulative_simpson(weight, x=x, initial=0) / total
    np.testing.assert_allclose(cb.mean.item(), mean, rtol=1e-6)
    np.testing.assert_allclose(cb.variance.item(), variance, rtol=1e-5)
    np.testing.assert_allclose(cb.cdf(rg.tensor(x)).detach().numpy(), below, atol=1e-6)
    np.testing.assert_allclose(
        cb.log_prob(rg.tensor(0.3, dtype=rg.float64)).item(),
        logit * 0.3 - max(logit, 0) - np.log(total),
        rtol=1e-6,
        atol=1e-9,
    )
    level = rg.tensor([0.01, 0.3, 0.9], dtype=rg.float64)
    np.testing.assert_allclose(cb.cdf(cb.icdf(level)).detach().numpy(), level.numpy(), rtol=1e-7)
    # the variance is the derivative of the mean, and the density that of the distribution function
    np.testing.assert_allclose(rg.autograd.grad(cb.mean, eta)[0].item(), variance, rtol=1e-5)
    if abs(logit) > 100:  # where the density is almost 0
        return
    point = rg.tensor(0.3, dtype=rg.float64, requires_grad=True)
    slope = rg.autograd.grad(cb.cdf(point), point)[0]
    np.testing.assert_allclose(slope.item(), cb.log_prob(point).exp().item(), rtol=1e-7)


@pytest.mark.parametrize("probs", [0.02, 0.4999, 0.5, 0.8])
def test_continuous_bernoulli_samples(probs: float) -> None:
    rg.manual_seed(7)
    cb = d.ContinuousBernoulli(probs)
    assert follows(cb.cdf(cb.sample((3000,))), stats.uniform())


@pytest.mark.parametrize(("a", "b"), [(1.5, 2.5), (4.0, 1.5), (2.0, 2.0)])
def test_kumaraswamy_mode_maximizes_the_density(a: float, b: float) -> None:
    kumaraswamy = d.Kumaraswamy(rg.tensor(a), rg.tensor(b))
    grid = rg.linspace(0.001, 0.999, 999)
    assert kumaraswamy.mode.item() == pytest.approx(grid[kumaraswamy.log_prob(grid).argmax()].item(), abs=1e-3)


def test_kumaraswamy_samples() -> None:
    rg.manual_seed(8)
    samples = d.Kumaraswamy(1.5, 2.5).sample((3000,))
    assert follows(1 - (1 - samples**1.5) ** 2.5, stats.uniform())


def test_weibull_mode_is_zero_if_the_density_only_falls() -> None:
    assert d.Weibull(2.0, rg.tensor([0.5, 1.0, 2.0])).mode.tolist() == pytest.approx([0.0, 0.0, math.sqrt(2)])


def test_pareto_with_infinite_moments() -> None:
    heavy = d.Pareto(2.0, rg.tensor([0.5, 1.0, 1.5, 2.0]))
    assert heavy.mean.isinf().tolist() == [True, True, False, False]
    assert heavy.variance.isinf().tolist() == [True] * 4


def test_von_mises_samples_lie_on_the_circle() -> None:
    rg.manual_seed(9)
    samples = d.VonMises(rg.tensor([3.0, -3.0, 100.0]), 0.5).sample((1000,))
    assert samples.abs().max().item() <= math.pi + 1e-6
    assert samples.dtype == rg.float32
    many = d.VonMises(rg.tensor(0.0, dtype=rg.float64), rg.tensor([0.1, 3.0, 80.0], dtype=rg.float64))
    turned = 1 - many.sample((8000,)).cos()
    assert near_means(turned, many.variance, turned.var(0))


def test_logistic_normal_samples() -> None:
    rg.manual_seed(10)
    loc = rg.tensor([0.5, -1.0], requires_grad=True)
    logistic = d.LogisticNormal(loc, rg.tensor([0.5, 2.0]))
    samples = logistic.rsample((2000,))
    assert bool(logistic.support.check(samples).all())
    back = logistic.transforms[0].inv(samples.detach())
    assert follows(back[:, 0], stats.norm(0.5, 0.5))
    assert follows(back[:, 1], stats.norm(-1.0, 2.0))
    assert rg.autograd.grad(samples[:, 0].sum(), loc)[0][0].item() > 0
    assert d.LogisticNormal(0.0, 1.0).event_shape == torch.distributions.LogisticNormal(0.0, 1.0).event_shape
