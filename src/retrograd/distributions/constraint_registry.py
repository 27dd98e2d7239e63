"""From constraints to transforms: from numbers that an optimizer may move freely to what a parameter may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.distributions import constraints
from retrograd.distributions.constraints import Constraint
from retrograd.distributions.transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Which transform leads to a constraint, by the class of the constraint.

    Examples
    --------
    >>> from retrograd.distributions import Normal, transform_to
    >>> free = rg.zeros(2, requires_grad=True)
    >>> transform_to(Normal.arg_constraints["scale"])(free).detach()
    tensor([1., 1.])
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Register a function from a constraint to a transform, or decorate one.

        Parameters
        ----------
        constraint
            A class of constraints, or one of its instances, as those of ``constraints`` without parameters.
        factory
            The function; without it, ``register`` returns a decorator.

        Raises
        ------
        TypeError
            If ``constraint`` is neither.
        """
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, Constraint)):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint!r}"
            )
        if factory is None:
            return lambda function: self.register(kind, function)
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform from unconstrained tensors to ``constraint``.

        Raises
        ------
        NotImplementedError
            If none is known.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            known = ", ".join(sorted(kind.__name__.removeprefix("_") for kind in self._registry))
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints; the registered ones are {known}; add one "
                "with register()"
            )
        return factory(constraint)


biject_to: ConstraintRegistry = ConstraintRegistry()
transform_to: ConstraintRegistry = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Factory], Factory]:
    def register(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_both(constraints.real)
def _real(constraint: Any) -> Transform:
    return identity_transform


@_both(constraints.greater_than, constraints.greater_than_eq)
def _greater_than(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


@_both(constraints.less_than)
def _less_than(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval, constraints.half_open_interval)
def _interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


@_both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Any) -> Transform:
    return CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: LowerCholeskyTransform())
for _matrices in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrices, lambda constraint: PositiveDefiniteTransform())


def _register_parts(registry: ConstraintRegistry) -> None:
    """Register the composite constraints, which look up their parts in the same registry."""

    @registry.register(constraints.independent)
    def independent(constraint: Any) -> Transform:
        return IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def cat(constraint: Any) -> Transform:
        return CatTransform([registry(part) for part in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def stack(constraint: Any) -> Transform:
        return StackTransform([registry(part) for part in constraint.cseq], constraint.dim)


_register_parts(biject_to)
_register_parts(transform_to)
