"""SciPy's sparse matrices beside tensors: products, and systems of linear equations.

A matrix stays SciPy's. Its entries can be a separate tensor, ``values``, so that they have gradients, too;
their positions cannot: a gradient has the same zeros. A matrix A with entries ``v[k]`` at ``(rows[k], columns[k])`` is
differentiated by

    y = A x         v̄[k] = Σⱼ ȳ[rows[k], j] x*[columns[k], j],    x̄ = Aᴴ ȳ
    x = A⁻¹ b       b̄ = A⁻ᴴ x̄,    v̄[k] = -Σⱼ b̄[rows[k], j] x*[columns[k], j]
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrograd.core.errors import LinAlgError, kind_name, no_tensor
from retrograd.core.foreign_operands import is_sparse
from retrograd.core.half import HALF, single
from retrograd.core.op import kernel, without_flags
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.gpu import computed_on_cpu
from retrograd.ops._fused import sample_by_sample
from retrograd.ops._rules import conj

_scipy_kernel: Any = without_flags(kernel)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where the entries of a sparse matrix stand, by compressed rows, or by compressed columns.

    Attributes
    ----------
    shape
        The shape of the matrix.
    indices, indptr
        As in SciPy.
    by_rows
        Which of the two.
    """

    shape: tuple[int, int]
    indices: Any
    indptr: Any
    by_rows: bool

    def matrix(self, values: Any) -> Any:
        """SciPy's sparse array with these entries."""
        sparse = importlib.import_module("scipy.sparse")
        kind = sparse.csr_array if self.by_rows else sparse.csc_array
        return kind((values, self.indices, self.indptr), shape=self.shape)

    @functools.cached_property
    def transposed(self) -> Pattern:
        """The pattern of the transposed matrix, whose entries come in the same order."""
        return Pattern(self.shape[::-1], self.indices, self.indptr, not self.by_rows)

    @functools.cached_property
    def places(self) -> tuple[Any, Any]:
        """The row and the column of every entry."""
        compressed = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return (compressed, self.indices) if self.by_rows else (self.indices, compressed)


# --- products ---------------------------------------------------------------------------------------------------------


@_scipy_kernel(
    public=False,
    method=False,
    node_name="SparseMmBackward0",
    factors=("values", "dense"),
    values=lambda g, dense, pattern: sampled(g, dense, pattern),
    dense=lambda g, values, pattern: product(conj(values), g, pattern.transposed),
)
@sample_by_sample
@computed_on_cpu
def product(values, dense, pattern: Pattern):
    """``A x`` of a sparse matrix, for one or several columns x."""
    dtype = np.result_type(values, dense)
    return (pattern.matrix(single(values)) @ single(dense)).astype(dtype, copy=False)


_ELEMENTS = 1 << 16  # of two blocks that are multiplied; they stay in the cache


