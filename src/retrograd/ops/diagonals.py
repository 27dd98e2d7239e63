"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.conjugate_views import UnresolvedArray
from retrograd.core.layout import dense_copy, row_major
from retrograd.core.op import kernel, linear, view
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._rules import normalize_dim

# --- diagonals ----------------------------------------------------------------------------------------------------


def _diagonal_of(input: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonal as a view that, unlike NumPy's, may be written to."""
    if normalize_dim(dim1, input.ndim) == normalize_dim(dim2, input.ndim):
        raise RuntimeError(f"diagonal: dimensions cannot be identical {dim1}, {dim2}")
    result = np.diagonal(input, offset, dim1, dim2)
    if isinstance(result, (np.ndarray, UnresolvedArray)) and input.flags.writeable:
        result.flags.writeable = True
    return result


@kernel(public=False, method=False, grad=lambda g, offset, dim1, dim2: np.diagonal(g, offset, dim1, dim2))
def place_diagonal(grad, shape: tuple[int, ...], offset: int, dim1: int, dim2: int):
    """Zeros of ``shape`` with ``grad`` on a diagonal: the adjoint of taking it."""
    result = np.zeros_like(grad, shape=shape, order="C")
    _diagonal_of(result, offset, dim1, dim2)[...] = grad
    return result


@view(
    input=lambda g, input_shape, offset, dim1, dim2: place_diagonal(g, input_shape, offset, dim1, dim2),
)
def diagonal(input, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """Return the diagonal of dimensions ``dim1`` and ``dim2`` as a view, in a new last dimension.

    >>> rg.diagonal(rg.arange(6).reshape(2, 3), offset=1).tolist()
    [1, 5]
    """
    return _diagonal_of(input, offset, dim1, dim2)


@linear(input=lambda g, offset, dim1, dim2: np.diagonal(g, offset, dim1, dim2))
def diag_embed(input, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Return zeros with the vectors in the last dimension of ``input`` on the diagonals of ``dim1`` and ``dim2``."""
    ndim = input.ndim + 1
    first, second = normalize_dim(dim1, ndim), normalize_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diag_embed: dimensions cannot be identical {dim1}, {dim2}")
    shape = list(input.shape[:-1])
    for dim in sorted((first, second)):
        shape.insert(dim, input.shape[-1] + abs(offset))
    return place_diagonal(input, tuple(shape), offset, dim1, dim2)


@composite(out=True)
def diag(input, diagonal: int = 0) -> Tensor:
    """Return the matrix with the vector ``input`` on its diagonal, or a copy of the diagonal of a matrix."""
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return diag_embed(input, diagonal) if input.ndim == 1 else _diagonal(input, diagonal).clone()


_diagonal = diagonal  # the parameter of diag has the name, too


@composite()
def diagflat(input, offset: int = 0) -> Tensor:
    """Return the matrix with the elements of ``input`` on its diagonal."""
    return diag_embed(input.reshape(-1), offset)


@kernel(public=False, method=False, grad=lambda g, offset, dim1, dim2: blank_diagonal(g, offset, dim1, dim2))
def blank_diagonal(grad, offset: int, dim1: int, dim2: int):
    """``grad`` with zeros on a diagonal."""
    result = np.copy(grad)
    _diagonal_of(result, offset, dim1, dim2)[...] = 0
    return result


@linear(
    input=lambda g, offset, dim1, dim2: blank_diagonal(g, offset, dim1, dim2),
    src=lambda g, offset, dim1, dim2: np.diagonal(g, offset, dim1, dim2),
)
def diagonal_scatter(input, src, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """Return ``input`` with ``src`` on a diagonal."""
    result = dense_copy(input)
    part = _diagonal_of(result, offset, dim1, dim2)
    if part.shape != src.shape:
        raise RuntimeError(
            "diagonal_scatter: expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(part.shape)}"
        )
    part[...] = src
    return result


# --- triangles ----------------------------------------------------------------------------------------------------


def _matrices(name: str, input: Any) -> Any:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, but has shape {list(input.shape)}")
    return input


@linear(inplace=True, input=lambda g, diagonal: np.tril(g, diagonal))
def tril(input, diagonal: int = 0):
    """Return the lower triangles of matrices, up to a diagonal, and zeros elsewhere."""
    return row_major(np.tril(_matrices("tril", input), diagonal))


@linear(inplace=True, input=lambda g, diagonal: np.triu(g, diagonal))
def triu(input, diagonal: int = 0):
    """Return the upper triangles of matrices, from a diagonal on, and zeros elsewhere."""
    return row_major(np.triu(_matrices("triu", input), diagonal))
