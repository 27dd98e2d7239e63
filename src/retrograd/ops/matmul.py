"""Products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.op import linear, op, without_warnings
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.dtypes import result_dtype
from retrograd.ops._matrices import adjoint, check_floating, check_same_dtype, rows
from retrograd.ops._rules import conj, expand_reduced, normalize_dim
from retrograd.ops.arithmetic import as_alpha


def product(name: str, a: Any, b: Any) -> Any:
    """``a @ b`` for arrays of one dtype; half precision is summed up in single precision."""
    dtype = getattr(b, "dtype", None)
    if dtype is not getattr(a, "dtype", None) or dtype is None or dtype.char in "?e":
        check_same_dtype(name, a, b)
        if dtype == np.float16:
            return product(name, a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    try:
        if b.ndim == 2 and a.ndim > 2:  # one large product instead of many small ones
            return (rows(a) @ b).reshape((*a.shape[:-1], b.shape[1]))
        return np.matmul(a, b)
    except ValueError:
        raise _clash(name, a.shape, b.shape) from None


def _clash(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> RuntimeError:
    """The error for arrays whose shapes have no product."""
    if not a or not b:
        return RuntimeError(f"{name}(): both arguments need to be at least 1-D, but they are {len(a)}-D and {len(b)}-D")
    if a[-1] != b[-2:][0]:
        return RuntimeError(
            f"{name}(): shapes {list(a)} and {list(b)} cannot be multiplied: the last dimension of the first is "
            f"{a[-1]}, the {'second to last ' if len(b) > 1 else ''}dimension of the second is {b[-2:][0]}"
        )
    return RuntimeError(f"{name}(): the batch dimensions of shapes {list(a)} and {list(b)} cannot be broadcast")


def _gradient_left(g: Any, other: Any, input_shape: tuple[int, ...]) -> Any:
    """G Bᴴ, where a vector on the left is a row and one on the right a column."""
    if other.ndim == 1:
        return g[..., None] * conj(other)
    if len(input_shape) == 1 and other.ndim == 2:
        return g @ adjoint(other)
    if len(input_shape) == 1:
        return (g[..., None, :] @ adjoint(other))[..., 0, :]
    if other.ndim == 2 and g.ndim > 2:
        return (rows(g) @ adjoint(other)).reshape(input_shape)
    return g @ adjoint(other)


def _gradient_right(g: Any, input: Any, other_shape: tuple[int, ...]) -> Any:
    """Aᴴ G, as one product of all rows where every matrix of the batch meets the same B."""
    if len(other_shape) == 1:
        return adjoint(rows(input)) @ g.reshape(-1)
    if input.ndim == 1:
        g, input = g[..., None, :], input[None, :]
    if len(other_shape) == 2:
        g, input = rows(g), rows(input)
    return adjoint(input) @ g


@op(
    operator="matmul",
    input=_gradient_left,
    other=_gradient_right,
    factors=("input", "other"),
)
def matmul(input, other):
    """Return the matrix product ``input @ other``.

    Matrices in the last two dimensions are multiplied, the dimensions before them are broadcast. A vector on the left
    counts as a row, one on the right as a column; that dimension is missing from the result.

    Shapes: ``(..., n, k) @ (..., k, m) -> (..., n, m)``. Raises RuntimeError if the shapes do not fit or the dtypes
    differ.

    >>> rg.matmul(rg.ones(2, 3), rg.ones(3, 4)).shape
    retrograd.Size([2, 4])
    """
    return product("matmul", input, other)


composite(name="linalg.matmul", method=False)(matmul)


_CASES_OF_MATMUL = ("mm", "bmm", "mv", "dot")


def _check_ndims(name: str, ndims: tuple[int, ...], *operands: Any) -> None:
    """Raise unless the operands have these numbers of dimensions."""
    if any(getattr(operand, "ndim", ndim) != ndim for operand, ndim in zip(operands, ndims, strict=True)):
        wanted = " and ".join(f"{ndim}-D" for ndim in ndims)
        shapes = " and ".join(str(list(np.shape(operand))) for operand in operands)
        advice = "; for other shapes use matmul (@)" if name in _CASES_OF_MATMUL else ""
        raise RuntimeError(f"{name}(): expected {wanted} tensors, but got shapes {shapes}{advice}")


@op(
    input=lambda g, mat2: g @ adjoint(mat2),
    mat2=lambda g, input: adjoint(input) @ g,
    factors=("input", "mat2"),
)
def mm(input, mat2):
    """Return the product of two matrices, ``(n, k) @ (k, m) -> (n, m)``."""
    _check_ndims("mm", (2, 2), input, mat2)
    return product("mm", input, mat2)


@op(
    input=lambda g, mat2: g @ adjoint(mat2),
    mat2=lambda g, input: adjoint(input) @ g,
    factors=("input", "mat2"),
)
def bmm(input, mat2):
    """Return the products of two batches of matrices, ``(b, n, k) @ (b, k, m) -> (b, n, m)``, without broadcasting."""
    check_same_dtype("bmm", input, mat2)
    _check_ndims("bmm", (3, 3), input, mat2)
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm(): the batches of shapes {list(input.shape)} and {list(mat2.shape)} differ in length")
    return product("bmm", input, mat2)


@op(
    input=lambda g, vec: g[:, None] * conj(vec),
    vec=lambda g, input: adjoint(input) @ g,
    factors=("input", "vec"),
)
def mv(input, vec):
    """Return the product of a matrix and a vector, ``(n, k) @ (k,) -> (n,)``."""
    _check_ndims("mv", (2, 1), input, vec)
    return product("mv", input, vec)


@op(
    input=lambda g, tensor: g * conj(tensor),
    tensor=lambda g, input: g * conj(input),
    factors=("input", "tensor"),
)
def dot(input, tensor):
    """Return the sum of the products of the elements of two vectors; nothing is conjugated."""
    _check_ndims("dot", (1, 1), input, tensor)
    return product("dot", input, tensor)


@op(
    input=lambda g, other: conj(g) * other,
    other=lambda g, input: g * input,
    factors=("input", "other"),
)
def vdot(input, other):
    """Return the inner product of two vectors, with the elements of ``input`` conjugated."""
    _check_ndims("vdot", (1, 1), input, other)
    return product("vdot", conj(input), other)


@without_warnings(op)(
    namespace="linalg",
    method=False,
    x=lambda g, y, x_shape, dim: conj(expand_reduced(g, np.broadcast_shapes(x_shape, y.shape), dim, False)) * y,
    y=lambda g, x, y_shape, dim: expand_reduced(g, np.broadcast_shapes(x.shape, y_shape), dim, False) * x,
    factors=("x", "y"),
)
def vecdot(x, y, dim: int = -1):
    """Return the inner products of the vectors along ``dim``, with the elements of ``x`` conjugated."""
    check_floating("linalg.vecdot", x, y, half=True)
    if x.shape != y.shape:
        x, y = np.broadcast_arrays(x, y)
    if not x.ndim and dim in (0, -1):
        return conj(x) * y
    return row_major(np.linalg.vecdot(x, y, axis=dim))  # type: ignore[call-overload]


@composite(out=True)
def outer(input, vec2) -> Tensor:
    """Return the outer product of two vectors, ``input[i] * vec2[j]``."""
    _check_ndims("outer", (1, 1), input, vec2)
    return input[:, None] * vec2


ger = composite(name="ger")(outer)


# --- a product added to a tensor --------------------------------------------------------------------------------------


def _scaled(g: Any, factor: Any) -> Any:
    """``g`` times the conjugate of a number, which is nearly always 1."""
    return g if factor == 1 else g * conj(factor)


def _add_product(name: str, input: Any, added: Any, beta: Any, alpha: Any) -> Any:
    """``beta * input + alpha * added``, written over ``added``; with ``beta`` 0, NaN in ``input`` does not matter."""
    if added.dtype.kind in "iu" and not (isinstance(alpha, int) and isinstance(beta, int)):
        raise RuntimeError(
            f"{name}(): for integral input tensors, alpha and beta must be integers, but got {alpha!r} and {beta!r}"
        )
    if added.dtype.kind == "b":
        alpha, beta = bool(alpha), bool(beta)
    if alpha != 1:
        added *= as_alpha(name, alpha, added.dtype)
    try:
        if beta == 1:
            added += input
        elif beta != 0:
            added += input * as_alpha(name, beta, added.dtype, "beta")
        else:
            np.broadcast_to(input, added.shape)  # its shape must fit nevertheless
    except ValueError:
        raise RuntimeError(
            f"{name}(): the input of shape {list(input.shape)} cannot be expanded to the shape {list(added.shape)} "
            "of the product"
        ) from None
    return added


@op(
    inplace=True,
    input=lambda g, beta: _scaled(g, beta),
    mat1=lambda g, mat2, alpha: _scaled(g @ adjoint(mat2), alpha),
    mat2=lambda g, mat1, alpha: _scaled(adjoint(mat1) @ g, alpha),
    factors=("mat1", "mat2"),
    numbers_first=True,
)
def addmm(input, mat1, mat2, beta: complex = 1, alpha: complex = 1):
    """Return ``beta * input + alpha * (mat1 @ mat2)`` for matrices; ``input`` is broadcast to the product."""
    _check_ndims("addmm", (2, 2), mat1, mat2)
    check_same_dtype("addmm", input, mat1, mat2)
    return _add_product("addmm", input, product("addmm", mat1, mat2), beta, alpha)


@op(
    inplace=True,
    input=lambda g, beta: _scaled(g, beta),
    mat=lambda g, vec, alpha: _scaled(g[:, None] * conj(vec), alpha),
    vec=lambda g, mat, alpha: _scaled(adjoint(mat) @ g, alpha),
    factors=("mat", "vec"),
    numbers_first=True,
)
def addmv(input, mat, vec, beta: complex = 1, alpha: complex = 1):
    """Return ``beta * input + alpha * (mat @ vec)`` for a matrix and a vector."""
    _check_ndims("addmv", (2, 1), mat, vec)
    check_same_dtype("addmv", input, mat, vec)
    return _add_product("addmv", input, product("addmv", mat, vec), beta, alpha)


@op(
    inplace=True,
    input=lambda g, beta: _scaled(g, beta),
    batch1=lambda g, batch2, alpha: _scaled(g @ adjoint(batch2), alpha),
    batch2=lambda g, batch1, alpha: _scaled(adjoint(batch1) @ g, alpha),
    factors=("batch1", "batch2"),
    numbers_first=True,
)
def baddbmm(input, batch1, batch2, beta: complex = 1, alpha: complex = 1):
    """Return ``beta * input + alpha * (batch1 @ batch2)`` for batches of matrices."""
    _check_batches("baddbmm", input, batch1, batch2)
    return _add_product("baddbmm", input, product("baddbmm", batch1, batch2), beta, alpha)


@op(
    inplace=True,
    input=lambda g, beta: _scaled(g, beta),
    batch1=lambda g, batch2, alpha: _scaled(g @ adjoint(batch2), alpha),
    batch2=lambda g, batch1, alpha: _scaled(adjoint(batch1) @ g, alpha),
    factors=("batch1", "batch2"),
    numbers_first=True,
)
def addbmm(input, batch1, batch2, beta: complex = 1, alpha: complex = 1):
    """Return ``beta * input + alpha * (batch1 @ batch2).sum(0)`` for batches of matrices."""
    _check_batches("addbmm", input, batch1, batch2)
    b, n, k = batch1.shape
    # the sum over the batch is a sum over a longer inner dimension
    left, right = np.swapaxes(batch1, 0, 1).reshape(n, b * k), batch2.reshape(b * k, batch2.shape[2])
    return _add_product("addbmm", input, product("addbmm", left, right), beta, alpha)


def _check_batches(name: str, input: Any, batch1: Any, batch2: Any) -> None:
    _check_ndims(name, (3, 3), batch1, batch2)
    check_same_dtype(name, input, batch1, batch2)
    if batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"{name}(): expected the first two dimensions of batch2 to be {[batch1.shape[0], batch1.shape[2]]}, "
            f"but got {list(batch2.shape[:2])}"
        )


@op(
    inplace=True,
    input=lambda g, beta: _scaled(g, beta),
    vec1=lambda g, vec2, alpha: _scaled(g @ conj(vec2), alpha),
    vec2=lambda g, vec1, alpha: _scaled(conj(vec1) @ g, alpha),
    factors=("vec1", "vec2"),
    numbers_first=True,
)
def addr(input, vec1, vec2, beta: complex = 1, alpha: complex = 1):
    """Return ``beta * input + alpha * outer(vec1, vec2)`` for vectors, which are promoted to a common dtype."""
    _check_ndims("addr", (1, 1), vec1, vec2)
    dtype = result_dtype(input, vec1, vec2)
    input, vec1, vec2 = (operand.astype(dtype, copy=False) for operand in (input, vec1, vec2))
    return _add_product("addr", input, np.multiply.outer(vec1, vec2), beta, alpha)


# --- chains, Kronecker and cross products -----------------------------------------------------------------------------


def _check_chain(tensors: Any) -> None:
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for position, tensor in enumerate(tensors):
        at_the_end = position in (0, len(tensors) - 1)
        if tensor.ndim != 2 and not (at_the_end and tensor.ndim == 1):
            raise RuntimeError(
                f"multi_dot(): tensor {position} must be {'1-D or 2-D' if at_the_end else '2-D'} "
                f"but got {tensor.ndim}-D"
            )
        if position and tensors[position - 1].shape[-1] != tensor.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {position - 1} and {position} with shapes {list(tensors[position - 1].shape)} "
                f"and {list(tensor.shape)} cannot be multiplied"
            )


def _best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each stretch of a chain of matrices, ``sizes[i] x sizes[i + 1]``, for the fewest multiplications.

    Dynamic programming; Cormen et al., Introduction to Algorithms, chapter "Matrix-chain multiplication".
    """
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