@_scipy_kernel(
    public=False,
    method=False,
    node_name="SparseSampledBackward0",
    a=lambda g, b, pattern: product(g, b, pattern),
    b=lambda g, a, pattern: product(conj(g), a, pattern.transposed),
)
@sample_by_sample
@computed_on_cpu
def sampled(a, b, pattern: Pattern):
    """The entries of ``a bᴴ`` where a sparse matrix has its own."""
    rows, columns = pattern.places
    a, b = a.reshape(len(a), -1), np.conj(b.reshape(len(b), -1))
    result = np.empty(len(rows), np.result_type(a, b))
    step = max(1, _ELEMENTS // max(1, a.shape[1]))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        np.einsum("kj,kj->k", a[rows[block]], b[columns[block]], out=result[block])
    return result


# --- systems of linear equations --------------------------------------------------------------------------------------


class System:
    """A system of linear equations, whose matrix is taken apart once, for the solution and for its gradients."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._latest: tuple[Any, Any] = (None, None)  # the entries, and the factors of the matrix that has them

    def factors(self, values: Any, dtype: Any) -> Any:
        """SuperLU's factors of the matrix with these entries, made ``dtype``.

        Raises
        ------
        LinAlgError
            If it is singular.
        """
        known, factors = self._latest
        if known is values and factors.L.dtype == dtype:
            return factors
        matrix = self.pattern.matrix(values.astype(dtype, copy=False)).tocsc()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # it shares its indices with the user's, which SuperLU would put in order
            matrix.sum_duplicates()
        try:
            factors = importlib.import_module("scipy.sparse.linalg").splu(matrix)
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            raise LinAlgError(
                f"sparse.spsolve: the matrix of shape {list(matrix.shape)} with {matrix.nnz} entries is singular, so "
                "there is no solution, or more than one"
            ) from None
        self._latest = (values, factors)
        return factors


def _system_gradient(g: Any, values: Any, result: Any, system: System, adjoint: bool) -> Any:
    """v̄[k] = -Σⱼ b̄[rows[k], j] x*[columns[k], j], or for Aᴴ with the two the other way round and conjugate."""
    b = solution(values, g, system, not adjoint)
    return -sampled(result, b, system.pattern) if adjoint else -sampled(b, result, system.pattern)


@_scipy_kernel(
    public=False,
    method=False,
    node_name="SparseSpsolveBackward0",
    values=_system_gradient,
    b=lambda g, values, system, adjoint: solution(values, g, system, not adjoint),
)
@sample_by_sample
@computed_on_cpu
def solution(values, b, system: System, adjoint: bool):
    """``A⁻¹ b``, or ``A⁻ᴴ b``, of a sparse matrix, for one or several columns b."""
    dtype = np.result_type(values, b, np.float32)
    result = np.empty(b.shape, dtype)
    trans = "H" if adjoint else "N"
    if not np.isfinite(values).all():  # SuperLU would look for a pivot in vain
        result[...] = np.nan
    elif np.iscomplexobj(values) or not np.iscomplexobj(b):
        result[...] = system.factors(values, dtype).solve(b.astype(dtype, copy=False), trans)
    else:
        factors, b = system.factors(values, result.real.dtype), b.astype(dtype, copy=False)
        result.real, result.imag = factors.solve(b.real.copy(), trans), factors.solve(b.imag.copy(), trans)
    return result.astype(HALF) if np.result_type(values, b) == HALF else result


# --- for users --------------------------------------------------------------------------------------------------------


def _read(name: str, matrix: Any, values: Any) -> tuple[Pattern, Any]:
    """The pattern of SciPy's matrix, and its entries or the tensor in their place."""
    if matrix.ndim != 2:
        raise ValueError(f"{name}: the sparse matrix must have 2 dimensions, but has {matrix.ndim}")
    if matrix.format not in ("csr", "csc"):
        if values is not None:
            raise TypeError(
                f"{name}: values are in the order of A.data, so A must be in csr or csc format, not {matrix.format}: "
                "convert it once, with A.tocsr()"
            )
        matrix = matrix.tocsr()
    pattern = Pattern(matrix.shape, matrix.indices, matrix.indptr, matrix.format == "csr")
    if values is None:
        return pattern, matrix.data
    if values.shape != matrix.data.shape:
        raise ValueError(
            f"{name}: values must be of shape {list(matrix.data.shape)}, one for each entry of the matrix, but have "
            f"shape {list(values.shape)}"
        )
    return pattern, values


def _check_dense(name: str, parameter: str, dense: Any, wanted: int, dim: int, matrix: Any) -> None:
    if not isinstance(dense, Tensor):
        raise no_tensor(name, f"argument {parameter!r}", dense)
    if dense.ndim not in (1, 2) or dense.shape[0 if dense.ndim == 1 else dim] != wanted:
        raise ValueError(
            f"{name}: shapes do not match: a sparse matrix of shape {list(matrix.shape)} and a tensor of shape "
            f"{list(dense.shape)}"
        )


@composite(name="sparse.mm", method=False)
def mm(mat1: Any, mat2: Any, *, values: Tensor | None = None) -> Tensor:
    """Multiply a sparse matrix of SciPy's and a tensor, in either order; the same as ``mat1 @ mat2``.

    Parameters
    ----------
    mat1, mat2
        One of them a sparse array or matrix of shape (n, k), of any format; the other one a tensor, or an array
        beside ``values`` that are one, of shape (k,) or (k, m) at its right, (n,) or (m, n) at its left.
    values
        A tensor of shape (nnz,) in place of the matrix's entries, in the order of its ``data``, which gets a gradient.
        The matrix must be of format csr or csc.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        If not exactly one of them is sparse, if there is no tensor, or if ``values`` are given for a matrix of another
        format.
    """
    if is_sparse(mat1) == is_sparse(mat2):
        raise TypeError(
            f"sparse.mm: exactly one operand must be a SciPy sparse matrix, not {kind_name(mat1)} and "
            f"{kind_name(mat2)}; multiply two SciPy matrices, or two tensors, with @"
        )
    if is_sparse(mat1):
        _check_dense("sparse.mm", "mat2", mat2, mat1.shape[-1], 0, mat1)
        pattern, entries = _read("sparse.mm", mat1, values)
        return product(entries, mat2, pattern)
    _check_dense("sparse.mm", "mat1", mat1, mat2.shape[0], 1, mat2)
    pattern, entries = _read("sparse.mm", mat2, values)
    return product(entries, mat1.T if mat1.ndim == 2 else mat1, pattern.transposed).T


@composite(name="sparse.spsolve", method=False)
def spsolve(A: Any, b: Any, *, values: Tensor | None = None) -> Tensor:
    """Return the solution x of ``A x = b`` for a sparse matrix A of SciPy's, by SuperLU.

    A is factorised once, for the solution and for its gradients. For the same A again and again with other b, give b
    as columns of one tensor.

    Parameters
    ----------
    A
        A sparse array or matrix of shape (n, n); csc needs no conversion.
    b
        A tensor of shape (n,) or (n, m), or an array beside ``values`` that are one.
    values
        As in :func:`mm`.

    Raises
    ------
    LinAlgError
        If A is singular. If it has entries that are not finite, the solution is NaN.
    ValueError
        If the shapes do not fit.
    TypeError
        If A is not sparse, or if ``values`` are given for a matrix of another format than csr or csc.
    """
    if not is_sparse(A):
        raise TypeError(
            f"sparse.spsolve: A must be a SciPy sparse matrix, not {kind_name(A)}; for dense matrices use linalg.solve"
        )
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"sparse.spsolve: A must be square, but is of shape {list(A.shape)}")
    _check_dense("sparse.spsolve", "b", b, A.shape[0], 0, A)
    pattern, entries = _read("sparse.spsolve", A, values)
    return solution(entries, b, System(pattern), False)


def star(left: Any, right: Any) -> Any:
    """``left * right``, which is a product of matrices for SciPy's older class, ``csr_matrix`` and its like."""
    matrix = left if is_sparse(left) else right
    is_matrix = isinstance(matrix, importlib.import_module("scipy.sparse").spmatrix)
    return mm(left, right) if is_matrix else NotImplemented
