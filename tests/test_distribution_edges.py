"""Distributions at the edges: of the support, of shapes, of dtypes, and where a moment does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, check_both_refuse, message, parity

d = rg.distributions


# --- shapes -----------------------------------------------------------------------------------------------------------


@parity
def test_expanding_a_single_distribution_to_its_own_shape(m: Any) -> Any:
    d = m.distributions
    made = [
        d.Normal(0.5, 2.0),
        d.Exponential(2.0),
        d.Bernoulli(0.3),
        d.Bernoulli(logits=m.tensor(0.3)),
        d.HalfNormal(2.0),
        d.StudentT(3.0),
        d.Categorical(m.tensor([0.2, 0.8])),
        d.Dirichlet(m.tensor([0.5, 1.5])),
        d.MultivariateNormal(m.zeros(2), m.eye(2)),
        d.Independent(d.Normal(m.zeros(2), 1.0), 1),
    ]
    return [
        (other.batch_shape, other.event_shape, other.mean.nan_to_num(7.0)) for other in (one.expand(()) for one in made)
    ]


VECTORS = {
    "Categorical's": lambda d, m: (d.OneHotCategorical(m.ones(3)), m.ones(2, 1)),
    "Dirichlet's": lambda d, m: (d.Dirichlet(m.ones(3)), m.ones(4, 1)),
    "Multinomial's": lambda d, m: (d.Multinomial(4, m.ones(3)), m.full((2, 1), 4.0)),
    "normal": lambda d, m: (d.MultivariateNormal(m.zeros(2), m.eye(2)), m.zeros(4, 1)),
    "normal of low rank": lambda d, m: (d.LowRankMultivariateNormal(m.zeros(2), m.ones(2, 1), m.ones(2)), m.zeros(1)),
    "too short": lambda d, m: (d.MultivariateNormal(m.zeros(2), m.eye(2)), m.zeros(())),
    "Wishart's": lambda d, m: (d.Wishart(m.tensor(3.0), m.eye(2)), m.ones(4, 1, 1)),
}


@pytest.mark.parametrize("which", VECTORS)
def test_log_prob_refuses_values_without_the_event_shape(which: str) -> None:
    """A number instead of a vector would be broadcast and give the density of another value."""

    def density(m: Any) -> Any:
        distribution, value = VECTORS[which](m.distributions, m)
        return distribution.log_prob(value)

    check_both_refuse(density)


def test_error_about_the_event_shape_names_it() -> None:
    text = message(lambda: d.MultivariateNormal(rg.zeros(2), rg.eye(2)).log_prob(rg.zeros(4, 1)))
    assert text == "The right-most size of value must match event_shape: (4, 1) vs (2,)."


@parity
def test_variance_of_a_multivariate_normal_can_be_differentiated_twice_in_a_row(m: Any) -> Any:
    factor = m.tensor([[2.0, 0.0], [0.5, 1.0]], requires_grad=True)
    normal = m.distributions.MultivariateNormal(m.zeros(3, 2), scale_tril=factor)
    for _ in range(2):
        normal.variance.sum().backward()
    return [normal.variance.detach(), normal.stddev.detach(), factor.grad]


def test_mixture_with_an_empty_batch() -> None:
    mixture = d.MixtureSameFamily(d.Categorical(rg.ones(0, 3)), d.Normal(rg.zeros(0, 3), 1.0))
    assert mixture.cdf(rg.zeros(0)).shape == mixture.log_prob(rg.zeros(0)).shape == (0,)


@parity
def test_user_defined_distributions_written_for_torch_expand(m: Any) -> Any:
    d = m.distributions

    class Triangle(d.Distribution):  # type: ignore[misc]
        """A density that falls on (0, width)."""

        arg_constraints: ClassVar = {"width": d.constraints.positive}

        def __init__(self, width: Any, validate_args: bool | None = None) -> None:
            self.width = width
            self._area = width / 2
            super().__init__(width.shape, validate_args=validate_args)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Triangle, _instance)
            new.width, new._area = self.width.expand(batch_shape), self._area.expand(batch_shape)
            super(Triangle, new).__init__(batch_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

        def log_prob(self, value: Any) -> Any:
            return ((1 - value / self.width) / self._area).log()

    class Doubled(Triangle):
        def __init__(self, half: Any) -> None:
            super().__init__(2 * half)

    class Positive(d.TransformedDistribution):  # type: ignore[misc]
        def __init__(self, loc: Any) -> None:
            super().__init__(d.Normal(loc, 1.0), d.ExpTransform())

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            return super().expand(batch_shape, _instance=self._get_checked_instance(Positive, _instance))

    value = m.tensor([0.5, 1.0])
    wide: Any = Triangle(m.tensor([2.0, 3.0])).expand((3, 2))
    independent = d.Independent(Triangle(m.tensor([2.0, 3.0])), 1).expand((3,))
    positive = Positive(m.zeros(2)).expand((3, 2))
    expanded = (wide, independent, positive)
    report = [[type(each).__name__, list(each.batch_shape), each.log_prob(value)] for each in expanded]
    return [report, wide._validate_args, attempt(lambda: Doubled(m.ones(2)).expand((3, 2)))]


EXPANDED: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "Normal": lambda m, d: (m.tensor([0.0, 1.0]), m.tensor([1.0, 2.0])),
    "Gamma": lambda m, d: (m.tensor([1.0, 2.0]), m.tensor([1.0, 3.0])),
    "Chi2": lambda m, d: (m.tensor([1.0, 2.0]),),
    "StudentT": lambda m, d: (m.tensor([3.0, 4.0]),),
    "Categorical": lambda m, d: (m.tensor([[0.2, 0.8], [0.5, 0.5]]),),
    "OneHotCategorical": lambda m, d: (m.tensor([[0.2, 0.8], [0.5, 0.5]]),),
    "Multinomial": lambda m, d: (3, m.tensor([[0.2, 0.8], [0.5, 0.5]])),
    "MultivariateNormal": lambda m, d: (m.zeros(2, 2), m.eye(2)),
    "LowRankMultivariateNormal": lambda m, d: (m.zeros(2, 2), m.ones(2, 1), m.ones(2)),
    "RelaxedBernoulli": lambda m, d: (m.tensor(0.5), m.tensor([0.2, 0.6])),
    "RelaxedOneHotCategorical": lambda m, d: (m.tensor(0.5), m.tensor([[0.2, 0.8], [0.5, 0.5]])),
    "LKJCholesky": lambda m, d: (3, m.tensor([1.0, 2.0])),
    "Wishart": lambda m, d: (m.tensor([3.0, 4.0]), m.eye(2)),
    "LogNormal": lambda m, d: (m.tensor([0.0, 1.0]), m.tensor([1.0, 2.0])),
    "HalfNormal": lambda m, d: (m.tensor([1.0, 2.0]),),
    "LogisticNormal": lambda m, d: (m.zeros(2, 2), m.ones(2, 2)),
    "Pareto": lambda m, d: (m.tensor([1.0, 2.0]), m.tensor([1.0, 3.0])),
    "Independent": lambda m, d: (d.Normal(m.zeros(2, 3), 1.0), 1),
    "MixtureSameFamily": lambda m, d: (d.Categorical(m.ones(2, 3)), d.Normal(m.zeros(2, 3), 1.0)),
}


@pytest.mark.filterwarnings("ignore:Singular sample detected:UserWarning")  # torch's Wishart
@pytest.mark.parametrize("name", EXPANDED)
def test_subclasses_with_further_attributes_expand(name: str) -> None:
    """As they are written for torch: an empty distribution with what the subclass adds is filled by the base class."""

    def expanded(m: Any) -> Any:
        base = getattr(m.distributions, name)

        class Labelled(base):  # type: ignore[misc]
            def __init__(self, label: str, *args: Any) -> None:
                super().__init__(*args)
                self.label = label

            def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
                new = self._get_checked_instance(Labelled, _instance)
                new.label = self.label
                return super().expand(batch_shape, _instance=new)

        return Labelled("a", *EXPANDED[name](m, m.distributions)).expand((4, 2))

    torch.manual_seed(0)
    ours, theirs = expanded(rg), expanded(torch)
    value = theirs.sample()
    np.testing.assert_allclose(ours.log_prob(rg.tensor(value.numpy())), theirs.log_prob(value), rtol=1e-4, atol=1e-5)
    facts = [(type(d).__name__, d.label, *d.batch_shape, *d.event_shape, d._validate_args) for d in (ours, theirs)]
    assert facts[0] == facts[1]


@parity
def test_categorical_log_prob_of_values_with_another_batch_shape(m: Any) -> Any:
    categorical = m.distributions.Categorical(m.ones(3, 2), validate_args=False)
    return attempt(lambda: categorical.log_prob(m.zeros(4)))


# --- the ends of the support ------------------------------------------------------------------------------------------


@parity
def test_cdf_at_and_below_an_open_end_of_the_support(m: Any) -> Any:
    d = m.distributions
    made = [d.LogNormal(0.5, 2.0), d.Weibull(2.0, 1.5), d.InverseGamma(2.0, 1.5)]
    return [(one.cdf(m.tensor([0.0, 1.0])), attempt(lambda one=one: one.cdf(m.tensor(-1.0)))) for one in made]


@parity
def test_gradient_of_the_poisson_log_prob_at_a_count_of_zero(m: Any) -> Any:
    count = m.tensor([0.0, 0.0, 2.0], requires_grad=True)
    poisson = m.distributions.Poisson(m.tensor([0.3, 0.0, 0.5]), validate_args=False)
    return poisson.log_prob(count), m.autograd.grad(poisson.log_prob(count).sum(), count)


@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
def test_continuous_bernoulli_quantiles_stay_on_the_unit_interval(dtype: Any) -> None:
    logits = rg.tensor([-500.0, -30.0, -1.0, 0.0, 1.0, 30.0, 500.0], dtype=dtype, requires_grad=True)
    ends = d.ContinuousBernoulli(logits=logits).icdf(rg.tensor([[0.0], [1.0]], dtype=dtype))
    assert ends.tolist() == [[0.0] * 7, [1.0] * 7]
    ends.sum().backward()
    assert logits.grad.tolist() == pytest.approx([0.0] * 7, abs=1e-15)


# --- moments that do not exist ----------------------------------------------------------------------------------------

MOMENTS: list[Callable[[Any], Any]] = [
    lambda p: d.InverseGamma(p[0], p[1]).mean,
    lambda p: d.InverseGamma(p[0] + 1, p[1]).variance,
    lambda p: d.StudentT(p[0] + 1, 0.0, p[1]).variance,
    lambda p: d.Pareto(p[1], p[0]).mean,
    lambda p: d.Pareto(p[1], p[0] + 1).variance,
    lambda p: d.GeneralizedPareto(0.0, p[1], p[0]).mean,
    lambda p: d.GeneralizedPareto(0.0, p[1], p[0] - 0.5).variance,
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_infinite_moments_have_zero_gradient(moment: Callable[[Any], Any]) -> None:
    """Also at the boundary parameter, where the formula divides by 0."""
    parameters = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    found = moment(parameters)
    assert found.isposinf()
    assert rg.autograd.grad(found, parameters)[0].tolist() == [0.0, 0.0]


def test_undefined_mode_of_kumaraswamy_has_no_gradient() -> None:
    a = rg.tensor([0.5, 2.0, 2.0], requires_grad=True)
    d.Kumaraswamy(a, rg.tensor([3.0, 0.7, 3.0])).mode.nansum().backward()
    assert a.grad[:2].tolist() == [0.0, 0.0]
    assert a.grad[2].item() > 0


@parity
def test_stddev_is_finite_where_the_variance_overflows(m: Any) -> Any:
    d = m.distributions
    scale = m.tensor([1e-30, 1e30], requires_grad=True)
    made = [d.Normal(0.0, scale), d.Laplace(0.0, scale), d.Gumbel(0.0, scale), d.Uniform(0.0, scale)]
    return [(one.stddev, m.autograd.grad(one.stddev.sum(), scale)[0]) for one in made]


# --- dtypes -----------------------------------------------------------------------------------------------------------


@parity
def test_double_precision_values_of_single_precision_distributions(m: Any) -> Any:
    d = m.distributions
    zeros, value = m.zeros(2), m.tensor([0.3, -1.0], dtype=m.float64)
    return [
        d.MultivariateNormal(zeros, m.tensor([[2.0, 0.5], [0.5, 1.0]])).log_prob(value),
        d.Normal(zeros, 1.0).log_prob(value),
        d.Poisson(m.tensor(2.0)).log_prob(m.tensor(3.0, dtype=m.float64)),
        d.RelaxedBernoulli(m.tensor([0.5], dtype=m.float64), m.tensor([0.3])).log_prob(m.tensor([0.2])),
    ]


def test_double_precision_values_of_a_low_rank_normal() -> None:
    value = rg.tensor([0.3, -1.0], dtype=rg.float64)
    low = d.LowRankMultivariateNormal(rg.zeros(2), rg.tensor([[1.0], [0.5]]), rg.ones(2))
    full = d.MultivariateNormal(rg.zeros(2), low.covariance_matrix)
    assert low.log_prob(value).item() == pytest.approx(full.log_prob(value).item(), rel=1e-5)


@parity
def test_categorical_log_prob_of_booleans(m: Any) -> Any:
    d, chosen = m.distributions, m.tensor([[True, False, False], [False, False, True]])
    families = (d.OneHotCategorical, d.OneHotCategoricalStraightThrough)
    return [family(m.tensor([0.2, 0.3, 0.5])).log_prob(chosen) for family in families]


@parity
def test_log_prob_of_python_numbers(m: Any) -> Any:
    d = m.distributions
    return [d.Gamma(2.0, 1.5).log_prob(2), d.Chi2(3.0).log_prob(0.5), d.Poisson(2.0, validate_args=False).log_prob(3)]


@parity
def test_integer_parameters(m: Any) -> Any:
    d = m.distributions
    two = m.tensor([2, 3])
    return [
        d.Normal(two, 1.5).log_prob(m.tensor(1.0)),
        d.Exponential(two).mean,
        attempt(lambda: d.Gamma(two, two).sample()),
        attempt(lambda: d.Dirichlet(two).sample()),
        attempt(lambda: d.Bernoulli(two - 2, validate_args=False).logits),
        attempt(lambda: d.Laplace(two, two).sample()),
    ]


def test_errors_about_integer_parameters_show_the_conversion() -> None:
    for function in (lambda: d.Gamma(rg.tensor(2), rg.tensor(3)).sample(), lambda: d.Bernoulli(rg.tensor(1)).logits):
        assert "int64" in message(function)
        assert ".float()" in message(function)


@parity
def test_continuous_bernoulli_cdf_outside_the_unit_interval(m: Any) -> Any:
    probs = m.tensor([[0.7], [0.5], [0.01]])
    value = m.tensor([-0.2, 0.3, 1.5], requires_grad=True)
    distribution = m.distributions.ContinuousBernoulli(probs, validate_args=False)
    cdf = distribution.cdf(value)
    cdf.sum().backward()
    infinite = m.tensor([-float("inf"), float("inf")])
    return [cdf, value.grad, distribution.cdf(infinite)]


def test_functions_are_not_accepted_as_transforms() -> None:
    for transforms in (lambda x: x, [lambda x: x], d.ExpTransform):
        with pytest.raises(ValueError, match="transforms must be a Transform or a list of Transforms, but was"):
            d.TransformedDistribution(d.Normal(0.0, 1.0), transforms)
