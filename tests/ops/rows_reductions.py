"""Rows of sums, products, norms, truth, extremes and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.ops.harness import ALL_REAL, COMPLEX, FLOATS, INTS, Make, Row, Sample, call, layouts, values_of

HALF = ("float16", *COMPLEX)
INF, NAN = np.inf, np.nan


def over_dims(
    values: str = "normal", *, several: bool = True, whole: bool = True, empty: bool = True, first: tuple[Any, ...] = ()
) -> Callable[[Make], Iterator[Sample]]:
    """Return samples of ``f(x, *first, dim, keepdim)``: all layouts, with and without ``dim``, 0-d and empty."""

    def samples(make: Make) -> Iterator[Sample]:
        def a(*shape: int) -> np.ndarray:
            return values_of(make, values, shape)

        if whole:
            for array in layouts(make, values):
                if array.size or empty:
                    yield call(array, *first)
        for dim in (0, 1, -1):
            yield call(a(3, 4), *first, dim)
            yield call(a(2, 3, 4), *first, dim, True)
        for array in (a(4, 3).T, a(3, 8)[:, ::2], a(3, 4)[::-1]):
            yield call(array, *first, dim=0)
            yield call(array, *first, dim=1, keepdim=True)
        yield call(a(), *first, 0)
        yield call(a(), *first, -1, True)
        yield call(a(0, 3), *first, 1)
        if empty:
            yield call(a(0, 3), *first, 0)
        if several:
            yield call(a(2, 3, 4), *first, (0, 2))
            yield call(a(2, 3, 4), *first, (-1, 0), True)
            yield call(a(2, 3, 4), *first, [1, 2])
            yield call(a(3, 4), *first, ())

    return samples


def large(values: str = "normal", *first: Any) -> Callable[[Make], Iterator[Sample]]:
    """Return samples large enough to be rearranged: few columns, with and without a remainder, and others."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape in ((205, 6), (600, 2), (40, 50), (3, 400), (30, 6, 7), (2, 60, 11)):
            for dim in (0, -1, 1):
                yield call(values_of(make, values, shape), *first, dim)
                yield call(values_of(make, values, shape), *first, dim=dim, keepdim=True)
        yield call(values_of(make, values, (6, 205)).T, *first, 0)
        yield call(values_of(make, values, (90, 110)), *first)

    return samples


def empties(make: Make) -> Iterator[Sample]:
    yield call(make.normal(0, 3))
    yield call(make.normal(0, 3), 0)
    yield call(make.normal(0, 3), 1)


def with_dtype(*dtypes: str) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        for dtype in dtypes:
            yield call(make.uniform(3, 4, low=1, high=3), dtype=f"dtype:{dtype}")
            yield call(make.uniform(3, 4, low=1, high=3), dim=0, dtype=f"dtype:{dtype}")

    return samples


def fixed(*arrays: Any, **kwargs: Any) -> Callable[[Make], Iterator[Sample]]:
    """Return samples of given values."""

    def samples(make: Make) -> Iterator[Sample]:
        for array in arrays:
            yield call(np.array(array, make.dtype), **kwargs)

    return samples


def with_nan(make: Make) -> Iterator[Sample]:
    for sample in over_dims()(make):
        array = sample.args[0].copy()
        if array.dtype.kind == "f" and array.ndim:
            array.reshape(-1)[::3] = np.nan
        yield Sample((array, *sample.args[1:]), sample.kwargs)


SUMS = [
    Row("sum", over_dims(), dtypes=(*HALF, *INTS, "bool")),
    Row("sum", large(), dtypes=(*HALF, "int32", "bool"), tolerance=10),
    Row("sum", with_dtype("float64"), dtypes=("float32", "int32", "bool")),
    Row("sum", with_dtype("int64", "float32", "int8"), dtypes=("float32", "int32"), gradients=False),
    Row("mean", over_dims(empty=False), dtypes=HALF),
    Row("mean", empties, dtypes=FLOATS, numeric=False),
    Row("mean", large(), dtypes=HALF, tolerance=10),
    Row("mean", with_dtype("float64"), dtypes=("float16", *FLOATS, "int64", "bool")),
    Row("mean", with_dtype("float32", "float16"), dtypes=("float16", "float64"), numeric=False),
    Row("nansum", with_nan, dtypes=("float16", *FLOATS, *INTS, "bool")),
    Row("nanmean", with_nan, dtypes=("float16", *FLOATS), numeric=False),
    Row("nanmean", lambda make: [call(make.normal(3, 4), 1)], dtypes=FLOATS),
]


