"""Inverses, determinants and linear systems.

The derivatives are those of M. Giles, "An extended collection of matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008), with adjoints where it has transposes. G_A is the gradient with respect to A.
"""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.named_results import NamedResults
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._matrices import (
    adjoint,
    check_floating,
    check_info,
    check_square,
    columns_times,
    has_nan,
    lapack,
    lapack_kernel,
    numpys,
)
from retrograd.ops._rules import conj, everywhere
from retrograd.ops.linalg_lu import first_zero_pivot
from retrograd.ops.scatter import only_once

if TYPE_CHECKING:
    from retrograd import return_types


# --- inverse ----------------------------------------------------------------------------------------------------------


def _invert(A: Any) -> tuple[Any, Any]:
    """The inverses of matrices, and for each which diagonal element of its LU factor is zero, counted from 1, or 0.

    A singular matrix of a batch gets NaN for an inverse, and leaves the others alone. So does one that has a NaN, which
    LAPACK may take for singular.
    """
    info = np.zeros(A.shape[:-2], np.int32, like=A)
    try:
        return numpys(np.linalg.inv, A), info
    except np.linalg.LinAlgError:
        inverse = np.full_like(A, np.nan)
        for index in np.ndindex(info.shape):
            try:
                inverse[index] = numpys(np.linalg.inv, A[index])
            except np.linalg.LinAlgError:
                if not has_nan(A[index]):
                    info[index] = first_zero_pivot(A[index])
        return inverse, info


_NO_INVERSE = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
)


def _inverse_gradient(g: Any, result: Any) -> Any:
    """G_A = -A⁻ᴴ G A⁻ᴴ."""
    transposed = adjoint(result)
    return -transposed @ g @ transposed


@lapack(
    namespace="linalg",
    method=False,
    node_name="LinalgInvExBackward0",
    A=_inverse_gradient,
)
def inv(A):
    """Return the inverse of a square matrix, or of every matrix of a batch.

    Raises :class:`retrograd.linalg.LinAlgError` if one of them is singular.
    """
    check_square("linalg.inv", A)
    check_floating("linalg.inv", A)
    inverse, info = _invert(A)
    check_info("linalg.inv", info, _NO_INVERSE)
    return inverse


inverse = composite(name="inverse")(inv)


@lapack(
    namespace="linalg",
    node_name="LinalgInvExBackward0",
    method=False,
    outputs=("inverse", "info"),
    differentiable_outputs=(0,),
    A=lambda g, result: _inverse_gradient(g[0], result[0]),
)
def inv_ex(A, check_errors: bool = False):
    """Return ``(inverse, info)`` without raising for singular matrices, whose inverse is NaN and ``info`` not 0."""
    check_square("linalg.inv_ex", A)
    check_floating("linalg.inv_ex", A)
    inverse, info = _invert(A)
    if check_errors:
        check_info("linalg.inv_ex", info, _NO_INVERSE)
    return inverse, info


@lapack_kernel(public=False, method=False, A=_inverse_gradient)
def inverse_or_nan(A):
    """The inverse, and NaN where there is none, so that a gradient that does not exist is visibly NaN."""
    return _invert(A)[0]


# --- determinant ------------------------------------------------------------------------------------------------------


def _cofactors_gradient(g: Any, A: Any) -> Any:
    """For C = d̄ W with d = det A and W = A⁻ᴴ: G_A = d̄ (tr(Gᴴ W) W - W Gᴴ W)."""
    det = np.linalg.det(A)
    if everywhere(det):
        W = adjoint(np.linalg.inv(A))
        if everywhere(_squared_norm(A) * _squared_norm(W) < A.shape[-1] ** 2 / np.finfo(A.dtype).eps ** 0.5):
            trace = np.sum(conj(g) * W, axis=(-2, -1), keepdims=True)
            return conj(det)[..., None, None] * (trace * W - W @ adjoint(g) @ W)
    return _cofactors_gradient_near_singular(g, A)  # there the difference consists of rounding errors


def _squared_norm(A: Any) -> Any:
    return np.sum(np.real(A * conj(A)), axis=(-2, -1))


_REPEATED = "linalg.det(): the third derivative is not implemented for singular matrices with equal singular values"


