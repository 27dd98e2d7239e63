"""Transforms of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions._transform import Transform
from retrograd.distributions.constraints import Constraint
from retrograd.distributions.utils import finfo, summed
from retrograd.nn.functional import logsigmoid, softplus
from retrograd.ops.shape import broadcast_shapes

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class ExpTransform(Transform):
    """``y = exp(x)``."""

    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """``y = x ** exponent``, of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        return _sign(self.exponent)

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """``y = 1 / (1 + exp(-x))``, kept a little away from 0 and 1."""

    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return _inside(x.sigmoid())

    def _inverse(self, y: Any) -> Any:
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


def _inside(y: Any) -> Any:
    limits = finfo(y)
    return y.clamp(float(limits.tiny), 1 - float(limits.eps))


class SoftplusTransform(Transform):
    """``y = log(1 + exp(x))``."""

    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return logsigmoid(x)


class TanhTransform(Transform):
    """``y = tanh(x)``."""

    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return log_of_one_minus_tanh_squared(x)


def log_of_one_minus_tanh_squared(x: Any) -> Any:
    """``log(1 - tanh(x)^2)``, exact where tanh(x) rounds to 1."""
    return 2.0 * (math.log(2.0) - x + logsigmoid(2.0 * x))


class AbsTransform(Transform):
    """``y = abs(x)``; the inverse is the positive number."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """``y = loc + scale * x``.

    Parameters
    ----------
    loc, scale
        Numbers or tensors.
    event_dim
        How many of the last dimensions are one event, whose logarithms are summed.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        return _sign(self.scale)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shape = broadcast_shapes(x.shape, getattr(self.scale, "shape", ()))
        if isinstance(self.scale, Tensor):
            each: Any = self.scale.abs().log().expand(shape)
        else:
            each = x.new_full(shape, math.log(abs(self.scale)))
        return summed(each, self._event_dim)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def _sign(factor: Any) -> Any:
    return factor.sign() if isinstance(factor, Tensor) else (factor > 0) - (factor < 0)


class CumulativeDistributionTransform(Transform):
    """The probability that a variable of a distribution is at most ``x``.

    Parameters
    ----------
    distribution
        One with ``cdf`` and ``icdf``.

    Examples
    --------
    A copula: a normal variable made exponential.

    >>> from retrograd.distributions import ComposeTransform, CumulativeDistributionTransform, Exponential, Normal
    >>> uniform = CumulativeDistributionTransform(Normal(0.0, 1.0))
    >>> ComposeTransform([uniform, CumulativeDistributionTransform(Exponential(1.0)).inv])(rg.tensor(0.0))
    tensor(0.6931)
    """

    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint | None:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