def with_zeros(make: Make) -> Iterator[Sample]:
    """Return rows with no zero, one and two."""
    array = make.positive(3, 4)
    array[1, 2] = array[2, 0] = array[2, 3] = 0
    yield call(array)
    yield call(array, 0)
    yield call(array, 1, True)
    yield call(array[:2], -1)
    yield call(array[1])
    yield call(array[1:].T, 0)
    yield call(array[1, 2:3].reshape(()))
    yield call(array[1, 2:3].reshape(()), 0)


PRODUCTS = [
    Row("prod", over_dims("positive", several=False), dtypes=(*HALF, *INTS, "bool")),
    Row("prod", with_zeros, dtypes=COMPLEX, numeric=False),
    Row("prod", with_dtype("float64"), dtypes=("float32", "int32", "bool")),
    Row("prod", fixed([[1, 2], [0, 3], [0, 0]], dim=0), dtypes=("float64",)),
]

LOGSUMEXP = [
    Row("logsumexp", over_dims(whole=False, several=False, empty=False), dtypes=(*HALF, *INTS, "bool")),
    Row("logsumexp", lambda make: [call(make.normal(0, 3), 0), call(make.normal(0, 3), 1)], numeric=False),
    Row(
        "logsumexp",
        lambda make: [call(make.normal(2, 3, 4), (0, 2)), call(make.normal(3, 4), (1, 0), True)],
        dtypes=COMPLEX,
    ),
    Row("logsumexp", fixed([[1000, -1000], [1000, 1000], [-1000, -1000]], dim=1), dtypes=FLOATS),
    Row(
        "logsumexp",
        fixed([[-INF, 1], [-INF, -INF], [INF, 1], [INF, INF], [NAN, 1], [-INF, INF]], dim=1),
        dtypes=FLOATS,
        second=False,
        numeric=False,
    ),
]


def norms(make: Make) -> Iterator[Sample]:
    for p in (2, 1, 3, 2.5, 0.5, -1, 0, INF, -INF, "fro", None):
        yield call(make.uniform(3, 4), p)
        yield call(make.uniform(3, 4), p, 0)
        yield call(make.uniform(2, 3, 4), p=p, dim=(1, 2), keepdim=True)
    yield call(make.normal(3, 4))
    yield call(make.normal(4, 3).T, dim=1)
    yield call(values_of(make, "uniform", ()), 3, 0)
    yield call(values_of(make, "uniform", ()), 1)
    yield call(make.normal(0, 3), 2, 0)
    yield call(make.normal(0, 3), 1)
    yield call(make.normal(40, 50), 2, 0)


def norms_at_kinks(make: Make) -> Iterator[Sample]:
    for p in (2, 1, 3, 1.5, 0.5, INF, -INF):
        yield call(np.zeros(3, make.dtype), p)
        yield call(np.array([0, 2, 0], make.dtype), p)
        yield call(np.array([[2, -2, 1], [0, 0, 0]], make.dtype), p, 1)


def pairs(make: Make) -> Iterator[Sample]:
    for p in (2, 1, 3, INF, 0.5):
        yield call(make.uniform(3, 4), make.uniform(3, 4, low=1, high=2), p)
        yield call(make.uniform(3, 1), make.uniform(4, low=1, high=2), p)
    yield call(make.normal(5), make.normal(5))


def renorms(make: Make) -> Iterator[Sample]:
    for p in (1, 2, 3):
        for dim in (0, 1, -1):
            yield call(make.normal(3, 4) * np.array([3, 0.1, 1, 2], make.dtype), p, dim, 1.5)
    yield call(make.normal(2, 3, 4), 2, 1, 1.0)
    yield call(make.normal(4, 3).T, 2.0, 0, 0.7)