@composite(name="linalg.multi_dot", method=False, out=True)
def multi_dot(tensors: Sequence[Any]) -> Tensor:
    """Return the product of two or more matrices, multiplied in the order that takes the fewest operations.

    The first and the last of them may be vectors. Raises RuntimeError if the shapes do not fit.
    """
    tensors = list(tensors)
    _check_chain(tensors)
    first = 1 if tensors[0].ndim == 1 else tensors[0].shape[0]
    last = 1 if tensors[-1].ndim == 1 else tensors[-1].shape[-1]
    splits = _best_splits([first, *(tensor.shape[0] for tensor in tensors[1:]), last])
    return _multiplied(tensors, splits, 0, len(tensors) - 1)


def _multiplied(tensors: list[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    """The product of the matrices from ``i`` to ``j``."""
    if i == j:
        return tensors[i]
    k = splits[i, j]
    return _multiplied(tensors, splits, i, k) @ _multiplied(tensors, splits, k + 1, j)


@composite(method=False, out=True)
def chain_matmul(*matrices: Any) -> Tensor:
    """Return the product of matrices, multiplied in the order that takes the fewest operations."""
    for matrix in matrices:
        _check_ndims("chain_matmul", (2,), matrix)
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(matrices)


@composite(out=True)
def kron(input, other) -> Tensor:
    """Return the Kronecker product: ``input`` with every element replaced by that element times ``other``.

    The shorter shape is filled up with ones in front; the shape of the result is the product of the two.
    """
    ndim = max(input.ndim, other.ndim)
    left = (1,) * (ndim - input.ndim) + tuple(input.shape)
    right = (1,) * (ndim - other.ndim) + tuple(other.shape)
    coarse = input.reshape([n for size in left for n in (size, 1)])
    fine = other.reshape([n for size in right for n in (1, size)])
    return (coarse * fine).reshape([n * m for n, m in zip(left, right, strict=True)])


@without_warnings(op)(
    namespace="linalg",
    node_name="LinalgCrossBackward0",
    method=False,
    input=lambda g, other, dim: row_major(np.cross(conj(other), g, axis=dim)),
    other=lambda g, input, dim: row_major(np.cross(g, conj(input), axis=dim)),
    factors=("input", "other"),
)
def cross(input, other, dim: int = -1):
    """Return the cross products of the 3-vectors along ``dim``; the other dimensions are broadcast.

    Raises RuntimeError unless both have the same number of dimensions and length 3 along ``dim``.
    """
    check_same_dtype("linalg.cross", input, other)
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, "
            f"but have shapes {list(input.shape)} and {list(other.shape)}"
        )
    dim = normalize_dim(dim, input.ndim)
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and {other.shape[dim]}"
        )
    return row_major(np.cross(input, other, axis=dim))


@composite(name="cross", out=True)
def cross_along(input, other, dim: int | None = None) -> Tensor:
    """Return the cross products of the 3-vectors along ``dim``, by default the first dimension of length 3."""
    if dim is None:
        if 3 not in input.shape:
            raise RuntimeError(f"cross(): no dimension of size 3 in input of shape {list(input.shape)}; give dim")
        dim = list(input.shape).index(3)
    return cross(input, other, dim)


@linear(
    input=lambda g, input_shape: g * np.eye(*input_shape, dtype=g.dtype),
)
def trace(input):
    """Return the sum of the diagonal of a matrix."""
    _check_ndims("trace", (2,), input)
    check_same_dtype("trace", input)
    return np.add.reduce(np.diagonal(input), dtype=np.int64 if input.dtype.kind in "iu" else None)
