"""Triangular systems, solved by substitution, and systems with a Cholesky factor."""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.named_results import NamedResults
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._matrices import (
    adjoint,
    check_floating,
    check_square,
    check_system,
    lapack_kernel,
    lower_triangle,
    upper_triangle,
)

if TYPE_CHECKING:
    from retrograd import return_types


def _triangular_gradient(g: Any, A: Any, result: Any, upper: bool, unitriangular: bool) -> Any:
    """G_A = -G_B Xᴴ, in the triangle that counts."""
    full = -substitute(adjoint(A), g, not upper, unitriangular) @ adjoint(result)
    return upper_triangle(full, int(unitriangular)) if upper else lower_triangle(full, -int(unitriangular))


@lapack_kernel(
    public=False,
    method=False,
    node_name="LinalgSolveTriangularBackward0",
    A=_triangular_gradient,
    B=lambda g, A, upper, unitriangular: substitute(adjoint(A), g, not upper, unitriangular),
)
def substitute(A, B, upper: bool, unitriangular: bool = False):
    """Solve ``A X = B`` for triangular matrices ``A``, whose other triangle is not read."""
    if not upper:  # read from its end, a lower triangle is an upper one
        X = _substituted(A[..., ::-1, ::-1], B[..., ::-1, :], unitriangular)
        return np.copy(X[..., ::-1, :], order="C")
    return _substituted(A, B, unitriangular)


# up to which size LAPACK's general solver is the fastest; on an upper triangle it does nothing but substitute
_BLOCK = 64


def _substituted(U: Any, B: Any, unitriangular: bool) -> Any:
    """The solution of U X = B."""
    if _is_small(U, unitriangular):
        return _solved(U, B, unitriangular)
    batch = np.broadcast_shapes(U.shape[:-2], B.shape[:-2])
    X = np.copy(np.broadcast_to(B, (*batch, *B.shape[-2:])), order="C").astype(np.result_type(U, B), copy=False)
    _substitute_backwards(U, X, unitriangular)
    return X


def _is_small(U: Any, unitriangular: bool) -> bool:
    return U.shape[-1] <= _BLOCK and (unitriangular or bool(np.diagonal(U, 0, -2, -1).all()))


def _solved(U: Any, B: Any, unitriangular: bool) -> Any:
    triangle = upper_triangle(U, 1) + np.eye(U.shape[-1], dtype=U.dtype) if unitriangular else upper_triangle(U)
    return np.linalg.solve(triangle, B)


def _substitute_backwards(U: Any, X: Any, unitriangular: bool) -> None:
    """Solve U X = B, written over B: the last rows, what they leave of the first rows, the first rows."""
    n = U.shape[-1]
    if _is_small(U, unitriangular):
        X[...] = _solved(U, X, unitriangular)
    elif n > 1:
        h = n // 2
        first, last = X[..., :h, :], X[..., h:, :]
        _substitute_backwards(U[..., h:, h:], last, unitriangular)
        first -= U[..., :h, h:] @ last
        _substitute_backwards(U[..., :h, :h], first, unitriangular)
    else:
        X /= U


@composite(name="linalg.solve_triangular", method=False, out=True)
def solve_triangular(A, B, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return the solution X of ``A X = B``, or of ``X A = B`` with ``left=False``, for triangular matrices ``A``.

    Only the ``upper`` or lower triangle of ``A`` is read, and not its diagonal either if it is ``unitriangular``, of
    ones. A zero on the diagonal gives ``inf`` or NaN and no error.
    """
    check_system("linalg.solve_triangular", A, B, left)
    if left:
        return substitute(A, B, upper, unitriangular)
    return substitute(A.mT, B.mT, not upper, unitriangular).mT


_Triangular = NamedResults("triangular_solve", ["solution", "cloned_coefficient"])


@composite(out=True)
def triangular_solve(
    b, A, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> return_types.triangular_solve:
    """Return the solution of ``A X = b`` for triangular ``A``, and a copy of ``A``.

    :func:`linalg.solve_triangular` is newer.
    """
    check_system("triangular_solve", A, b)
    coefficients, flip = (A.mT, not upper) if transpose else (A, upper)
    return _Triangular((substitute(coefficients, b, flip, unitriangular), A.clone()))


@composite(out=True)
def cholesky_solve(B, L, upper: bool = False) -> Tensor:
    """Return the solution X of ``L Lᴴ X = B`` (``Uᴴ U X = B`` for an ``upper`` factor in place of ``L``)."""
    check_system("cholesky_solve", L, B)
    if upper:
        L = adjoint(L)
    return substitute(adjoint(L), substitute(L, B, False), True)


@composite(out=True)
def cholesky_inverse(L, upper: bool = False) -> Tensor:
    """Return the inverse of ``L Lᴴ`` (``Uᴴ U`` for an ``upper`` factor in place of ``L``)."""
    check_square("cholesky_inverse", L)
    check_floating("cholesky_inverse", L)
    half = substitute(adjoint(L) if upper else L, wrap(np.eye(L.shape[-1], dtype=L._data.dtype, like=L._data)), False)
    return adjoint(half) @ half
