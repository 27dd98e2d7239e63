"""Distributions of matrices: of correlations, and of covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import arange
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Distribution, room
from retrograd.distributions.exp_family import ExponentialFamily
from retrograd.distributions.gamma import Beta, Chi2
from retrograd.distributions.multivariate import ByCovariance
from retrograd.distributions.utils import broadcast_all
from retrograd.linalg import slogdet, solve_triangular
from retrograd.ops._rules import somewhere
from retrograd.ops.joining import cat
from retrograd.ops.shape import broadcast_shapes

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """The lower Cholesky factor of a matrix of correlations with density proportional to its determinant's power.

    The power is ``concentration - 1``: with a concentration of 1 all matrices of correlations are as likely, above 1
    those with small correlations are more so. Lewandowski, Kurowicka and Joe, "Generating random correlation matrices
    based on vines and extended onion method", 2009; samples are drawn by their onion method.

    Parameters
    ----------
    dim
        The number of rows.
    concentration
        One more than the power.

    Examples
    --------
    >>> factor = rg.distributions.LKJCholesky(3, 0.5).sample()
    >>> (factor @ factor.mT).diagonal().round(decimals=5)
    tensor([1., 1., 1.])
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    concentration: Any

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def _options(self) -> dict[str, Any]:
        return {"dim": self.dim}

    def _positions(self) -> Any:
        """The numbers of the rows but the first, from 1."""
        return arange(1, self.dim, dtype=self.concentration.dtype, device=self.concentration.device)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # a row is a point in a ball of its dimension, in a direction that is as likely as any other
        row, a = self._positions(), self.concentration.unsqueeze(-1)
        square = Beta(row / 2, a + (self.dim - 1 - row) / 2, validate_args=False).sample(sample_shape)
        direction = room((*sample_shape, *self.batch_shape, self.dim - 1, self.dim), a).normal_().tril()
        direction = direction / (direction**2).sum(-1, keepdim=True).sqrt()
        rows = square.sqrt().unsqueeze(-1) * direction
        lower = cat([rows.new_zeros((*rows.shape[:-2], 1, self.dim)), rows], -2)
        diagonal = cat([rows.new_ones((*rows.shape[:-2], 1)), (1 - square).sqrt()], -1)
        return lower + diagonal.diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        row, a = self._positions(), self.concentration.unsqueeze(-1)
        powers = 2 * (a - 1) + (self.dim - 1 - row)
        density = (powers * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        # each row's share of the integral: of a ball's surface times a beta function
        last = (self.dim - 1) / 2
        shares = row / 2 * math.log(math.pi) + (a + last - row / 2).lgamma() - (a + last).lgamma()
        return density - shares.sum(-1)


class Wishart(ByCovariance, ExponentialFamily):
    """The distribution of ``X.mT @ X``, with ``df`` rows of X that are normal with a covariance.

    ``df`` need be no integer. Samples are made by the decomposition of Bartlett (Smith and Hocking, "Wishart variate
    generator", 1972).

    Parameters
    ----------
    df
        The degrees of freedom, above n - 1.
    covariance_matrix, precision_matrix, scale_tril
        One of these, of shape (..., n, n): the covariance, its inverse, or its lower Cholesky factor, which is the
        cheapest.

    Examples
    --------
    >>> d = rg.distributions.Wishart(rg.tensor(5.0), rg.eye(2))
    >>> d.mean
    tensor([[5., 0.],
            [0., 5.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    df: Any

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        matrix = self._choose(covariance_matrix, precision_matrix, scale_tril)
        n = matrix.shape[-1]
        (df,) = broadcast_all(df)
        batch = broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.to(matrix.dtype).expand(batch)
        setattr(self, self._by, matrix.expand(*batch, n, n))
        if somewhere(self.df <= n - 1):
            raise ValueError(f"Value of df={df.detach().tolist()} expected to be greater than ndim - 1 = {n - 1}.")
        super().__init__(batch, (n, n), validate_args)
        if somewhere(self.df < n):
            warn_user("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _given(self) -> tuple[str, ...]:
        return self._by, "df"

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (v**2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _freedoms(self) -> Any:
        """``df``, ``df - 1``, ..., one for each row."""
        return self.df.unsqueeze(-1) - arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Return samples that are differentiable functions of the parameters.

        Parameters
        ----------
        sample_shape
            How many samples.
        max_try_correction
            How often samples that rounding has made singular are drawn again; 10 times for few, and 3 for many, if not
            given.
        """
        sample = self._bartlett(sample_shape)
        tries = (3 if len(self._batch_shape) else 10) if max_try_correction is None else max_try_correction
        for _ in range(tries):
            singular = ~constraints.positive_definite.check(sample)
            if not somewhere(singular):
                break
            sample = self._bartlett(sample_shape).where(singular[..., None, None], sample)
        return sample

    def _bartlett(self, sample_shape: Sequence[int]) -> Any:
        diagonal = Chi2(self._freedoms(), validate_args=False).rsample(sample_shape).sqrt()
        noise = self._room(sample_shape, self.df).normal_()
        factor = self.scale_tril @ (noise.tril(-1) + diagonal.diag_embed())
        return factor @ factor.mT

    def _log_gammas(self) -> Any:
        """The logarithm of the multivariate gamma function at half of ``df``."""
        n = self._event_shape[-1]
        return n * (n - 1) / 4 * math.log(math.pi) + (self._freedoms() / 2).lgamma().sum(-1)

    def _normalizer(self) -> Tensor:
        """The logarithm of the density's normalising constant."""
        n = self._event_shape[-1]
        return self.df * (n / 2 * math.log(2) + self._half_log_det()) + self._log_gammas()

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        n = self._event_shape[-1]
        whitened = solve_triangular(
            self.scale_tril, solve_triangular(self.scale_tril, value, upper=False).mT, upper=False
        )
        trace = whitened.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (self.df - n - 1) / 2 * slogdet(value).logabsdet - trace / 2 - self._normalizer()

    def entropy(self) -> Tensor:
        n = self._event_shape[-1]
        half_digammas = (self._freedoms() / 2).digamma().sum(-1)
        log_det = half_digammas + n * math.log(2) + 2 * self._half_log_det()  # the mean of that of a sample
        return self._normalizer() - (self.df - n - 1) / 2 * log_det + n * self.df / 2

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        n = x.shape[-1]
        half = y + (n + 1) / 2  # of the degrees of freedom
        return half * (n * math.log(2) - slogdet(-2 * x).logabsdet) + half.mvlgamma(n)
