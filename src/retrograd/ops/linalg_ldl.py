"""Factors of symmetric matrices, A = L D Lᵀ with pivoting, by LAPACK as SciPy has it."""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.named_results import NamedResults
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.gpu import computed_on_cpu
from retrograd.ops._matrices import check_floating, check_info, check_square, check_system, lapack, lapack_kernel
from retrograd.ops._rules import conj, not_implemented

if TYPE_CHECKING:
    from retrograd import return_types


_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # LAPACK's for NumPy's


def _routine(name: str, dtype: np.dtype, hermitian: bool) -> Any:
    """LAPACK's routine for the dtype: ``dsytrf``, or ``zhetrf`` for Hermitian matrices.

    Pass it NumPy's arrays only: every argument it cannot convert costs a reference to the dtype, which in the end
    is freed while in use.
    """
    try:
        library = importlib.import_module("scipy.linalg.lapack")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'linalg.ldl_factor needs LAPACK from SciPy: pip install "retrograd[scipy]"', name="scipy"
        ) from None
    kind = "he" if hermitian and dtype.kind == "c" else "sy"
    return getattr(library, f"{_LETTERS[dtype.char]}{kind}{name}")


@lapack(
    namespace="linalg",
    method=False,
    outputs=("LD", "pivots", "info"),
    differentiable_outputs=(0,),
    A=not_implemented("linalg.ldl_factor_ex", "A"),
)
@computed_on_cpu
def ldl_factor_ex(A, hermitian: bool = False, check_errors: bool = False):
    """Return ``(LD, pivots, info)`` without raising for singular matrices, for which ``info`` is not 0.

    See :func:`linalg.ldl_factor`. There is no derivative.
    """
    check_square("linalg.ldl_factor_ex", A)
    check_floating("linalg.ldl_factor_ex", A)
    routine = _routine("trf", A.dtype, hermitian)
    LD = np.zeros_like(A, order="C")
    pivots, info = np.zeros(A.shape[:-1], np.int32), np.zeros(A.shape[:-2], np.int32)
    for index in np.ndindex(info.shape):
        if A.shape[-1]:
            factors, pivots[index], info[index] = routine(np.asarray(A[index]), lower=1)
            LD[index] = np.tril(factors)
    if check_errors:
        check_info("linalg.ldl_factor_ex", info, _SINGULAR)
    return LD, pivots, info


_SINGULAR = "D[{info},{info}] is zero, and using the factors to solve a system would divide by it."
_Factors = NamedResults("linalg_ldl_factor", ["LD", "pivots"])


@composite(name="linalg.ldl_factor", method=False, out=True)
def ldl_factor(A, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """Return ``(LD, pivots)``: the factors of a symmetric ``A = L D Lᵀ`` in LAPACK's compact form.

    Only the lower triangle of ``A`` is read. D has blocks of one or two rows on its diagonal, L is a unit lower
    triangle with its rows exchanged as ``pivots`` say; :func:`linalg.ldl_solve` understands them. There is no
    derivative.

    Parameters
    ----------
    hermitian
        Whether complex matrices are Hermitian instead of symmetric.

    Raises
    ------
    LinAlgError
        If a matrix is singular.
    """
    LD, pivots, info = ldl_factor_ex(A, hermitian)
    check_info("linalg.ldl_factor", info._data, _SINGULAR)
    return _Factors((LD, pivots))


def _solution_gradient(g: Any, LD: Any, pivots: Any, hermitian: bool) -> Any:
    """G_B = A⁻ᴴ G, where A is symmetric, or Hermitian."""
    return (
        ldl_solve_factored(LD, pivots, g, True) if hermitian else conj(ldl_solve_factored(LD, pivots, conj(g), False))
    )


def _check_pivots(pivots: list[int]) -> None:
    """Raise unless pivots are rows, from 1, and negative for the two rows of a block: LAPACK writes there unchecked."""
    row, n = 0, len(pivots)
    while row < n:
        block = pivots[row : row + 1 + (pivots[row] < 0)]
        if len(block) != 1 + (pivots[row] < 0) or not all(1 <= abs(pivot) <= n for pivot in block):
            raise RuntimeError(
                f"linalg.ldl_solve: the pivots must be those that ldl_factor returned with LD: rows from 1 to {n}, "
                f"two negative ones for each block of two rows, but got {pivots}"
            )
        row += len(block)


@lapack_kernel(
    public=False,
    method=False,
    node_name="LinalgLdlSolveBackward0",
    LD=not_implemented("linalg.ldl_solve", "LD"),
    B=_solution_gradient,
)
@computed_on_cpu
def ldl_solve_factored(LD, pivots, B, hermitian: bool):
    """The solutions for each matrix of the batch."""
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    LD, pivots = np.broadcast_to(LD, batch + LD.shape[-2:]), np.broadcast_to(pivots, batch + pivots.shape[-1:])
    B = np.broadcast_to(B, batch + B.shape[-2:])
    X = np.empty_like(B, order="C")
    routine = _routine("trs", LD.dtype, hermitian)
    for index in np.ndindex(batch):
        if B.shape[-2] and B.shape[-1]:
            _check_pivots(pivots[index].tolist())
            X[index], _ = routine(*map(np.asarray, (LD[index], pivots[index], B[index])), lower=1)
    return X


@composite(name="linalg.ldl_solve", method=False, out=True)
def ldl_solve(LD, pivots, B, *, hermitian: bool = False) -> Tensor:
    """Return the solution X of ``A X = B`` from what :func:`linalg.ldl_factor` returns for ``A``.

    Shapes: ``(..., n, n)``, ``(..., n)`` and ``(..., n, k)`` give ``(..., n, k)``. It is differentiable by ``B``.
    """
    check_system("linalg.ldl_solve", LD, B)
    return ldl_solve_factored(LD, pivots, B, hermitian)
