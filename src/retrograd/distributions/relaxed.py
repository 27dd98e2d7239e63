"""Relaxations of yes and no and of categories: numbers between 0 and 1 that follow the parameters.

Maddison, Mnih and Teh, "The Concrete distribution", and Jang, Gu and Poole, "Categorical reparameterization with
Gumbel-softmax", both 2017. The lower the temperature, the nearer are samples to 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.discrete import ByOneProbability, Categorical, OverCategories
from retrograd.distributions.transformed import NamedTransform
from retrograd.distributions.transforms import ExpTransform, SigmoidTransform, Transform
from retrograd.distributions.utils import broadcast_all, clamp_probs
from retrograd.nn.functional import softplus

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


def _temperature_like(temperature: Any, parameter: Any) -> Any:
    return temperature if isinstance(temperature, Tensor) else parameter.new_tensor(temperature)


class LogitRelaxedBernoulli(ByOneProbability):
    """The logarithm of the odds of a :class:`RelaxedBernoulli` variable.

    Parameters
    ----------
    temperature
        How far from 0 and 1 that one is.
    probs, logits
        The probability of a 1, or the logarithm of its odds.
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self.temperature = _temperature_like(temperature, self._parameter)

    def _options(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = clamp_probs(self._uniform(sample_shape, self.logits))
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        distance = logits - value * self.temperature
        return self.temperature.log() + distance - 2 * softplus(distance)


class ExpRelaxedCategorical(OverCategories):
    """The logarithm of a :class:`RelaxedOneHotCategorical` variable.

    Parameters
    ----------
    temperature
        How far from 0 and 1 that one is.
    probs, logits
        The weights of the categories, of shape (..., k), or their logarithms.
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = _temperature_like(temperature, self._categorical.logits)
        super().__init__(self._categorical.batch_shape, self.param_shape[-1:], validate_args)

    def _options(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = clamp_probs(self._uniform(sample_shape, self.logits))
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        count = self._event_shape[0]
        scores = (self.logits - value * self.temperature).log_softmax(-1)
        return scores.sum(-1) + (count - 1) * self.temperature.log() + math.lgamma(count)


class _Relaxed(NamedTransform):
    """The image of one of the distributions above, with its parameters."""

    has_rsample = True
    base_dist: Any
    _base: ClassVar[Any]
    _transform: ClassVar[type[Transform]]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = self._base(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, self._transform(), validate_args)

    def _given(self) -> tuple[str, ...]:
        return self.base_dist._given()

    def _options(self) -> dict[str, Any]:
        return self.base_dist._options()

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Any:
        """The probability, or the probabilities."""
        return self.base_dist.probs

    @property
    def logits(self) -> Any:
        """The logarithm of the odds of a yes, or the logarithms of the probabilities."""
        return self.base_dist.logits

    def __repr__(self) -> str:
        shown = super().__repr__().removesuffix(")")
        return f"{shown}, temperature: {self.temperature.detach().tolist()})"


class RelaxedBernoulli(_Relaxed):
    """A number between 0 and 1 in place of a yes or no: near to one of them, and differentiable.

    Parameters
    ----------
    temperature
        The lower, the nearer.
    probs, logits
        The probability that it is near 1, or the logarithm of its odds.

    Examples
    --------
    >>> logits = rg.zeros(3, requires_grad=True)
    >>> gate = rg.distributions.RelaxedBernoulli(rg.tensor(0.5), logits=logits).rsample()
    >>> gate.sum().backward()
    >>> bool((logits.grad > 0).all())
    True
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _base = LogitRelaxedBernoulli
    _transform = SigmoidTransform


class RelaxedOneHotCategorical(_Relaxed):
    """Probabilities in place of a category: near to 1 for one, and differentiable.

    Parameters
    ----------
    temperature
        The lower, the nearer.
    probs, logits
        The weights of the categories, of shape (..., k), or their logarithms.

    Examples
    --------
    >>> logits = rg.zeros(4, requires_grad=True)
    >>> choice = rg.distributions.RelaxedOneHotCategorical(rg.tensor(0.5), logits=logits).rsample((2,))
    >>> choice.shape, choice.requires_grad
    (retrograd.Size([2, 4]), True)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    _base = ExpRelaxedCategorical
    _transform = ExpTransform