def _cofactors_gradient_near_singular(g: Any, A: Any) -> Any:
    """The same with A = U S Vᴴ and L = Vᴴ Gᴴ U, where nothing is divided: φ U (diag(P diag(L)) - P ∘ L) Vᴴ.

    P has the products of all singular values but two, and φ is the phase of det A.
    """
    U, S, Vh = np.linalg.svd(A)
    if not everywhere(S[..., :-1] - S[..., 1:] > np.finfo(A.dtype).eps ** 0.5 * S[..., :1]):
        # the derivatives of U and Vh, which the next derivative goes by, are not there
        U, S, Vh = np.linalg.svd(only_once(A, _REPEATED))
    before, after = _products_around(S)
    own = np.eye(S.shape[-1], dtype=bool)
    following = np.where(np.triu(~own), S[..., None, :], 1)
    between = np.concatenate([np.ones_like(following[..., :1]), np.cumprod(following, axis=-1)[..., :-1]], axis=-1)
    products = np.triu(before[..., None] * between * after[..., None, :], 1)
    products = products + products.mT
    L = Vh @ adjoint(g) @ U
    diagonal = np.sum(products * np.diagonal(L, axis1=-2, axis2=-1)[..., None, :], axis=-1, keepdims=True)
    inner = np.where(own, diagonal, 0) - products * L
    phase = conj(np.linalg.det(U) * np.linalg.det(Vh))[..., None, None]
    return phase * (U @ inner @ Vh)


