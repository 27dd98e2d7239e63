"""Orthogonal weights, as a parametrization."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor, wrap
from retrograd.creation import eye
from retrograd.nn.modules.module import Module
from retrograd.nn.utils import parametrize
from retrograd.ops.householder import householder_product
from retrograd.ops.joining import cat
from retrograd.ops.linalg import solve
from retrograd.ops.linalg_decompositions import qr
from retrograd.ops.linalg_functions import matrix_exp
from retrograd.random import randn

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Tensor) -> bool:
    tolerance = 10 * q.shape[-2] * np.finfo(q._data.dtype).eps
    unit = np.eye(q.shape[-1], dtype=q._data.dtype)
    return np.allclose((q.mH @ q)._data, unit, atol=tolerance)


def _orthonormal(matrix: Tensor) -> Tensor:
    """The orthogonal factor of a matrix, by the decomposition with a positive diagonal."""
    q, r = qr(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A weight as the image of a skew-symmetric matrix, or as a product of reflections."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """Return the orthogonal matrix."""
        wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if wide else X
        q = self._reflected(tall) if self.orthogonal_map == "householder" else self._rotated(tall)
        if self.use_trivialization:
            if self.base is None:
                raise RuntimeError("orthogonal: the base of the weight is not set yet; assign the weight first")
            q = self.base @ q
        return q.mT if wide else q

    def _rotated(self, x: Tensor) -> Tensor:
        """The first columns of the exponential, or of the Cayley map, of a skew-symmetric matrix."""
        n, k = x.shape[-2:]
        lower = x.tril()
        if n != k:
            lower = cat([lower, x.new_zeros((*x.shape[:-1], n - k))], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            q = matrix_exp(skew)
        else:
            unit = eye(n, dtype=x.dtype, device=x.device)
            q = solve(unit - skew / 2, unit + skew / 2)
        return q[..., :k]

    @staticmethod
    def _reflected(x: Tensor) -> Tensor:
        """The product of the reflections whose vectors are below the diagonal, with the signs on it."""
        below = x.tril(-1)
        tau = 2.0 / (1.0 + (below * below).sum(-2))
        signs = x.detach().diagonal(dim1=-2, dim2=-1).trunc()
        return householder_product(below, tau) * signs.unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return what gives ``Q``, made orthogonal if it is not."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        if not self.use_trivialization:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            vectors = _reflections(tall)
            return vectors.mT if wide else vectors
        n, k = tall.shape[-2:]
        if n != k:
            tall = cat([tall, randn(*tall.shape[:-1], n - k, dtype=tall.dtype, device=tall.device)], -1)
        # a square matrix with orthonormal columns, whose first ones are those of Q, times the identity
        self.base = tall.clone() if n == k and _is_orthogonal(tall) else _orthonormal(tall)
        start = Q.new_zeros(Q.shape)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # minus: of the reflections, with vectors of zeros
        return start


def _reflections(matrix: Tensor) -> Tensor:
    """The vectors of the reflections that triangularise a matrix; on the diagonal the signs that make it positive."""
    raw, tau = np.linalg.qr(matrix.numpy(force=True), mode="raw")  # on the CPU, once
    vectors = np.ascontiguousarray(np.swapaxes(raw, -1, -2))
    diagonal: Any = np.einsum("...ii->...i", vectors[..., : vectors.shape[-1], :])
    # LAPACK gives exactly zero where it uses no reflection
    diagonal[...] = np.sign(diagonal) * np.where(tau == 0, -1, 1)
    return wrap(vectors).to(matrix.device)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a weight orthogonal, or unitary: its columns orthonormal, or its rows if there are fewer.

    Parameters
    ----------
    module
        Whose weight it is.
    name
        The name of the weight, a matrix or a batch of them.
    orthogonal_map
        How it is computed: ``"matrix_exp"`` or ``"cayley"`` of a skew-symmetric matrix, or as a product of reflections,
        ``"householder"``. By default the first for square or complex weights, the last for others.
    use_trivialization
        Whether what is learned is relative to where the weight begins (Lezcano Casado, 2019), which helps to converge.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        If there is no such weight, if it is not a matrix, or if the map is unknown.

    Examples
    --------
    >>> layer = rg.nn.utils.parametrizations.orthogonal(rg.nn.Linear(3, 5))
    >>> rg.allclose(layer.weight.mT @ layer.weight, rg.eye(3), atol=1e-5)
    True
    """
    weight = parametrize.tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)
