"""Rows of sorting, searching, distinct values and counting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.ops.harness import ALL_REAL, FLOATS, INTS, Make, Row, Sample, call, flatten, values_of

SORTED = ("float16", *ALL_REAL)
INF, NAN = np.inf, np.nan


def sorts(make: Make) -> Iterator[Sample]:
    def a(*shape: int) -> np.ndarray:
        return values_of(make, "distinct", shape)

    yield call(a(3, 4))
    for dim in (0, 1, -1):
        for descending in (False, True):
            yield call(a(3, 4), dim, descending)
            yield call(a(2, 3, 4), dim=dim, descending=descending, stable=True)
            yield call(a(4, 3).T, dim, descending)
            yield call(a(3, 8)[:, ::2], dim, descending)
            yield call(a(3, 4)[::-1], dim, descending)
    yield call(a())
    yield call(a(), 0, True)
    yield call(a(0, 3), 0)
    yield call(a(0, 3), 1)


def sorts_with_ties(make: Make) -> Iterator[Sample]:
    """Return stable sorts, whose indices are determined; NaN counts as the largest."""
    ties = np.array([3, 1, 3, 2, 1, 1, 3, 0] * 3, make.dtype)
    yield call(ties, stable=True)
    yield call(ties, stable=True, descending=True)
    yield call(ties.reshape(6, 4), stable=True, dim=0)
    if make.dtype.kind == "f":
        wild = np.array([1, NAN, -INF, INF, NAN, 0, -0.0, 1], make.dtype)
        yield call(wild, stable=True)
        yield call(wild, stable=True, descending=True)


def without_stable(samples: Callable[[Make], Iterator[Sample]]) -> Callable[[Make], Iterator[Sample]]:
    return lambda make: (
        Sample(sample.args, {key: value for key, value in sample.kwargs.items() if key != "stable"})
        for sample in samples(make)
    )


def tops(make: Make) -> Iterator[Sample]:
    def a(*shape: int) -> np.ndarray:
        return values_of(make, "distinct", shape)

    for k in (0, 1, 2, 3):
        for largest in (True, False):
            yield call(a(3, 5), k, largest=largest)
            yield call(a(3, 5), k, 0, largest)
            yield call(a(2, 3, 4), k=k, dim=1, largest=largest, sorted=True)
            yield call(a(5, 3).T, k, -1, largest)
            yield call(a(3, 5)[::-1], k, 0, largest)
    yield call(a(), 1)
    yield call(a(), 1, 0, False)
    yield call(a(0, 3), 2, 1)


def unsorted_tops(make: Make) -> Iterator[Sample]:
    for largest in (True, False):
        yield call(make.distinct(3, 7), 4, 1, largest, False)
        yield call(make.distinct(7, 3), 4, 0, largest, False)


def in_order(results: list[Any]) -> list[Any]:
    """Return the values sorted, because the order of the results is undefined."""
    values = results[0]
    dim = 1 if values.shape[1] == 4 else 0
    return [values.sort(dim)[0]]


def searches(make: Make) -> Iterator[Sample]:
    rows = np.sort(make.normal(2, 3, 6), -1)
    some = np.concatenate([make.normal(2, 3, 4), rows[..., :2]], -1)
    line = rows[0, 0].copy()
    for more in ({}, {"right": True}, {"side": "left"}, {"side": "right"}, {"out_int32": True}):
        yield call(rows, some, **more)
        yield call(line, some, **more)
        yield call(line, some[0, 0, :0], **more)
    yield call(line, 1)
    yield call(line, 0.5 if make.is_float else 3, right=True)
    yield call(line, np.asarray(line[2]))
    yield call(line, some[:, ::-1])
    order = make.rng.permutation(6)
    yield call(line[order], some, sorter=np.argsort(order))
    shuffled = np.stack([make.rng.permutation(6) for _ in range(6)]).reshape(2, 3, 6)
    yield call(np.take_along_axis(rows, shuffled, -1), some, sorter=np.argsort(shuffled, -1))
    if make.is_float:
        yield call(line, np.array([NAN, INF, -INF], make.dtype))


def buckets(make: Make) -> Iterator[Sample]:
    edges = np.unique(make.normal(8))
    for more in ({}, {"right": True}, {"out_int32": True}):
        yield call(make.normal(3, 4), edges, **more)
        yield call(edges.reshape(-1, 1), edges, **more)
        yield call(2, edges, **more)


def memberships(make: Make) -> Iterator[Sample]:
    a = make.normal(3, 4)
    some = np.concatenate([a.reshape(-1)[:3], make.normal(2)])
    for more in ({}, {"invert": True}):
        yield call(a, some, **more)
        yield call(a.T, some.reshape(5, 1), **more)
        yield call(a, 1, **more)
        yield call(1, a, **more)
        yield call(a, some[:0], **more)
    yield call(np.unique(a), np.unique(some), assume_unique=True)


def repeated(make: Make) -> Iterator[np.ndarray]:
    values = np.array([2, 2, 5, 5, 5, 2, 9, 9, 1, 1, 1, 1], make.dtype)
    yield values
    yield values.reshape(3, 4)
    yield values.reshape(4, 3).T
    yield values[::-1]
    yield np.asarray(values[0])
    yield values[:0]
    if make.dtype.kind == "f":
        yield np.array([1, NAN, NAN, INF, INF, -INF], make.dtype)


def distinct(make: Make) -> Iterator[Sample]:
    for array in repeated(make):
        yield call(array)
        yield call(array, True, True)
        yield call(array, return_counts=True)
        yield call(array, return_inverse=True, return_counts=True)
    rows = np.array([[3, 1, 3], [1, 2, 1], [3, 1, 3], [0, 5, 0]], make.dtype)
    for dim in (0, 1, -1):
        yield call(rows, dim=dim)
        yield call(rows, True, True, True, dim)
    yield call(rows.reshape(4, 3, 1), dim=0, return_inverse=True)
    yield call(rows[:0], dim=0)


def consecutive(make: Make) -> Iterator[Sample]:
    for array in repeated(make):
        yield call(array)
        yield call(array, return_inverse=True)
        yield call(array, return_counts=True)
        yield call(array, True, True)
    rows = np.array([[3, 3, 3], [3, 3, 3], [3, 3, 1], [3, 3, 3]], make.dtype)
    for dim in (0, 1, -1):
        yield call(rows, dim=dim)
        yield call(rows, True, True, dim)
    yield call(rows.reshape(4, 3, 1), dim=0, return_inverse=True)
    yield call(rows[:0], dim=0)


def counts(make: Make) -> Iterator[Sample]:
    numbers = np.array([0, 3, 1, 3, 3, 7], make.dtype)
    yield call(numbers)
    yield call(numbers, minlength=12)
    yield call(numbers, None, 2)
    yield call(numbers[::2])
    yield call(numbers[:0])
    yield call(numbers[:0], minlength=3)
    for dtype in ("float32", "float64", "int64"):
        yield call(numbers, np.array([5, 2, 4, 1, 2, 3], dtype))
        yield call(numbers, np.ones(6, dtype), 10)


def weighted_counts(make: Make) -> Iterator[Sample]:
    yield call(np.array([0, 3, 1, 3, 3, 7]), make.normal(6))
    yield call(np.array([0, 3, 1, 3, 3, 7]), make.normal(6), minlength=10)


def bins(make: Make) -> Iterator[Sample]:
    yield call(make.uniform(50))
    yield call(make.uniform(5, 6), 7)
    yield call(make.uniform(5, 6), bins=7, min=0.2, max=0.8)
    yield call(make.uniform(6, 5).T, 7, 0, 1)
    yield call(make.uniform(50), 4, min=-1)
    yield call(np.full(3, 2, make.dtype), 5)
    yield call(make.uniform(0), 3)
    yield call(np.array([0.1, NAN, 0.6], make.dtype), 3, 0, 1)


def histograms(make: Make) -> Iterator[Sample]:
    yield call(make.uniform(50), 5)
    yield call(make.uniform(5, 6), bins=7, density=True)
    yield call(make.uniform(5, 6), 7, range=(0.2, 0.8))
    yield call(make.uniform(30), 7, weight=make.uniform(30))
    yield call(make.uniform(30), np.array([0, 0.1, 0.5, 1], make.dtype))
    yield call(make.uniform(30), np.array([0, 0.1, 0.5], make.dtype), weight=make.uniform(30), density=True)
    yield call(np.full(3, 2, make.dtype), 5)


def grids(make: Make) -> Iterator[Sample]:
    yield call(make.uniform(20, 2), [3, 4])
    yield call(make.uniform(4, 5, 3), bins=3)
    yield call(make.uniform(20, 2), [3, 4], range=(0.2, 0.8, 0.0, 0.5), density=True)
    yield call(make.uniform(20, 2), [2, 2], weight=make.uniform(20))
    edges = [np.array([0, 0.1, 0.5, 1], make.dtype), np.array([0.3, 0.5], make.dtype)]
    yield call(make.uniform(20, 2), edges)
    yield call(make.uniform(20, 2), edges, weight=make.uniform(20), density=True)
    yield call(np.full((3, 2), 2, make.dtype), [5, 1])
    yield call(np.array([[0, 1], [0.5, NAN], [1, 0]], make.dtype), [2, 2], range=(0.0, 1.0, 0.0, 1.0))
    yield call(make.uniform(0, 2), [3, 4])


def flat(results: Any) -> list[Any]:
    return flatten(results)


ROWS = [
    Row("sort", without_stable(sorts), dtypes=("float16", *FLOATS, *INTS)),
    Row("sort", sorts_with_ties, dtypes=SORTED, numeric=False),
    Row("argsort", without_stable(sorts), dtypes=("float16", *FLOATS, *INTS), gradients=False),
    Row("argsort", sorts_with_ties, dtypes=SORTED, gradients=False),
    Row(
        "msort",
        lambda make: [
            call(make.distinct(3, 4)),
            call(make.distinct(4, 3).T),
            call(values_of(make, "distinct", ())),
            call(make.distinct(0, 3)),
        ],
        dtypes=("float16", *FLOATS, *INTS),
    ),
    Row("topk", tops, dtypes=("float16", *FLOATS, *INTS)),
    Row("topk", unsorted_tops, dtypes=FLOATS, post=in_order),
    Row(
        "topk",
        lambda make: [call(np.array([1, NAN, 3, 2], make.dtype), 2, 0, largest) for largest in (True, False)],
        numeric=False,
    ),
    Row("searchsorted", searches, dtypes=(*FLOATS, *INTS), gradients=False, method=False),
    Row("bucketize", buckets, dtypes=(*FLOATS, *INTS), gradients=False, method=False),
    Row("isin", memberships, dtypes=(*FLOATS, *INTS), gradients=False, method=False),
    Row("unique", distinct, dtypes=ALL_REAL, gradients=False),
    Row("unique_consecutive", consecutive, dtypes=ALL_REAL, gradients=False),
    Row("bincount", counts, dtypes=INTS, gradients=False),
    Row("histc", bins, dtypes=FLOATS, gradients=False),
    Row("histc", lambda make: [call(np.array([1, 2, 2, 4], make.dtype), 3)], dtypes=("float16",), gradients=False),
    Row("histogram", histograms, dtypes=FLOATS, gradients=False),
    Row("histogramdd", grids, dtypes=FLOATS, gradients=False, method=False),
]