NORMS = [
    Row("norm", norms, dtypes=("float16", *COMPLEX), tolerance=3),
    Row("norm", large("normal", 2), dtypes=("float16", *COMPLEX), tolerance=10),
    Row("norm", norms_at_kinks, dtypes=FLOATS, second=False, numeric=False),
    Row("norm", lambda make: [call(make.normal(3, 4), dtype="dtype:float64")], dtypes=FLOATS),
    Row(
        "norm",
        lambda make: [
            call(make.normal(3, 4), "nuc"),
            call(make.normal(2, 4, 3), "nuc", (1, 2)),
            call(make.normal(2, 4, 3), "nuc", (2, 0), True),
        ],
        dtypes=FLOATS,
        tolerance=10,
    ),
    Row("dist", pairs, dtypes=COMPLEX, tolerance=3),
    Row(
        "dist",
        lambda make: [call(make.normal(3), np.zeros(3, make.dtype), 2), call(*[make.normal(3)] * 2, 2)][1:],
        second=False,
        numeric=False,
    ),
    Row("renorm", renorms, dtypes=COMPLEX, inplace=True, tolerance=3),
]

TRUTH = [
    Row("all", large("positive"), dtypes=("float32", "uint8", "bool"), gradients=False),
    Row("any", large(), dtypes=("float32", "uint8", "bool"), gradients=False),
    Row("all", over_dims(), dtypes=(*HALF, *INTS, "bool"), gradients=False),
    Row("any", over_dims(), dtypes=(*HALF, *INTS, "bool"), gradients=False),
    Row("all", fixed([[1, 0], [2, 3]], [[1, 1]], dim=1), dtypes=(*COMPLEX, *INTS, "bool"), gradients=False),
    Row("any", fixed([[1, 0], [0, 0]], [[0, 0]], dim=1), dtypes=(*COMPLEX, *INTS, "bool"), gradients=False),
    Row(
        "count_nonzero",
        lambda make: [
            call(make.normal(3, 4)),
            call(make.normal(3, 4), 0),
            call(make.normal(3, 4), dim=(0, 1)),
            call(make.normal(3, 4), ()),
            call(make.normal(4, 3).T, -1),
            call(values_of(make, "normal", ())),
            call(values_of(make, "normal", ()), 0),
            call(make.normal(0, 3), 0),
            call(np.array([[1, 0], [0, 0]], make.dtype), 1),
        ],
        dtypes=(*HALF, *INTS, "bool"),
        gradients=False,
    ),
]

# --- extremes ---------------------------------------------------------------------------------------------------------

TIES = ([[1, 2, 2], [3, 3, 3], [5, 4, 3]],)


def one_dim(values: str = "distinct") -> Callable[[Make], Iterator[Sample]]:
    return over_dims(values, several=False, whole=False, empty=False)


def two_tensors(make: Make) -> Iterator[Sample]:
    yield call(make.distinct(3, 4), make.distinct(3, 4)[::-1].copy())
    yield call(make.distinct(3, 4), make.distinct(4) + make.dtype.type(1))
    yield call(make.distinct(3), other=make.distinct(3)[::-1].copy())


def both_extremes(make: Make) -> Iterator[Sample]:
    for sample in over_dims("distinct", several=False, empty=False)(make):
        (array, *dims) = sample.args
        yield call(array, **dict(zip(("dim", "keepdim"), dims, strict=False)), **sample.kwargs)


def places(make: Make) -> Iterator[Sample]:
    yield from over_dims("distinct", several=False, empty=False)(make)
    yield call(make.distinct(3, 4), None, True)
    yield call(make.distinct(3, 4), keepdim=True)
    yield call(np.array([[1, 2, 2], [3, 3, 3]], make.dtype), 1)
    yield call(np.array([[1, 2, 2], [3, 3, 3]], make.dtype))
    if make.is_float:
        yield call(np.array([[1, NAN, 2, NAN], [INF, 1, 2, -INF]], make.dtype), 1)


EXTREMES = [
    row
    for name in ("amax", "amin")
    for row in (
        Row(name, over_dims("distinct", empty=False), dtypes=("float16", *ALL_REAL)),
        Row(name, large("distinct"), dtypes=(*FLOATS, "int64")),
        Row(name, fixed(*TIES, dim=1), dtypes=FLOATS, numeric=False),
        Row(name, fixed(*TIES), dtypes=FLOATS, numeric=False),
        Row(name, fixed([[1, NAN], [INF, 2]], dim=1), dtypes=FLOATS, second=False, numeric=False),
    )
] + [
    row
    for name in ("max", "min")
    for row in (
        Row(
            name,
            lambda make: [call(array) for array in layouts(make, "distinct") if array.size],
            dtypes=("float16", *ALL_REAL),
        ),
        Row(name, one_dim(), dtypes=("float16", *ALL_REAL)),
        Row(name, two_tensors, dtypes=(*FLOATS, *INTS)),
        Row(name, fixed(*TIES), dtypes=FLOATS, numeric=False),
        Row(name, fixed(*TIES, dim=1), dtypes=FLOATS, numeric=False),
        Row(name, fixed([1, NAN, 2, NAN]), dtypes=FLOATS, numeric=False),
        Row(name, fixed([[1, NAN, 2, NAN], [1, INF, -INF, 2]], dim=1), dtypes=FLOATS, numeric=False),
    )
]

