"""Invertible functions of samples, and the logarithm of the determinant of their derivative."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Self

from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.constraints import Constraint
from retrograd.distributions.utils import summed

__all__ = ["ComposeTransform", "IndependentTransform", "ReshapeTransform", "Transform", "identity_transform"]


class Transform:
    """The base class: a function, its inverse, and its derivative.

    Subclasses define ``_call``, ``_inverse`` and ``log_abs_det_jacobian``; functions of numbers define ``sign``, too.

    Parameters
    ----------
    cache_size
        1 if it shall keep its last result, so that the inverse of that result is exact and costs nothing.

    Attributes
    ----------
    domain, codomain
        The constraints of what it takes and gives; the dimensions of these events may differ.
    bijective
        Whether ``t.inv(t(x)) == x`` for all ``x``. ``t(t.inv(y)) == y`` holds always.
    sign
        1 if it increases, -1 if it decreases; only of functions of numbers.

    Examples
    --------
    >>> t = rg.distributions.ExpTransform()
    >>> y = t(rg.tensor([0.0, 1.0]))
    >>> y, t.inv(y)
    (tensor([1.0000, 2.7183]), tensor([0.0000, 1.0000]))
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real
    bijective: Any = False

    def __init__(self, cache_size: int = 0) -> None:
        self._keep(cache_size)
        super().__init__()  # of a module, if a class inherits from both

    def _keep(self, cache_size: int) -> None:
        """Begin with an empty cache."""
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    def with_cache(self, cache_size: int = 1) -> Self:
        """Return the same function, with another ``cache_size``."""
        if cache_size == self._cache_size:
            return self
        other = copy.copy(self)
        other._keep(cache_size)
        other._cache_parts()
        return other

    def _cache_parts(self) -> None:
        """Give the component transforms a cache of the same size."""

    @property
    def event_dim(self) -> int:
        """How many dimensions an event has, before and after."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def sign(self) -> Any:
        """Whether it increases (1) or decreases (-1)."""
        raise NotImplementedError(f"{type(self).__name__} has no sign: it neither increases nor decreases")

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _InverseTransform(self)

    def __call__(self, x: Any) -> Any:
        """Return the function of ``x``."""
        if self._cache_size and self._last[0] is x:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _invert(self, y: Any) -> Any:
        if self._cache_size and self._last[1] is y:
            return self._last[0]
        x = self._inverse(y)
        if self._cache_size:
            self._last = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the logarithm of the absolute value of the determinant of dy/dx, for every event."""
        raise NotImplementedError(
            f"{type(self).__name__} has no log_abs_det_jacobian, so densities cannot be computed through it"
        )

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the result for an input of a shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the input for a result of a shape."""
        return shape

    def __eq__(self, other: object) -> bool:
        """Whether it is a transform of the same class with the same parameters."""
        return self is other or (type(self) is type(other) and _alike(self._settings(), other._settings()))

    __hash__ = None  # type: ignore[assignment]  # parameters are tensors, which change

    def _settings(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_cache_size", "_last")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        shapes = {tuple(x.shape) for x in (a, b) if isinstance(x, Tensor)}
        return len(shapes) == 1 and bool((a == b).all())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(value, b[name]) for name, value in a.items())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_alike(*pair) for pair in zip(a, b, strict=True))
    return bool(a == b)


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._transform = transform

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return self._transform.codomain

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return self._transform.domain

    @property
    def bijective(self) -> bool:
        return self._transform.bijective

    @property
    def sign(self) -> Any:
        return self._transform.sign

    @property
    def inv(self) -> Transform:
        return self._transform

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._transform.with_cache(cache_size).inv

    def __call__(self, x: Any) -> Any:
        return self._transform._invert(x)

    def _invert(self, y: Any) -> Any:
        return self._transform(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._transform.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._transform.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self._transform!r}.inv"


def cached(parts: Sequence[Transform], cache_size: int) -> list[Transform]:
    """The transforms, with caches if the transform composed of them has one."""
    return [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)


def _with_events_of(constraint: Constraint, event_dim: int) -> Constraint:
    """The constraint, for events of at least as many dimensions."""
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


class ComposeTransform(Transform):
    """One transform after the other.

    Parameters
    ----------
    parts
        The transforms, the first one first.

    Examples
    --------
    >>> from retrograd.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(rg.zeros(2))
    tensor([3., 3.])
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = cached(parts, cache_size)

    def _cache_parts(self) -> None:
        self.parts = [part.with_cache(self._cache_size) for part in self.parts]

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        event_dim = 0
        for part in reversed(self.parts):  # an event must be large enough for every part behind
            event_dim = max(event_dim - part.codomain.event_dim, 0) + part.domain.event_dim
        return _with_events_of(self.parts[0].domain, event_dim)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        event_dim = 0
        for part in self.parts:
            event_dim = max(event_dim - part.domain.event_dim, 0) + part.codomain.event_dim
        return _with_events_of(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._invert(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return x.new_zeros(x.shape)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        event_dim, total = self.domain.event_dim, 0.0
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            total = total + summed(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


identity_transform = ComposeTransform([])


def check_dimensions(shape: Sequence[int], event_dim: int) -> None:
    if len(shape) < event_dim:
        raise ValueError(
            f"Too few dimensions on input: an event has {event_dim}, but the shape {tuple(shape)} has {len(shape)}"
        )


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as dimensions of one event: their logarithms are summed.

    Parameters
    ----------
    base_transform
        The transform.
    reinterpreted_batch_ndims
        How many dimensions.
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.base_transform,) = cached([base_transform], cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _cache_parts(self) -> None:
        self.base_transform = self.base_transform.with_cache(self._cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        check_dimensions(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        check_dimensions(y.shape, self.codomain.event_dim)
        return self.base_transform._invert(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return summed(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Events of the shape ``in_shape`` as events of the shape ``out_shape``."""

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(
                f"in_shape, out_shape have different numbers of elements: {self.in_shape} and {self.out_shape}"
            )

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Sequence[int], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with ``new`` where it ends in ``old``."""
    check_dimensions(shape, len(old))
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != old:
        raise ValueError(f"Shape mismatch: expected {old} but got {tuple(shape[cut:])}")
    return (*shape[:cut], *new)
