"""Distributions of functions of a random variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.autograd.grad_mode import no_grad
from retrograd.distributions import constraints
from retrograd.distributions.continuous import Normal
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.multivariate import summed
from retrograd.distributions.transforms import ComposeTransform, ExpTransform, Transform

__all__ = ["LogNormal", "TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of a function of samples.

    Parameters
    ----------
    base_distribution
        The distribution of the samples.
    transforms
        The function, or several, the first one first.

    Examples
    --------
    >>> from retrograd.distributions import Normal, TanhTransform, TransformedDistribution
    >>> action = TransformedDistribution(Normal(rg.zeros(2), 1.0), [TanhTransform(cache_size=1)])
    >>> bool((action.rsample().abs() < 1).all())
    True
    """

    def __init__(
        self,
        base_distribution: Any,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        self.base_dist = base_distribution
        super().__init__(base_distribution.batch_shape, base_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int]) -> Any:
        base = self.base_dist.expand(batch_shape)
        return TransformedDistribution(base, self.transforms, validate_args=False)._checked_as(self)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        codomain, ndims = self.transforms[-1].codomain, len(self._event_shape)
        return constraints.independent(codomain, ndims) if ndims else codomain

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            return self._image(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._image(self.base_dist.rsample(sample_shape))

    def _image(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        ndims, correction = len(self._event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform._invert(value)
            correction = correction - summed(transform.log_abs_det_jacobian(x, value), ndims)
            value = x
        return self.base_dist.log_prob(value) + correction

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        whole = ComposeTransform(self.transforms)
        below = self.base_dist.cdf(whole._invert(value))
        return (1 - whole.sign) / 2 + whole.sign * below

    def icdf(self, value: Any) -> Any:
        whole = ComposeTransform(self.transforms)
        return self._image(self.base_dist.icdf((1 - whole.sign) / 2 + whole.sign * value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms!r})"


class LogNormal(TransformedDistribution):
    """The distribution of ``exp(x)``, with x normal."""

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args)

    def expand(self, batch_shape: Sequence[int]) -> LogNormal:
        base = self.base_dist.expand(batch_shape)
        return LogNormal(base.loc, base.scale, validate_args=False)._checked_as(self)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Any:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc

    def __repr__(self) -> str:
        return repr(self.base_dist).replace("Normal", "LogNormal", 1)
