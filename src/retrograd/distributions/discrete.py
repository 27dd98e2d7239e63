"""Distributions of integers, of categories and of yes and no."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.size import Size
from retrograd.core.tensor import Tensor
from retrograd.creation import arange, eye
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Distribution, Elementwise
from retrograd.distributions.exp_family import ExponentialFamily
from retrograd.distributions.utils import (
    broadcast_all,
    check_tensors,
    finfo,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from retrograd.nn.functional import binary_cross_entropy_with_logits, logsigmoid, one_hot, softplus
from retrograd.ops._rules import everywhere
from retrograd.ops.shape import broadcast_shapes
from retrograd.random import bernoulli, binomial, multinomial, poisson

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]


class ByProbability(Distribution):
    """A distribution that is given by probabilities, or by their logarithms or log-odds."""

    _by: str

    @lazy_property
    def probs(self) -> Any:
        """The probability of a yes."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Any:
        """The logarithm of the odds of a yes."""
        return probs_to_logits(self.probs, is_binary=True)

    def _choose(self, probs: Any, logits: Any) -> Any:
        """The one of the two arguments that was given."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._by = "logits" if probs is None else "probs"
        return logits if probs is None else probs

    @property
    def _parameter(self) -> Any:
        return getattr(self, self._by)

    @property
    def param_shape(self) -> Size:
        """The shape of ``probs``."""
        return self._parameter.shape

    def _given(self) -> tuple[str, ...]:
        return (*(name for name in self.arg_constraints if name not in ("probs", "logits")), self._by)


class ByOneProbability(ByProbability):
    """One that depends on nothing but a probability for each element, and on options."""

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (value,) = broadcast_all(self._choose(probs, logits))
        setattr(self, self._by, value)
        super().__init__(value.shape, (), validate_args)


class Bernoulli(ByOneProbability, ExponentialFamily):
    """1 with probability ``probs``, 0 otherwise.

    Parameters
    ----------
    probs
        The probability of a 1.
    logits
        Instead of that, the logarithm of its odds.

    Examples
    --------
    >>> rg.distributions.Bernoulli(rg.tensor([0.25, 0.5])).log_prob(rg.tensor([1.0, 0.0])).exp()
    tensor([0.2500, 0.5000])
    """

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return likely.masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        return softplus(x)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _enumerated(arange(2, dtype=self._parameter.dtype, device=self._parameter.device), self, expand)


def _enumerated(values: Any, distribution: Distribution, expand: bool) -> Any:
    shape = distribution.batch_shape
    values = values.reshape(-1, *(1 for _ in shape))
    return values.expand(-1, *shape) if expand else values


class Geometric(ByOneProbability):
    """The number of failures before the first success, which has probability ``probs`` in each trial."""

    support = constraints.nonnegative_integer

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._by == "probs" and not everywhere(self.probs > 0):
            raise ValueError(f"{self!r}: the probability of success must be positive")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return self.probs.new_zeros(self.probs.shape)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = self._room(sample_shape, self.probs).uniform_(float(finfo(self.probs).tiny), 1)
        return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        probs, value = broadcast_all(self.probs, value)
        never = ((probs == 1) & (value == 0)).to(probs.dtype)  # where the first factor would be 0 * -inf
        return value * (-probs * (1 - never)).log1p() + probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class ByCountAndProbability(ByProbability):
    """One that depends on a number and a probability for each element."""

    total_count: Any

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        total, value = broadcast_all(total_count, self._choose(probs, logits))
        self.total_count = total.to(value.dtype)
        setattr(self, self._by, value)
        super().__init__(value.shape, (), validate_args)


class Binomial(ByCountAndProbability):
    """The number of successes in ``total_count`` trials, each with probability ``probs`` of success."""

    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits + n * logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(expand=False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        total = self.total_count
        if not everywhere(total == total.max()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy` and `enumerate_support`.")
        return _enumerated(arange(1 + int(total.max()), dtype=total.dtype, device=total.device), self, expand)


class _Categories(ByProbability):
    """What :class:`Categorical` and :class:`OneHotCategorical` share: everything but what a sample looks like."""

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        value = self._choose(probs, logits)
        check_tensors(self, **{self._by: value})
        if value.ndim < 1:
            raise ValueError(f"`{self._by}` parameter must be at least one-dimensional.")
        if self._by == "probs":
            value = value / value.sum(-1, keepdim=True)
        else:
            value = value - value.logsumexp(-1, keepdim=True)
        setattr(self, self._by, value)
        self._events = value.shape[-1]
        super().__init__(value.shape[:-1], self._event(value), validate_args)

    def _event(self, value: Any) -> Sequence[int]:
        """The shape of a sample."""
        raise NotImplementedError

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    def _drawn(self, sample_shape: Sequence[int]) -> Any:
        """Samples as indices of categories."""
        rows = self.probs.reshape(-1, self._events)
        shape = self._sample_shape(sample_shape)
        drawn = multinomial(rows, math.prod(shape), True)
        return drawn.T.reshape((*shape, *self._batch_shape))

    def _log_prob_of(self, category: Any) -> Any:
        category = category.long().unsqueeze(-1)
        shape = broadcast_shapes(category.shape[:-1], self._batch_shape)
        logits = self.logits.expand((*shape, self._events))
        return logits.gather(-1, category.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        least = float(finfo(self.logits).min)
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)


class Categorical(_Categories):
    """One of the categories 0 to K - 1.

    Parameters
    ----------
    probs
        Their weights, of shape (..., K); they need not sum to one.
    logits
        Instead of that, the logarithms of the weights.

    Examples
    --------
    >>> policy = rg.distributions.Categorical(logits=rg.zeros(2, 4))
    >>> action = policy.sample()
    >>> action.shape, policy.log_prob(action)
    (retrograd.Size([2]), tensor([-1.3863, -1.3863]))
    """

    def _event(self, value: Any) -> Sequence[int]:
        return ()

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._events - 1)

    @property
    def mean(self) -> Tensor:
        return self.probs.new_full(self._batch_shape, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.probs.new_full(self._batch_shape, math.nan)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._drawn(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return self._log_prob_of(value)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _enumerated(arange(self._events, device=self._parameter.device), self, expand)


class OverCategories(Distribution):
    """A distribution that is given by the probabilities of categories, as :class:`Categorical` is."""

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _categorical: Categorical

    @property
    def probs(self) -> Any:
        """The probabilities of the categories."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of ``probs``."""
        return self._categorical.param_shape

    def _given(self) -> tuple[str, ...]:
        return self._categorical._given()


