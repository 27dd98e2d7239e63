"""Factorisations of matrices: Cholesky, QR, eigenvalues, singular values.

Sources of the derivatives: M. Giles, "An extended collection of matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008); S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions"
(2010); J. Townsend, "Differentiating the singular value decomposition" (2016); for complex matrices Z. Wan and
S. Zhang, "Automatic differentiation for complex valued SVD" (2019).
"""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from retrograd.core.errors import LinAlgError
from retrograd.core.named_results import NamedResults
from retrograd.core.registry import composite
from retrograd.core.tensor import wrap
from retrograd.ops._fused import samples_in_front
from retrograd.ops._matrices import (
    adjoint,
    check_floating,
    check_info,
    check_matrix,
    check_square,
    columns_times,
    lapack,
    lower_triangle,
    numpys,
)
from retrograd.ops._rules import conj, everywhere
from retrograd.ops.linalg_triangular import substitute

if TYPE_CHECKING:
    from retrograd import return_types


def _hermitian(lower: Any) -> Any:
    """The Hermitian matrix with the lower triangle of ``lower``."""
    half = (lower_triangle(lower) + lower_triangle(lower, -1)) / 2
    return half + adjoint(half)


def _skew(matrix: Any) -> Any:
    return matrix - adjoint(matrix)


def _quotient(a: Any, b: Any) -> Any:
    """``a / b``, and 0 where both are 0: vectors that have no gradient need no derivative."""
    return a / np.where((a == 0) & (b == 0), 1, b)


def _asked(*gradients: Any) -> Any:
    """Which of the column vectors have a gradient; the others may belong to repeated values."""
    asked: Any = False
    for gradient in gradients:
        asked = np.any(gradient != 0, axis=-2) | asked
    return asked


def _pairs(asked: Any) -> Any:
    """For i, j: whether one of the two has a gradient."""
    return asked[..., None, :] | asked[..., :, None]


def _over_gaps(a: Any, gaps: Any, asked: Any) -> Any:
    """``a / gaps``, but 0 where a gap is 0 and no vector has a gradient; linear in ``a`` where no gap is 0."""
    return a / np.where((gaps == 0) & ~asked, 1, gaps)


def _differences(values: Any) -> Any:
    """``values[j] - values[i]`` at i, j; 1 on the diagonal."""
    return values[..., None, :] - values[..., :, None] + np.eye(values.shape[-1], dtype=values.dtype)


def _with_diagonal(matrix: Any, diagonal: Any) -> Any:
    """``matrix`` with its diagonal replaced."""
    return np.where(np.eye(matrix.shape[-1], dtype=bool), diagonal[..., None, :], matrix)


def _diagonal(matrix: Any) -> Any:
    return np.diagonal(matrix, 0, -2, -1)


def _check_phase(name: str, products: Any) -> None:
    """Raise if a loss depends on the phases of complex vectors, which are arbitrary."""
    if products.dtype.kind == "c" and not everywhere(~(np.abs(np.imag(_diagonal(products))) > 1e-2)):
        raise RuntimeError(
            f"{name}: The singular vectors or eigenvectors in the complex case are specified up to multiplication by "
            "e^{i phi}. The specified loss function depends on this phase term, making it ill-defined."
        )


# --- Cholesky ---------------------------------------------------------------------------------------------------------


@samples_in_front
def _factorise(A: Any, upper: bool) -> tuple[Any, Any]:
    """Cholesky factors, and for each matrix the order of its first minor that is not positive definite, or 0."""
    info = np.zeros(A.shape[:-2], np.int32, like=A)
    try:
        factor = numpys(np.linalg.cholesky, A, upper=upper)
    except np.linalg.LinAlgError:
        factor = np.full_like(A, np.nan)
        for index in np.ndindex(info.shape):
            order = 1
            while order <= A.shape[-1] and _is_positive(A[index][:order, :order], upper):
                order += 1
            if order > A.shape[-1]:
                factor[index] = np.linalg.cholesky(A[index], upper=upper)
            else:
                info[index] = order
    # OpenBLAS stops neither at NaN nor at infinity, and what comes after these is not a factor
    pivots = _diagonal(factor)
    spoilt = ~np.isfinite(pivots)
    missing = np.isnan(pivots) | (np.cumsum(spoilt, -1) > spoilt)
    if missing.any():
        failed = missing.any(-1)
        info = np.where(failed & (info == 0), A.shape[-1] + 1 - missing.sum(-1), info).astype(np.int32)
        factor[failed] = np.nan
    return factor, info


