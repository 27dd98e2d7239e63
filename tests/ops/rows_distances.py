"""Rows of distances between the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.ops.harness import Make, Row, Sample, call


def pairs(make: Make) -> Iterator[Sample]:
    for p in (2.0, 1.0, 3.0, 0.5, float("inf")):
        yield call(make.normal(4, 3), p)
    yield call(make.normal(3, 5).T)
    yield call(make.normal(1, 3))


def counted(make: Make) -> Iterator[Sample]:
    yield call(make.normal(4, 3), 0.0)


ROWS = [
    # torch has no second derivative, and its first one crashes without rows
    Row("pdist", pairs, torch.pdist, method=False, second=False),
    Row("pdist", counted, torch.pdist, method=False, gradients=False),
]
