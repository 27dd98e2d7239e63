"""Rows of the short-time Fourier transform and its inverse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.ops.harness import FLOATS, Make, Row, Sample, call


def window(make: Make, length: int) -> np.ndarray:
    """Return a window without zeros, real like the signal."""
    return (0.6 + 0.4 * np.sin(np.arange(length) + 0.5)).astype(np.empty(0, make.dtype).real.dtype)


def signals(make: Make) -> Iterator[Sample]:
    complex_only = {} if make.dtype.kind == "c" else {"return_complex": True}
    yield call(make.normal(24), 8, window=window(make, 8), **complex_only)
    yield call(make.normal(2, 24), 8, window=window(make, 8), **complex_only)
    yield call(make.normal(23), 7, 3, window=window(make, 7), normalized=True, **complex_only)
    yield call(make.normal(24), 8, 3, 5, window(make, 5), **complex_only)
    yield call(make.normal(24), 8, 4, window=window(make, 8), center=False, **complex_only)
    yield call(make.normal(24), 8, 3, 4, window(make, 4), center=False, align_to_window=True, **complex_only)
    yield call(make.normal(24), 8, window=window(make, 8), pad_mode="constant", **complex_only)
    yield call(make.normal(24), 8, window=window(make, 8), onesided=False, return_complex=True)
    yield call(make.normal(24), 8, window=window(make, 8), return_complex=False)
    yield call(make.normal(2, 48)[:, ::2], 8, window=window(make, 8), **complex_only)
    yield call(make.normal(24), 24, 6, window=window(make, 24), center=False, **complex_only)


def spectra(make: Make) -> Iterator[Sample]:
    yield call(make.normal(5, 6), 8, window=window(make, 8))
    yield call(make.normal(2, 5, 6), 8, window=window(make, 8), normalized=True)
    yield call(make.normal(4, 6), 7, 3, window=window(make, 7))
    yield call(make.normal(5, 6), 8, 3, 5, window(make, 5))
    yield call(make.normal(5, 6), 8, window=window(make, 8), center=False)
    yield call(make.normal(5, 6), 8, window=window(make, 8), length=9)
    yield call(make.normal(8, 6), 8, window=window(make, 8), onesided=False)
    yield call(make.normal(8, 6), 8, window=window(make, 8), onesided=False, return_complex=True)
    yield call(make.normal(6, 5).T, 8, window=window(make, 8))


ROWS = [
    Row("stft", signals, dtypes=(*FLOATS, "complex64", "complex128"), grad_args=(0, "window")),
    Row("istft", spectra, dtypes=("complex64", "complex128"), grad_args=(0, "window"), tolerance=4),
]
