"""LU factorisation with partial pivoting, A = P L U, and what follows from it."""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from retrograd.core.named_results import NamedResults
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.gpu import computed_on_cpu
from retrograd.ops._matrices import adjoint as adjoint_of
from retrograd.ops._matrices import check_floating, check_info, check_matrix, check_system, lapack, lapack_kernel
from retrograd.ops.linalg_triangular import substitute

if TYPE_CHECKING:
    from retrograd import return_types
    from retrograd.core.annotations import Truth


# how many columns are eliminated one by one before the rest is brought up to date by a product of matrices
_PANEL = 32


@computed_on_cpu
def _factorise(A: Any) -> tuple[Any, Any]:
    """L (without its diagonal of ones) and U in one array, and the row each row was exchanged with, counted from 0."""
    *batch, m, n = A.shape
    a = A.reshape((math.prod(batch), m, n)).copy()
    pivots = np.zeros((len(a), min(m, n)), np.int32)
    every = np.arange(len(a))
    for start in range(0, min(m, n), _PANEL):
        stop = min(start + _PANEL, m, n)
        for j in range(start, stop):
            # LAPACK, too, measures complex numbers by |re| + |im|
            row = j + np.argmax(np.abs(a[:, j:, j].real) + np.abs(a[:, j:, j].imag), axis=1)
            a[every, j], a[every, row] = a[every, row], a[every, j]
            pivots[:, j] = row
            column, pivot = a[:, j + 1 :, j], a[:, j, j, None]
            np.divide(column, pivot, out=column, where=pivot != 0)
            a[:, j + 1 :, j + 1 : stop] -= column[:, :, None] * a[:, j, None, j + 1 : stop]
        a[:, start:stop, stop:] = substitute(a[:, start:stop, start:stop], a[:, start:stop, stop:], False, True)
        a[:, stop:, stop:] -= a[:, stop:, start:stop] @ a[:, start:stop, stop:]
    return a.reshape(A.shape), pivots.reshape((*batch, min(m, n)))


def _zero_pivots(LU: Any) -> Any:
    """The first zero on the diagonal of each U, counted from 1; 0 if there is none."""
    zero = np.diagonal(LU, axis1=-2, axis2=-1) == 0
    if zero.shape[-1] == 0:
        return np.zeros(zero.shape[:-1], np.int32, like=zero)
    return np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32)


def first_zero_pivot(A: Any) -> int:
    """Which diagonal element of the LU factor of one singular matrix is zero, or nearest to it, counted from 1."""
    LU, _ = _factorise(A)
    return int(_zero_pivots(LU)) or int(np.argmin(np.abs(np.diagonal(LU)))) + 1


@lapack_kernel(public=False, method=False)
@computed_on_cpu
def permutation_matrix(pivots, m: int, dtype: Any):
    """The matrix P of ``A = P L U``, from the row exchanges (counted from 1) that led to ``L U``."""
    *batch, k = pivots.shape
    exchanges = pivots.reshape((math.prod(batch), k)) - 1
    order = np.tile(np.arange(m), (len(exchanges), 1))
    every = np.arange(len(exchanges))
    for j in range(k):
        row = exchanges[:, j]
        order[every, j], order[every, row] = order[every, row], order[every, j]
    P = np.zeros((len(order), m, m), getattr(dtype, "numpy", dtype))
    P[every[:, None], order, np.arange(m)] = 1
    return P.reshape((*batch, m, m))


def _lu_gradient(g: Any, result: Any) -> Any:
    """G_A = P L⁻ᴴ (tril(Lᴴ G_L, -1) + triu(G_U Uᴴ)) U⁻ᴴ for square matrices.

    For a wide or tall matrix the rest follows from U₂ = L⁻¹ A₂ or L₂ = A₂ U⁻¹.
    """
    LU, pivots, _ = result
    G = g[0]
    m, n = LU.shape[-2:]
    k = min(m, n)
    square = LU[..., :k, :k]
    L, U = np.tril(square, -1) + np.eye(k, dtype=LU.dtype), np.triu(square)
    GL, GU = np.tril(G[..., :k, :k], -1), np.triu(G[..., :k, :k])
    rest = None
    if n > m:
        rest = substitute(adjoint_of(L), G[..., k:], True, True)
        GL = GL - rest @ adjoint_of(LU[..., k:])
    elif m > n:
        rest = adjoint_of(substitute(U, adjoint_of(G[..., k:, :]), True))
        GU = GU - adjoint_of(LU[..., k:, :]) @ rest
    inner = np.tril(adjoint_of(L) @ GL, -1) + np.triu(GU @ adjoint_of(U))
    GA = substitute(adjoint_of(L), adjoint_of(substitute(U, adjoint_of(inner), True)), True, True)
    if rest is not None:
        GA = np.concatenate([GA, rest], axis=-1 if n > m else -2)
    return permutation_matrix(pivots, m, LU.dtype) @ GA


