"""Fourier transforms of the array API standard: NumPy's functions, which come back to retrograd's for tensors."""

from __future__ import annotations

from typing import Any

from numpy.fft import (
    fft,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)

from retrograd import fft as own
from retrograd.core.tensor import Tensor

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the elements of :func:`fft` of ``n`` samples, ``d`` apart, in cycles per unit of it."""
    return own.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return those of :func:`rfft`."""
    return own.rfftfreq(n, d, dtype=dtype, device=device)
