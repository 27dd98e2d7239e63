"""Functions of matrices: pseudo-inverse, least squares, rank, exponential, powers, and inverses of tensors."""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.named_results import NamedResults
from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._checks import check_number
from retrograd.ops._fused import samples_in_front
from retrograd.ops._matrices import (
    adjoint,
    check_floating,
    check_matrix,
    check_square,
    columns_times,
    epsilon,
    lapack,
    lapack_kernel,
)
from retrograd.ops._reducing import add_reduce
from retrograd.ops._rules import conj, everywhere
from retrograd.ops.linalg import inv
from retrograd.ops.linalg_decompositions import decomposed, eigh, svdvals
from retrograd.ops.matmul import matmul

if TYPE_CHECKING:
    from retrograd import return_types
    from retrograd.core.annotations import TensorOrArray


# --- pseudo-inverse ---------------------------------------------------------------------------------------------------


def _default_rtol(A: Any) -> float:
    return epsilon(A.dtype) * max(A.shape[-2:])


def _cutoff(largest: Any, A: Any, atol: Any, rtol: Any) -> Any:
    """The bound below which a singular value counts as zero: ``max(atol, rtol * largest)``, of the shape of the batch.

    ``rtol`` is ``max(m, n) * eps`` if neither is given, and 0 if only a positive ``atol`` is.
    """
    if rtol is None:
        rtol = _default_rtol(A) if atol is None else np.where(np.asarray(atol) > 0, 0.0, _default_rtol(A))
    return np.maximum(0.0 if atol is None else atol, rtol * largest)


def _reciprocals(S: Any, A: Any, atol: Any, rtol: Any) -> Any:
    """``1 / S``, and 0 for those that count as zero."""
    size = np.abs(S)
    cutoff = _cutoff(size.max(axis=-1, initial=0), A, atol, rtol)[..., None]
    return np.divide(1, S, out=np.zeros_like(S), where=size > cutoff)


def _pinv_gradient(g: Any, A: Any, result: Any) -> Any:
    """The derivative where the rank stays the same. With P = A⁺,

    dP = -P dA P + P Pᴴ dAᴴ (I - A P) + (I - P A) dAᴴ Pᴴ P; G. Golub and V. Pereyra, "The differentiation of
    pseudo-inverses and nonlinear least squares problems whose variables separate" (1973).
    """
    P = result
    Gh, Ph = adjoint(g), adjoint(P)
    first, second = Gh @ P @ Ph, Ph @ P @ Gh
    return -Ph @ g @ Ph + first - A @ (P @ first) + second - (second @ P) @ A


@lapack(
    namespace="linalg",
    method=False,
    node_name="LinalgPinvBackward0",
    A=_pinv_gradient,
)
def pinv(
    A,
    rcond: float | TensorOrArray | None = None,
    hermitian: bool = False,
    atol: float | TensorOrArray | None = None,
    rtol: float | TensorOrArray | None = None,
):
    """Return the Moore-Penrose pseudo-inverse.

    Parameters
    ----------
    rcond, rtol
        Singular values up to this share of the largest count as zero; ``max(m, n)`` times the dtype's epsilon.
    hermitian
        Whether ``A`` is symmetric (Hermitian); then only its lower triangle is read.
    atol
        Singular values up to this one count as zero.
    """
    check_matrix("linalg.pinv", A)
    check_floating("linalg.pinv", A)
    rtol = rcond if rtol is None else rtol
    if hermitian:
        check_square("linalg.pinv", A)
        L, V = decomposed("linalg.pinv", np.linalg.eigh, A)
        return columns_times(V, _reciprocals(L, A, atol, rtol)) @ adjoint(V)
    U, S, Vh = decomposed("linalg.pinv", np.linalg.svd, A, False)
    return columns_times(adjoint(Vh), _reciprocals(S, A, atol, rtol)) @ adjoint(U)


