"""Ufuncs for which CuPy's kernels give other results than NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.gpu.fallback import computed_on_cpu


def answer_for(ufunc: Any, inputs: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The replacement for a ufunc on these operands; None where CuPy's own is right."""
    if ufunc.__name__ in _OVERFLOWING:
        return computed_on_cpu(ufunc)
    for kinds, answers in ((_FLOATS, _OF_FLOATS), (_INTEGERS, _OF_INTEGERS)):
        if ufunc in answers and np.result_type(*[getattr(x, "dtype", x) for x in inputs]).kind in kinds:
            return answers[ufunc]
    return _xlog1py if ufunc.__name__ == "xlog1py" else None


# CuPy scales a Bessel function by exp(-|x|) after it has overflowed: infinity times zero, from x = 714 on.
_OVERFLOWING = ("i0e", "i1e", "k0e", "k1e")


def _xlog1py(input: Any, other: Any) -> Any:
    """CuPy's is 0 for ``input`` of 0 even if ``other`` is NaN."""
    product = np.multiply(input, np.log1p(other))
    return np.where(np.equal(input, 0) & ~np.isnan(other), np.zeros_like(product), product)


def _logaddexp2(input: Any, other: Any) -> Any:
    """Computed with log1p; CuPy's loses what is below the precision of 1."""
    larger, smaller = np.maximum(input, other), np.minimum(input, other)
    difference = np.where(larger == smaller, np.zeros_like(larger), smaller - larger)  # infinities are equal
    return larger + np.log1p(np.exp2(difference)) / math.log(2)


# --- quotients, rounded down; CuPy rounds input / other twice, at times up to the next whole number ------------------


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


def _fmod_of_integers(input: Any, other: Any) -> Any:
    """CuPy's converts to float64, and is wrong beyond 2**53."""
    rest = np.remainder(input, other)
    return np.where((rest != 0) & (np.less(input, 0) != np.less(other, 0)), rest - other, rest)


_FLOATS, _INTEGERS = "f", "iu"
_OF_FLOATS: dict[Any, Callable[..., Any]] = {
    np.floor_divide: _floor_divide,
    np.remainder: _remainder,
    np.divmod: _divmod,
    np.logaddexp2: _logaddexp2,
}
_OF_INTEGERS: dict[Any, Callable[..., Any]] = {np.fmod: _fmod_of_integers}
# the ufuncs of NumPy's for which CuPy's own is not always right
ANSWERED = frozenset({*_OF_FLOATS, *_OF_INTEGERS})
