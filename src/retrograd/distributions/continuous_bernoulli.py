"""The continuous Bernoulli distribution, for data anywhere between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.discrete import ByOneProbability
from retrograd.distributions.exp_family import ExponentialFamily
from retrograd.distributions.utils import broadcast_all, finfo

__all__ = ["ContinuousBernoulli"]

# log(sinh(h) / h) = the sum of 2^(2n - 1) B_2n / (n (2n)!) h^(2n) over n = 1, 2, ..., with Bernoulli's numbers
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SERIES = [
    (2 * n, 2 ** (2 * n - 1) * number / (n * math.factorial(2 * n))) for n, number in enumerate(_BERNOULLI, start=1)
]
_NEAR = 0.4  # half the log-odds up to which the series is exact


class ContinuousBernoulli(ByOneProbability, ExponentialFamily):
    """The distribution on the unit interval with density proportional to ``probs ** x * (1 - probs) ** (1 - x)``.

    Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational autoencoders", 2019.

    Parameters
    ----------
    probs, logits
        The weight of 1 as against 0, or the logarithm of its odds.
    lims
        The ``probs`` between which, at least, a series around 1/2 is used, where the closed formulas divide 0 by 0.

    Examples
    --------
    >>> rg.distributions.ContinuousBernoulli(rg.tensor([0.5, 0.9])).mean
    tensor([0.5000, 0.6699])
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        super().__init__(probs, logits, validate_args)

    def _options(self) -> dict[str, Any]:
        return {"lims": self._lims}

    @property
    def _half(self) -> tuple[Any, Any, Any]:
        """Half the log-odds where it is near 0, and where it is not, and which is the case."""
        low, high = self._lims
        half = self.logits / 2
        near = (half.abs() < _NEAR) | ((self.probs > low) & (self.probs < high))
        return half.masked_fill(~near, 0.0), half.masked_fill(near, 1.0), near

    @property
    def mean(self) -> Tensor:
        small, large, near = self._half
        series = sum(power * factor * small ** (power - 1) for power, factor in _SERIES)
        return 0.5 + 0.5 * series.where(near, 1 / large.tanh() - 1 / large)

    @property
    def variance(self) -> Tensor:
        small, large, near = self._half
        series = sum(power * (power - 1) * factor * small ** (power - 2) for power, factor in _SERIES)
        # one over the square of sinh, without overflow
        falling = (-2 * large.abs()).exp()
        exact = 1 / large**2 - 4 * falling / (1 - falling) ** 2
        return 0.25 * series.where(near, exact)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self._uniform(sample_shape, self.logits))

    def _normalizer(self) -> Any:
        """The logarithm of the integral of ``exp(logits * x)``."""
        small, large, near = self._half
        series = sum(factor * small**power for power, factor in _SERIES)
        size = large.abs()
        exact = size + (-(-2 * size).exp()).log1p() - (2 * size).log()
        return self.logits / 2 + series.where(near, exact)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return self.logits * value - self._normalizer()

    def _falling(self) -> tuple[Any, Any, Any, Any]:
        """Log-odds near 0; others, turned negative; whether they are near; whether they were positive."""
        logits = self.logits
        near = logits.abs() < float(finfo(logits).eps) ** 0.25
        return logits.masked_fill(~near, 0.0), -logits.masked_fill(near, 1.0).abs(), near, logits > 0

    def cdf(self, value: Any) -> Tensor:
        self._validate_sample(value)
        small, falling, near, positive = self._falling()
        x = broadcast_all(value, small)[0].clamp(0.0, 1.0)
        # Bernoulli's polynomials
        series = x + small * x * (x - 1) * (1 / 2 + small * (2 * x - 1) / 12 + small**2 * x * (x - 1) / 24)
        exact = (falling * x).expm1() / falling.expm1() * (falling * (1 - x)).exp().where(positive, 1.0)
        return series.where(near, exact)

    def icdf(self, value: Any) -> Tensor:
        small, falling, near, positive = self._falling()
        u = value
        series = u + small * u * (1 - u) * (1 / 2 + small * (1 - 2 * u) / 6)
        # log(rest + part * exp(falling)), of which rounding would leave nothing where part is about 1
        part, rest = (1 - u).where(positive, u), u.where(positive, 1 - u)
        large, small_part = rest.log().logaddexp(part.log() + falling), part.clamp(max=0.5)
        place = large.where(part > 0.5, (small_part * falling.expm1()).log1p()) / falling
        return series.where(near, (1 - place).where(positive, place))

    def entropy(self) -> Tensor:
        return self._normalizer() - self.logits * self.mean

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        return ContinuousBernoulli(logits=x, lims=self._lims, validate_args=False)._normalizer()
