"""Mixtures: one of several distributions, chosen at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.discrete import Categorical
from retrograd.distributions.distribution import Distribution
from retrograd.ops.activations import log_softmax
from retrograd.ops.reductions import logsumexp

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture whose components are of one family; they lie along the last dimension of the batch shape.

    Parameters
    ----------
    mixture_distribution
        Which component, of batch shape (...).
    component_distribution
        The components, of batch shape (..., k).

    Examples
    --------
    >>> d = rg.distributions
    >>> weights, means = rg.tensor([0.25, 0.75]), rg.tensor([0.0, 4.0])
    >>> mixture = d.MixtureSameFamily(d.Categorical(weights), d.Normal(means, 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(3.), tensor(4.))
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        for name, given, wanted in (
            ("mixture_distribution", mixture_distribution, Categorical),
            ("component_distribution", component_distribution, Distribution),
        ):
            if not isinstance(given, wanted):
                raise ValueError(f"{name} must be a {wanted.__name__}, but is a {type(given).__name__}")
        mixed, parts = mixture_distribution.batch_shape, component_distribution.batch_shape
        count = mixture_distribution.logits.shape[-1]
        if parts[-1:] != (count,):
            raise ValueError(
                f"there are {count} weights, which must match the number of components, the last dimension of the "
                f"batch shape {tuple(parts)}"
            )
        if any(a != b and 1 not in (a, b) for a, b in zip(reversed(mixed), reversed(parts[:-1]), strict=False)):
            raise ValueError(
                f"mixture_distribution.batch_shape {tuple(mixed)} does not match the batch shape {tuple(parts)} of the "
                "components without its last dimension"
            )
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        super().__init__(parts[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        mixed = self.mixture_distribution.expand(batch_shape)
        parts = self.component_distribution.expand((*batch_shape, self.component_distribution.batch_shape[-1]))
        return self._filled(MixtureSameFamily, _instance, mixed, parts)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    @property
    def _components(self) -> int:
        """The dimension of the components, from the end."""
        return -1 - len(self.event_shape)

    def _mean_of(self, values: Any) -> Any:
        """The mean over the components, with their weights."""
        weights = self.mixture_distribution.probs
        weights = weights.reshape(*weights.shape, *(1 for _ in self.event_shape))
        return (weights * values).sum(self._components)

    @property
    def mean(self) -> Tensor:
        return self._mean_of(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        parts = self.component_distribution
        return self._mean_of(parts.variance + (parts.mean - self.mean.unsqueeze(self._components)) ** 2)

    def cdf(self, x: Any) -> Tensor:
        self._validate_sample(x)
        return self._mean_of(self.component_distribution.cdf(x.unsqueeze(self._components)))

    def log_prob(self, x: Any) -> Tensor:
        self._validate_sample(x)
        each = self.component_distribution.log_prob(x.unsqueeze(self._components))
        return logsumexp(each + log_softmax(self.mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            samples = self.component_distribution.sample(sample_shape)
            chosen = self.mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            chosen = chosen.reshape(*chosen.shape, 1, *(1 for _ in self.event_shape))
            chosen = chosen.expand(*chosen.shape[: self._components], 1, *self.event_shape)
            return samples.gather(samples.ndim + self._components, chosen).squeeze(self._components)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
