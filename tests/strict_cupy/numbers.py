"""Ufuncs whose kernels in CuPy compute other numbers than NumPy's (seen with CuPy 14.2 on a GPU)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _floor_divide(input: Any, other: Any, **kwargs: Any) -> Any:
    """The rounded quotient, rounded down."""
    if np.result_type(input, other).kind != "f":
        return np.floor_divide(input, other, **kwargs)
    return np.floor(np.true_divide(input, other), **kwargs)


def _remainder(input: Any, other: Any, **kwargs: Any) -> Any:
    if np.result_type(input, other).kind != "f":
        return np.remainder(input, other, **kwargs)
    return np.subtract(input, np.floor(np.true_divide(input, other)) * other, **kwargs)


def _scaled_bessel(order: int) -> Callable[..., Any]:
    """Scaled after it has overflowed."""

    def compute(x: Any, **kwargs: Any) -> Any:
        from scipy import special

        return np.multiply(special.iv(order, x), np.exp(-np.abs(x)), **kwargs)

    return compute


OTHER_NUMBERS: dict[str, Callable[..., Any]] = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "i0e": _scaled_bessel(0),
    "i1e": _scaled_bessel(1),
}
