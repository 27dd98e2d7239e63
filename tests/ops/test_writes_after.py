"""Writes between a call and its backward: over the whole table, no gradient is silently wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.ops.harness import Bound, Make, Row, Sample, differentiable, to_ours
from tests.ops.table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

CASES = [
    pytest.param(row, dtype, id=row.name)
    for row in ROWS
    if row.gradients
    for dtype in [dtype for dtype in ("float64", "complex128") if dtype in row.dtypes][:1]
]


def copied(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(copied(item) for item in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def bound(row: Row, sample: Sample) -> Bound:
    fresh = Sample(copied(sample.args), {key: copied(value) for key, value in sample.kwargs.items()})
    return Bound(row, fresh, to_ours, rg, True)


def tensors(value: Any) -> Iterator[rg.Tensor]:
    if isinstance(value, rg.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


def overwrite(tensor: rg.Tensor) -> None:
    with rg.no_grad():
        if tensor.dtype == rg.bool:
            tensor.logical_not_()
        elif tensor.dtype.kind in "fc":
            tensor.mul_(0.5).add_(0.1)
        else:
            tensor.copy_(rg.where(tensor == 0, 1, 0))


def outputs_of(call: Bound, row: Row) -> list[rg.Tensor]:
    outputs = call.run(row.function)
    return differentiable(outputs if row.post is None else row.post(outputs))


def gradients(call: Bound, outputs: list[rg.Tensor]) -> list[np.ndarray | None]:
    weights = [(0.3 + rg.arange(float(y.numel())).cos()).to(y.dtype).reshape(y.shape) for y in outputs]
    grads = rg.autograd.grad(outputs, call.leaves, weights, allow_unused=True)
    return [None if grad is None else grad.numpy() for grad in grads]


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_write_before_backward_is_noticed_or_harmless(row: Row, dtype: str) -> None:
    for sample in list(row.samples(Make(dtype)))[:4]:
        first = bound(row, sample)
        outputs = outputs_of(first, row)
        if not outputs:
            continue
        expected = gradients(first, outputs)
        for position in range(len(list(tensors([first.args, list(first.kwargs.values())])))):
            call = bound(row, sample)
            outputs = outputs_of(call, row)
            overwrite(list(tensors([call.args, list(call.kwargs.values())]))[position])
            try:
                got = gradients(call, outputs)
            except RuntimeError as error:
                assert "modified" in str(error)
                continue
            for after, before in zip(got, expected, strict=True):
                assert (after is None) == (before is None)
                if before is not None:
                    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)