@composite()
def pinverse(input, rcond: float = 1e-15) -> Tensor:
    """Return the Moore-Penrose pseudo-inverse; :func:`linalg.pinv` is newer and has a safer default."""
    return pinv(input, check_number("pinverse", "rcond", rcond))


# --- least squares ----------------------------------------------------------------------------------------------------


def _least_squares_gradient(g: Any, A: Any, B: Any, result: Any, rcond: float) -> Any:
    """G_A for X = A⁺ B, which is :func:`_pinv_gradient` with G = G_X Bᴴ, multiplied out."""
    X, P = result, np.linalg.pinv(A, rcond)
    GB = adjoint(P) @ g
    return (B - A @ X) @ adjoint(P @ GB) - GB @ adjoint(X) + (adjoint(P) @ X) @ adjoint(g - P @ (A @ g))


@lapack(
    name="lstsq",
    public=False,
    method=False,
    node_name="LinalgLstsqBackward0",
    A=_least_squares_gradient,
    B=lambda g, A, rcond: adjoint(np.linalg.pinv(A, rcond)) @ g,
)
def _least_squares(A, B, rcond: float):
    U, S, Vh = decomposed("linalg.lstsq", np.linalg.svd, A, False)
    return adjoint(Vh) @ (_reciprocals(S, A, None, rcond)[..., None] * (adjoint(U) @ B))


_LeastSquares = NamedResults("linalg_lstsq", ["solution", "residuals", "rank", "singular_values"])
_DRIVERS = ("gelsy", "gelsd", "gelss", "gels")


@composite(name="linalg.lstsq", method=False, out=True)
def lstsq(A, B, rcond: float | None = None, *, driver: str | None = None) -> return_types.linalg_lstsq:
    """Return the X that minimises ``||A X - B||``, of minimal norm if there are several, as ``solution``.

    Parameters
    ----------
    rcond
        Singular values up to this share of the largest count as zero; ``max(m, n)`` times the dtype's epsilon.
    driver
        LAPACK's routine in torch. Here it is always the singular value decomposition, and ``driver`` says what comes
        besides the solution: ``residuals`` (unless ``"gelsy"``, the default), ``rank`` (unless ``"gels"``) and
        ``singular_values`` (``"gelsd"`` and ``"gelss"``). What does not come is empty, and the residuals also
        where ``m <= n`` or the rank is not full.
    """
    driver = driver or "gelsy"
    if driver not in _DRIVERS:
        raise RuntimeError(f"linalg.lstsq: parameter `driver` should be one of {_DRIVERS}, but got {driver!r}")
    check_matrix("linalg.lstsq", A)
    check_floating("linalg.lstsq", A, B)
    vector = B.ndim == A.ndim - 1
    if vector:
        B = B[..., None]
    if B.ndim < 2 or A.shape[-2] != B.shape[-2]:
        raise RuntimeError(
            f"linalg.lstsq: the rows of A and B must match, but have shapes {list(A.shape)}, {list(B.shape)}"
        )
    m, n = A.shape[-2:]
    rcond = _default_rtol(A) if rcond is None else rcond
    X = _least_squares(A, B, rcond)
    S = svdvals(A.detach())
    empty = wrap(np.zeros_like(S._data, shape=0))
    residuals, rank, singular_values = empty, wrap(np.zeros_like(S._data, np.int64, shape=0)), empty
    if driver != "gels":
        rank = _count_above(S, A, None, rcond)
    if driver != "gelsy" and m > n and (driver == "gels" or everywhere(rank == n)):
        residuals = np.sum(np.square(np.abs(A @ X - B)), axis=-2)
    if driver in ("gelsd", "gelss"):
        singular_values = S
    return _LeastSquares((X[..., 0] if vector else X, residuals, rank, singular_values))


# --- rank -------------------------------------------------------------------------------------------------------------


@lapack_kernel(public=False, method=False)
def _count_above(S, A, atol: Any, rtol: Any):
    """How many singular values do not count as zero."""
    size = np.abs(S)
    return np.sum(size > _cutoff(size.max(axis=-1, initial=0), A, atol, rtol)[..., None], axis=-1)


