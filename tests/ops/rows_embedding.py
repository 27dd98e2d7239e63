"""Rows of embeddings and one_hot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from tests.ops.harness import Make, Row, Sample, call

functional = torch.nn.functional


def embedding_samples(make: Make) -> Iterator[Sample]:
    yield call(make.integers(6, high=5), make.normal(5, 3))
    yield call(make.integers(6, high=5).astype(np.int32), make.normal(3, 5).T)
    yield call(make.integers(1, high=5).reshape(()), make.normal(5, 3))
    yield call(make.integers(0), make.normal(5, 3))


def bag_samples(make: Make) -> Iterator[Sample]:
    offsets = np.array([0, 3, 3, 5])
    for mode in ("sum", "mean", "max"):
        yield call(make.integers(8, high=5), make.normal(5, 3), offsets, mode=mode)
        yield call(make.integers(2, 4, high=5), make.normal(5, 3), mode=mode)
        yield call(make.integers(8, high=5), make.normal(5, 3), offsets, mode=mode, padding_idx=2)
        yield call(make.integers(5, high=5), make.normal(5, 3), offsets, mode=mode, include_last_offset=True)
        yield call(np.full((2, 3), 2), make.normal(5, 3), mode=mode, padding_idx=2)
    weights = make.normal(8)
    yield call(make.integers(8, high=5), make.normal(5, 3), offsets, mode="sum", per_sample_weights=weights)
    yield call(
        make.integers(8, high=5), make.normal(5, 3), offsets, mode="sum", per_sample_weights=weights, padding_idx=2
    )
    yield call(make.integers(8, high=5), make.normal(5, 3), offsets.astype(np.int32))


def frequency_samples(make: Make) -> Iterator[Sample]:
    """Return samples whose gradients are scaled by frequency and so are not derivatives."""
    yield call(make.integers(8, high=5), make.normal(5, 3), None, None, 2.0, True)
    yield call(make.integers(2, 4, high=5), make.normal(5, 3), 2, None, 2.0, True)
    yield call(make.integers(2, 4, high=5), make.normal(5, 3), padding_idx=1)
    yield call(make.integers(2, 4, high=5), make.normal(5, 3), -2)


def one_hot_samples(make: Make) -> Iterator[Sample]:
    yield call(make.integers(4, high=5))
    yield call(make.integers(2, 3, high=5), 7)
    yield call(np.array(3))
    yield call(make.integers(0), 4)


def embedding_row(name: str, samples: object, **more: object) -> Row:
    return Row(name, samples, getattr(functional, name), method=False, **more)  # type: ignore[arg-type]


ROWS = [
    embedding_row("embedding", embedding_samples),
    embedding_row("embedding", frequency_samples, numeric=False, second=False),
    embedding_row("embedding_bag", bag_samples, second=False),
    embedding_row("one_hot", one_hot_samples, dtypes=("int64",), gradients=False),
]
