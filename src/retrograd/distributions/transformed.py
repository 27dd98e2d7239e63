"""Distributions of functions of a random variable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.multivariate import Independent
from retrograd.distributions.transforms import ComposeTransform, Transform
from retrograd.distributions.utils import summed

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of a function of samples.

    Parameters
    ----------
    base_distribution
        The distribution of the samples. If the transforms take larger events, dimensions of its batch become
        dimensions of the event.
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
        self.transforms = list(transforms) if isinstance(transforms, Iterable) else [transforms]
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        shape, event_dim = base_distribution.batch_shape + base_distribution.event_shape, whole.domain.event_dim
        if len(shape) < event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {event_dim}, but got {tuple(shape)}."
            )
        image = whole.forward_shape(shape)
        needed = whole.inverse_shape(image)
        own = len(base_distribution.event_shape)
        if tuple(needed) != tuple(shape):  # parameters of the transforms make the batch larger
            base_distribution = base_distribution.expand(needed[: len(needed) - own])
        if event_dim > own:
            base_distribution = Independent(base_distribution, event_dim - own)
        self.base_dist = base_distribution
        cut = len(image) - (whole.codomain.event_dim + max(own - event_dim, 0))
        super().__init__(image[:cut], image[cut:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        whole = ComposeTransform(self.transforms)
        shape = whole.inverse_shape((*batch_shape, *self.event_shape))
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        made = object.__new__(TransformedDistribution) if _instance is None else _instance
        TransformedDistribution.__init__(made, base, self.transforms, validate_args=False)
        return made._checked_as(self)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        ndims = len(self._event_shape) - codomain.event_dim
        return constraints.independent(codomain, ndims) if ndims > 0 else codomain

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._image(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._image(self.base_dist.rsample(sample_shape))

    def _image(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        event_dim, correction = len(self._event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform._invert(value)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, value)
            correction = correction - summed(slope, event_dim - transform.domain.event_dim)
            value = x
        return summed(self.base_dist.log_prob(value), event_dim - len(self.base_dist.event_shape)) + correction

    def cdf(self, value: Any) -> Tensor:
        self._validate_sample(value, constraints.closed(self.support))
        whole = ComposeTransform(self.transforms)
        below = self.base_dist.cdf(whole._invert(value))
        return (1 - whole.sign) / 2 + whole.sign * below

    def icdf(self, value: Any) -> Tensor:
        whole = ComposeTransform(self.transforms)
        return self._image(self.base_dist.icdf((1 - whole.sign) / 2 + whole.sign * value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms!r})"


class NamedTransform(TransformedDistribution):
    """One with parameters of its own, which are attributes."""

    def _given(self) -> tuple[str, ...]:
        return tuple(self.arg_constraints)

    expand = Distribution.expand  # made anew from its parameters
    __repr__ = Distribution.__repr__