def _is_positive(A: Any, upper: bool) -> bool:
    try:
        numpys(np.linalg.cholesky, A, upper=upper)
    except np.linalg.LinAlgError:
        return False
    return True


_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {info} is not positive-definite)."
)


def _cholesky_gradient(g: Any, result: Any, upper: bool) -> Any:
    """G_A = ½ L⁻ᴴ S L⁻¹, where S is Hermitian and has the lower triangle of Lᴴ G_L."""
    L, GL = (adjoint(result), adjoint(g)) if upper else (result, g)
    S = _hermitian(adjoint(L) @ GL) / 2
    return substitute(adjoint(L), adjoint(substitute(adjoint(L), S, True)), True)


@lapack(
    namespace="linalg",
    method=False,
    node_name="LinalgCholeskyExBackward0",
    A=_cholesky_gradient,
)
def cholesky(A, upper: bool = False):
    """Return the lower triangle L with ``A = L Lᴴ``, or the ``upper`` one U with ``A = Uᴴ U``.

    Only that triangle of the symmetric (Hermitian) matrix ``A`` is read. Raises
    :class:`retrograd.linalg.LinAlgError` if it is not positive definite.
    """
    check_square("linalg.cholesky", A)
    check_floating("linalg.cholesky", A)
    factor, info = _factorise(A, upper)
    check_info("linalg.cholesky", info, _NOT_POSITIVE)
    return factor


composite()(cholesky)


@lapack(
    namespace="linalg",
    node_name="LinalgCholeskyExBackward0",
    method=False,
    outputs=("L", "info"),
    differentiable_outputs=(0,),
    A=lambda g, result, upper: _cholesky_gradient(g[0], result[0], upper),
)
def cholesky_ex(A, upper: bool = False, check_errors: bool = False):
    """Return ``(L, info)`` without raising: where a matrix is not positive definite, L is NaN and ``info`` not 0."""
    check_square("linalg.cholesky_ex", A)
    check_floating("linalg.cholesky_ex", A)
    factor, info = _factorise(A, upper)
    if check_errors:
        check_info("linalg.cholesky_ex", info, _NOT_POSITIVE)
    return factor, info


# --- QR ---------------------------------------------------------------------------------------------------------------


def _qr_gradient(g: Any, result: Any, mode: str) -> Any:
    """Of a wide matrix the first columns, A₁ = Q R₁, are square, and the others follow: R₂ = Qᴴ A₂."""
    (GQ, GR), (Q, R) = g, result
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    if m >= n:
        return _tall_qr_gradient(GQ, GR, Q, R)
    R1, R2, GR1, GR2 = R[..., :m], R[..., m:], GR[..., :m], GR[..., m:]
    first = _tall_qr_gradient(GQ + Q @ R2 @ adjoint(GR2), GR1, Q, R1)
    return np.concatenate([first, Q @ GR2], axis=-1)


def _tall_qr_gradient(GQ: Any, GR: Any, Q: Any, R: Any) -> Any:
    """G_A = (G_Q + Q S) R⁻ᴴ, where S is Hermitian and has the lower triangle of R G_Rᴴ - G_Qᴴ Q."""
    S = _hermitian(R @ adjoint(GR) - adjoint(GQ) @ Q)
    return adjoint(substitute(R, adjoint(GQ + Q @ S), True))


@lapack(
    namespace="linalg",
    method=False,
    outputs=("Q", "R"),
    node_name="LinalgQrBackward0",
    A=_qr_gradient,
)
def qr(A, mode: Literal["reduced", "complete", "r"] = "reduced"):
    """Return Q with orthonormal columns and the upper triangle R with ``A = Q R``.

    Parameters
    ----------
    mode
        ``"reduced"``: Q is ``(..., m, k)`` with ``k = min(m, n)``; ``"complete"``: Q is ``(..., m, m)``;
        ``"r"``: R only, and an empty Q.
    """
    check_matrix("linalg.qr", A)
    check_floating("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"linalg.qr: mode '{mode}' is not one of 'reduced', 'complete' and 'r'")
    if mode == "r":
        return np.empty(0, A.dtype, like=A), np.linalg.qr(A, mode)
    return tuple(np.linalg.qr(A, mode))


@composite(name="qr", out=True)
def qr_some(input, some: bool = True) -> return_types.linalg_qr:
    """Return the reduced (``some``) or complete QR decomposition; :func:`linalg.qr` is newer."""
    return qr(input, "reduced" if some else "complete")


# --- eigenvalues ------------------------------------------------------------------------------------------------------


def _eigh_gradient(g: Any, result: Any) -> Any:
    """G_A = V (diag(G_L) + skew(Vᴴ G_V) / (2 E)) Vᴴ with Eᵢⱼ = λⱼ - λᵢ off the diagonal."""
    (GL, GV), (L, V) = g, result
    products = adjoint(V) @ GV
    _check_phase("linalg.eigh", products)
    inner = _over_gaps(_skew(products), 2 * _differences(L), _pairs(_asked(GV)))
    return V @ _with_diagonal(inner, GL) @ adjoint(V)


_Triangle: TypeAlias = Literal["L", "U", "l", "u"]


def _check_hermitian(name: str, A: Any, UPLO: str) -> None:
    check_square(name, A)
    check_floating(name, A)
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO!r}")


