"""Rows of fake quantization, which rounds numbers to a few bits and passes gradients through."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.ops.harness import FLOATS, Make, Row, Sample, call


def whole_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4), 0.1, 0, -8, 7)
    yield call(make.normal(3, 4) * 3, 0.3, 2, 0, 15)
    yield call(make.normal(5), np.array([0.1], np.float32), np.array([2], np.int32), 0, 15)
    yield call(make.normal(5), np.array(0.1, np.float32), np.array(2, np.int32), 0, 15)
    yield call(make.normal(0), 0.1, 0, -8, 7)
    # halves, which are rounded to even; values just outside the range and at its ends
    yield call(np.array([-0.75, -0.5, -0.25, 0.25, 0.75, 1.25, 3.75, 3.76, 4.0], make.dtype), 0.5, 1, 0, 8)
    yield call(np.array([np.nan, np.inf, -np.inf, 6e4], make.dtype), 0.5, 1, 0, 8)


def channel_samples(make: Make) -> Iterator[Sample]:
    scale, zero_point = np.array([0.1, 0.2, 0.3], np.float32), np.array([0, 1, 2], np.int32)
    yield call(make.normal(2, 3, 4), scale, zero_point, 1, 0, 15)
    yield call(make.normal(3), scale, zero_point, 0, -2, 2)
    yield call(make.normal(4, 3), scale, np.array([0.25, 1.5, 2], np.float32), 1, -8, 7)
    yield call(np.array([[-0.75, 0.25, 3.75]] * 2, make.dtype), scale[:2] * 0 + 0.5, zero_point[:2], 0, 0, 7)


ROWS = [
    Row(
        "fake_quantize_per_tensor_affine",
        whole_samples,
        dtypes=("float16", *FLOATS),
        method=False,
        grad_args=(0,),
        numeric=False,
    ),
    Row(
        "fake_quantize_per_channel_affine",
        channel_samples,
        dtypes=("float16", *FLOATS),
        method=False,
        grad_args=(0,),
        numeric=False,
    ),
]