@composite(name="linalg.matrix_rank", method=False, out=True)
def matrix_rank(
    A,
    tol: float | TensorOrArray | None = None,
    hermitian: bool = False,
    *,
    atol: float | TensorOrArray | None = None,
    rtol: float | TensorOrArray | None = None,
) -> Tensor:
    """Return how many singular values are above ``max(atol, rtol * largest)``.

    ``tol`` is another name for ``atol``; ``rtol`` is ``max(m, n)`` times the dtype's epsilon. With ``hermitian`` the
    moduli of the eigenvalues are counted.
    """
    check_matrix("linalg.matrix_rank", A)
    A = A.detach()
    S = eigh(A)[0] if hermitian else svdvals(A)
    return _count_above(S, A, tol if atol is None else atol, rtol)


# --- exponential and powers -------------------------------------------------------------------------------------------

# the Padé approximant of degree 13, Σ bₖ Aᵏ / Σ bₖ (-A)ᵏ, and the norm up to which it is exact in double precision
_PADE = list(itertools.accumulate(range(1, 14), lambda b, k: b * (14 - k) / (k * (27 - k)), initial=1.0))
_PADE_NORM = 5.371920351148152


def _exponential_gradient(g: Any, A: Any) -> Any:
    """The upper right block of exp([[Aᴴ, G], [0, Aᴴ]]); R. Mathias, "A chain rule for matrix functions" (1996)."""
    n = A.shape[-1]
    Ah = adjoint(A)
    blocks = np.concatenate(
        [np.concatenate([Ah, g], axis=-1), np.concatenate([np.zeros_like(Ah), Ah], axis=-1)], axis=-2
    )
    return exponential(blocks)[..., :n, n:]


@lapack_kernel(public=False, method=False, node_name="LinalgMatrixExpBackward0", A=_exponential_gradient)
def exponential(A):
    """exp(A) by scaling and squaring a Padé approximant.

    N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
    """
    if A.dtype == np.float16:
        return exponential(A.astype(np.float32)).astype(np.float16)
    if A.size == 0:
        return A.copy()
    norm = np.abs(A).sum(axis=-2).max(axis=-1)
    halvings = np.maximum(np.frexp(norm / _PADE_NORM)[1], 0)[..., None, None]  # of each matrix
    A = A / np.exp2(halvings, dtype=norm.dtype)
    b = [A.dtype.type(c) for c in _PADE]
    I = np.eye(A.shape[-1], dtype=A.dtype)  # noqa: E741
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A2 @ A4
    U = A @ (A6 @ (b[13] * A6 + b[11] * A4 + b[9] * A2) + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * I)
    V = A6 @ (b[12] * A6 + b[10] * A4 + b[8] * A2) + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * I
    result = np.linalg.solve(V - U, V + U)
    for k in range(int(halvings.max())):
        result = np.where(k < halvings, result @ result, result)
    return result


@composite(name="linalg.matrix_exp", method=False)
def matrix_exp(A) -> Tensor:
    """Return the matrix exponential, ``I + A + A²/2! + A³/3! + ...``."""
    check_square("linalg.matrix_exp", A)
    check_floating("linalg.matrix_exp", A, half=True)
    return exponential(A)


composite()(matrix_exp)


@composite(name="linalg.matrix_power", method=False, out=True)
def matrix_power(A, n: int) -> Tensor:
    """Return the ``n``-th power of a square matrix, by repeated squaring; of the inverse, if ``n`` is negative."""
    n = as_int("matrix_power", "n", n)
    check_square("linalg.matrix_power", A)
    if n < 0:
        A, n = inv(A), -n
    if n == 0:
        constant: Any = np.where(False, A, np.eye(A.shape[-1], dtype=A.dtype))  # but a differentiable one
        return constant
    result: Any = None
    while True:
        if n & 1:
            result = A if result is None else matmul(result, A)
        n >>= 1
        if n == 0:
            return result.copy() if result is A else result
        A = matmul(A, A)


