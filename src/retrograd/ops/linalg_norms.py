"""Norms of vectors and matrices, condition numbers, and distances."""
# ruff: noqa: N806 (matrices have capital letters, in torch's parameters as in the literature)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.errors import check_broadcast
from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.size import checked_dim
from retrograd.core.tensor import Tensor
from retrograd.dtypes import as_dtype, promote_types
from retrograd.ops._distances import composed_distances, distances_by_column, goes_by_column
from retrograd.ops._matrices import check_matrix, check_same_dtype
from retrograd.ops._reducing import Dims, add_reduce, sum_of_squares
from retrograd.ops._rules import everywhere
from retrograd.ops.linalg import inv_ex
from retrograd.ops.linalg_decompositions import svdvals
from retrograd.ops.reductions import vector_norm as p_norm

Order = float | str | None


def _check_dtype(name: str, A: Any, dtype: Any) -> None:
    """Raise unless ``A`` is floating or complex, and ``dtype`` a wider dtype of the same kind."""
    if A.dtype.kind not in "fc":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype}; "
            "convert it first, for example with .to(retrograd.float32)"
        )
    if dtype is None:
        return
    wanted = as_dtype(dtype)
    if wanted.kind not in "fc":
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {wanted}")
    if wanted.kind != A.dtype.kind:
        kind = "complex" if A.dtype.kind == "c" else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {wanted}")
    if promote_types(wanted, A.dtype) != wanted:
        raise RuntimeError(
            f"{name}: the dtype of the input ({A.dtype}) should be convertible without narrowing to the specified "
            f"dtype ({wanted})"
        )


