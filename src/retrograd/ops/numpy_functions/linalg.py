"""NumPy's products and ``numpy.linalg`` on Tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.batching import as_array
from retrograd.core.errors import check_plain
from retrograd.core.out import into
from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import promote_types
from retrograd.ops import linalg, linalg_decompositions, linalg_functions, linalg_norms
from retrograd.ops._rules import conj
from retrograd.ops.einsum import einsum, inner, tensordot
from retrograd.ops.matmul import cross, kron, matmul, multi_dot, outer, trace, vecdot


def _implement(name: str) -> Callable[[Any], Any]:
    """Answer for a function of NumPy's that only newer versions have."""
    return implements(*[getattr(np, name)] if hasattr(np, name) else [])


def _tensors(*operands: Any) -> Any:
    """All operands as Tensors of one dtype, which torch's products ask for and NumPy's see to themselves.

    Lists and numbers take the dtype of the Tensors beside them where they fit it.
    """
    dtype = next(operand.dtype.numpy for operand in operands if isinstance(operand, Tensor))

    def convert(operand: Any) -> Any:
        if isinstance(operand, Tensor):
            return operand
        if isinstance(operand, np.ndarray):
            check_plain(operand)
        array = as_array(operand)
        weak = not hasattr(operand, "dtype") and np.can_cast(array.dtype, dtype, "same_kind")
        return wrap(array.astype(dtype) if weak else array)

    tensors = [convert(operand) for operand in operands]
    if all(tensor._data.dtype is dtype for tensor in tensors):
        return tensors
    common = functools.reduce(promote_types, [tensor._data.dtype for tensor in tensors])
    return [tensor.to(common) for tensor in tensors]


# --- products ---------------------------------------------------------------------------------------------------------


@implements(np.matmul, np.linalg.matmul)
def _matmul(x1: Any, x2: Any, /) -> Any:
    return matmul(*_tensors(x1, x2))


