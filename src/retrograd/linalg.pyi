"""Linear algebra, under the names of ``torch.linalg``. Written by ``python -m tools.stubs``; do not edit."""

from collections.abc import Sequence
from typing import Literal, overload

from retrograd import return_types
from retrograd.core.annotations import DTypeLike, TensorOrArray
from retrograd.core.errors import LinAlgError as LinAlgError
from retrograd.core.tensor import Tensor

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

def cholesky(A: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_ex(
    A: Tensor, upper: bool = False, check_errors: bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_cholesky_ex: ...
def cond(A: Tensor, p: float | str | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cross(input: TensorOrArray, other: TensorOrArray, dim: int = -1, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cross(input: TensorOrArray, other: TensorOrArray, *, axis: int, out: Tensor | None = None) -> Tensor: ...
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor: ...
def eig(A: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.linalg_eig: ...
def eigh(
    A: Tensor, UPLO: Literal["L", "U", "l", "u"] = "L", *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_eigh: ...
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def eigvalsh(A: Tensor, UPLO: Literal["L", "U", "l", "u"] = "L", *, out: Tensor | None = None) -> Tensor: ...
def householder_product(A: TensorOrArray, tau: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def inv_ex(
    A: Tensor, check_errors: bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_inv_ex: ...
def ldl_factor(
    A: Tensor, *, hermitian: bool = False, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_ldl_factor: ...
def ldl_factor_ex(
    A: Tensor,
    hermitian: bool = False,
    check_errors: bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_ldl_factor_ex: ...
def ldl_solve(
    LD: TensorOrArray, pivots: TensorOrArray, B: TensorOrArray, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor: ...
def lstsq(
    A: TensorOrArray,
    B: TensorOrArray,
    rcond: float | None = None,
    *,
    driver: str | None = None,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_lstsq: ...
def lu(
    A: Tensor, *, pivot: bool = True, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_lu: ...
def lu_factor(
    A: Tensor, *, pivot: bool = True, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_lu_factor: ...
def lu_factor_ex(
    A: Tensor, pivot: bool = True, check_errors: bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_lu_factor_ex: ...
def lu_solve(
    LU: TensorOrArray,
    pivots: TensorOrArray,
    B: TensorOrArray,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def matmul(input: TensorOrArray, other: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(A: Tensor) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: float | str | None = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: float | str | None = "fro",
    dim: Sequence[int] = (-2, -1),
    *,
    keepdims: bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: float | str | None = "fro",
    *,
    axis: Sequence[int],
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor: ...
def matrix_rank(
    A: Tensor,
    tol: float | TensorOrArray | None = None,
    hermitian: bool = False,
    *,
    atol: float | TensorOrArray | None = None,
    rtol: float | TensorOrArray | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def multi_dot(tensors: Sequence[TensorOrArray], *, out: Tensor | None = None) -> Tensor: ...
@overload
def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    *,
    keepdims: bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    A: Tensor,
    ord: float | str | None = None,
    *,
    axis: int | Sequence[int] | None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def pinv(
    A: Tensor,
    rcond: float | TensorOrArray | None = None,
    hermitian: bool = False,
    atol: float | TensorOrArray | None = None,
    rtol: float | TensorOrArray | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def qr(
    A: Tensor,
    mode: Literal["reduced", "complete", "r"] = "reduced",
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_qr: ...
def slogdet(A: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.linalg_slogdet: ...
def solve(A: TensorOrArray, B: TensorOrArray, *, left: bool = True, out: Tensor | None = None) -> Tensor: ...
def solve_ex(
    A: TensorOrArray,
    B: TensorOrArray,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_solve_ex: ...
def solve_triangular(
    A: TensorOrArray,
    B: TensorOrArray,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    A: Tensor,
    full_matrices: bool = True,
    driver: str | None = None,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_svd: ...
def svdvals(A: Tensor, driver: str | None = None, *, out: Tensor | None = None) -> Tensor: ...
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor: ...
@overload
def tensorsolve(
    A: TensorOrArray, B: TensorOrArray, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def tensorsolve(
    A: TensorOrArray, B: TensorOrArray, *, axes: Sequence[int] | None, out: Tensor | None = None
) -> Tensor: ...
def vander(x: Tensor, *, N: int | None = None) -> Tensor: ...
@overload
def vecdot(x: TensorOrArray, y: TensorOrArray, dim: int = -1, *, out: Tensor | None = None) -> Tensor: ...
@overload
def vecdot(x: TensorOrArray, y: TensorOrArray, *, axis: int, out: Tensor | None = None) -> Tensor: ...
@overload
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    *,
    keepdims: bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def vector_norm(
    x: Tensor,
    ord: float = 2,
    *,
    axis: int | Sequence[int] | None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
