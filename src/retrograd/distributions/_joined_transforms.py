"""Transforms of parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.distributions import constraints
from retrograd.distributions._transform import Transform, cached
from retrograd.distributions.constraints import Constraint
from retrograd.distributions.utils import summed
from retrograd.ops.joining import cat, stack

__all__ = ["CatTransform", "StackTransform"]


class _Joined(Transform):
    """Transforms, each for one part of a tensor along the dimension ``dim``."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        if not tseq or not all(isinstance(transform, Transform) for transform in tseq):
            raise ValueError(f"tseq must be a list of transforms, but is {tseq!r}")
        self.transforms = cached(tseq, cache_size)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(transform.bijective for transform in self.transforms)

    def _cache_parts(self) -> None:
        self.transforms = [transform.with_cache(self._cache_size) for transform in self.transforms]

    def _check_length(self, value: Any, length: int) -> None:
        if not -value.ndim <= self.dim < value.ndim:
            raise ValueError(
                f"{type(self).__name__}: dim {self.dim} out of range for tensor with {value.ndim} dimensions"
            )
        if value.shape[self.dim] != length:
            raise ValueError(
                f"{type(self).__name__}: size {value.shape[self.dim]} of dim {self.dim} must equal {length}, the total "
                f"size of its {len(self.transforms)} transforms"
            )


class CatTransform(_Joined):
    """Transforms of consecutive parts of a tensor.

    Parameters
    ----------
    tseq
        A transform for each part.
    dim
        The dimension that the parts lie along.
    lengths
        The length of each part along ``dim``; 1 for each if not given.

    Examples
    --------
    >>> from retrograd.distributions import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(rg.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @property
    def length(self) -> int:
        """The length of all parts together."""
        return sum(self.lengths)

    @property
    def event_dim(self) -> int:
        return max(transform.event_dim for transform in self.transforms)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.cat([transform.domain for transform in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.cat([transform.codomain for transform in self.transforms], self.dim, self.lengths)

    def _parts(self, value: Any) -> Any:
        self._check_length(value, self.length)
        return value.split(self.lengths, self.dim)

    def _call(self, x: Any) -> Any:
        return cat([transform(part) for transform, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return cat([transform._invert(part) for transform, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        event_dim, terms = self.event_dim, []
        for transform, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = transform.log_abs_det_jacobian(before, after)
            terms.append(summed(term, event_dim - transform.event_dim))
        dim = (self.dim if self.dim < 0 else self.dim - x.ndim) + event_dim
        if dim < 0:  # among the batch dimensions
            return cat(terms, dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


class StackTransform(_Joined):
    """Transforms of the slices of a tensor, one for each index of the dimension ``dim``.

    Examples
    --------
    >>> from retrograd.distributions import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([ExpTransform(), identity_transform], dim=1)(rg.zeros(3, 2))
    tensor([[1., 0.],
            [1., 0.],
            [1., 0.]])
    """

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.stack([transform.domain for transform in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.stack([transform.codomain for transform in self.transforms], self.dim)

    def _parts(self, value: Any) -> Any:
        self._check_length(value, len(self.transforms))
        return value.unbind(self.dim)

    def _call(self, x: Any) -> Any:
        return stack(
            [transform(part) for transform, part in zip(self.transforms, self._parts(x), strict=True)], self.dim
        )

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return stack([transform._invert(part) for transform, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return stack([transform.log_abs_det_jacobian(before, after) for transform, before, after in parts], self.dim)
