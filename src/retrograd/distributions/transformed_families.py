"""Families that are functions of normal, exponential and uniform variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.continuous import Cauchy, Exponential, Normal, Uniform
from retrograd.distributions.transformed import NamedTransform
from retrograd.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from retrograd.distributions.utils import broadcast_all, euler_constant, quotient

__all__ = ["HalfCauchy", "HalfNormal", "Kumaraswamy", "LogNormal", "LogisticNormal", "Pareto", "Weibull"]


class LogNormal(NamedTransform):
    """The distribution of ``exp(x)``, with x normal.

    Parameters
    ----------
    loc, scale
        The mean and the standard deviation of the logarithm.
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(NamedTransform):
    """The distribution of probabilities that are a broken stick of a normal vector.

    Parameters
    ----------
    loc, scale
        The mean and the standard deviation of the vector, of shape (..., k - 1); samples are k probabilities.

    Examples
    --------
    >>> d = rg.distributions.LogisticNormal(rg.zeros(3), rg.ones(3))
    >>> d.event_shape, bool((d.sample().sum() - 1).abs() < 1e-5)
    (retrograd.Size([4]), True)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        shape = (*batch_shape, self.loc.shape[-1])
        return self._filled(LogisticNormal, _instance, self.loc.expand(shape), self.scale.expand(shape))

    @property
    def loc(self) -> Any:
        """The mean of the vector."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the vector."""
        return self.base_dist.base_dist.scale


# --- absolute values --------------------------------------------------------------------------------------------------


class _Folded(NamedTransform):
    """The absolute value of a variable that is as often positive as negative: the density is twice as large."""

    arg_constraints: ClassVar = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Any:
        """The scale of the variable."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return self.scale.new_zeros(self.scale.shape)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return (self.base_dist.log_prob(value) + math.log(2)).where(value >= 0, -math.inf)

    def cdf(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """The absolute value of a normal variable of mean 0 and standard deviation ``scale``."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """The absolute value of a :class:`Cauchy` variable around 0; it has no mean.

    Examples
    --------
    >>> rg.distributions.HalfCauchy(2.0).cdf(rg.tensor(2.0))
    tensor(0.5000)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale.new_full(self.scale.shape, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


# --- functions of exponential and uniform variables -------------------------------------------------------------------


class Weibull(NamedTransform):
    """The distribution of ``scale * x ** (1 / concentration)``, with x of the exponential distribution.

    Examples
    --------
    >>> rg.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    scale: Any
    concentration: Any

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(self.scale.new_ones(self.scale.shape), validate_args=False)
        power = PowerTransform(self.concentration.reciprocal())
        super().__init__(base, [power, AffineTransform(0, self.scale)], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        # 0 up to a concentration of 1, where the density only falls
        inner = ((self.concentration - 1) / self.concentration).clamp(min=0)
        return self.scale * inner ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return self.scale**2 * ((1 + 2 * inverse).lgamma().exp() - (2 * (1 + inverse).lgamma()).exp())

    def entropy(self) -> Tensor:
        return euler_constant * (1 - self.concentration.reciprocal()) + (self.scale / self.concentration).log() + 1


class Pareto(NamedTransform):
    """The distribution of numbers from ``scale`` on with density proportional to ``x ** -(alpha + 1)``.

    Examples
    --------
    >>> rg.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {"alpha": constraints.positive, "scale": constraints.positive}
    scale: Any
    alpha: Any

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=False)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return quotient(self.alpha * self.scale, self.alpha - 1, self.alpha <= 1, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return quotient(self.scale**2 * a, (a - 1) ** 2 * (a - 2), a <= 2, math.inf)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Kumaraswamy(NamedTransform):
    """A distribution of numbers between 0 and 1, much like :class:`Beta`, with a distribution function that is simple.

    It is ``1 - (1 - x ** concentration1) ** concentration0`` (Kumaraswamy, 1980).
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Any
    concentration0: Any

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        a, b = self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(a.new_zeros(a.shape), 1.0, validate_args=False)
        steps = [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(a.reciprocal())]
        super().__init__(base, steps, validate_args)

    def _log_moment(self, n: int) -> Any:
        """The logarithm of the mean of ``x ** n``: of b times the beta function of 1 + n / a and b."""
        a, b = self.concentration1, self.concentration0
        return b.log() + (1 + n / a).lgamma() + b.lgamma() - (1 + n / a + b).lgamma()

    @property
    def mean(self) -> Tensor:
        return self._log_moment(1).exp()

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        missing = (a < 1) | (b < 1)
        return (quotient(a - 1, a * b - 1, missing, 1.0) ** a.reciprocal()).masked_fill(missing, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._log_moment(2).exp() - self.mean**2

    def entropy(self) -> Tensor:
        a, b = self.concentration1.reciprocal(), self.concentration0.reciprocal()
        harmonic = (self.concentration0 + 1).digamma() + euler_constant
        return (1 - b) + (1 - a) * harmonic + (a * b).log()
