"""Rows of the Fourier transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.ops.harness import COMPLEX, FLOATS, Make, Row, Sample, call

NORMS = (None, "backward", "forward", "ortho")


def lines(least: int = 1) -> Callable[[Make], Iterator[Sample]]:
    """Return calls along one dimension: even and odd lengths, cropped and padded, every norm, every layout."""

    def samples(make: Make) -> Iterator[Sample]:
        for length in (2, 3, 6, 7):
            yield call(make.normal(2, length))
        for n in (1, 2, 3, 5, 6, 11):
            yield call(make.normal(2, 6), n)
        for norm in NORMS:
            yield call(make.normal(3, 4), dim=0, norm=norm)
            yield call(make.normal(3, 5), n=7, norm=norm)
            yield call(make.normal(3, 7), n=4, norm=norm)
        yield call(make.normal(5))
        yield call(make.normal(2, 4, 3), dim=1)
        yield call(make.normal(2, 4, 3), 6, -2, "ortho")
        yield call(make.normal(4, 5).T)
        yield call(make.normal(4, 10)[:, ::2])
        yield call(make.normal(4, 5)[::-1, ::-1])
        if least == 1:
            yield call(make.normal(2, 1))
        if make.is_float:
            yield call(np.broadcast_to(make.normal(4), (3, 4)).copy(order="F"))

    return samples


def grids(make: Make) -> Iterator[Sample]:
    """Return calls of a transform along several dimensions."""
    yield call(make.normal(3, 4))
    yield call(make.normal(4, 5))
    yield call(make.normal(2, 3, 4), dim=(0, 2))
    yield call(make.normal(2, 4, 3), dim=(2, 1))
    yield call(make.normal(2, 3, 4), dim=(-1, 0), norm="forward")
    yield call(make.normal(2, 3, 4), s=(4, 5), dim=(0, 1))
    yield call(make.normal(2, 5, 7), (3, 4), (-2, -1), "ortho")
    yield call(make.normal(3, 4), s=(-1, 6), dim=(0, 1))
    yield call(make.normal(3, 4), s=(2, 3), dim=(1, 0))
    for norm in NORMS:
        yield call(make.normal(3, 5), norm=norm)
    yield call(make.normal(4, 3).T)
    yield call(make.normal(3, 4)[::-1])


def everywhere(make: Make) -> Iterator[Sample]:
    """Return calls where only the lengths, or nothing, determine the dimensions."""
    yield from grids(make)
    yield call(make.normal(5))
    yield call(make.normal(2, 3, 4))
    yield call(make.normal(2, 3, 4), s=(5, 3))
    yield call(make.normal(2, 3, 4), s=(5,))
    yield call(make.normal(2, 3, 4), dim=1)
    yield call(make.normal(2, 3, 4), (6,), 0)


def shifts(make: Make) -> Iterator[Sample]:
    yield call(make.normal(5))
    yield call(make.normal(4, 3))
    yield call(make.normal(4, 3), dim=0)
    yield call(make.normal(4, 3), dim=-1)
    yield call(make.normal(4, 3, 5), dim=(0, -1))
    yield call(make.normal(0, 3))
    yield call(make.normal(4, 3).T[::-1])


def counts(make: Make) -> Iterator[Sample]:
    for n in (1, 2, 5, 8):
        yield call(n)
    yield call(6, 0.1)
    yield call(7, d=2.0, dtype="dtype:float64")


def numpys(name: str, dim: str = "axes") -> dict[str, Any]:
    """Return NumPy's function with ``dim`` under NumPy's name."""
    function = getattr(np.fft, name)

    @functools.wraps(function)
    def form(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{dim if key == "dim" else key: value for key, value in kwargs.items()})

    return {"numpy": (form,)}


ANY: dict[str, Any] = {"dtypes": (*COMPLEX, "int64", "bool")}
REAL: dict[str, Any] = {"dtypes": (*FLOATS, "int64", "bool")}

ROWS = [
    Row("fft.fft", lines(), **ANY, **numpys("fft", "axis")),
    Row("fft.ifft", lines(), **ANY, **numpys("ifft", "axis")),
    Row("fft.rfft", lines(), **REAL, **numpys("rfft", "axis")),
    Row("fft.irfft", lines(2), **ANY, **numpys("irfft", "axis")),
    Row("fft.hfft", lines(2), **ANY, **numpys("hfft", "axis")),
    Row("fft.ihfft", lines(), **REAL, **numpys("ihfft", "axis")),
    Row("fft.fftn", everywhere, **ANY, **numpys("fftn")),
    Row("fft.ifftn", everywhere, **ANY, **numpys("ifftn")),
    Row("fft.rfftn", everywhere, **REAL, **numpys("rfftn")),
    Row("fft.irfftn", everywhere, **ANY, **numpys("irfftn")),
    Row("fft.hfftn", everywhere, **ANY),
    Row("fft.ihfftn", everywhere, **REAL),
    Row("fft.fft2", grids, **ANY, **numpys("fft2")),
    Row("fft.ifft2", grids, **ANY, **numpys("ifft2")),
    Row("fft.rfft2", grids, **REAL, **numpys("rfft2")),
    Row("fft.irfft2", grids, **ANY, **numpys("irfft2")),
    Row("fft.hfft2", grids, **ANY),
    Row("fft.ihfft2", grids, **REAL),
    Row("fft.fftshift", shifts, **ANY, **numpys("fftshift")),
    Row("fft.ifftshift", shifts, **ANY, **numpys("ifftshift")),
    Row("fft.fftfreq", counts, gradients=False),
    Row("fft.rfftfreq", counts, gradients=False),
]
