"""The mathematics, by family: one block per operation, its derivative beside it.

Importing this package registers what most programs use; the others come with the module that has them.
"""

from __future__ import annotations

import importlib

from retrograd.core.foreign_operands import with_sparse
from retrograd.core.registry import add_late_methods, late
from retrograd.ops import (
    _scipy,
    activations,
    arithmetic,
    comparison,
    complex,
    conditional,
    copying,
    cumulative,
    diagonals,
    einsum,
    exponential,
    extremes,
    facts,
    indexing,
    joining,
    linear,
    matmul,
    ndarray_methods,
    placing,
    rearranging,
    reductions,
    rounding,
    scatter,
    selecting,
    shape,
    sorting,
    special,
    statistics,
    trigonometric,
    windows,
)

__all__ = [
    "_scipy",
    "activations",
    "arithmetic",
    "comparison",
    "complex",
    "conditional",
    "copying",
    "cumulative",
    "diagonals",
    "einsum",
    "exponential",
    "extremes",
    "facts",
    "indexing",
    "joining",
    "linear",
    "matmul",
    "ndarray_methods",
    "placing",
    "rearranging",
    "reductions",
    "rounding",
    "scatter",
    "selecting",
    "shape",
    "sorting",
    "special",
    "statistics",
    "trigonometric",
    "windows",
]

add_late_methods("retrograd.array_api", "__array_namespace__", "to_device")
add_late_methods("retrograd.ops.householder", "geqrf", "orgqr", "ormqr")
add_late_methods("retrograd.ops.linalg", "det", "inverse", "logdet", "slogdet")
add_late_methods("retrograd.ops.linalg_decompositions", "cholesky", "qr", "svd")
add_late_methods("retrograd.ops.linalg_functions", "matrix_exp", "matrix_power", "pinverse")
add_late_methods("retrograd.ops.linalg_lu", "lu", "lu_solve")
add_late_methods("retrograd.ops.linalg_triangular", "cholesky_inverse", "cholesky_solve", "triangular_solve")
add_late_methods("retrograd.ops.spectrogram", "istft", "stft")
with_sparse.update(  # SciPy's older matrix classes treat * as matrix multiplication, too
    {
        "__matmul__": lambda tensor, matrix: importlib.import_module("retrograd.ops.sparse").mm(tensor, matrix),
        "__rmatmul__": lambda tensor, matrix: importlib.import_module("retrograd.ops.sparse").mm(matrix, tensor),
        "__mul__": lambda tensor, matrix: importlib.import_module("retrograd.ops.sparse").star(tensor, matrix),
        "__rmul__": lambda tensor, matrix: importlib.import_module("retrograd.ops.sparse").star(matrix, tensor),
    }
)
late["numpy"] = lambda _: importlib.import_module("retrograd.ops.numpy_functions")
