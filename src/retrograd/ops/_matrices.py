"""What the operations on matrices share: their decorators, the adjoint, and the checks of their operands."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.batching import unbatched
from retrograd.core.errors import LinAlgError, kind_name
from retrograd.core.op import kernel, op, without_flags
from retrograd.ops._rules import conj
from retrograd.processor import keeps_flags

lapack: Any = without_flags(op)
lapack_kernel: Any = without_flags(kernel)


def adjoint(a: Any) -> Any:
    """The conjugate transpose of matrices, Aᴴ."""
    return conj(a).mT


@functools.lru_cache(maxsize=256)
def _triangle(rows: int, columns: int, k: int) -> Any:
    mask = np.tri(rows, columns, k, dtype=bool)
    mask.setflags(write=False)
    return mask


_KEPT = 64  # the length up to which it takes longer to make such a mask than to apply it


def lower_triangle(a: Any, k: int = 0) -> Any:
    """``np.tril(a, k)``."""
    m, n = a.shape[-2:]
    return np.where(_triangle(m, n, k), a, 0) if max(m, n) <= _KEPT else np.tril(a, k)


def upper_triangle(a: Any, k: int = 0) -> Any:
    """``np.triu(a, k)``."""
    m, n = a.shape[-2:]
    return np.where(_triangle(m, n, k - 1), 0, a) if max(m, n) <= _KEPT else np.triu(a, k)


def columns_times(a: Any, factors: Any) -> Any:
    """A diag(f): every column of ``a`` times its factor."""
    return a * factors[..., None, :]


def has_nan(a: Any) -> Any:
    """Which matrices of a batch have a NaN."""
    return np.isnan(a).any(axis=(-2, -1))


def rows(a: Any) -> Any:
    """A batch of matrices as one matrix that has all their rows."""
    return a if a.ndim == 2 else a.reshape((math.prod(a.shape[:-1]), a.shape[-1]))


def check_same_dtype(name: str, *operands: Any) -> None:
    """Raise unless all operands are tensors of one dtype, which products do not promote.

    Raises
    ------
    TypeError
        If one of them is no tensor.
    RuntimeError
        If their dtypes differ.
    NotImplementedError
        If they are boolean.
    """
    first = getattr(operands[0], "dtype", None)
    for position, operand in enumerate(operands):
        dtype = getattr(operand, "dtype", None)
        if dtype is None:
            raise TypeError(f"{name}(): argument {position + 1} must be Tensor, not {type(operand).__name__}")
        if dtype is not first and dtype != first:
            for k, kind in enumerate(map(kind_name, operands)):
                if kind.endswith(".Tensor") and kind != "retrograd.Tensor":  # another library's
                    raise TypeError(
                        f"{name}(): argument {k + 1} must be Tensor, not {kind}; "
                        "make it a tensor first with retrograd.as_tensor"
                    )
            raise RuntimeError(
                f"{name}(): expected operands of the same dtype, but got {first} and {dtype}; "
                "convert one of them with .to()"
            )
    if first == np.bool_:
        raise NotImplementedError(
            f"\"{name}\" not implemented for 'bool'; convert the operands to an integer dtype first"
        )


def check_floating(name: str, *operands: Any, half: bool = False) -> None:
    """Raise unless all operands are floating or complex, and of one dtype; float16 is refused unless ``half``."""
    for operand in operands:
        if operand.dtype.kind not in "fc":
            raise RuntimeError(
                f"{name}: expected a floating point or complex tensor as input, but got {operand.dtype}; "
                "convert it first, for example with .to(retrograd.float32)"
            )
        if operand.dtype == np.float16 and not half:
            raise RuntimeError(f"{name}: low precision dtypes are not supported, but got float16; use .float() first")
    check_same_dtype(name, *operands)


def check_matrix(name: str, *operands: Any) -> None:
    """Raise unless all operands have at least two dimensions."""
    for operand in operands:
        if operand.ndim < 2:
            raise RuntimeError(f"{name}: the input tensor must have at least 2 dimensions, but has {operand.ndim}")


def check_square(name: str, a: Any) -> None:
    """Raise unless ``a`` is a square matrix or a batch of them."""
    check_matrix(name, a)
    m, n = a.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {m} by {n} matrices")


def check_system(name: str, A: Any, B: Any, left: bool = True) -> None:
    """Raise unless ``A X = B``, or ``X A = B`` if not ``left``, is an equation of matrices."""
    check_square(name, A)
    check_matrix(name, B)
    check_floating(name, A, B)
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({list(A.shape)} and {list(B.shape)})"
        )


def check_info(name: str, info: Any, complaint: str) -> None:
    """Raise for the first matrix of a batch whose ``info``, named in ``complaint``, is not 0."""
    info = unbatched(info)  # every sample of a vmap counts as one of the batch
    if info.any():
        element = int(np.flatnonzero(info)[0])
        which = f"(Batch element {element}): " if info.ndim else ""
        raise LinAlgError(f"{name}: {which}{complaint.format(info=info.flat[element])}")


def numpys(function: Callable[..., Any], A: Any, *others: Any, **options: Any) -> Any:
    """Call one of NumPy's functions of matrices.

    Raises
    ------
    numpy.linalg.LinAlgError
        If LAPACK fails, which NumPy learns from a floating-point flag; without flags, only a matrix of NaN shows it.
    """
    made = function(A, *others, **options)
    if not keeps_flags():
        nan = np.isnan(unbatched(made[0] if isinstance(made, tuple) else made))
        matrices = unbatched(A)
        # of several the caller looks at each by itself; a single number may be what was given
        if nan.any() if matrices.ndim > 2 else nan.size and nan.all() and (nan.size > 1 or np.isfinite(matrices).all()):
            raise np.linalg.LinAlgError("LAPACK has failed")
    return made


def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number of a floating or complex dtype."""
    return float(np.finfo(getattr(dtype, "numpy", dtype)).eps)