composite()(matrix_power)


# --- tensors as matrices ----------------------------------------------------------------------------------------------


@composite(name="linalg.tensorinv", method=False, out=True)
def tensorinv(A, ind: int = 2) -> Tensor:
    """Return the inverse of ``A`` as a map from its last dimensions to its first ``ind`` ones.

    >>> rg.linalg.tensorinv(rg.eye(6).reshape(2, 3, 6), ind=2).shape
    retrograd.Size([6, 2, 3])
    """
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "linalg.tensorinv: expected prod(A.shape[ind:]) == prod(A.shape[:ind]), "
            f"but got {math.prod(last)} != {math.prod(first)} for shape {list(A.shape)} and ind={ind}"
        )
    return inv(A.reshape((math.prod(first), math.prod(last)))).reshape((*last, *first))


@composite(name="linalg.tensorsolve", method=False, out=True)
def tensorsolve(A, B, dims: Sequence[int] | None = None) -> Tensor:
    """Return the X with ``tensordot(A, X, X.ndim) == B``, after moving the dimensions ``dims`` of ``A`` to its end."""
    if dims is not None:
        A = np.moveaxis(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    last = A.shape[B.ndim :]
    if math.prod(last) != math.prod(A.shape[: B.ndim]) or math.prod(last) != math.prod(B.shape):
        raise RuntimeError(
            "linalg.tensorsolve: expected prod(A.shape[B.ndim:]) == prod(A.shape[:B.ndim]) == prod(B.shape), "
            f"but got shapes {list(A.shape)} and {list(B.shape)}"
        )
    solution: Any = np.linalg.solve(A.reshape((math.prod(B.shape), math.prod(last))), B.reshape(-1))
    return solution.reshape(last)


# --- matrices from vectors --------------------------------------------------------------------------------------------


def _powers_rule(g, result, N):
    return add_reduce(g[..., 1:] * conj(result[..., :-1]) * np.arange(1, N, dtype=g.dtype), -1)


@op(name="vander", public=False, method=False, input=_powers_rule)
@samples_in_front
def _powers(input, N: int):
    """The powers 0 to ``N - 1`` along a new last dimension, each the previous one times ``input``."""
    powers: Any = np.empty((*input.shape, N), input.dtype if input.dtype.kind in "fc" else np.int64, like=input)
    powers[..., :1] = 1
    for k in range(1, N):
        np.multiply(powers[..., k - 1], input, out=powers[..., k])
    return powers


@composite(name="linalg.vander", method=False)
def vander(x, *, N: int | None = None) -> Tensor:
    """Return the Vandermonde matrix with the powers 0 to ``N - 1`` of each element of ``x`` in a row.

    ``N`` is the length of ``x`` if not given.
    """
    if x.dtype.kind == "b":
        raise RuntimeError("linalg.vander supports floating point, complex, and integer tensors, but got Bool")
    x = x if x.ndim else x[None]
    N = x.shape[-1] if N is None else N
    if N <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, but got {N}")
    return _powers(x, N)


@composite(name="vander", method=False)
def vander_vector(x, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the Vandermonde matrix of a vector, with descending powers unless ``increasing``."""
    if x.ndim != 1:
        raise RuntimeError(f"vander(): x must be a one-dimensional tensor, but has shape {list(x.shape)}")
    N = x.shape[0] if N is None else N
    if N < 0:
        raise RuntimeError(f"vander(): N must be non-negative, but got {N}")
    powers = _powers(x, N)
    return powers if increasing else powers.flip(-1)


@composite(name="linalg.diagonal", method=False)
def diagonal(A, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return a view of the diagonals of ``A``, by default of the matrices in its last two dimensions."""
    shown: Any = np.diagonal(A, offset, dim1, dim2)
    return shown
