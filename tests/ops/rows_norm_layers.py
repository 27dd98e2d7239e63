"""Rows of normalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tests.ops.harness import FLOATS, Make, Row, Sample, call

functional = torch.nn.functional
HALF = ("float16", *FLOATS)


def norm(name: str, samples: Callable[[Make], Iterator[Sample]], **more: Any) -> Row:
    settings: dict[str, Any] = {"torch": getattr(functional, name), "method": False, **more}
    return Row(name, samples, **settings)


def layer_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(5, 4), (4,))
    yield call(make.normal(5, 4), (4,), make.normal(4), make.normal(4))
    yield call(make.normal(2, 3, 4), (3, 4), make.normal(3, 4), make.normal(3, 4), eps=0.1)
    yield call(make.normal(2, 3, 4), [4], make.normal(4))
    yield call(make.normal(2, 3, 4), (4,), None, make.normal(4))
    yield call(make.normal(4, 5).T, (4,), make.normal(8)[::2], make.normal(4))
    yield call(make.normal(4), (4,))
    yield call(make.normal(0, 4), (4,), make.normal(4), make.normal(4))


def rms_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(5, 4), (4,))
    yield call(make.normal(5, 4), (4,), make.normal(4))
    yield call(make.normal(2, 3, 4), (3, 4), make.normal(3, 4), eps=0.1)
    yield call(make.normal(4, 5).T, (4,), make.normal(4))
    yield call(make.normal(0, 4), (4,))


def group_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4, 5), 2)
    yield call(make.normal(3, 4, 5), 4, make.normal(4), make.normal(4))
    yield call(make.normal(2, 6, 3, 2), 3, make.normal(6), None, eps=0.1)
    yield call(make.normal(2, 6), 2, make.normal(6), make.normal(6))
    yield call(make.normal(2, 5, 4).swapaxes(1, 2), 1, make.normal(4), make.normal(4))


def statistics(make: Make, channels: int) -> tuple[np.ndarray, np.ndarray]:
    return make.normal(channels), make.positive(channels)


def batch_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(5, 3), *statistics(make, 3))
    yield call(make.normal(5, 3, 2), *statistics(make, 3), make.normal(3), make.normal(3), eps=0.1)
    yield call(make.normal(5, 3), None, None, training=True)
    yield call(make.normal(5, 3), *statistics(make, 3), make.normal(3), make.normal(3), True, 0.3)
    yield call(make.normal(2, 3, 4), *statistics(make, 3), make.normal(3), make.normal(3), True)
    yield call(make.normal(2, 3, 4, 2), None, None, make.normal(3), None, True)
    yield call(make.normal(4, 3, 1), None, None, None, make.normal(3), True)
    yield call(make.normal(3, 5).T, None, None, make.normal(3), make.normal(3), True)


def instance_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 3, 5))
    yield call(make.normal(2, 3, 4, 2), None, None, make.normal(3), make.normal(3), eps=0.1)
    yield call(make.normal(2, 3, 5), *statistics(make, 3), make.normal(3), make.normal(3))
    yield call(make.normal(2, 3, 5), *statistics(make, 3), None, None, False)


def response_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 5, 3), 2)
    yield call(make.normal(2, 5, 3, 2), 3, alpha=0.5, beta=0.6, k=0.7)


def normalize_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4))
    yield call(make.normal(3, 4), p=3.0, dim=0)
    yield call(make.normal(2, 3, 4), 1.0, -1)
    yield call(make.normal(3, 4), eps=2.0)


ROWS = [
    norm("layer_norm", layer_samples, dtypes=HALF, grad_args=(0, 2, 3)),
    norm("rms_norm", rms_samples, grad_args=(0, 2)),
    norm("group_norm", group_samples, grad_args=(0, 2, 3)),
    norm("batch_norm", batch_samples, grad_args=(0, 3, 4)),
    norm("instance_norm", instance_samples, grad_args=(0, 3, 4)),
    norm("local_response_norm", response_samples),
    norm("normalize", normalize_samples),
]
