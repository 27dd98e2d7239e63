"""Distributions of vectors, and of many independent numbers as one event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.core.size import Size
from retrograd.core.tensor import Tensor
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.utils import check_tensors, lazy_property, summed
from retrograd.linalg import cholesky, inv, solve_triangular
from retrograd.ops.shape import broadcast_shapes

__all__ = ["Independent", "MultivariateNormal"]


class ByCovariance(Distribution):
    """A distribution that is given by a positive definite matrix, by its inverse, or by its lower Cholesky factor."""

    _by: str

    def _choose(self, covariance_matrix: Any, precision_matrix: Any, scale_tril: Any) -> Any:
        """The one of the three arguments that was given."""
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((self._by, matrix),) = given
        check_tensors(self, **{self._by: matrix})
        if matrix.ndim < 2:
            raise ValueError(f"{self._by} must be at least two-dimensional, with optional leading batch dimensions")
        return matrix

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return inv(self.precision_matrix) if self._by == "precision_matrix" else self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return inv(self.covariance_matrix)

    def _half_log_det(self) -> Any:
        """Half the logarithm of the determinant of the covariance."""
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(ByCovariance):
    """Gauss's distribution of vectors.

    Parameters
    ----------
    loc
        The mean, of shape (..., n).
    covariance_matrix, precision_matrix, scale_tril
        One of these, of shape (..., n, n): the covariance, its inverse, or its lower Cholesky factor, which is the
        cheapest.

    Examples
    --------
    >>> normal = rg.distributions.MultivariateNormal(rg.zeros(2), covariance_matrix=2 * rg.eye(2))
    >>> normal.log_prob(rg.zeros(2))
    tensor(-2.5310)
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Any

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        check_tensors(self, loc=loc)
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrix = self._choose(covariance_matrix, precision_matrix, scale_tril)
        batch, n = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]), loc.shape[-1]
        self.loc = loc.expand((*batch, n))
        setattr(self, self._by, matrix.expand((*batch, n, n)))
        super().__init__(batch, (n,), validate_args)

    def _given(self) -> tuple[str, ...]:
        return "loc", self._by

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        if self._by == "scale_tril":  # needs no product of matrices, whose history would be kept with it
            return (self.scale_tril**2).sum(-1)
        return self.covariance_matrix.diagonal(dim1=-2, dim2=-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = self._room(sample_shape, self.loc).normal_()
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        shift = (value - self.loc).to(self.scale_tril.dtype)
        whitened = solve_triangular(self.scale_tril, shift.unsqueeze(-1), upper=False).squeeze(-1)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + (whitened**2).sum(-1)) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class Independent(Distribution):
    """A distribution whose last batch dimensions count as dimensions of one event.

    Parameters
    ----------
    base_distribution
        The distribution.
    reinterpreted_batch_ndims
        How many dimensions.

    Examples
    --------
    >>> normal = rg.distributions.Normal(rg.zeros(5, 3), 1.0)
    >>> rg.distributions.Independent(normal, 1).log_prob(rg.zeros(5, 3)).shape
    retrograd.Size([5])
    """

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        kept = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + event, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        inner = self._event_shape[: self.reinterpreted_batch_ndims]
        base = self.base_dist.expand(Size((*batch_shape, *inner)))
        return self._filled(Independent, _instance, base, self.reinterpreted_batch_ndims)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base, count = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, count) if count else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        return summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