def decomposed(name: str, function: Callable[..., Any], A: Any, *arguments: Any) -> Any:
    """``function(A, *arguments)``, one of NumPy's iterative decompositions.

    Raises
    ------
    LinAlgError
        If ``A`` is not finite, of which some LAPACKs complain on the standard output, or the iteration does not end.
    """
    if not np.isfinite(A).all():
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix contained non-finite values."
        )
    try:
        return numpys(function, A, *arguments)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
            "repeated eigenvalues or singular values."
        ) from None


@lapack(
    namespace="linalg",
    method=False,
    outputs=("eigenvalues", "eigenvectors"),
    node_name="LinalgEighBackward0",
    A=_eigh_gradient,
)
def eigh(A, UPLO: _Triangle = "L"):
    """Return the real eigenvalues, in ascending order, and the eigenvectors of a symmetric (Hermitian) matrix.

    Only the lower (``UPLO="L"``) or upper triangle is read. The vectors are unique up to their sign (phase), and
    their derivative exists where no eigenvalue is repeated.
    """
    _check_hermitian("linalg.eigh", A, UPLO)
    return tuple(decomposed("linalg.eigh", np.linalg.eigh, A, UPLO))


def _eigvalsh_gradient(g: Any, A: Any, UPLO: _Triangle) -> Any:
    """G_A = V diag(G) Vᴴ."""
    V = np.linalg.eigh(A, UPLO)[1]
    return columns_times(V, g) @ adjoint(V)


@lapack(namespace="linalg", method=False, A=_eigvalsh_gradient)
def eigvalsh(A, UPLO: _Triangle = "L"):
    """Return the real eigenvalues of a symmetric (Hermitian) matrix, in ascending order."""
    _check_hermitian("linalg.eigvalsh", A, UPLO)
    return decomposed("linalg.eigvalsh", np.linalg.eigvalsh, A, UPLO)


def _eig_gradient(g: Any, result: Any) -> Any:
    """G_A = V⁻ᴴ (diag(G_L) + (Vᴴ G_V - Vᴴ V Re diag(Vᴴ G_V)) / E*) Vᴴ; the vectors have length 1."""
    (GL, GV), (L, V) = g, result
    Vh = adjoint(V)
    products = Vh @ GV
    _check_phase("linalg.eig", products)
    tangent = products - columns_times(Vh @ V, np.real(_diagonal(products)))
    inner = _over_gaps(tangent, conj(_differences(L)), _asked(GV)[..., None, :])
    return np.linalg.solve(Vh, _with_diagonal(inner, GL) @ Vh)


def _check_general(name: str, A: Any) -> Any:
    check_square(name, A)
    check_floating(name, A)
    if not np.isfinite(A).all():
        raise RuntimeError(f"{name}: input tensor should not contain infs or NaNs.")
    return np.complex64 if A.dtype.itemsize == (8 if A.dtype.kind == "c" else 4) else np.complex128


@lapack(
    namespace="linalg",
    method=False,
    outputs=("eigenvalues", "eigenvectors"),
    node_name="LinalgEigBackward0",
    A=_eig_gradient,
)
def eig(A):
    """Return the complex eigenvalues and eigenvectors, of length 1, of a square matrix, in no particular order.

    The vectors are unique up to a phase, and their derivative exists where no eigenvalue is repeated.
    """
    dtype = _check_general("linalg.eig", A)
    L, V = decomposed("linalg.eig", np.linalg.eig, A)
    return L.astype(dtype, copy=False), V.astype(dtype, copy=False)


