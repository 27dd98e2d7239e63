"""Products of Householder's reflections, as LAPACK keeps the Q of a QR decomposition.

Q is the product of ``I - τᵢ vᵢ vᵢᴴ``, where vᵢ is the i-th column of a matrix below the diagonal, with a one on it
(Golub and Van Loan, "Matrix Computations", section 5.1).
"""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._matrices import adjoint, check_floating, check_matrix, lapack
from retrograd.ops._rules import not_implemented
from retrograd.ops.linalg_triangular import substitute


def _vectors(A: Any) -> Any:
    """The columns vᵢ that a matrix keeps below its diagonal."""
    return np.tril(A, -1) + np.eye(*A.shape[-2:], dtype=A.dtype)


_BLOCK = 32  # reflections that are multiplied out to one product of matrices


def _times(V: Any, tau: Any, X: Any, adjointly: bool = False) -> Any:
    """Q X or, ``adjointly``, Qᴴ X.

    The product of several reflections is I - V T Vᴴ with T⁻¹ = diag(1/τ) + S, where S is the strict upper triangle of
    Vᴴ V (Schreiber and Van Loan, "A storage-efficient WY representation", SIAM J. Sci. Stat. Comput. 10, 1989).
    """
    count = tau.shape[-1]  # V may have more columns
    starts = range(0, count, _BLOCK)
    for start in starts if adjointly else reversed(starts):
        block = slice(start, min(start + _BLOCK, count))
        v, factors = V[..., block], tau[..., block, None]
        # T = (I + diag(τ) S)⁻¹ diag(τ), as a factor may be zero
        T = substitute(factors * (adjoint(v) @ v), factors * np.eye(v.shape[-1], dtype=v.dtype), True, True)
        X = X - v @ ((adjoint(T) if adjointly else T) @ (adjoint(v) @ X))
    return X


@lapack(outputs=("a", "tau"), input=not_implemented("geqrf", "input"))
def geqrf(input):
    """Return the QR decomposition as LAPACK keeps it: R, below its diagonal the vectors vᵢ, and the τᵢ.

    :func:`ormqr` multiplies by Q. It cannot be differentiated; :func:`linalg.qr` can. Shapes: ``(..., m, n)`` gives
    ``(..., m, n)`` and ``(..., k)`` with ``k = min(m, n)``.
    """
    check_matrix("geqrf", input)
    check_floating("geqrf", input)
    columns, tau = np.linalg.qr(input, "raw")
    return columns.mT, tau


@composite(name="linalg.householder_product", method=False, out=True)
def householder_product(A, tau) -> Tensor:
    """Return the first columns of the product of the reflections I - τᵢ vᵢ vᵢᴴ.

    vᵢ is the i-th column of ``A`` below the diagonal, with a one on it. Shapes: ``(..., m, n)`` and ``(..., k)`` with
    ``m >= n >= k`` give ``(..., m, n)``.
    """
    check_matrix("linalg.householder_product", A)
    check_floating("linalg.householder_product", A, tau)
    m, n = A.shape[-2:]
    if m < n or n < tau.shape[-1]:
        raise RuntimeError(
            "linalg.householder_product: A must have at least as many rows as columns and at least as many columns as "
            f"tau has elements, but they have shapes {list(A.shape)} and {list(tau.shape)}"
        )
    return _times(_vectors(A), tau, wrap(np.zeros_like(A._data) + np.eye(m, n, dtype=A._data.dtype)))


orgqr = composite(name="orgqr")(householder_product)


@composite(out=True)
def ormqr(input, tau, other, left: bool = True, transpose: bool = False) -> Tensor:
    """Return Q @ ``other``, with Q the product of the reflections that :func:`geqrf` returned as ``input`` and ``tau``.

    Parameters
    ----------
    left
        Whether Q is on the left; otherwise the result is ``other`` @ Q.
    transpose
        Take the conjugate transpose of Q.

    Shapes: ``(..., m, n)``, ``(..., k)`` with ``k = min(m, n)``, and ``(..., m, p)``, or ``(..., p, m)`` if Q is on the
    right, of which the result has the shape.

    Raises
    ------
    RuntimeError
        If the shapes do not fit or the dtypes differ.

    Examples
    --------
    >>> A, B = rg.tensor([[3.0, 1.0], [4.0, 2.0]]), rg.ones(2, 1)
    >>> a, tau = rg.geqrf(A)
    >>> solution = rg.linalg.solve_triangular(a.triu(), rg.ormqr(a, tau, B, transpose=True), upper=True)
    >>> (A @ solution).round(decimals=5)
    tensor([[1.],
            [1.]])
    """
    for matrix in (input, other):
        check_matrix("ormqr", matrix)
    check_floating("ormqr", input, tau, other)
    m, n = input.shape[-2:]
    side = other.shape[-2 if left else -1]
    batches = {tuple(shape) for shape in (input.shape[:-2], tau.shape[:-1], other.shape[:-2])}
    if side != m or tau.shape[-1] != min(m, n) or len(batches) != 1:
        raise RuntimeError(
            f"ormqr: input of shape {list(input.shape)} needs tau of shape {[*input.shape[:-2], min(m, n)]} and other "
            f"with {m} {'rows' if left else 'columns'}, but they have shapes {list(tau.shape)} and {list(other.shape)}"
        )
    V = _vectors(input)
    return _times(V, tau, other, transpose) if left else adjoint(_times(V, tau, adjoint(other), not transpose))
