"""Window functions of signal processing: their formulas, and the functions of torch's top level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor
from retrograd.creation.options import Options, Request, as_real

__all__ = [
    "bartlett_window",
    "blackman",
    "blackman_window",
    "cosines",
    "hamming_window",
    "hann_window",
    "kaiser",
    "kaiser_window",
    "make_window",
    "triangle",
]


Values = Callable[[Any, int], Any]


def triangle(k: Any, n: int) -> Any:
    """From 0 to 1 and back, as k goes from 0 to n."""
    return 1 - np.abs(2 * k / n - 1)


def cosines(*coefficients: float) -> Values:
    """``a - b cos(2 pi k / n) + c cos(4 pi k / n) - ...``, with alternating signs."""

    def values(k: Any, n: int) -> Any:
        angle = 2 * np.pi * k / n
        return sum((-1) ** i * a * np.cos(i * angle) for i, a in enumerate(coefficients))

    return values


def blackman(k: Any, n: int) -> Any:
    """Blackman's three cosines; not -1e-17 at the ends, as their sum is rounded."""
    return np.maximum(cosines(0.42, 0.5, 0.08)(k, n), 0)


def kaiser(beta: float) -> Values:
    """Kaiser's window; the larger ``beta``, the narrower."""
    return lambda k, n: np.i0(beta * np.sqrt(np.maximum(1 - (2 * k / n - 1) ** 2, 0))) / np.i0(beta)


def make_window(request: Request, length: int, periodic: bool, function: Values) -> Tensor:
    """``function(k, n)`` at k = 0, 1, ..., n; the last one is left out if the window is periodic."""
    last = length if periodic else length - 1

    def values(xp: Any) -> Any:
        if length <= 1:
            return xp.ones(length, request.dtype)
        return function(xp.arange(length, dtype=np.float64), last).astype(request.dtype)

    return request.make(values)


def _window(name: str, window_length: Any, periodic: bool, options: Options, function: Values) -> Tensor:
    length = as_int(name, "window_length", window_length)
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    request = Request(name, options)
    if request.dtype.kind != "f":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {request.dtype.name}")
    return make_window(request, length, periodic, function)


def bartlett_window(window_length: int, periodic: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Bartlett window ``1 - abs(2 k / n - 1)``, a triangle.

    Parameters
    ----------
    window_length
        The number of values, for k = 0, 1, ...
    periodic
        Whether n is ``window_length``, so that the window can be repeated; otherwise it is ``window_length - 1``, and
        the window is symmetric.
    """
    return _window("bartlett_window", window_length, periodic, options, triangle)


def hann_window(window_length: int, periodic: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Hann window ``(1 - cos(2 pi k / n)) / 2``; see :func:`bartlett_window` for the parameters.

    >>> rg.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, options, cosines(0.5, 0.5))


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Unpack[Options]
) -> Tensor:
    """Return the Hamming window ``alpha - beta cos(2 pi k / n)``; see :func:`bartlett_window` for the parameters."""
    a, b = as_real("hamming_window", "alpha", alpha), as_real("hamming_window", "beta", beta)
    return _window("hamming_window", window_length, periodic, options, cosines(a, b))


def blackman_window(window_length: int, periodic: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Blackman window ``0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)``; see :func:`bartlett_window`."""
    return _window("blackman_window", window_length, periodic, options, blackman)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Unpack[Options]) -> Tensor:
    """Return the Kaiser window ``i0(beta sqrt(1 - (2 k / n - 1)²)) / i0(beta)``; see :func:`bartlett_window`."""
    b = as_real("kaiser_window", "beta", beta)
    return _window("kaiser_window", window_length, periodic, options, kaiser(b))