def _eigvals_gradient(g: Any, A: Any) -> Any:
    """G_A = V⁻ᴴ diag(G) Vᴴ."""
    V = np.linalg.eig(A)[1]
    return np.linalg.solve(adjoint(V), g[..., :, None] * adjoint(V))


@lapack(namespace="linalg", method=False, A=_eigvals_gradient)
def eigvals(A):
    """Return the complex eigenvalues of a square matrix, in no particular order."""
    dtype = _check_general("linalg.eigvals", A)
    return decomposed("linalg.eigvals", np.linalg.eigvals, A).astype(dtype, copy=False)


# --- singular values --------------------------------------------------------------------------------------------------


def _svd_gradient(g: Any, result: Any) -> Any:
    """G_A = U (diag(G_S) + (skew(Uᴴ G_U) S + S skew(Vᴴ G_V)) / E) Vᴴ, with Eᵢⱼ = σⱼ² - σᵢ² off the diagonal.

    The parts of G_U and G_V outside the ranges of U and V are added. Vectors after the first min(m, n) do not count.
    """
    (GU, GS, GVh), (U, S, Vh) = g, result
    k = S.shape[-1]
    U, GU, Vh, GVh = U[..., :k], GU[..., :k], Vh[..., :k, :], GVh[..., :k, :]
    m, n = U.shape[-2], Vh.shape[-1]
    left, right = adjoint(U) @ GU, Vh @ adjoint(GVh)
    _check_phase("linalg.svd", left + right)
    inner = columns_times(_skew(left), S) + S[..., :, None] * _skew(right)
    inner = _over_gaps(inner, _differences(S**2), _pairs(_asked(GU, adjoint(GVh))))
    diagonal = GS if U.dtype.kind != "c" else GS + 1j * _quotient(np.imag(_diagonal(left)), S)
    inner = U @ _with_diagonal(inner, diagonal)
    if m > k:
        inner = inner + _quotient(GU - U @ left, S[..., None, :])
    gradient = inner @ Vh
    if n > k:
        gradient = gradient + U @ _quotient(GVh - adjoint(right) @ Vh, S[..., :, None])
    return gradient


@lapack(
    namespace="linalg",
    method=False,
    outputs=("U", "S", "Vh"),
    node_name="LinalgSvdBackward0",
    A=_svd_gradient,
)
def svd(A, full_matrices: bool = True, driver: str | None = None):
    """Return U, S and Vᴴ with ``A = U diag(S) Vᴴ``, the singular values S in descending order.

    Shapes: ``(..., m, m)``, ``(..., k)`` and ``(..., n, n)`` with ``k = min(m, n)``, or ``(..., m, k)``, ``(..., k)``
    and ``(..., k, n)`` without ``full_matrices``. The vectors are unique up to their signs (phases), and their
    derivative exists where no singular value is repeated; that of the values always does. Those after the first ``k``
    are any that complete a basis: gradients of them do not count, as in torch.
    """
    check_matrix("linalg.svd", A)
    check_floating("linalg.svd", A)
    if driver is not None:
        raise RuntimeError("linalg.svd: keyword argument `driver=` chooses a GPU's algorithm; leave it out")
    return tuple(decomposed("linalg.svd", np.linalg.svd, A, full_matrices))


def _svdvals_gradient(g: Any, A: Any) -> Any:
    """G_A = U diag(G) Vᴴ."""
    U, _, Vh = np.linalg.svd(A, full_matrices=False)
    return columns_times(U, g) @ Vh


@lapack(namespace="linalg", method=False, A=_svdvals_gradient)
def svdvals(A, driver: str | None = None):
    """Return the singular values, in descending order."""
    check_matrix("linalg.svdvals", A)
    check_floating("linalg.svdvals", A)
    return decomposed("linalg.svdvals", _singular_values, A)


def _singular_values(A: Any) -> Any:
    return np.linalg.svd(A, compute_uv=False)


_SVD = NamedResults("svd", ["U", "S", "V"])


@composite(name="svd", out=True)
def svd_some(input, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """Return U, S and V (not its adjoint); U and V are zeros without ``compute_uv``. :func:`linalg.svd` is newer."""
    if not compute_uv:
        U, V = (wrap(np.zeros_like(input._data, shape=(*input.shape[:-2], n, n), order="C")) for n in input.shape[-2:])
        return _SVD((U, svdvals(input), V))
    U, S, Vh = svd(input, not some)
    return _SVD((U, S, adjoint(Vh).contiguous()))