@implements(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    a, b = _tensors(a, b)
    if 0 in (a.ndim, b.ndim):
        return into(out, a * b)
    axis = -1 if b.ndim == 1 else -2
    return into(out, matmul(a, b) if b.ndim <= 2 else tensordot(a, b, ([-1], [axis])))


@implements(np.vdot)
def _vdot(a: Any, b: Any, /) -> Any:
    a, b = _tensors(a, b)
    return matmul(conj(a).reshape(-1), b.reshape(-1))


@implements(np.inner)
def _inner(a: Any, b: Any, /) -> Any:
    return inner(*_tensors(a, b))


@implements(np.outer)
def _outer(a: Any, b: Any, out: Any = None) -> Any:
    a, b = (x if x.ndim == 1 else x.reshape(-1) for x in _tensors(a, b))
    return into(out, outer(a, b))


@implements(np.linalg.outer)
def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    return outer(*_tensors(x1, x2))


@implements(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = _tensors(a, b)
    return tensordot(a, b, axes)


@implements(np.linalg.tensordot)
def _linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return _tensordot(x1, x2, axes)


@implements(np.einsum)
def _einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    if kwargs:
        raise TypeError(f"numpy.einsum: {', '.join(kwargs)} is not supported for Tensors; convert the operands instead")
    if isinstance(operands[0], str):
        return into(out, einsum(operands[0], *_tensors(*operands[1:])))
    paired = len(operands) // 2 * 2
    tensors = _tensors(*operands[:paired:2])
    alternating = itertools.chain.from_iterable(zip(tensors, operands[1:paired:2], strict=True))
    return into(out, einsum(*alternating, *operands[paired:]))


@implements(np.kron)
def _kron(a: Any, b: Any) -> Any:
    return kron(*_tensors(a, b))


@implements(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (np.moveaxis(x, at, -1) if at != -1 else x for x, at in zip(_tensors(a, b), (axisa, axisb), strict=True))
    if a.ndim != b.ndim:
        ndim = max(a.ndim, b.ndim)
        a, b = (x.reshape((1,) * (ndim - x.ndim) + tuple(x.shape)) for x in (a, b))
    product = cross(a, b)
    return np.moveaxis(product, -1, axisc) if axisc != -1 else product


@implements(np.linalg.cross)
def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return _cross(x1, x2, axis=axis)


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    return into(out, multi_dot(_tensors(*arrays)))


@implements(np.vecdot, np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1, keepdims: bool = False) -> Any:
    # NumPy counts the axis in each operand, before they are broadcast
    x1, x2 = (np.moveaxis(x, axis, -1) for x in _tensors(x1, x2))
    if x1.dtype.kind in "fc":
        result = vecdot(x1, x2)
    else:
        product = x1 * x2
        result = (np.any if product.dtype.kind == "b" else np.sum)(product, axis=-1)
    return np.expand_dims(result, axis) if keepdims else result


@_implement("matvec")
def _matvec(x1: Any, x2: Any, /) -> Any:
    x1, x2 = _tensors(x1, x2)
    return matmul(x1, x2[..., None])[..., 0]


@_implement("vecmat")
def _vecmat(x1: Any, x2: Any, /) -> Any:
    x1, x2 = _tensors(x1, x2)
    return matmul(conj(x1)[..., None, :], x2)[..., 0, :]


@implements(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    if a.ndim == 2 and not offset and dtype is None and axis1 != axis2:
        return into(out, trace(a))
    return into(out, np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype))


@implements(np.linalg.trace)
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return _trace(x, offset, -2, -1, dtype)


@implements(np.linalg.diagonal)
def _diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return np.diagonal(x, offset, -2, -1)


@implements(np.linalg.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Any:
    return x.mT


# --- inverses and systems ---------------------------------------------------------------------------------------------


@implements(np.linalg.inv)
def _inv(a: Any) -> Any:
    return linalg.inv(a)


@implements(np.linalg.det)
def _det(a: Any) -> Any:
    return linalg.det(a)


@implements(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    return linalg.slogdet(a)


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    # NumPy never takes b for a batch of vectors
    a, b = _tensors(a, b)
    return linalg.solve(a, b) if b.ndim == 1 else linalg.solve_matrices(a, b)


@implements(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: float | None = None) -> Any:
    a, b = _tensors(a, b)
    solution, residuals, rank, values = linalg_functions.lstsq(a, b, rcond, driver="gelsd")
    return solution, residuals.reshape(-1), rank, values


@implements(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return linalg_functions.pinv(a, rcond, hermitian, rtol=rtol)


@implements(np.linalg.tensorinv)
def _tensorinv(a: Any, ind: int = 2) -> Any:
    return linalg_functions.tensorinv(a, ind)


@implements(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = _tensors(a, b)
    return linalg_functions.tensorsolve(a, b, axes)


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Any:
    return linalg_functions.matrix_power(a, _python_int(n))


@implements(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return linalg_functions.matrix_rank(A, tol, hermitian, rtol=rtol)


# --- decompositions ---------------------------------------------------------------------------------------------------


@implements(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return linalg_decompositions.cholesky(a, upper)


@implements(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "raw":
        raise TypeError("numpy.linalg.qr: mode='raw' is not supported for Tensors; use mode='reduced'")
    # R alone is that of the reduced decomposition, which has a derivative
    return linalg_decompositions.qr(a).R if mode == "r" else linalg_decompositions.qr(a, mode)


@implements(np.linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if not compute_uv:
        return linalg_decompositions.svdvals(a)
    return linalg_decompositions.svd(a, full_matrices)


@implements(np.linalg.svdvals)
def _svdvals(x: Any, /) -> Any:
    return linalg_decompositions.svdvals(x)


@implements(np.linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:
    return linalg_decompositions.eigh(a, UPLO)


@implements(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return linalg_decompositions.eigvalsh(a, UPLO)


@implements(np.linalg.eig)
def _eig(a: Any) -> Any:
    values, vectors = result = linalg_decompositions.eig(a)
    return type(result)(np.real(values), np.real(vectors)) if _are_real(a, values) else result


def _are_real(a: Any, values: Any) -> bool:
    """Whether NumPy, before 2.5, returns real arrays for a real matrix with real eigenvalues; torch never does."""
    return _EIG_MAY_BE_REAL and not a.is_complex() and not values._data.imag.any()


_EIG_MAY_BE_REAL = np.linalg.eigvals(np.eye(1)).dtype.kind == "f"


@implements(np.linalg.eigvals)
def _eigvals(a: Any) -> Any:
    values = linalg_decompositions.eigvals(a)
    return np.real(values) if _are_real(a, values) else values


# --- norms ------------------------------------------------------------------------------------------------------------


def _python_int(axis: Any) -> Any:
    return int(axis) if isinstance(axis, np.integer) else axis


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return linalg_norms.norm(x, ord, _python_int(axis), keepdims)


@implements(np.linalg.vector_norm)
def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return linalg_norms.vector_norm(x, ord, _python_int(axis), keepdims)


@implements(np.linalg.matrix_norm)
def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return linalg_norms.matrix_norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Any:
    return linalg_norms.cond(x, p)