EXTREMES += [
    Row("aminmax", both_extremes, dtypes=("float16", *ALL_REAL)),
    Row("aminmax", fixed(*TIES, dim=1), dtypes=FLOATS, numeric=False),
    Row("argmax", places, dtypes=("float16", *FLOATS, *INTS), gradients=False),
    Row("argmin", places, dtypes=("float16", *FLOATS, *INTS), gradients=False),
]

# --- statistics -------------------------------------------------------------------------------------------------------


def spreads(make: Make) -> Iterator[Sample]:
    def a(*shape: int) -> np.ndarray:
        return values_of(make, "normal", shape)

    yield from (call(array) for array in layouts(make, "normal") if array.size > 1)
    for more in ({}, {"unbiased": False}, {"unbiased": True, "keepdim": True}):
        yield call(a(3, 4), 0, **more)
        yield call(a(2, 3, 4), (0, -1), **more)
    for correction in (0, 1, 2, 0.5):
        yield call(a(3, 4), correction=correction)
        yield call(a(3, 4), dim=1, correction=correction, keepdim=True)
    yield call(a(3, 4), True)
    yield call(a(3, 4), False)
    yield call(a(3, 4), unbiased=False)
    yield call(a(3, 4), 1, False, True)
    yield call(a(3, 4), None, correction=None)
    yield call(a(), correction=0)
    yield call(a(4, 3).T, 0)
    yield call(a(40, 50), 1)


def medians(make: Make) -> Iterator[Sample]:
    for array in layouts(make, "distinct"):
        if array.size:
            yield call(array)
    yield call(make.distinct(2, 3))


def ranked(make: Make) -> Iterator[Sample]:
    a = make.distinct
    for k in (1, 2, 3):
        yield call(a(3, 4), k)
        yield call(a(3, 4), k, 0)
        yield call(a(2, 3, 4), k, 1, True)
        yield call(a(4, 3).T, k=k, dim=-1, keepdim=True)
    yield call(a(), 1)
    yield call(a(), 1, 0, True)
    yield call(a(0, 3), 1, 1)
    yield call(a(3, 4)[::-1], 2, 0)


def values_only(results: list[Any]) -> list[Any]:
    """Return only the values, because which of several equal elements is picked is undefined."""
    return results[:1]


def modes(make: Make) -> Iterator[Sample]:
    a = np.array([[2, 2, 5, 1, 5], [1, 2, 3, 4, 5], [7, 7, 7, 7, 7], [3, 1, 1, 3, 9]], make.dtype)
    yield call(a)
    yield call(a, 1)
    yield call(a.T, 0, True)
    yield call(a[:, ::-1], dim=-1, keepdim=True)
    yield call(a[:, ::2])
    yield call(np.asarray(a[0, 0]))
    yield call(a[:0])


def quantiles(make: Make) -> Iterator[Sample]:
    a = make.distinct
    for interpolation in ("linear", "lower", "higher", "midpoint", "nearest"):
        for q in (0, 0.3, 0.5, 1):
            yield call(a(3, 5), q, interpolation=interpolation)
            yield call(a(3, 5), q, 1, interpolation=interpolation)
            yield call(a(3, 4), q, dim=0, keepdim=True, interpolation=interpolation)
    q = np.array([0.1, 0.55, 0.55, 0.73], make.dtype)
    yield call(a(3, 5), q)
    yield call(a(3, 5), q, keepdim=True)
    yield call(a(2, 3, 5), q, 1)
    yield call(a(2, 3, 5), q, -1, True)
    yield call(a(5, 3).T, q, 0)
    yield call(a(3, 5), np.asarray(q[1]))
    yield call(a(), 0.5)
    yield call(a(), q, 0, True)


