"""The normal distribution of vectors whose covariance is a diagonal and a few directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.core.tensor import Tensor
from retrograd.creation import eye
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Distribution, room
from retrograd.distributions.utils import check_tensors, lazy_property
from retrograd.linalg import cholesky, solve_triangular
from retrograd.ops.shape import broadcast_shapes

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Gauss's distribution of vectors with covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    What it computes takes matrices of m by m only, with m the rank, by Woodbury's identity and the determinant lemma.

    Parameters
    ----------
    loc
        The mean, of shape (..., n).
    cov_factor
        The directions, of shape (..., n, m).
    cov_diag
        The diagonal, of shape (..., n).

    Examples
    --------
    >>> normal = rg.distributions.LowRankMultivariateNormal(rg.zeros(2), rg.tensor([[1.0], [0.0]]), rg.ones(2))
    >>> normal.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Any
    cov_factor: Any
    cov_diag: Any

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        check_tensors(self, loc=loc, cov_factor=cov_factor, cov_diag=cov_diag)
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.ndim < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        n = loc.shape[-1]
        if cov_factor.shape[-2] != n:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {n} x m, but its shape is {tuple(cov_factor.shape)}"
            )
        if cov_diag.shape[-1:] != (n,):
            raise ValueError(
                f"cov_diag must be a batch of vectors with shape ({n},), but its shape is {tuple(cov_diag.shape)}"
            )
        try:
            batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor {tuple(cov_factor.shape)}, "
                f"cov_diag {tuple(cov_diag.shape)}"
            ) from error
        self.loc = loc.expand(*batch, n)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(*batch, n)
        super().__init__(batch, (n,), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @lazy_property
    def variance(self) -> Tensor:
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        part = self._less_precise
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    @lazy_property
    def _capacitance_tril(self) -> Any:
        """The lower Cholesky factor of ``1 + W.mT @ D^-1 @ W``, with the directions W and the diagonal D."""
        w = self.cov_factor
        one = eye(w.shape[-1], dtype=w.dtype, device=w.device)
        return cholesky(one + w.mT @ (w / self.cov_diag.unsqueeze(-1)))

    @lazy_property
    def _less_precise(self) -> Any:
        """The m by n matrix M; ``M.mT @ M`` is what the directions take from the precision of the diagonal."""
        return solve_triangular(self._capacitance_tril, self.cov_factor.mT / self.cov_diag.unsqueeze(-2), upper=False)

    def _squared_length(self, vectors: Any) -> Any:
        """``v @ precision @ v`` for each vector."""
        vectors = vectors.to(self._less_precise.dtype)
        less = (self._less_precise @ vectors.unsqueeze(-1)).squeeze(-1)
        return (vectors**2 / self.cov_diag).sum(-1) - (less**2).sum(-1)

    def _mean_squared_length(self, normal: Any) -> Any:
        """The mean of that for vectors around their mean: ``trace(precision @ normal.covariance_matrix)``."""
        less, whole = self._less_precise, (normal.variance / self.cov_diag).sum(-1)
        if not isinstance(normal, LowRankMultivariateNormal):
            return whole - ((less @ normal.scale_tril) ** 2).sum((-2, -1))
        taken = ((less @ normal.cov_factor) ** 2).sum((-2, -1))
        return whole - taken - (less**2 * normal.cov_diag.unsqueeze(-2)).sum((-2, -1))

    def _half_log_det(self) -> Any:
        """Half the logarithm of the determinant of the covariance."""
        return self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + 0.5 * self.cov_diag.log().sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        directions = room((*shape[:-1], self.cov_factor.shape[-1], 1), self.loc).normal_()
        noise = room(shape, self.loc).normal_()
        return self.loc + (self.cov_factor @ directions).squeeze(-1) + self.cov_diag.sqrt() * noise

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._squared_length(value - self.loc)) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()
