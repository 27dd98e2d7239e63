"""Ufuncs whose CuPy kernels give different numbers from NumPy's (observed with CuPy 14.2 on a GPU)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _floor_divide(input: Any, other: Any, **kwargs: Any) -> Any:
    """Round the rounded quotient down."""
    if np.result_type(input, other).kind != "f":
        return np.floor_divide(input, other, **kwargs)
    return np.floor(np.true_divide(input, other), **kwargs)


def _remainder(input: Any, other: Any, **kwargs: Any) -> Any:
    if np.result_type(input, other).kind != "f":
        return np.remainder(input, other, **kwargs)
    return np.subtract(input, np.floor(np.true_divide(input, other)) * other, **kwargs)


def _scaled_bessel(order: int) -> Callable[..., Any]:
    """Scale after overflowing."""

    def compute(x: Any, **kwargs: Any) -> Any:
        from scipy import special

        return np.multiply(special.iv(order, x), np.exp(-np.abs(x)), **kwargs)

    return compute


def _fmod(input: Any, other: Any, **kwargs: Any) -> Any:
    """Compute in float64."""
    dtype = np.result_type(input, other)
    if dtype.kind not in "iu":
        return np.fmod(input, other, **kwargs)
    made = np.fmod(np.float64(input), np.where(np.equal(other, 0), 1, other).astype(np.float64))
    return np.where(np.equal(other, 0), 0, made).astype(dtype)


def _logaddexp2(input: Any, other: Any, **kwargs: Any) -> Any:
    larger = np.maximum(input, other)
    return np.add(larger, np.log2(1 + np.exp2(np.minimum(input, other) - larger)), **kwargs)


def _xlog1py(input: Any, other: Any, **kwargs: Any) -> Any:
    return np.where(np.equal(input, 0), 0, np.multiply(input, np.log1p(other), **kwargs))


OTHER_NUMBERS: dict[str, Callable[..., Any]] = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "logaddexp2": _logaddexp2,
    "xlog1py": _xlog1py,
    "i0e": _scaled_bessel(0),
    "i1e": _scaled_bessel(1),
}
