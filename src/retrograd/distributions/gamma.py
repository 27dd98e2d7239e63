"""The gamma distribution and those made of it, whose samples follow the parameters by implicit differentiation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from retrograd.core.record import settle
from retrograd.core.tensor import Tensor, wrap
from retrograd.distributions import constraints
from retrograd.distributions._implicit import dirichlet, standard_gamma
from retrograd.distributions.distribution import Elementwise
from retrograd.distributions.exp_family import ExponentialFamily
from retrograd.distributions.utils import broadcast_all, check_tensors, quotient
from retrograd.ops.joining import stack
from retrograd.random.generator import default_generator
from retrograd.random.in_place import module_of

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]


def _draw(concentration: Any) -> Any:
    """A sample of the gamma distribution of rate 1 for each element; never 0, and without a history."""
    array = concentration._data
    if array.dtype.kind != "f":
        raise NotImplementedError(
            f"samples of the gamma distribution are not implemented for parameters of dtype {concentration.dtype}; "
            "convert them first, for example with .float()"
        )
    drawn = settle(default_generator.on(module_of(array)).standard_gamma(array)).astype(array.dtype, copy=False)
    return wrap(np.maximum(drawn, np.finfo(array.dtype).tiny))


def _standard_gamma(concentration: Any) -> Any:
    """A sample of the gamma distribution of rate 1 for each element, which follows the concentration."""
    return standard_gamma(concentration, _draw(concentration))


class _OfConcentration(Elementwise):
    """A distribution with a concentration and a rate."""

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    has_rsample = True
    concentration: Any
    rate: Any

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)


class Gamma(_OfConcentration, ExponentialFamily):
    """The distribution with density proportional to ``x ** (concentration - 1) * exp(-rate * x)``."""

    support = constraints.nonnegative

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return _standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        if isinstance(value, int | float):  # torch takes numbers here, though not elsewhere
            value = self.rate.new_tensor(float(value))
        self._validate_sample(value)
        a = self.concentration
        return a.xlogy(self.rate) + (a - 1).xlogy(value) - self.rate * value - a.lgamma()

    def cdf(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return self.concentration.igamma(self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The distribution of the sum of ``df`` squares of standard normal variables."""

    arg_constraints: ClassVar = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)


class InverseGamma(_OfConcentration):
    """The distribution of ``1 / x``, with x of the gamma distribution."""

    support = constraints.positive

    def _inverse(self) -> Gamma:
        return Gamma(self.concentration, self.rate, validate_args=False)

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return quotient(self.rate, a - 1, a <= 1, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return quotient(self.rate**2, (a - 1) ** 2 * (a - 2), a <= 2, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return 1 / self._inverse().rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return self._inverse().log_prob(1 / value) - 2 * value.log()

    def cdf(self, value: Any) -> Tensor:
        self._validate_sample(value, constraints.closed(self.support))
        return 1 - self._inverse().cdf(1 / value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class FisherSnedecor(Elementwise):
    """The distribution of the quotient of two independent :class:`Chi2` variables, each divided by its ``df``."""

    arg_constraints: ClassVar = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Any
    df2: Any

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        m = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return m / (m - 2)

    @property
    def mode(self) -> Tensor:
        return ((self.df1 - 2) / self.df1 * (self.df2 / (self.df2 + 2))).masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        n, m = self.df1, self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * m**2 * (n + m - 2) / (n * (m - 2) ** 2 * (m - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above, below = (_standard_gamma((df / 2).expand(shape)) / df for df in (self.df1, self.df2))
        return above / below

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        half, other, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        normaliser = half.lgamma() + other.lgamma() - (half + other).lgamma() - half * ratio.log()
        return (half - 1) * value.log() - (half + other) * (ratio * value).log1p() - normaliser


class StudentT(Elementwise):
    """Student's t distribution with ``df`` degrees of freedom, moved by ``loc`` and stretched by ``scale``."""

    arg_constraints: ClassVar = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    df: Any
    loc: Any
    scale: Any

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self._set(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        spread = quotient(self.scale**2 * self.df, self.df - 2, self.df <= 2, math.inf)
        return spread.masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        normal = self._room(sample_shape, self.df).normal_()
        squares = 2 * _standard_gamma((self.df / 2).expand(normal.shape))
        return self.loc + self.scale * normal * (self.df / squares).sqrt()

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, self.df / 2
        normaliser = (
            self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + half.lgamma() - (half + 0.5).lgamma()
        )
        return -(half + 0.5) * (y**2 / self.df).log1p() - normaliser

    def entropy(self) -> Tensor:
        half = self.df / 2
        log_beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        spread = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + spread + 0.5 * self.df.log() + log_beta


class Dirichlet(ExponentialFamily):
    """A distribution of probabilities: vectors of positive numbers that sum to one."""

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    concentration: Any

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        check_tensors(self, concentration=concentration)
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0)
        # where the density grows towards all corners, the first stands for them, as in torch
        first = above.new_zeros(above.shape)
        first[..., 0] = 1
        return first.where((self.concentration < 1).all(-1, keepdim=True), above / above.sum(-1, keepdim=True))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        concentration = self.concentration.expand(self._extended_shape(sample_shape))
        parts = _draw(concentration)
        return dirichlet(concentration, parts / parts.sum(-1, keepdim=True))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return (a - 1).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (a.shape[-1] - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(Elementwise, ExponentialFamily):
    """A distribution of numbers between 0 and 1.

    The density is proportional to ``x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1)``.
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Any
    concentration0: Any

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _as_dirichlet(self) -> Dirichlet:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._as_dirichlet().mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._as_dirichlet().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return self._as_dirichlet().log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._as_dirichlet().entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
