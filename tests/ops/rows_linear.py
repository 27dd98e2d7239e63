"""Rows for affine maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from tests.ops.harness import COMPLEX, Make, Row, Sample, call


def linear_samples(make: Make) -> Iterator[Sample]:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = [
        ((5, 3), (4, 3), (4,)),
        ((5, 3), (4, 3), None),
        ((3,), (4, 3), (4,)),
        ((2, 5, 3), (4, 3), (4,)),
        ((2, 1, 5, 3), (4, 3), None),
        ((5, 3), (3,), None),
        ((2, 5, 3), (3,), ()),
        ((3,), (3,), ()),
        ((5, 3), (4, 3), (1,)),
        ((0, 3), (4, 3), (4,)),
        ((5, 0), (4, 0), (4,)),
    ]
    for input, weight, bias in shapes:
        operands = [make.normal(*input), make.normal(*weight)]
        yield call(*operands) if bias is None else call(*operands, np.asarray(make.normal(*bias)))
    yield call(make.normal(3, 5).T, make.normal(3, 4).T, bias=make.normal(8)[::2])


def bilinear_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(5, 3), make.normal(5, 4), make.normal(2, 3, 4))
    yield call(make.normal(2, 5, 3), make.normal(2, 5, 4), make.normal(2, 3, 4), make.normal(2))


ROWS = [
    Row("bilinear", bilinear_samples, torch.nn.functional.bilinear, method=False),
    Row("linear", linear_samples, torch.nn.functional.linear, dtypes=(*COMPLEX, "float16"), method=False),
]
