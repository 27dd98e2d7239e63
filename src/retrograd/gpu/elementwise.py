"""Ufuncs whose kernels in CuPy compute other numbers than NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.gpu.fallback import computed_on_cpu


def answer_for(ufunc: Any, inputs: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What stands for a ufunc on these operands; None where CuPy's own is right."""
    found = _OF_FLOATS.get(ufunc)
    if found is not None:
        kinds = [getattr(x, "dtype", x) for x in inputs]
        return found if np.result_type(*kinds).kind == "f" else None
    return computed_on_cpu(ufunc) if ufunc.__name__ in _OVERFLOWING else None


# CuPy scales a Bessel function by exp(-|x|) after it has overflowed: infinity times zero, from x = 714 on.
_OVERFLOWING = ("i0e", "i1e")

# --- quotients that are rounded down: CuPy rounds input / other, which may have been rounded up to a whole number -------


def _remainder(input: Any, other: Any) -> Any:
    """As ``npy_divmod`` in NumPy: fmod is exact, and takes the sign of ``other``."""
    rest = np.fmod(input, other)
    rest = np.where(_rounds_up(rest, other), rest + other, rest)
    return np.where(rest == 0, np.copysign(np.zeros_like(rest), other), rest)


def _floor_divide(input: Any, other: Any) -> Any:
    rest = np.fmod(input, other)
    quotient = (input - rest) / other
    quotient = np.where(_rounds_up(rest, other), quotient - 1, quotient)
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)
    exact = np.true_divide(input, other)
    whole = np.where(quotient == 0, np.copysign(np.zeros_like(exact), exact), whole)
    return np.where(np.equal(other, 0), exact, whole)


def _rounds_up(rest: Any, other: Any) -> Any:
    """Where a division that rounds towards zero rounded up."""
    return (rest != 0) & (np.less(other, 0) != (rest < 0))


def _divmod(input: Any, other: Any) -> Any:
    return _floor_divide(input, other), _remainder(input, other)


_OF_FLOATS: dict[Any, Callable[..., Any]] = {
    np.floor_divide: _floor_divide,
    np.remainder: _remainder,
    np.divmod: _divmod,
}
