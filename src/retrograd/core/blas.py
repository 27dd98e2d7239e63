"""``y = a*x + b*y`` in one pass over memory, by the BLAS that NumPy is linked to.

NumPy needs a ufunc, and a pass, for each of the three operations. Its BLAS has a routine for all of them, axpby; NumPy
uses BLAS for products only and offers no way to call it, so it is looked up in the library that NumPy has loaded. Where
there is none, as on macOS with Accelerate, or with arrays of other dtypes, ufuncs do the same.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

# The routine's names: in NumPy's wheels and in distributions' builds with integers of 64 bits, then of 32.
_NAMES = (
    ("scipy_cblas_{}axpby64_", ctypes.c_int64),
    ("cblas_{}axpby64_", ctypes.c_int64),
    ("cblas_{}axpby", ctypes.c_int),
)
_REALS = {"f": ("s", ctypes.c_float), "d": ("d", ctypes.c_double)}
# The fastest way from an array to its address
_memory = (ctypes.c_char * 1).from_buffer
# Elements from which on a call through ctypes pays for itself, and which an integer of 32 bits can count.
_SMALLEST, _LARGEST = 1 << 13, 1 << 30


def scale_and_add(y: Any, x: Any, a: float, b: float, scratch: Any) -> None:
    """``y = a*x + b*y`` for vectors of one length.

    Parameters
    ----------
    y
        Is written to.
    x
        May not overlap with ``y``.
    a
        Not 0, which BLAS takes for a sign to leave out ``x``, NaN included.
    b
        Likewise for ``y``, unless it is 0.
    scratch
        A vector that may be overwritten; may be ``x``.
    """
    if _SMALLEST <= y.size <= _LARGEST and a != 0 and b != 0 and _fit(x, y):
        routine = _routine(y.dtype.char)
        if routine is not None:
            routine(y.size, a, _memory(x), 1, b, _memory(y), 1)
            return
    np.multiply(x, a, out=scratch)
    if b == 1:
        np.add(y, scratch, out=y)
    else:
        np.multiply(y, b, out=y)
        np.add(y, scratch, out=y)


def _fit(x: Any, y: Any) -> bool:
    """Whether both are vectors that BLAS can be given: of one dtype, without gaps, and writable as ctypes demands."""
    return (
        type(x) is np.ndarray
        and type(y) is np.ndarray
        and x.dtype is y.dtype
        and x.shape == y.shape
        and x.ndim == 1
        and x.flags.carray
        and y.flags.carray
    )


@functools.cache
def _routine(char: str) -> Callable[..., None] | None:
    """axpby for a dtype, or None if it cannot be had."""
    if char not in _REALS:
        return None
    letter, real = _REALS[char]
    multiarray = sys.modules.get("numpy._core._multiarray_umath")
    try:
        library = ctypes.CDLL(multiarray.__file__)  # type: ignore[union-attr, arg-type]
    except (AttributeError, OSError, TypeError):
        return None
    for name, integer in _NAMES:
        # a look-up in a library extends to those that it is linked to
        routine = getattr(library, name.format(letter), None)
        if routine is not None:
            routine.restype = None
            routine.argtypes = [integer, real, ctypes.c_void_p, integer, real, ctypes.c_void_p, integer]
            return routine
    return None
