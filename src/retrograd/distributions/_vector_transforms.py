"""Transforms to probabilities, to triangular matrices and to matrices of correlations.

Breaking a stick and making correlations are as in the Stan reference manual, "Constraint transforms".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.creation import arange
from retrograd.distributions import constraints
from retrograd.distributions._number_transforms import log_of_one_minus_tanh_squared
from retrograd.distributions._transform import Transform, check_dimensions
from retrograd.distributions.utils import finfo, rows_of, tril_matrix_to_vec, vec_to_tril_matrix
from retrograd.linalg import cholesky
from retrograd.nn.functional import logsigmoid
from retrograd.ops.joining import cat

__all__ = [
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "SoftmaxTransform",
    "StickBreakingTransform",
]


class SoftmaxTransform(Transform):
    """Vectors to probabilities, by ``softmax``; vectors that differ by a constant give the same."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        check_dimensions(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Vectors of k - 1 numbers to k probabilities: each number says how much to break from the rest of a stick.

    Examples
    --------
    >>> rg.distributions.StickBreakingTransform()(rg.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _log_odds(self, x: Any) -> Any:
        """The log-odds of each break; for ``x = 0`` they give parts of equal size."""
        return x - self._log_parts(x)

    @staticmethod
    def _log_parts(x: Any) -> Any:
        n = x.shape[-1]
        return arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        odds = self._log_odds(x)
        rest = logsigmoid(-odds).cumsum(-1)  # the logarithm of what is left after each break
        start = x.new_zeros((*x.shape[:-1], 1))
        last = rest[..., -1:] if x.shape[-1] else start
        return cat([logsigmoid(odds) + cat([start, rest[..., :-1]], -1), last], -1).exp()

    def _inverse(self, y: Any) -> Any:
        rest = y.flip(-1).cumsum(-1).flip(-1)[..., 1:]
        tiny = float(finfo(y).tiny)
        broken = y[..., :-1]
        return broken.clamp(min=tiny).log() - rest.clamp(min=tiny).log() + self._log_parts(broken)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # each part by its own odds, those before it given
        return (y[..., :-1].log() + logsigmoid(-self._log_odds(x))).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        check_dimensions(shape, 1)
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        check_dimensions(shape, 1)
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangular ones with a positive diagonal; what is above the diagonal is left out."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive definite ones: ``L @ L.mT``, with L from :class:`LowerCholeskyTransform`."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to the lower Cholesky factor of a matrix of n by n correlations.

    The hyperbolic tangents of the numbers are partial correlations; each row is a point on the upper half of a sphere.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        partial = vec_to_tril_matrix(x.tanh(), -1)
        return (partial + _identity(partial)) * (0.5 * _log_rest(x)).exp()

    def _inverse(self, y: Any) -> Any:
        # what is left of the length 1 of a row, and of it the part that the next entry takes
        square = (y * y).tril()
        rest = square.flip(-1).cumsum(-1).flip(-1)
        partial = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(rest, -1).sqrt()
        eps = float(finfo(y).eps)
        return partial.clamp(-1 + eps, 1 - eps).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        own = log_of_one_minus_tanh_squared(x).sum(-1)
        return own + 0.5 * tril_matrix_to_vec(_log_rest(x), -1).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        check_dimensions(shape, 1)
        side = rows_of(shape[-1], -1)
        return (*shape[:-1], side, side)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        check_dimensions(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: its shape is {tuple(shape)}")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _identity(matrix: Any) -> Any:
    return matrix.new_ones(matrix.shape[-1]).diag_embed()


def _log_rest(x: Any) -> Any:
    """The logarithm of the squared length that the entries before each one leave in its row."""
    taken = vec_to_tril_matrix(log_of_one_minus_tanh_squared(x), -1)
    return taken.cumsum(-1) - taken
