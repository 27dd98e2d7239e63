"""Rows of running sums, products and extremes, differences and integrals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from tests.ops.harness import ALL_REAL, COMPLEX, FLOATS, INTS, Make, Row, Sample, call, values_of

HALF = ("float16", *COMPLEX)
INF, NAN = np.inf, np.nan


def along(values: str = "normal") -> Callable[[Make], Iterator[Sample]]:
    """Return samples of ``f(x, dim)``."""

    def samples(make: Make) -> Iterator[Sample]:
        def a(*shape: int) -> np.ndarray:
            return values_of(make, values, shape)

        for dim in (0, 1, -1):
            yield call(a(3, 4), dim)
            yield call(a(2, 3, 4), dim=dim)
            yield call(a(4, 3).T, dim)
            yield call(a(3, 8)[:, ::2], dim)
            yield call(a(3, 4)[::-1], dim)
            yield call(a(0, 3), dim)
        yield call(a(), 0)
        yield call(a(), -1)
        yield call(a(1), 0)
        yield call(a(19), 0)

    return samples


def fixed(*arrays: object, **kwargs: object) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        for array in arrays:
            yield call(np.array(array, make.dtype), 0, **kwargs)

    return samples


def with_zeros(make: Make) -> Iterator[Sample]:
    """Return rows with no zero, one, two, and zeros at either end."""
    array = make.positive(5, 4)
    array[1, 2] = array[2, 0] = array[2, 3] = array[3, 0] = array[4, 3] = 0
    yield call(array, 0)
    yield call(array, 1)
    yield call(array.T, -1)
    yield call(np.asarray(array[1, 2]), 0)
    yield call(np.zeros(3, make.dtype), 0)
    array = make.positive(37)
    array[[5, 20]] = 0
    yield call(array, 0)


def with_dtype(make: Make) -> Iterator[Sample]:
    yield call(make.uniform(3, 4, low=1, high=3), 0, dtype="dtype:float64")
    yield call(make.uniform(3, 4, low=1, high=3), dim=1, dtype="dtype:float64")


def differences(make: Make) -> Iterator[Sample]:
    a = make.normal
    yield call(a(5))
    for dim in (0, 1, -1):
        yield call(a(3, 4), dim=dim)
        yield call(a(3, 4), 2, dim)
        yield call(a(4, 3).T, 1, dim)
        yield call(a(3, 4)[::-1], dim=dim)
    for n in (0, 3, 5):
        yield call(a(3, 4), n)
    yield call(a(1))
    yield call(a(0, 3), dim=0)
    yield call(a(3, 4), prepend=a(3, 2))
    yield call(a(3, 4), 2, 0, a(1, 4), a(2, 4))
    yield call(a(3, 4), n=2, append=a(3, 1))


def integrals(make: Make) -> Iterator[Sample]:
    y = make.normal
    yield call(y(5))
    for dim in (0, 1, -1):
        yield call(y(3, 4), dim=dim)
        yield call(y(3, 4), dx=0.5, dim=dim)
        yield call(y(3, 4), make.uniform(3, 4), dim=dim)
    yield call(y(3, 4), make.uniform(4))
    yield call(y(3, 4), make.uniform(3), dim=0)
    yield call(y(2, 3, 4), make.uniform(3, 4), dim=2)
    yield call(y(2, 3, 4), make.uniform(3), dim=-2)
    for n in (1, 2):
        yield call(y(3, n))
        yield call(y(3, n), make.uniform(n))


def derivatives(make: Make) -> Iterator[Sample]:
    f = make.normal
    points = np.cumsum(make.uniform(7).real).astype(make.normal(1).real.dtype)
    for edge_order in (1, 2):
        yield call(f(5), edge_order=edge_order)
        yield call(f(4, 5), edge_order=edge_order)
        yield call(f(4, 5), spacing=0.5, edge_order=edge_order)
        yield call(f(4, 5), spacing=(0.5, 2.0), edge_order=edge_order)
        yield call(f(4, 5), dim=1, edge_order=edge_order)
        yield call(f(3, 4, 5), dim=(0, -1), edge_order=edge_order)
        yield call(f(4, 5), spacing=[points[:4], points[2:]], edge_order=edge_order)
        yield call(f(4, 5).T, spacing=[points[2:]], dim=0, edge_order=edge_order)
    yield call(f(2), edge_order=1)
    yield call(f(4, 5), spacing=None, dim=None)


ROWS = [
    Row("cumsum", along(), dtypes=(*HALF, *INTS), inplace=True),
    Row("cumsum", along(), dtypes=("bool",), gradients=False),
    Row("cumsum", with_dtype, dtypes=("float32", "int32", "bool")),
    Row("cumprod", along("positive"), dtypes=(*HALF, *INTS), inplace=True, tolerance=3),
    Row("cumprod", along(), dtypes=("bool",), gradients=False),
    Row("cumprod", with_zeros, dtypes=COMPLEX, numeric=False, tolerance=3),
    Row("cumprod", with_dtype, dtypes=("float32", "int32", "bool")),
    Row("logcumsumexp", along(), dtypes=("float16", *COMPLEX), tolerance=3),
    Row(
        "logcumsumexp",
        fixed([5 + 10j, 1 + 20j, -900j], [800 + 1j, -INF, 800 + 2j], [-INF, 1, 2j]),
        dtypes=("complex64", "complex128"),
        second=False,
        numeric=False,
        tolerance=10,
    ),
    Row("logcumsumexp", fixed([1000, -1000, 1001], [-1000, 1000, 999]), dtypes=FLOATS),
    Row(
        "logcumsumexp",
        fixed([-INF, -INF, 1, 2], [1, INF, 3], [1, -INF, 3]),
        dtypes=FLOATS,
        second=False,
        numeric=False,
    ),
    *(
        row
        for name in ("cummax", "cummin")
        for row in (
            Row(name, along("distinct"), dtypes=("float16", *ALL_REAL)),
            Row(name, fixed([1, 3, 3, 2, 3, 5], [5, 4, 4, 3, 3, 9]), dtypes=(*FLOATS, "int32"), numeric=False),
            Row(name, fixed([1, 3, NAN, 2, NAN, 5], [NAN, 1], [INF, -INF, 2]), dtypes=FLOATS, numeric=False),
        )
    ),
    Row("diff", differences, dtypes=(*HALF, *INTS, "bool")),
    Row("trapezoid", integrals, dtypes=(*COMPLEX, "int64"), method=False),
    Row("trapz", lambda make: [call(make.normal(3, 4)), call(make.normal(3, 4), make.uniform(4))], method=False),
    Row("cumulative_trapezoid", integrals, dtypes=(*COMPLEX, "int64"), method=False),
    Row("gradient", derivatives, dtypes=FLOATS, method=False, tolerance=3),
    Row(
        "gradient",
        lambda make: [call(make.normal(4, 5))],
        torch=torch.gradient,
        dtypes=(*COMPLEX, "int64"),
        method=False,
    ),
]
