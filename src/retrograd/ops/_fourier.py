"""Fourier transforms of arrays: NumPy's, or SciPy's for many numbers in single precision.

SciPy transforms several rows at once, with the vector instructions of the processor. In double precision that gains
little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core import state
from retrograd.ops._scipy import installed

# Numbers from which on SciPy's takes half of the time or less (measured); SciPy is imported only for so many.
_MANY = 1 << 10


def _transform(name: str) -> Callable[..., Any]:
    """The function of this name in ``numpy.fft``, which is dispatched, or in ``scipy.fft``."""

    def transform(x: Any, *args: Any, **kwargs: Any) -> Any:
        many = type(x) is np.ndarray and x.size >= _MANY and x.dtype.char in "fF"
        if not many or (scipy := installed("scipy.fft")) is None:
            return getattr(np.fft, name)(x, *args, **kwargs)
        result = getattr(scipy, name)(x, *args, **kwargs)
        if state.monitor is not None and not np.isfinite(result).all():  # it observes the flags of NumPy's
            return getattr(np.fft, name)(x, *args, **kwargs)
        return result

    return transform


fft, ifft, rfft, irfft, hfft, ihfft = map(_transform, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_transform, ("fftn", "ifftn", "rfftn", "irfftn"))
