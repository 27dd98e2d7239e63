"""What all distributions have in common: shapes, the check of parameters and values, expansion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

from retrograd.autograd.grad_mode import no_grad
from retrograd.batching import unbatched
from retrograd.core.errors import kind_name, to_be_made
from retrograd.core.sites import warn_user
from retrograd.core.size import Size
from retrograd.core.tensor import Tensor, wrap
from retrograd.creation import empty
from retrograd.distributions.constraints import Constraint, is_dependent
from retrograd.distributions.utils import broadcast_all
from retrograd.ops._rules import everywhere
from retrograd.random import rand
from retrograd.random.batched import with_room

__all__ = ["Distribution"]


class Distribution:
    """The base class of distributions, for users' own, too.

    Parameters
    ----------
    batch_shape
        The shape of a tensor with one number per distribution, of which there may be many in one object.
    event_shape
        The shape of one sample of one distribution.
    validate_args
        Whether parameters and values are checked; True unless :meth:`set_default_validate_args` said otherwise.

    Attributes
    ----------
    arg_constraints
        Where each parameter may lie.
    support
        Where samples lie.
    has_rsample
        Whether :meth:`rsample` gives samples with a history that leads to the parameters.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = None
    has_rsample = False
    has_enumerate_support = False
    _validate_args = True

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()  # of a module, if a class inherits from both

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check parameters and values unless ``validate_args`` is given."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, but got {value!r}")
        Distribution._validate_args = value

    def _given(self) -> tuple[str, ...]:
        """The names of the parameters that the distribution was made with."""
        return tuple(name for name in self.arg_constraints if name in vars(self))

    def _check_parameters(self) -> None:
        for name in self._given():
            constraint, value = self.arg_constraints[name], getattr(self, name)
            if is_dependent(constraint):
                continue
            valid = constraint.check(value)
            if not everywhere(valid):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{_shown(value)}"
                )

    # --- shapes -------------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape of a tensor with one number per distribution."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample of one distribution."""
        return self._event_shape

    @staticmethod
    def _sample_shape(given: Any) -> Sequence[int]:
        """The requested sample shape."""
        if not isinstance(given, Iterable):
            raise TypeError(
                f"sample_shape must be a tuple of ints, but got {given}; for {given} samples write ({given},)"
            )
        return tuple(given)

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*self._sample_shape(sample_shape), *self._batch_shape, *self._event_shape))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return a distribution of a larger batch shape, whose parameters are views of the parameters here.

        A subclass with further attributes sets them on an empty distribution of its own class, and passes that.
        """
        given = {}
        for name in self._given():
            value = getattr(self, name)
            kept = value.shape[value.ndim - self.arg_constraints[name].event_dim :]
            given[name] = value.expand((*batch_shape, *kept))
        if _instance is None:
            return type(self)(**given, **self._options(), validate_args=False)._checked_as(self)
        ours: Any = next(base for base in type(self).__mro__ if base.__module__.startswith("retrograd."))
        taken = ours.__init__.__code__.co_varnames  # the subclass may have constraints for parameters of its own
        wanted = {name: value for name, value in given.items() if name in taken}
        return self._filled(ours, _instance, **wanted, **self._options())

    def _filled(self, cls: Any, _instance: Any, *args: Any, **kwargs: Any) -> Any:
        """The distribution that ``expand`` of ``cls`` returns, made by that class's constructor."""
        made = self._get_checked_instance(cls, _instance)
        cls.__init__(made, *args, **kwargs, validate_args=False)
        return made._checked_as(self)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """The distribution, still empty, that ``expand`` of ``cls`` is to fill: for classes written as torch's are."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]  # what it needs is known to the subclass only
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return object.__new__(type(self))

    def _options(self) -> dict[str, Any]:
        """Further constructor arguments: those without a batch shape."""
        return {}

    def _checked_as(self, other: Distribution) -> Self:
        self._validate_args = other._validate_args
        return self

    # --- what subclasses have -----------------------------------------------------------------------------------------

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError(self._lacks("mean"))

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(self._lacks("mode"))

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        raise NotImplementedError(self._lacks("variance"))

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples of shape ``sample_shape + batch_shape + event_shape``, without a history."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """Return ``n`` samples, as ``sample((n,))`` does. Deprecated."""
        warn_user("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample((n,))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples that are differentiable functions of the parameters."""
        raise NotImplementedError(
            f"{type(self).__name__}.rsample: these samples are not a differentiable function of the parameters; use "
            "sample() and the gradient of log_prob()"
        )

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError(self._lacks("log_prob"))

    def cdf(self, value: Any) -> Tensor:
        """Return the probability of samples up to a value."""
        raise NotImplementedError(self._lacks("cdf"))

    def icdf(self, value: Any) -> Tensor:
        """Return the value up to which samples have a given probability."""
        raise NotImplementedError(self._lacks("icdf"))

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        raise NotImplementedError(self._lacks("entropy"))

    def perplexity(self) -> Tensor:
        """Return e to the power of the entropy."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values that samples can have, along a new first dimension."""
        raise NotImplementedError(self._lacks("enumerate_support"))

    def _lacks(self, name: str) -> str:
        return f"{type(self).__name__} has no {name}"

    # --- for rsample --------------------------------------------------------------------------------------------------

    def _room(self, sample_shape: Sequence[int], like: Any) -> Any:
        """Memory for samples."""
        return room(self._extended_shape(sample_shape), like)

    def _uniform(self, sample_shape: Sequence[int], like: Any) -> Any:
        """A number between 0 and 1 for each element of the samples."""
        return rand(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device)

    # --- checks -------------------------------------------------------------------------------------------------------

    def _validate_sample(self, value: Any, support: Any = None) -> None:
        """Check, if arguments are checked, a value that :meth:`log_prob` or a similar method was given.

        It may lie in ``support``, or in that of the distribution, if not given.
        """
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError(
                f"The value argument to log_prob must be a Tensor, not {kind_name(value)}{to_be_made(value)}"
            )
        # events are not broadcast: one number for a whole vector is a different value, surely not the one meant
        if tuple(value.shape)[max(value.ndim - len(self._event_shape), 0) :] != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {tuple(value.shape)} vs "
                f"{tuple(self._event_shape)}."
            )
        shape = self._batch_shape + self._event_shape
        if any(a != b and 1 not in (a, b) for a, b in zip(reversed(value.shape), reversed(shape), strict=False)):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {tuple(shape)}."
            )
        support = self.support if support is None else support
        if support is not None and not everywhere(support.check(value)):
            raise ValueError(
                f"Expected value argument (Tensor of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{_shown(value)}"
            )

    def __repr__(self) -> str:
        """The class and its parameters: their values if they are few, or else their shapes."""
        values = {name: getattr(self, name) for name in self._given()}
        shown = (f"{name}: {_shown(value) if value.numel() == 1 else value.shape}" for name, value in values.items())
        return f"{type(self).__name__}({', '.join(shown)})"


class Elementwise(Distribution):
    """A distribution of numbers, one for each element of its parameters."""

    def _set(self, validate_args: bool | None, **parameters: Any) -> None:
        """Set the parameters, broadcast."""
        for name, value in zip(parameters, broadcast_all(*parameters.values()), strict=True):
            setattr(self, name, value)
        super().__init__(value.shape, (), validate_args)


def room(shape: Sequence[int], like: Any) -> Any:
    """A tensor to be filled with random numbers, of the dtype and on the device of another one.

    Under ``vmap``, it has room for every sample that is to get its own.
    """
    return wrap(with_room(empty(shape, dtype=like.dtype, device=like.device)._data))


def _shown(value: Any) -> str:
    shown = wrap(unbatched(value._data))
    return str(shown.item() if shown.ndim == 0 else shown)
