"""Rows of the factors of symmetric matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tests.ops.harness import COMPLEX, Make, Row, Sample, call

SHAPES = [(1, 1), (4, 4), (2, 3, 3)]


def symmetric(make: Make, shape: tuple[int, ...], hermitian: bool = False) -> np.ndarray:
    a = make.normal(*shape)
    transposed = np.swapaxes(a, -1, -2)
    return a + (transposed.conj() if hermitian else transposed)


def matrices(make: Make) -> Iterator[Sample]:
    for shape in SHAPES:
        for hermitian in (False, True):
            yield call(symmetric(make, shape, hermitian), hermitian=hermitian)
    yield call(symmetric(make, (2, 0, 0)))


def systems(make: Make) -> Iterator[Sample]:
    for shape in SHAPES:
        for hermitian in (False, True):
            # torch reads the factors column by column
            found: Any = torch.linalg.ldl_factor(
                torch.from_numpy(symmetric(make, shape, hermitian)), hermitian=hermitian
            )
            yield call(found.LD.numpy(), found.pivots.numpy(), make.normal(*shape[:-1], 2), hermitian=hermitian)


ROWS = [
    Row("linalg.ldl_factor", matrices, dtypes=COMPLEX, gradients=False, tolerance=4),
    Row("linalg.ldl_factor_ex", matrices, dtypes=COMPLEX, gradients=False, tolerance=4),
    Row("linalg.ldl_solve", systems, dtypes=COMPLEX, gradients=False, tolerance=20),  # torch has none
]