def quantiles_with_nan(make: Make) -> Iterator[Sample]:
    a = make.distinct(3, 5)
    a[0, 1] = a[0, 3] = a[1, 0] = NAN
    q = np.array([0.1, 0.5, 0.9], make.dtype)
    for dim in (None, 0, 1):
        yield call(a, 0.4, dim)
        yield call(a, q, dim, True)
    yield call(np.full((2, 2), NAN, make.dtype), 0.3, 1)


def covariances(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 5))
    yield call(make.normal(5, 3).T)
    yield call(make.normal(5))
    for correction in (0, 2):
        yield call(make.normal(3, 5), correction=correction)
    f, w = (
        np.array([1, 2, 1, 3, 1]),
        np.array([0.5, 1, 2, 0.1, 1], make.normal(1).real.dtype if make.is_float else "f4"),
    )
    yield call(make.normal(3, 5), fweights=f)
    yield call(make.normal(3, 5), aweights=w)
    yield call(make.normal(3, 5), fweights=f, aweights=w)
    yield call(make.normal(3, 5), correction=0, aweights=w)


STATISTICS = [
    *(Row(name, spreads, dtypes=HALF, tolerance=3) for name in ("var", "std")),
    *(Row(name, large(), dtypes=COMPLEX, tolerance=10) for name in ("var", "std")),
    *(Row(name, spreads, dtypes=COMPLEX, tolerance=3, method=False) for name in ("var_mean", "std_mean")),
    *(
        Row(name, fixed([[3, 3, 3], [1, 2, 4]], dim=1), dtypes=FLOATS, second=False, numeric=False)
        for name in ("var", "std")
    ),
    *(Row(name, fixed([[7], [8]], dim=1), dtypes=FLOATS, second=False, numeric=False) for name in ("var", "std")),
    *(Row(name, fixed([1, 2, 4], correction=5), dtypes=FLOATS, gradients=False) for name in ("var", "std")),
    Row("median", medians, dtypes=("float16", *FLOATS, *INTS)),
    Row("median", one_dim(), dtypes=("float16", *FLOATS, "uint8", "int64")),
    Row("median", fixed([1, 2, 2, 2, 3], [1, NAN, 2, NAN]), dtypes=FLOATS, numeric=False),
    Row("median", fixed([[1, NAN, 2, NAN], [4, 3, 1, 2]], dim=1), dtypes=FLOATS, numeric=False),
    Row("median", fixed([]), dtypes=FLOATS, gradients=False),
    Row("nanmedian", medians, dtypes=("float16", *FLOATS, *INTS)),
    Row("nanmedian", one_dim(), dtypes=("float16", *FLOATS, "uint8", "int64")),
    Row("nanmedian", fixed([1, 2, 2, 2, 3, NAN], [1, NAN, 2, NAN], [NAN, NAN]), dtypes=FLOATS, numeric=False),
    Row("nanmedian", fixed([[1, NAN, 2, NAN], [4, 3, 1, 2]], dim=1), dtypes=FLOATS, numeric=False),
    Row("kthvalue", ranked, dtypes=("float16", *FLOATS, *INTS)),
    Row("kthvalue", lambda make: [call(np.array([[1, NAN, 2, NAN]], make.dtype), k) for k in (1, 2)], numeric=False),
    Row("mode", modes, dtypes=("float16", *ALL_REAL), numeric=False),
    Row("quantile", quantiles, dtypes=FLOATS),
    Row("quantile", quantiles_with_nan, dtypes=FLOATS, numeric=False),
    Row("nanquantile", quantiles, dtypes=FLOATS),
    Row("nanquantile", quantiles_with_nan, dtypes=FLOATS, numeric=False),
    Row("cov", covariances, dtypes=(*COMPLEX, "int64"), tolerance=10),
    Row(
        "corrcoef",
        lambda make: [call(make.normal(3, 5)), call(make.normal(5, 3).T)],
        dtypes=COMPLEX,
        tolerance=30,
        second=False,
    ),
    Row("corrcoef", lambda make: [call(make.normal(5))], dtypes=FLOATS, gradients=False),
]

ROWS = [*SUMS, *PRODUCTS, *LOGSUMEXP, *NORMS, *TRUTH, *EXTREMES, *STATISTICS]
