"""Where parameters and samples may lie. ``constraint.check(value)`` says so for every event in a tensor."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.ops.linalg_decompositions import cholesky_ex

__all__ = [
    "Constraint",
    "boolean",
    "dependent",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "less_than",
    "lower_cholesky",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
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
    def check(self, value: Tensor) -> Tensor:
        raise ValueError("which values are possible depends on the parameters; ask the distribution for its support")


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
        found: Any = self.base_constraint.check(value)
        kept = found.ndim - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return found.reshape(*found.shape[:kept], -1).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _PositiveDefinite(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        symmetric = value.isclose(value.mT, atol=1e-6).flatten(-2).all(-1)
        return symmetric & (cholesky_ex(value).info == 0)


greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
integer_interval = _IntegerInterval
independent = _IndependentConstraint
dependent = _Dependent()
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
lower_cholesky = _LowerCholesky()
positive_definite = _PositiveDefinite()
