"""The gamma distribution and those made of it. Their samples carry no gradients to the parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import wrap
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Distribution, broadcast_all
from retrograd.ops.joining import stack
from retrograd.random.generator import default_generator
from retrograd.random.sampling import module_of

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"]


def _standard_gamma(concentration: Any) -> Any:
    """A sample of the gamma distribution of rate 1 for each element; never 0."""
    array = concentration._data
    drawn = np.asarray(default_generator.on(module_of(array)).standard_gamma(array), array.dtype)
    return wrap(np.maximum(drawn, np.finfo(array.dtype).tiny))


class Gamma(Distribution):
    """The distribution with density proportional to ``x ** (concentration - 1) * exp(-rate * x)``."""

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    concentration: Any
    rate: Any

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate**2

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return _standard_gamma(self.concentration.expand(shape)) / self.rate

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a = self.concentration
        return a.xlogy(self.rate) + (a - 1).xlogy(value) - self.rate * value - a.lgamma()

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return self.concentration.igamma(self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """The distribution of the sum of ``df`` squares of standard normal variables."""

    arg_constraints: ClassVar = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)


class StudentT(Distribution):
    """Student's t distribution with ``df`` degrees of freedom, moved by ``loc`` and stretched by ``scale``."""

    arg_constraints: ClassVar = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    df: Any
    loc: Any
    scale: Any

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    @property
    def mean(self) -> Any:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        finite = self.scale**2 * self.df / (self.df - 2)
        return finite.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        normal = self.df.new_empty(shape).normal_()
        return self.loc + self.scale * normal * (self.df / (2 * _standard_gamma((self.df / 2).expand(shape)))).sqrt()

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, self.df / 2
        normaliser = (
            self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + half.lgamma() - (half + 0.5).lgamma()
        )
        return -(half + 0.5) * (y**2 / self.df).log1p() - normaliser

    def entropy(self) -> Any:
        half = self.df / 2
        log_beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        spread = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + spread + 0.5 * self.df.log() + log_beta


class Dirichlet(Distribution):
    """A distribution of probabilities: vectors of positive numbers that sum to one."""

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    concentration: Any

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0)
        # where the density grows towards all corners, the first stands for them, as in torch
        first = above.new_zeros(above.shape)
        first[..., 0] = 1
        return first.where((self.concentration < 1).all(-1, keepdim=True), above / above.sum(-1, keepdim=True))

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        parts = _standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return parts / parts.sum(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a = self.concentration
        return (a - 1).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Any:
        a, total = self.concentration, self.concentration.sum(-1)
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (a.shape[-1] - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class Beta(Distribution):
    """A distribution of numbers between 0 and 1.

    The density is proportional to ``x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1)``.
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    concentration1: Any
    concentration0: Any

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    def _as_dirichlet(self) -> Dirichlet:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._as_dirichlet().mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._as_dirichlet().sample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._as_dirichlet().log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Any:
        return self._as_dirichlet().entropy()
