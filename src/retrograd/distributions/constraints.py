"""Sets of valid parameters and samples. ``constraint.check(value)`` tests every event in a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.core.renamed_functions import own_methods
from retrograd.core.tensor import Tensor
from retrograd.linalg import cholesky_ex, eigvalsh
from retrograd.ops._rules import somewhere
from retrograd.ops.joining import cat as _joined
from retrograd.ops.joining import stack as _stacked

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set that numbers, or with ``event_dim`` 1 and 2 vectors and matrices, may lie in."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Return a tensor of bools: which events of ``value`` lie in the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The class and its bounds."""
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


class _Dependent(Constraint):
    """A set that depends on the parameters of the distribution."""

    def __init__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is None:
            raise NotImplementedError(".is_discrete cannot be determined statically; use the support of a distribution")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is None:
            raise NotImplementedError(".event_dim cannot be determined statically; use the support of a distribution")
        return self._event_dim

    def check(self, value: Tensor) -> Tensor:
        raise ValueError(
            "Cannot determine validity of dependent constraint: the valid values depend on the parameters; use the "
            "support of the distribution"
        )

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> _Dependent:
        """Return the same constraint with more of its properties given."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is None else is_discrete,
            event_dim=self._event_dim if event_dim is None else event_dim,
        )

    def __repr__(self) -> str:
        return "Dependent()"


class _DependentProperty(property, _Dependent):
    """A constraint as a property of distributions; accessed on the class, it is a dependent one.

    Examples
    --------
    >>> from retrograd.distributions import Uniform, constraints
    >>> constraints.is_dependent(Uniform.support), Uniform(0.0, 1.0).support
    (True, Interval(lower_bound=0.0, upper_bound=1.0))
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: bool | None = None,
        event_dim: int | None = None,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        """Decorate ``fn``."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)

    def __repr__(self) -> str:
        return "DependentProperty()"


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint depends on the parameters of its distribution."""
    return isinstance(constraint, _Dependent)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # False for NaN only


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _LowerBound(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _GreaterThan(_LowerBound):
    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_LowerBound):
    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _IntegerGreaterThan(_LowerBound):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _LessThan(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Between(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound


class _Interval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


class _IndependentConstraint(Constraint):
    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        return _all_of(self.base_constraint.check(value), value, self.event_dim)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values allowed by every component of a mixture; components lie along the dimension before events."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Tensor:
        return _all_of(self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)), value, self.event_dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


def closed(constraint: Any) -> Any:
    """The constraint, with the bound of an open half-line, where distribution functions are 0, within it."""
    return greater_than_eq(constraint.lower_bound) if isinstance(constraint, greater_than) else constraint


def _all_of(found: Any, value: Any, event_dim: int) -> Tensor:
    """Whether the results for an event of ``value`` are all True."""
    kept = value.ndim - event_dim
    if kept < 0:
        raise ValueError(f"Expected value.dim() >= {event_dim} but got {value.ndim}")
    return found.reshape(*found.shape[:kept], math.prod(found.shape[kept:])).all(-1)


class _Joined(Constraint):
    """Constraints, each for one part of a tensor along the dimension ``dim``."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        if not all(isinstance(constraint, Constraint) for constraint in cseq):
            raise ValueError(f"cseq must be a list of constraints, but is {cseq!r}")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(constraint.is_discrete for constraint in self.cseq)


class _Cat(_Joined):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"lengths ({len(self.lengths)}) must match constraints ({len(self.cseq)})")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(constraint.event_dim for constraint in self.cseq)

    def check(self, value: Any) -> Tensor:
        total = sum(self.lengths)
        if value.shape[self.dim] != total:
            raise ValueError(
                f"value has {value.shape[self.dim]} elements along dim {self.dim}, but the lengths sum to {total}"
            )
        parts = value.split(self.lengths, self.dim)
        checks = [constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)]
        return _joined(checks, self.dim)


class _Stack(_Joined):
    @property
    def event_dim(self) -> int:  # type: ignore[override]
        # the events of the parts, and the dimension that they are stacked along if it lies within
        most = max(constraint.event_dim for constraint in self.cseq)
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Any) -> Tensor:
        if value.shape[self.dim] != len(self.cseq):
            raise ValueError(
                f"value has {value.shape[self.dim]} parts along dim {self.dim}, but there are "
                f"{len(self.cseq)} constraints"
            )
        parts = value.unbind(self.dim)
        return _stacked([constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: int) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Any) -> Tensor:
        # the rows of the Cholesky factor of a matrix of correlations have length one
        tolerance = 10 * value.shape[-1] * float(np.finfo(value._data.dtype).eps)
        lengths = (value.detach() ** 2).sum(-1).sqrt()
        return super().check(value) & ((lengths - 1).abs() <= tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return value.new_full(value.shape[:-2], value.shape[-2] == value.shape[-1]).bool()


class _Symmetric(_Square):
    def check(self, value: Any) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return value.isclose(value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Tensor:
        symmetric: Any = super().check(value)
        if not somewhere(symmetric):
            return symmetric
        eigenvalues = eigvalsh(value.detach())
        # an eigenvalue of zero may come out this much below
        rounding = value.shape[-1] * float(np.finfo(value._data.dtype).eps) * eigenvalues.abs().amax(-1, keepdim=True)
        return symmetric & (eigenvalues >= -rounding).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Tensor:
        symmetric: Any = super().check(value)
        return symmetric & (cholesky_ex(value.detach()).info == 0) if somewhere(symmetric) else symmetric


greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
integer_interval = _IntegerInterval
independent = _IndependentConstraint
dependent = _Dependent()
dependent_property = _DependentProperty
real = _Real()
real_vector = independent(real, 1)
boolean = _Boolean()
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
one_hot = _OneHot()
multinomial = _Multinomial
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

own_methods(globals(), "__init__")
