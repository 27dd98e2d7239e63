"""Fourier transforms of arrays: NumPy's, or SciPy's for many numbers in single precision.

SciPy transforms several rows at once, with the vector instructions of the processor. In double precision that gains
little.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from retrograd.core import state

# Numbers from which on it takes half of the time or less (measured); it is imported only for so many.
_MANY = 1 << 10


@functools.cache
def _scipy() -> ModuleType | None:
    """``scipy.fft``, if it is installed."""
    try:
        import scipy.fft
    except ModuleNotFoundError:
        return None
    return scipy.fft


def _transform(name: str) -> Callable[..., Any]:
    """The function of this name in ``numpy.fft``, which is dispatched, or in ``scipy.fft``."""

    def transform(x: Any, *args: Any, **kwargs: Any) -> Any:
        many = type(x) is np.ndarray and x.size >= _MANY and x.dtype.char in "fF"
        if not many or (scipy := _scipy()) is None:
            return getattr(np.fft, name)(x, *args, **kwargs)
        result = getattr(scipy, name)(x, *args, **kwargs)
        if state.monitor is not None and not np.isfinite(result).all():
            _flag(x, result)
        return result

    return transform


def _flag(x: np.ndarray, result: np.ndarray) -> None:
    """Tell a monitor what NumPy would have flagged."""
    assert state.monitor is not None
    if np.isfinite(x).all():
        state.monitor.flag("overflow")
    if np.isnan(result).any() and not np.isnan(x).any():
        state.monitor.flag("invalid")


fft, ifft, rfft, irfft, hfft, ihfft = map(_transform, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_transform, ("fftn", "ifftn", "rfftn", "irfftn"))
