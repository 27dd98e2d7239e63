"""The generalized Pareto distribution: what lies above a high threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Elementwise
from retrograd.distributions.utils import quotient

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Elementwise):
    """The distribution with ``P(X > loc + scale * z) = (1 + concentration * z) ** (-1 / concentration)``.

    It is that of the excess over a high threshold (Pickands, 1975). With concentration 0 it is exponential; with a
    negative one it ends at ``loc - scale / concentration``.

    Parameters
    ----------
    loc
        Where it begins.
    scale
        How wide it is.
    concentration
        How heavy its tail is.

    Examples
    --------
    >>> tail = rg.distributions.GeneralizedPareto(0.0, 1.0, rg.tensor([0.0, 0.5]))
    >>> tail.cdf(rg.tensor(2.0))
    tensor([0.8647, 0.7500])
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    loc: Any
    scale: Any
    concentration: Any

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        negative = self.concentration < 0
        length = quotient(-self.scale, self.concentration, ~negative, math.inf)
        return constraints.interval(self.loc, self.loc + length)

    @property
    def mean(self) -> Tensor:
        xi = self.concentration
        return self.loc + quotient(self.scale, 1 - xi, xi >= 1, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        xi = self.concentration
        return quotient(self.scale**2, (1 - xi) ** 2 * (1 - 2 * xi), xi >= 0.5, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self._uniform(sample_shape, self.loc))

    def log_survival_function(self, value: Any) -> Any:
        """Return the logarithm of the probability of samples above a value."""
        z = (value - self.loc) / self.scale
        xi = self.concentration
        # the exponent log(1 + xi z) / xi, by its series where xi z is small
        product = xi * z
        small = product.abs() < 1e-3
        near = product.masked_fill(~small, 0.0)
        series = z * (1 - near * (1 / 2 - near * (1 / 3 - near * (1 / 4 - near * (1 / 5 - near / 6)))))
        exact = product.masked_fill(small, 1.0).log1p() / xi.where(~small, 1.0)
        return -series.where(small, exact)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return (1 + self.concentration) * self.log_survival_function(value) - self.scale.log()

    def cdf(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return -self.log_survival_function(value).expm1()

    def log_cdf(self, value: Any) -> Any:
        """Return the logarithm of the probability of samples up to a value."""
        return self.cdf(value).log()

    def icdf(self, value: Any) -> Tensor:
        time = -(-value).log1p()  # of the exponential distribution
        xi = self.concentration
        product = xi * time
        small = product.abs() < 1e-3
        near = product.masked_fill(~small, 0.0)
        series = time * (1 + near * (1 / 2 + near * (1 / 6 + near * (1 / 24 + near * (1 / 120 + near / 720)))))
        exact = product.masked_fill(small, 1.0).expm1() / xi.where(~small, 1.0)
        return self.loc + self.scale * series.where(small, exact)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
