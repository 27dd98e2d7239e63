"""Distributions of how often something happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.creation import arange
from retrograd.distributions import constraints
from retrograd.distributions.discrete import Binomial, ByCountAndProbability, Categorical, OverCategories
from retrograd.distributions.gamma import Gamma
from retrograd.distributions.utils import broadcast_all, lazy_property
from retrograd.nn.functional import logsigmoid
from retrograd.random import poisson

__all__ = ["Multinomial", "NegativeBinomial"]


class Multinomial(OverCategories):
    """How often each of k categories occurs in ``total_count`` independent draws.

    Parameters
    ----------
    total_count
        How many draws, for all distributions of a batch.
    probs
        The weights of the categories, of shape (..., k); they need not sum to one.
    logits
        Instead of that, the logarithms of the weights.

    Examples
    --------
    >>> dice = rg.distributions.Multinomial(10, rg.ones(6))
    >>> dice.sample().sum(), dice.mean
    (tensor(10.), tensor([1.6667, 1.6667, 1.6667, 1.6667, 1.6667, 1.6667]))
    """

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"inhomogeneous total_count is not supported: it must be an int, but is a {type(total_count).__name__}"
            )
        if total_count < 0:
            raise ValueError(f"total_count must not be negative, but is {total_count}")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self.param_shape[-1:], validate_args)

    def _options(self) -> dict[str, Any]:
        return {"total_count": self.total_count}

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        counts = self.probs.new_zeros(self._extended_shape(sample_shape))
        if self.total_count == 0:
            return counts
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        return counts.scatter_add(-1, drawn, counts.new_ones(drawn.shape))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        possible = logits.masked_fill((value == 0) & logits.isinf(), 0.0)  # an absent category needs none
        return ways + (possible * value).sum(-1)

    def entropy(self) -> Tensor:
        # of the sequence of draws, less what their order says: E log of the number of orders with the same counts
        n = self.total_count
        count = arange(1, n + 1, dtype=self.probs.dtype, device=self.probs.device)
        each = Binomial(n, probs=self.probs, validate_args=False)
        chances = each.log_prob(count.reshape(-1, *(1 for _ in self.probs.shape))).exp()
        orders = (count + 1).lgamma().reshape(-1, *(1 for _ in self.probs.shape))
        total = (count.new_full((), float(n)) + 1).lgamma()
        return n * self._categorical.entropy() - total + (chances * orders).sum((0, -1))


class NegativeBinomial(ByCountAndProbability):
    """The number of successes before ``total_count`` failures; ``probs`` is the probability of success.

    It is a Poisson distribution whose rate is gamma distributed, so that ``total_count`` need not be an integer.

    Parameters
    ----------
    total_count
        The number of failures.
    probs, logits
        The probability of a yes, below 1, or the logarithm of its odds.

    Examples
    --------
    >>> rg.distributions.NegativeBinomial(3.0, rg.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative,
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _rate(self) -> Gamma:
        """The distribution of the Poisson rate of the successes."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return poisson(self._rate.sample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        total = self.total_count
        ways = (total + value).lgamma() - (1 + value).lgamma() - total.lgamma()
        ways = ways.masked_fill(total + value == 0, 0.0)
        return ways + total * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
