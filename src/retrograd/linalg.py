"""Linear algebra, under the names of ``torch.linalg``."""

from __future__ import annotations

from retrograd.core.errors import LinAlgError
from retrograd.ops.householder import householder_product
from retrograd.ops.linalg import det, inv, inv_ex, slogdet, solve, solve_ex
from retrograd.ops.linalg_decompositions import cholesky, cholesky_ex, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from retrograd.ops.linalg_functions import (
    diagonal,
    lstsq,
    matrix_exp,
    matrix_power,
    matrix_rank,
    pinv,
    tensorinv,
    tensorsolve,
    vander,
)
from retrograd.ops.linalg_ldl import ldl_factor, ldl_factor_ex, ldl_solve
from retrograd.ops.linalg_lu import lu, lu_factor, lu_factor_ex, lu_solve
from retrograd.ops.linalg_norms import cond, matrix_norm, norm, vector_norm
from retrograd.ops.linalg_triangular import solve_triangular
from retrograd.ops.matmul import cross, matmul, multi_dot, vecdot

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