class OneHotCategorical(_Categories):
    """As :class:`Categorical`, with samples that are 1 for their category and 0 for all others."""

    support = constraints.one_hot

    def _event(self, value: Any) -> Sequence[int]:
        return value.shape[-1:]

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self._events).to(self._parameter.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return one_hot(self._drawn(sample_shape), self._events).to(self._parameter.dtype)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return self._log_prob_of(value.max(-1).indices)  # argmax takes no booleans

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._events
        values = eye(n, dtype=self._parameter.dtype, device=self._parameter.device)
        values = values.reshape(n, *(1 for _ in self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As :class:`OneHotCategorical`; gradients of samples pass through to the probabilities.

    The gradient of a sample is taken for that of ``probs`` (Bengio, Léonard, Courville, "Estimating or propagating
    gradients through stochastic neurons for conditional computation", 2013), which is biased.

    Examples
    --------
    >>> logits = rg.zeros(3, requires_grad=True)
    >>> sample = rg.distributions.OneHotCategoricalStraightThrough(logits=logits).rsample()
    >>> (sample * rg.tensor([3.0, 0.0, 0.0])).sum().backward()
    >>> logits.grad
    tensor([ 0.6667, -0.3333, -0.3333])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Poisson(Elementwise, ExponentialFamily):
    """The number of events, of which ``rate`` are expected."""

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Any

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        log_rate = rate.log().masked_fill((value == 0) & (rate == 0), 0.0)  # at rate 0, a count of 0 is certain
        return value * log_rate - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp()
