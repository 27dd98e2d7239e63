"""NumPy's functions on Tensors, by family, with NumPy's parameters.

Imported with the first call of one that is no operation itself; see :data:`retrograd.core.registry.late`.
"""

from __future__ import annotations

from retrograd.ops.numpy_functions import (
    creation,
    fft,
    histograms,
    indexing,
    linalg,
    padding,
    polynomials,
    reductions,
    refused,
    shape,
    signal,
    sorting,
)

__all__ = [
    "creation",
    "fft",
    "histograms",
    "indexing",
    "linalg",
    "padding",
    "polynomials",
    "reductions",
    "refused",
    "shape",
    "signal",
    "sorting",
]
