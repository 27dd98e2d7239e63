"""A step that is left out leaves no NaN in a batch norm's averages, also where it cannot be run again.

For PyTorch see ``torch/test_buffers_put_back.py``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, watch

BAD = 2


def batches(bad: float = math.nan) -> list[rg.Tensor]:
    made = np.random.default_rng(0).normal(size=(4, 6, 3, 5)).astype(np.float32)
    made[BAD, 1, 2, 0] = bad
    return [rg.tensor(each) for each in made]


def network(norm: str) -> rg.nn.Module:
    rg.manual_seed(0)
    layer = rg.nn.BatchNorm1d(4) if norm == "batch" else rg.nn.InstanceNorm1d(4, track_running_stats=True)
    return rg.nn.Sequential(rg.nn.Conv1d(3, 4, 1), layer, rg.nn.Conv1d(4, 1, 1))


def train(model: rg.nn.Module, data: list[rg.Tensor]) -> None:
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    for batch in data:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_skipped_batch_does_not_change_the_averages(bad: float) -> None:
    model, expected = network("batch"), network("batch")
    with watch(model, policy="skip_step") as w:
        train(model, batches(bad))
    train(expected, [each for number, each in enumerate(batches()) if number != BAD])
    assert [event.step for event in w.events] == [BAD + 1]
    for name, value in expected.state_dict().items():
        if name != "1.num_batches_tracked":  # it was given the batch
            assert np.array_equal(model.state_dict()[name].numpy(), value.numpy()), name


@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_the_model_can_be_evaluated_after_the_error(norm: str) -> None:
    model = network(norm)
    with pytest.raises(AnomalyError), watch(model):
        train(model, batches())
    model.eval()
    assert math.isfinite(model(rg.ones(1, 3, 5)).sum().item())


@pytest.mark.parametrize("policy", ["record", "ignore"])
def test_a_batch_that_may_pass_is_averaged_as_without_a_watch(policy: str) -> None:
    model, expected = network("batch"), network("batch")
    with watch(model, policy=policy):
        train(model, batches())
    train(expected, batches())
    for name, value in expected.state_dict().items():
        assert np.array_equal(model.state_dict()[name].numpy(), value.numpy(), equal_nan=True), name
    assert np.isnan(model.state_dict()["1.running_mean"].numpy()).any()


def test_an_expected_batch_is_averaged() -> None:
    model = network("batch")
    with watch(model, policy="skip_step"), rg.anomaly.expect_nonfinite("a sensor that fails"):
        train(model, batches())
    assert np.isnan(model.state_dict()["1.running_mean"].numpy()).any()
