"""The Kullback-Leibler divergence between two distributions, by their classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.distributions.continuous import Cauchy, Exponential, Gumbel, Laplace, Normal
from retrograd.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.exp_family import ExponentialFamily
from retrograd.distributions.gamma import Beta, Dirichlet, Gamma, InverseGamma
from retrograd.distributions.low_rank import LowRankMultivariateNormal
from retrograd.distributions.multivariate import Independent, MultivariateNormal
from retrograd.distributions.transformed import TransformedDistribution
from retrograd.distributions.utils import euler_constant, summed
from retrograd.linalg import solve_triangular
from retrograd.nn.functional import softplus
from retrograd.ops._rules import somewhere

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Any]
_formulas: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Decorate a function of p and q that computes the divergence, for two classes of distributions.

    A class that distributions share with others, a mixin, will do.

    Raises
    ------
    TypeError
        If one of them is not a class.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: expected a class of distributions, but got {kind!r}")

    def register(formula: Formula) -> Formula:
        _formulas[type_p, type_q] = formula
        return formula

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence of q from p: the expectation of ``log p(x) - log q(x)`` over x from p.

    Raises
    ------
    NotImplementedError
        If no formula is known for their classes, or for classes that they inherit from.

    Examples
    --------
    >>> from retrograd.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    lines = itertools.product(enumerate(type(p).__mro__), enumerate(type(q).__mro__))
    for (_, kind_p), (_, kind_q) in sorted(lines, key=lambda pair: pair[0][0] + pair[1][0]):
        if (kind_p, kind_q) in _formulas:
            return _formulas[kind_p, kind_q](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}; add one with "
        "register_kl, or average p.log_prob(x) - q.log_prob(x) over samples x of p"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Any:
    distance = (p.loc - q.loc).abs()
    ratio = p.scale / q.scale
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Any:
    # Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions", 2019
    return (((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale)).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Any:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() + euler_constant * (ratio - 1) + shift + (-shift + (1 + ratio).lgamma()).exp() - 1


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * a / p.rate
    )


@register_kl(InverseGamma, InverseGamma)
def _inverse_gamma(p: InverseGamma, q: InverseGamma) -> Any:
    return _gamma(p._inverse(), q._inverse())


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normalisers = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalisers + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Any:
    return _dirichlet(p._as_dirichlet(), q._as_dirichlet())


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    def term(probability: Any, other: Any, difference: Any) -> Any:
        return (probability * difference).masked_fill(other == 0, math.inf).masked_fill(probability == 0, 0.0)

    # the logarithm of a probability is -softplus(-logits)
    yes = term(p.probs, q.probs, softplus(-q.logits) - softplus(-p.logits))
    return yes + term(1 - p.probs, 1 - q.probs, softplus(q.logits) - softplus(p.logits))


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Any:
    if somewhere(p.total_count < q.total_count):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    return (p.total_count * _bernoulli(p, q)).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = (p.probs * (p.logits - q.logits)).masked_fill(q.probs == 0, math.inf)
    return terms.masked_fill(p.probs == 0, 0.0).sum(-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


def _check_dimensions(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL of normal distributions of {p.event_shape[0]} and {q.event_shape[0]} dimensions")


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: MultivariateNormal) -> Any:
    _check_dimensions(p, q)
    spread = (solve_triangular(q.scale_tril, p.scale_tril, upper=False) ** 2).sum((-2, -1))
    shift = solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False).squeeze(-1)
    determinants = q._half_log_det() - p._half_log_det()
    return determinants + 0.5 * (spread + (shift**2).sum(-1) - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: LowRankMultivariateNormal) -> Any:
    _check_dimensions(p, q)
    lengths = q._mean_squared_length(p) + q._squared_length(q.loc - p.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (lengths - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"KL of Independents with {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims} dimensions"
        )
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"KL of transformed distributions is implemented only for equal transforms, but these are {p!r} and {q!r}"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Any:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}; for "
            "exponential families it is implemented only within one family"
        )
    return p._divergence(q)
