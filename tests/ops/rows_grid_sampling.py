"""Rows of grid_sample and affine_grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from tests.ops.harness import Make, Row, Sample, call

functional = torch.nn.functional


def sampled(make: Make) -> Iterator[Sample]:
    image, volume = make.normal(2, 3, 4, 5), make.normal(2, 2, 3, 4, 2)
    options: Any = itertools.product(("bilinear", "bicubic"), ("zeros", "border", "reflection"), (False, True))
    for mode, padding_mode, align_corners in options:
        yield call(image, make.uniform(2, 3, 4, 2, low=-1.8, high=1.8), mode, padding_mode, align_corners)
        if mode == "bilinear":
            grid = make.uniform(2, 2, 3, 2, 3, low=-1.8, high=1.8)
            yield call(volume, grid, mode, padding_mode, align_corners)
    yield call(image.transpose(0, 1, 3, 2), make.uniform(2, 3, 1, 2), align_corners=False)
    yield call(image[:, :, :1, :1], make.uniform(2, 3, 2, 2, low=-1.5, high=1.5), padding_mode="reflection")
    yield call(image[:, :, :1, :1], make.uniform(2, 3, 2, 2, low=-1.5, high=1.5), "bilinear", "reflection", True)
    yield call(image, make.uniform(2, 0, 4, 2), align_corners=True)
    yield call(image[:0], make.uniform(0, 3, 4, 2), align_corners=True)
    yield call(image[:, :0], make.uniform(2, 3, 4, 2), align_corners=True)


def nearest(make: Make) -> Iterator[Sample]:
    for padding_mode, align_corners in itertools.product(("zeros", "border", "reflection"), (False, True)):
        grid = make.uniform(2, 3, 4, 2, low=-1.8, high=1.8)
        yield call(make.normal(2, 3, 4, 5), grid, "nearest", padding_mode, align_corners)
        grid = make.uniform(2, 2, 3, 2, 3, low=-1.8, high=1.8)
        yield call(make.normal(2, 2, 3, 4, 2), grid, "nearest", padding_mode, align_corners)


def affine(make: Make) -> Iterator[Sample]:
    for align_corners in (False, True, None):
        yield call(make.normal(2, 2, 3), (2, 3, 4, 5), align_corners)
        yield call(make.normal(2, 3, 4), [2, 1, 3, 1, 2], align_corners=align_corners)


ROWS = [
    Row("grid_sample", sampled, functional.grid_sample, method=False, tolerance=10),
    Row("grid_sample", nearest, functional.grid_sample, method=False, grad_args=(0,)),
    Row("affine_grid", affine, functional.affine_grid, method=False),
]
