"""Window functions as in ``torch.signal.windows``: symmetric unless ``sym=False``, in single or double precision.

Those of torch's top level, such as :func:`retrograd.hann_window`, are periodic unless they are told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import numpy as np

from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor
from retrograd.creation.options import Options, Request, as_real
from retrograd.creation.signal_windows import Values, cosines, make_window, triangle
from retrograd.creation.signal_windows import blackman as _blackman
from retrograd.creation.signal_windows import kaiser as _kaiser

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(name: str, M: int, sym: bool, options: Options, function: Values) -> Tensor:
    length = as_int(name, "M", M)
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    request = Request(name, options)
    if request.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {request.dtype.name}")
    return make_window(request, length, not sym, function)


def bartlett(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Bartlett window ``1 - abs(2 k / n - 1)``, a triangle.

    Parameters
    ----------
    M
        The number of values, for k = 0, 1, ...
    sym
        Whether n is ``M - 1``, so that the window is symmetric; otherwise it is ``M``, and the window can be repeated.
    **options
        ``dtype``, float32 or float64; ``device`` and ``requires_grad``.

    Examples
    --------
    >>> rg.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, sym, options, triangle)


def blackman(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Blackman window ``0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)``; see :func:`bartlett`."""
    return _window("blackman", M, sym, options, _blackman)


def cosine(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the cosine window ``sin(pi (k + 1/2) / (n + 1))``; see :func:`bartlett`."""
    return _window("cosine", M, sym, options, lambda k, n: np.sin(np.pi * (k + 0.5) / (n + 1)))


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Unpack[Options]
) -> Tensor:
    """Return the exponential window ``exp(-abs(k - center) / tau)``.

    Parameters
    ----------
    M, sym
        See :func:`bartlett`.
    center
        Where the window is 1; n / 2 by default, and always if it is symmetric.
    tau
        In how many values it decays to 1/e.
    """
    decay = as_real("exponential", "tau", tau)
    if decay <= 0:
        raise ValueError(f"exponential: tau must be positive, got: {tau}")
    if sym and center is not None:
        raise ValueError(
            f"exponential: a symmetric window is centered in the middle; with center={center}, pass sym=False"
        )
    middle = None if center is None else as_real("exponential", "center", center)
    return _window(
        "exponential", M, sym, options, lambda k, n: np.exp(-np.abs(k - (n / 2 if middle is None else middle)) / decay)
    )


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Gaussian window ``exp(-((k - n / 2) / std)² / 2)``; see :func:`bartlett`."""
    scale = as_real("gaussian", "std", std)
    if scale <= 0:
        raise ValueError(f"gaussian: std must be positive, got: {std}")
    return _window("gaussian", M, sym, options, lambda k, n: np.exp(-(((k - n / 2) / scale) ** 2) / 2))


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the window ``a[0] - a[1] cos(2 pi k / n) + a[2] cos(4 pi k / n) - ...``; see :func:`bartlett`."""
    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: the coefficients a must be a list or tuple, not {type(a).__name__}")
    coefficients = [as_real("general_cosine", "a", value) for value in a]
    if not coefficients:
        raise ValueError("general_cosine: the coefficients a cannot be empty")
    return _window("general_cosine", M, sym, options, cosines(*coefficients))


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the window ``alpha - (1 - alpha) cos(2 pi k / n)``; see :func:`bartlett`."""
    weight = as_real("general_hamming", "alpha", alpha)
    return _window("general_hamming", M, sym, options, cosines(weight, 1 - weight))


def hamming(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Hamming window ``0.54 - 0.46 cos(2 pi k / n)``; see :func:`bartlett`."""
    return _window("hamming", M, sym, options, cosines(0.54, 0.46))


def hann(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Hann window ``(1 - cos(2 pi k / n)) / 2``; see :func:`bartlett`."""
    return _window("hann", M, sym, options, cosines(0.5, 0.5))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return the Kaiser window ``i0(beta sqrt(1 - (2 k / n - 1)²)) / i0(beta)``; see :func:`bartlett`."""
    width = as_real("kaiser", "beta", beta)
    if width < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta}")
    return _window("kaiser", M, sym, options, _kaiser(width))


def nuttall(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Return Nuttall's window with a minimal fourth term, a sum of cosines; see :func:`general_cosine`."""
    return _window("nuttall", M, sym, options, cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411))
