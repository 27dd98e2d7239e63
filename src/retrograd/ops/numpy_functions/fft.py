"""NumPy's Fourier transforms on Tensors, with NumPy's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.registry import implements
from retrograd.ops.fft import (
    Dims,
    Lengths,
    Norm,
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


def _answer_for_line(numpy_function: Any, transform: Callable[..., Any]) -> None:
    @implements(numpy_function)
    def answer(a: Any, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Any:
        return transform(a, n, axis, norm, out=out)


for _line_transform in (fft, ifft, rfft, irfft, hfft, ihfft):
    _answer_for_line(getattr(np.fft, _line_transform.__name__), _line_transform)


def _answer(numpy_function: Any, transform: Callable[..., Any], default: Dims) -> None:
    @implements(numpy_function)
    def answer(a: Any, s: Lengths = None, axes: Dims = default, norm: Norm = None, out: Any = None) -> Any:
        return transform(a, s, axes, norm, out=out)


_answer(np.fft.fftn, fftn, None)
_answer(np.fft.ifftn, ifftn, None)
_answer(np.fft.rfftn, rfftn, None)
_answer(np.fft.irfftn, irfftn, None)
_answer(np.fft.fft2, fftn, (-2, -1))
_answer(np.fft.ifft2, ifftn, (-2, -1))
_answer(np.fft.rfft2, rfftn, (-2, -1))
_answer(np.fft.irfft2, irfftn, (-2, -1))


@implements(np.fft.fftshift)
def _fftshift(x: Any, axes: Dims = None) -> Any:
    return fftshift(x, axes)


@implements(np.fft.ifftshift)
def _ifftshift(x: Any, axes: Dims = None) -> Any:
    return ifftshift(x, axes)