def _products_around(S: Any) -> tuple[Any, Any]:
    """For each of the numbers the product of those before it, and of those after it."""
    one = np.ones_like(S[..., :1])
    before = np.cumprod(np.concatenate([one, S[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([one, np.flip(S[..., 1:], -1)], axis=-1), axis=-1)
    return before, np.flip(after, -1)


def _determinant(A: Any) -> Any:
    det = np.linalg.det(A)
    # LAPACK may find a zero among the pivots of a matrix with NaN
    return det if everywhere(det) else np.where(has_nan(A), np.nan, det)


@lapack_kernel(public=False, method=False, A=_cofactors_gradient)
def cofactors(A):
    """The derivative of the determinant, d̄ A⁻ᴴ: the (conjugate) cofactors of A, which singular matrices have, too."""
    det = _determinant(A)
    if everywhere(det):
        return conj(det)[..., None, None] * adjoint(_invert(A)[0])
    # adj(U S Vᴴ) = det(U) det(Vᴴ) V adj(S) Uᴴ, and adj(S) has the products of all singular values but one
    U, S, Vh = np.linalg.svd(A)
    before, after = _products_around(S)
    phase = conj(np.linalg.det(U) * np.linalg.det(Vh))[..., None, None]
    return phase * (columns_times(U, before * after) @ Vh)


@lapack(
    namespace="linalg",
    method=False,
    node_name="LinalgDetBackward0",
    A=lambda g, A: g[..., None, None] * cofactors(A),
)
def det(A):
    """Return the determinant of a square matrix, or of every matrix of a batch."""
    check_square("linalg.det", A)
    check_floating("linalg.det", A)
    return _determinant(A)


composite()(det)


def _slogdet_gradient(g: Any, A: Any, sign: Any) -> Any:
    """G_A = (g_log - i Im(ḡ_sign sign)) A⁻ᴴ, from d log det A = tr(A⁻¹ dA)."""
    g_sign, g_log = g
    if sign.dtype.kind == "c":
        g_log = g_log - 1j * np.imag(conj(g_sign) * sign)
    return g_log[..., None, None] * adjoint(inverse_or_nan(A))


@lapack(
    namespace="linalg",
    method=False,
    outputs=("sign", "logabsdet"),
    node_name="LinalgSlogdetBackward0",
    A=_slogdet_gradient,
)
def slogdet(A):
    """Return the sign (of modulus 1, if complex) and the logarithm of the modulus of the determinant.

    The determinant is ``sign * exp(logabsdet)``; of a singular matrix they are 0 and ``-inf``.
    """
    check_square("linalg.slogdet", A)
    check_floating("linalg.slogdet", A)
    sign, logabsdet = np.linalg.slogdet(A)
    if not everywhere(sign):
        logabsdet = np.where(has_nan(A), np.nan, logabsdet)
    return sign, logabsdet


composite()(slogdet)


@composite()
def logdet(input) -> Tensor:
    """Return the logarithm of the determinant; NaN where that is negative, ``-inf`` where it is 0."""
    check_square("logdet", input)
    sign, logabsdet = slogdet(input)
    if input.dtype.kind == "c":
        return np.log(sign) + logabsdet
    return np.where(sign == -1, np.nan, logabsdet)  # type: ignore[return-value]


# --- systems ----------------------------------------------------------------------------------------------------------


@lapack_kernel(
    public=False,
    method=False,
    node_name="LinalgSolveExBackward0",
    A=lambda g, A, result: -solve_matrices(adjoint(A), g) @ adjoint(result),
    B=lambda g, A: solve_matrices(adjoint(A), g),
)
def solve_matrices(A, B):
    """X = A⁻¹ B, with G_B = A⁻ᴴ G and G_A = -G_B Xᴴ."""
    return _quotient(A, B)


@lapack_kernel(
    public=False,
    method=False,
    node_name="LinalgSolveExBackward0",
    A=lambda g, A, result: -solve_vector(adjoint(A), g)[:, None] * conj(result),
    b=lambda g, A: solve_vector(adjoint(A), g),
)
def solve_vector(A, b):
    """The same for a vector and a single matrix."""
    return _quotient(A, b)


def _quotient(A: Any, B: Any) -> Any:
    try:
        return numpys(np.linalg.solve, A, B)
    except np.linalg.LinAlgError:
        inverse, info = _invert(A)
        check_info("linalg.solve", info, "The solver failed because the input matrix is singular.")
        return inverse @ B  # a matrix of the batch has a NaN


def _solve_either(A: Any, B: Any) -> Any:
    return solve_vector(A, B) if B.ndim == 1 else solve_matrices(A, B)


@composite(name="linalg.solve", method=False, out=True)
def solve(A, B, *, left: bool = True) -> Tensor:
    """Return the solution X of ``A X = B``, or of ``X A = B`` with ``left=False``.

    Shapes: ``(..., n, n)`` and ``(..., n, k)`` give ``(..., n, k)``, with the dimensions before broadcast. ``B`` is a
    vector, or a batch of vectors, if its shape is ``(n,)`` or that of ``A`` without the last dimension. Raises
    :class:`retrograd.linalg.LinAlgError` if a matrix is singular.

    >>> rg.linalg.solve(rg.tensor([[2.0, 0.0], [0.0, 4.0]]), rg.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return _solve("linalg.solve", A, B, left, _solve_either)


def _solve(name: str, A: Any, B: Any, left: bool, divide: Callable[[Any, Any], Any]) -> Any:
    check_square(name, A)
    check_floating(name, A, B)
    if left and A.ndim == 2 and B.ndim == 1 and B.shape == A.shape[:1]:
        return divide(A, B)
    vector = B.ndim == 1 or B.shape == A.shape[:-1]
    given = f"{list(B.shape)}, which is taken as column vectors" if vector else list(B.shape)
    if vector:
        B = B[..., None]
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({list(A.shape)} and {given})"
        )
    X = divide(A, B) if left else divide(A.mT, B.mT).mT.contiguous()
    return X[..., 0] if vector else X


_Solved = NamedResults("linalg_solve_ex", ["result", "info"])


@composite(name="linalg.solve_ex", method=False, out=True)
def solve_ex(A, B, *, left: bool = True, check_errors: bool = False) -> return_types.linalg_solve_ex:
    """Return ``(result, info)`` as :func:`linalg.solve` does, without raising for singular matrices.

    These have NaN for a solution and an ``info`` that is not 0: which diagonal element of the LU factor is zero.
    """
    inverse, info = inv_ex(A)
    if check_errors:
        check_info("linalg.solve_ex", info._data, "The solver failed because the input matrix is singular.")
    if info._data.any():
        return _Solved((_solve("linalg.solve_ex", inverse, B, left, np.matmul), info))
    return _Solved((_solve("linalg.solve_ex", A, B, left, _solve_either), info))
