"""Divergences between distributions of different families, from a few means.

``KL(p || q)`` is the mean of ``-log q(x)`` over samples x of p, less the entropy of p. For the families here,
``log q(x)`` is made of x, its square, its logarithm and its exponential, whose means under p are known.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

from retrograd.creation import as_tensor
from retrograd.distributions.continuous import Exponential, Gumbel, Laplace, Normal, Uniform
from retrograd.distributions.continuous_bernoulli import ContinuousBernoulli
from retrograd.distributions.discrete import Bernoulli, Binomial, Poisson
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.gamma import Beta, Gamma
from retrograd.distributions.kl import register_kl
from retrograd.distributions.transformed_families import Pareto
from retrograd.distributions.utils import euler_constant
from retrograd.ops._rules import everywhere
from retrograd.ops.shape import broadcast_shapes

# --- where samples lie ------------------------------------------------------------------------------------------------


@singledispatch
def _bounds(d: Any) -> tuple[Any, Any]:
    return -math.inf, math.inf


@_bounds.register(Beta)
@_bounds.register(ContinuousBernoulli)
def _(d: Any) -> tuple[Any, Any]:
    return 0.0, 1.0


@_bounds.register(Exponential)
@_bounds.register(Gamma)
def _(d: Any) -> tuple[Any, Any]:
    return 0.0, math.inf


@_bounds.register
def _(d: Pareto) -> tuple[Any, Any]:
    return d.scale, math.inf


@_bounds.register
def _(d: Uniform) -> tuple[Any, Any]:
    return d.low, d.high


# --- means under p ----------------------------------------------------------------------------------------------------


@singledispatch
def _mean_log(p: Any) -> Any:
    """The mean of ``log(x)``."""
    raise NotImplementedError(f"the mean of the logarithm of {type(p).__name__} variables")


@_mean_log.register
def _(p: Beta) -> Any:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@_mean_log.register
def _(p: Exponential) -> Any:
    return -euler_constant - p.rate.log()


@_mean_log.register
def _(p: Pareto) -> Any:
    return p.scale.log() + p.alpha.reciprocal()


@_mean_log.register
def _(p: Uniform) -> Any:
    return (p.high.xlogy(p.high) - p.low.xlogy(p.low)) / (p.high - p.low) - 1


@singledispatch
def _mean_exp(p: Any, t: Any) -> Any:
    """The mean of ``exp(-t x)``."""
    raise NotImplementedError(f"the mean of the exponential of {type(p).__name__} variables")


@_mean_exp.register
def _(p: Normal, t: Any) -> Any:
    return (-t * p.loc + (t * p.scale) ** 2 / 2).exp()


@_mean_exp.register
def _(p: Exponential, t: Any) -> Any:
    return p.rate / (p.rate + t)


@_mean_exp.register
def _(p: Gamma, t: Any) -> Any:
    return (p.rate / (p.rate + t)) ** p.concentration


@_mean_exp.register
def _(p: Uniform, t: Any) -> Any:
    return ((-t * p.low).exp() - (-t * p.high).exp()) / (t * (p.high - p.low))


# --- the mean of -log q(x) --------------------------------------------------------------------------------------------


@singledispatch
def _cross_entropy(q: Any, p: Any) -> Any:
    raise NotImplementedError(f"the mean of the logarithm of the density of {type(q).__name__}")


@_cross_entropy.register
def _(q: Normal, p: Any) -> Any:
    square = p.variance + (p.mean - q.loc) ** 2
    return square / (2 * q.variance) + q.scale.log() + 0.5 * math.log(2 * math.pi)


@_cross_entropy.register
def _(q: Exponential, p: Any) -> Any:
    return q.rate * p.mean - q.rate.log()


@_cross_entropy.register
def _(q: Gamma, p: Any) -> Any:
    a, rate = q.concentration, q.rate
    return rate * p.mean - (a - 1) * _mean_log(p) - a * rate.log() + a.lgamma()


@_cross_entropy.register
def _(q: Gumbel, p: Any) -> Any:
    rate = q.scale.reciprocal()
    return (p.mean - q.loc) * rate + (q.loc * rate).exp() * _mean_exp(p, rate) + q.scale.log()


@_cross_entropy.register
def _(q: Beta, p: Uniform) -> Any:
    a, b = q.concentration1, q.concentration0
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return log_beta - (a - 1) * _mean_log(p) - (b - 1) * _mean_log(mirrored)


@_cross_entropy.register
def _(q: ContinuousBernoulli, p: Any) -> Any:
    return q._normalizer() - q.logits * p.mean


@_cross_entropy.register
def _(q: Uniform, p: Any) -> Any:
    return (q.high - q.low).log()


@_cross_entropy.register
def _(q: Pareto, p: Any) -> Any:
    return (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()


@_cross_entropy.register
def _(q: Laplace, p: Normal) -> Any:
    # the mean of an absolute value (Leone, Nelson and Nottingham, "The folded normal distribution", 1961)
    shift = (p.loc - q.loc) / (p.scale * math.sqrt(2))
    distance = p.scale * math.sqrt(2) * ((-(shift**2)).exp() / math.sqrt(math.pi) + shift * shift.erf())
    return (2 * q.scale).log() + distance / q.scale


def _by_moments(p: Any, q: Any) -> Any:
    (p_low, p_high), (q_low, q_high) = _bounds(p), _bounds(q)
    mean = p.mean
    # whether p has samples outside of q's support
    beyond: Any = as_tensor((p_low < q_low) | (p_high > q_high), device=mean.device)
    if everywhere(beyond):
        return mean.new_full(broadcast_shapes(p.batch_shape, q.batch_shape), math.inf)
    return (_cross_entropy(q, p) - p.entropy()).masked_fill(beyond, math.inf)


_FAMILIES: dict[type[Distribution], tuple[type[Distribution], ...]] = {
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Pareto, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Pareto, Uniform),
    Exponential: (Beta, ContinuousBernoulli, Gamma, Gumbel, Normal, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Exponential, Gumbel, Normal, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Pareto, Uniform),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Uniform),
}
for _p, _others in _FAMILIES.items():
    for _q in _others:
        register_kl(_p, _q)(_by_moments)


# --- integers ---------------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Any:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _poisson_bounded(p: Poisson, q: Any) -> Any:
    return p.rate.new_full(broadcast_shapes(p.batch_shape, q.batch_shape), math.inf)