@composite(name="linalg.vector_norm", method=False, out=True)
def vector_norm(x, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the norm of the elements over ``dim``: ``sum(|x|^ord)^(1/ord)``, also for ``inf``, ``-inf`` and 0.

    Where the norm is 0, the derivative is 0. ``dtype`` is a wider dtype to compute in.
    """
    name = "linalg.vector_norm"
    _check_dtype(name, x, dtype)
    if isinstance(ord, str):
        raise TypeError(f"{name}(): argument 'ord' (position 2) must be Number, not str")
    if x.ndim and (ord < 0 or ord == math.inf):
        dims = range(x.ndim) if dim is None or dim == () else [dim] if isinstance(dim, int) else dim
        if any(x.shape[checked_dim(name, k, x.ndim)] == 0 for k in dims):
            raise RuntimeError(
                f"{name} cannot compute the {ord} norm of an empty tensor of shape {list(x.shape)} "
                "because the operation does not have an identity"
            )
    return p_norm(x, ord, dim, keepdim, dtype)


@composite(name="linalg.matrix_norm", method=False, out=True)
def matrix_norm(
    A, ord: Order = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Return a norm of the matrices in the two dimensions ``dim``.

    Parameters
    ----------
    ord
        ``"fro"``: of the elements as a vector; ``"nuc"``: the sum of the singular values; 2, -2: the largest, smallest
        singular value; 1, -1: the largest, smallest column sum of moduli; ``inf``, ``-inf``: the same of the rows.
    dtype
        A wider dtype to compute in.
    """
    name = "linalg.matrix_norm"
    check_matrix(name, A)
    _check_dtype(name, A, dtype)
    if isinstance(dim, int):
        raise TypeError(f"{name}(): argument 'dim' must be a tuple of two ints, not int")
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {tuple(dim)}")
    rows, columns = (checked_dim(name, k, A.ndim) for k in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got {tuple(dim)}")
    if dtype is not None:
        A = A.to(dtype)
    if ord == "fro":
        return p_norm(A, 2, (rows, columns), keepdim, None)
    if ord in (1, -1, math.inf, -math.inf):
        summed, compared = (rows, columns) if abs(ord) == 1 else (columns, rows)
        result = _extreme(p_norm(A, 1, summed, True, None), compared, ord > 0)
        return result if keepdim else np.squeeze(result, (rows, columns))
    if ord not in ("nuc", 2, -2):
        raise RuntimeError(f"{name}: Order {ord} not supported; use 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.")
    S = svdvals(np.moveaxis(A, (rows, columns), (-2, -1)))
    norms: Any = np.sum(S, axis=-1) if ord == "nuc" else _extreme(S, -1, ord == 2)[..., 0]
    return np.expand_dims(norms, sorted((rows, columns))) if keepdim else norms  # type: ignore[return-value]


def _extreme(values: Any, dim: int, largest: bool) -> Any:
    """The largest or smallest value; the largest of no values is 0, because these are never negative."""
    if not largest:
        return values.amin(dim, True)
    return values.amax(dim, True) if values.shape[dim] else np.sum(values, axis=dim, keepdims=True)


@composite(name="linalg.norm", method=False, out=True)
def norm(A, ord: Order = None, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return a norm: of all elements, of vectors along one dimension, or of matrices in two.

    Without ``ord`` it is the 2-norm of the elements. With ``ord`` but no ``dim``, ``A`` must be a vector or a matrix.
    """
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
        if len(dim) not in (1, 2):
            raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    elif ord is not None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if ord is not None and (isinstance(ord, str) or (A.ndim if dim is None else len(dim)) == 2):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@composite(name="linalg.cond", method=False, out=True)
def cond(A, p: Order = None) -> Tensor:
    """Return the condition number: ``norm(A, p) * norm(inv(A), p)``, by default the ratio of the singular values.

    It is ``inf`` for a singular matrix.
    """
    check_matrix("linalg.cond", A)
    if p not in (None, "fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p in (None, 2, -2):
        S = svdvals(A)
        if S.shape[-1] == 0:
            return np.sum(S, axis=-1)
        return S[..., -1] / S[..., 0] if p == -2 else S[..., 0] / S[..., -1]
    if A.shape[-2] != A.shape[-1]:
        m, n = A.shape[-2:]
        raise RuntimeError(
            f"linalg.cond(ord={p}): A must be batches of square matrices, but they are {m} by {n} matrices"
        )
    inverse, info = inv_ex(A)
    if A.shape[-1] == 0:
        return np.sum(np.real(A), axis=(-2, -1))
    if everywhere(info == 0):
        return matrix_norm(A, p) * matrix_norm(inverse, p)
    regular = np.where((info == 0)[..., None, None], inverse, np.inf)
    condition: Any = np.where(info == 0, matrix_norm(A, p) * matrix_norm(regular, p), np.inf)
    return condition


# --- distances --------------------------------------------------------------------------------------------------------


def _weights(g: Any, distance: Any) -> Any:
    """The gradient per distance, and nothing for points that coincide."""
    return g / np.where(distance == 0, np.inf, distance)


def _pull(weights: Any, near: Any, far: Any) -> Any:
    """How ``near`` moves: the weighted sum of its differences to all of ``far``."""
    return add_reduce(weights, -1, True) * near - weights @ far


@op(
    public=False,
    method=False,
    node_name="EuclideanDistBackward0",
    x1=lambda g, x1, x2, result: _pull(_weights(g, result), x1, x2),
    x2=lambda g, x1, x2, result: _pull(_weights(g, result).mT, x2, x1),
)
def euclidean_by_product(x1, x2):
    """All distances from ``|x - y|² = |x|² - 2 x·y + |y|²``: fast, and inexact for points that are close together."""
    squares = sum_of_squares(x1, -1)[..., :, None] + sum_of_squares(x2, -1)[..., None, :]
    squares -= 2 * (x1 @ x2.mT)
    return np.sqrt(np.maximum(squares, 0))


_BY_PRODUCT = {
    "use_mm_for_euclid_dist_if_necessary": lambda n, m: n > 25 or m > 25,
    "use_mm_for_euclid_dist": lambda n, m: True,
    "donot_use_mm_for_euclid_dist": lambda n, m: False,
}


@composite(method=False)
def cdist(x1, x2, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Return the p-norm distances between all rows of ``x1`` and all rows of ``x2``.

    Shapes: ``(..., n, k)`` and ``(..., m, k)`` give ``(..., n, m)``. The derivative for points that coincide is 0.

    Parameters
    ----------
    compute_mode
        Whether Euclidean distances may come from a matrix product, which is fast but inexact for points that are close
        together: for more than 25 rows (the default), always (``"use_mm_for_euclid_dist"``) or never
        (``"donot_use_mm_for_euclid_dist"``).
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dtype.kind != "f":
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    check_same_dtype("cdist", x1, x2)
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, but got {p}")
    if compute_mode not in _BY_PRODUCT:
        raise ValueError(f"cdist: {compute_mode} is not a valid value for compute_mode; use one of {list(_BY_PRODUCT)}")
    if p == 2 and _BY_PRODUCT[compute_mode](x1.shape[-2], x2.shape[-2]):
        return euclidean_by_product(x1, x2)
    return distances_by_column(x1, x2, p) if goes_by_column(x1, p) else composed_distances(x1, x2, p)


@composite(method=False)
def pairwise_distance(x1, x2, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the p-norm of ``x1 - x2 + eps`` over the last dimension."""
    return p_norm(x1 - x2 + eps, p, -1, keepdim, None)


@composite(method=False)
def cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return ``x1 · x2 / (max(|x1|, eps) max(|x2|, eps))`` over ``dim``."""
    dtype = promote_types(x1.dtype, x2.dtype)
    if dtype.kind != "f":
        raise RuntimeError(
            f"cosine_similarity: expected common dtype to be floating point, yet common dtype is {dtype}"
        )
    x1, x2 = x1.to(dtype), x2.to(dtype)
    if x1.shape != x2.shape:
        check_broadcast("cosine_similarity", x1, x2)
        x1, x2 = np.broadcast_arrays(x1, x2)
    if not eps >= 0:  # or NaN
        raise RuntimeError(f"cosine_similarity(): eps must be non-negative, but got {eps}")
    return np.sum(_unit(x1, dim, eps) * _unit(x2, dim, eps), axis=dim)


def _unit(x: Any, dim: int, eps: float) -> Any:
    """``x`` divided by its norm, which counts as at least ``eps`` but keeps its derivative."""
    length = p_norm(x, 2, dim, True, None)
    return x / (length + np.maximum(eps - length.detach(), 0))
