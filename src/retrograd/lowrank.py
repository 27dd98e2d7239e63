"""Decompositions of matrices that are nearly of low rank, by random directions."""

from __future__ import annotations

from typing import Any

from retrograd.core.errors import no_tensor
from retrograd.core.tensor import Tensor
from retrograd.linalg import qr, svd
from retrograd.random import randn

__all__ = ["pca_lowrank", "svd_lowrank"]


def _check_tensor(name: str, A: Any) -> None:
    if not isinstance(A, Tensor):
        raise no_tensor(name, "argument 'A' (position 1)", A)


def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> tuple[Any, Any, Any]:
    """Return the largest singular values of matrices, and their vectors: ``A`` is about ``U @ diag(S) @ V.mH``.

    Halko, Martinsson and Tropp, "Finding structure with randomness", 2011: the range of ``A`` is looked for among its
    products with ``q`` random vectors. It takes ``q`` a little above the rank that matters; the singular values of a
    matrix whose rank is at most ``q`` are exact.

    Parameters
    ----------
    A
        The matrices, of shape (..., m, n).
    q
        How many singular values, at most.
    niter
        How often the random vectors are multiplied by ``A.mH`` and ``A``, which brings out the large singular values.
    M
        A matrix to subtract from ``A``, such as the mean of its rows; of a shape that broadcasts.

    Returns
    -------
    tuple of Tensor
        ``U`` (..., m, q), ``S`` (..., q) and ``V`` (..., n, q).

    Examples
    --------
    >>> A = rg.outer(rg.tensor([1.0, 2.0, 2.0]), rg.tensor([3.0, 0.0, 4.0]))
    >>> U, S, V = rg.svd_lowrank(A, q=1)
    >>> S.round(decimals=3)
    tensor([15.])
    """
    _check_tensor("svd_lowrank", A)
    if A.ndim < 2:
        raise ValueError(f"svd_lowrank: A must be a matrix or a batch of them, but its shape is {tuple(A.shape)}")
    if not A.dtype.is_floating_point and not A.dtype.is_complex:
        raise RuntimeError(f"svd_lowrank: A must be floating point or complex, but it is {A.dtype}; use A.float()")
    matrix = A if M is None else A - M
    m, n = matrix.shape[-2:]
    if m < n:
        left, values, right = svd_lowrank(matrix.mH, q, niter)
        return right, values, left
    start = randn(n, min(q, n), dtype=matrix.dtype, device=matrix.device)
    columns = qr(matrix @ start).Q
    for _ in range(niter):
        columns = qr(matrix.mH @ columns).Q
        columns = qr(matrix @ columns).Q
    inner = svd(columns.mH @ matrix, full_matrices=False)
    return columns @ inner.U, inner.S, inner.Vh.mH


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:
    """Return the principal components of the rows of matrices, as :func:`svd_lowrank` finds them.

    Parameters
    ----------
    A
        The data, of shape (..., m, n): m samples of n numbers.
    q
        How many components, at most; 6, if the matrix is not smaller.
    center
        Whether to subtract the mean of the rows.
    niter
        As for :func:`svd_lowrank`.

    Returns
    -------
    tuple of Tensor
        ``U`` (..., m, q), ``S`` (..., q) and ``V`` (..., n, q). The columns of ``V`` are the directions of the
        components, ``S**2 / (m - 1)`` their variances, and ``A @ V`` the data in these directions.

    Raises
    ------
    ValueError
        If ``q`` is more than the smaller side of the matrix, or ``niter`` is negative.

    Examples
    --------
    >>> U, S, V = rg.pca_lowrank(rg.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), q=1)
    >>> (S**2 / 2).round(decimals=3)
    tensor([2.])
    """
    _check_tensor("pca_lowrank", A)
    smaller = min(A.shape[-2:])
    q = min(6, smaller) if q is None else q
    if not 0 <= q <= smaller:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smaller}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