@lapack(
    namespace="linalg",
    node_name="LinalgLuFactorExBackward0",
    method=False,
    outputs=("LU", "pivots", "info"),
    differentiable_outputs=(0,),
    A=_lu_gradient,
)
def lu_factor_ex(A, pivot: bool = True, check_errors: bool = False):
    """Return ``(LU, pivots, info)`` without raising for singular matrices, for which ``info`` is not 0."""
    check_matrix("linalg.lu_factor", A)
    check_floating("linalg.lu_factor", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented; leave pivot=True")
    LU, pivots = _factorise(A)
    info = _zero_pivots(LU)
    if check_errors:
        check_info("linalg.lu_factor", info, _ZERO_PIVOT)
    return LU, pivots + np.int32(1), info


_ZERO_PIVOT = (
    "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. "
    "If you still want to perform the factorization, use linalg.lu or linalg.lu_factor_ex."
)

_Factors = NamedResults("linalg_lu_factor", ["LU", "pivots"])
_Parts = NamedResults("linalg_lu", ["P", "L", "U"])


@composite(name="linalg.lu_factor", method=False, out=True)
def lu_factor(A, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """Return ``(LU, pivots)``: the factors of ``A = P L U`` in one matrix, and the row exchanges, counted from 1.

    Raises :class:`retrograd.linalg.LinAlgError` if a matrix is singular.
    """
    LU, pivots, _ = lu_factor_ex(A, pivot, check_errors=True)
    return _Factors((LU, pivots))


@composite(method=False, out=True)
def lu_unpack(LU_data, LU_pivots, unpack_data: bool = True, unpack_pivots: bool = True) -> return_types.linalg_lu:
    """Return ``(P, L, U)`` from what :func:`linalg.lu_factor` returns; what is not unpacked is empty."""
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    empty = LU_data[..., :0, :0].reshape(0)
    P, L, U = empty, empty, empty
    if unpack_pivots:
        P = permutation_matrix(LU_pivots, m, LU_data.dtype)
    if unpack_data:
        L = np.tril(LU_data[..., :k], -1) + np.eye(m, k, dtype=LU_data.dtype.numpy)
        U = np.triu(LU_data[..., :k, :])
    return _Parts((P, L, U))


@composite(name="linalg.lu", method=False, out=True)
def lu(A, *, pivot: bool = True) -> return_types.linalg_lu:
    """Return the factors of ``A = P L U``: a permutation, a unit lower and an upper triangle.

    Shapes: ``(..., m, n)`` gives ``(..., m, m)``, ``(..., m, k)`` and ``(..., k, n)`` with ``k = min(m, n)``.
    """
    LU, pivots, _ = lu_factor_ex(A, pivot)
    return lu_unpack(LU, pivots)


@composite(name="linalg.lu_solve", method=False, out=True)
def lu_solve(LU, pivots, B, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return the solution X of ``A X = B`` (``X A = B`` with ``left=False``) from the factors of ``A``.

    With ``adjoint`` it is a solution for ``Aᴴ`` in place of ``A``.
    """
    check_system("linalg.lu_solve", LU, B, left)
    if pivots.shape != LU.shape[:-1]:
        raise RuntimeError(
            f"linalg.lu_solve: pivots must have the shape of LU without its last dimension, {list(LU.shape[:-1])}, "
            f"but have {list(pivots.shape)}; give both as linalg.lu_factor returns them"
        )
    if not left:  # (X A)ᴴ = Aᴴ Xᴴ
        return adjoint_of(_solve_factored(LU, pivots, adjoint_of(B), not adjoint)).contiguous()
    return _solve_factored(LU, pivots, B, adjoint)


def _solve_factored(LU: Any, pivots: Any, B: Any, adjoint: bool) -> Any:
    P = permutation_matrix(pivots, LU.shape[-1], LU.dtype)
    if adjoint:
        return P @ substitute(adjoint_of(LU), substitute(adjoint_of(LU), B, False), True, True)
    return substitute(LU, substitute(LU, P.mT @ B, False, True), True)


@overload
def lu_with_infos(A: Tensor, pivot: bool = True, get_infos: Literal[False] = False) -> tuple[Tensor, Tensor]: ...
@overload
def lu_with_infos(A: Tensor, pivot: bool = True, *, get_infos: Literal[True]) -> tuple[Tensor, Tensor, Tensor]: ...
@composite(name="lu", out=True)
def lu_with_infos(A, pivot: bool = True, get_infos: Truth = False):
    """Return ``(LU, pivots)``, and with ``get_infos`` also ``info``; :func:`linalg.lu_factor` is newer."""
    LU, pivots, info = lu_factor_ex(A, pivot)
    return (LU, pivots, info) if get_infos else (LU, pivots)


@composite(name="lu_solve", out=True)
def lu_solve_with(b, LU_data, LU_pivots) -> Tensor:
    """Return the solution X of ``A X = b`` from the factors of ``A``; :func:`linalg.lu_solve` is newer."""
    return lu_solve(LU_data, LU_pivots, b)
