"""Batches, targets and weights that were not finite before the step."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from retrograd.anomaly import Watch
from retrograd.core.tensor import Tensor
from tests.anomaly.steps import leaf

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def train(model: Any, batches: list[Tensor], **options: Any) -> Watch:
    optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
    watch = rg.anomaly.watch(model, optimizer, policy="record", **options)
    with watch:
        for batch in watch.steps(batches):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
    return watch


def test_a_nan_in_a_batch_is_reported_as_bad_data() -> None:
    batches = [rg.randn(4, 3) for _ in range(3)]
    batches[1][2, 1] = float("nan")
    watch = train(rg.nn.Linear(3, 2), batches)
    event = watch.event
    assert event is not None
    assert len(watch.events) == 1
    assert (event.kind, event.index, event.batch_idx) == ("leaf", (2, 1), 1)
    assert event.surroundings is not None
    assert (event.surroundings.context["leaf"], event.surroundings.context["name"]) == ("batch", "batch")


def test_an_infinity_in_a_batch_is_reported_as_bad_data() -> None:
    batch = rg.randn(4, 3)
    batch[0, 2] = float("inf")
    event = train(rg.nn.Linear(3, 2), [batch]).event
    assert event is not None
    assert (event.kind, event.index) == ("leaf", (0, 2))


def test_a_nan_in_a_weight_is_reported_with_the_name_of_the_parameter() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(3, 2), rg.nn.ReLU(), rg.nn.Linear(2, 1))
    with rg.no_grad():
        model[2].weight[0, 1] = float("nan")
    event = train(model, [rg.randn(4, 3)]).event
    assert event is not None
    assert (event.kind, event.index) == ("leaf", (0, 1))
    assert event.surroundings is not None
    context = event.surroundings.context
    assert (context["leaf"], context["name"], context["updates"]) == ("parameter", "2.weight", 0)


def test_uninitialised_memory_is_recognised_by_its_values() -> None:
    model = rg.nn.Linear(3, 2)
    with rg.no_grad():
        model.weight.copy_(rg.tensor([[1e38, -3e37, 1e-40], [float("nan"), 2e30, 0.0]]))
    event = train(model, [rg.randn(4, 3)]).event
    assert event is not None
    assert "never written" in (event.cause or "")


def test_a_nan_in_a_target_is_reported_as_bad_data() -> None:
    x, target = leaf(1.0, 2.0), rg.tensor([1.0, float("nan")])
    with rg.anomaly.watch(policy="record") as watch:
        rg.nn.functional.mse_loss(x, target).backward()
    assert watch.event is not None
    assert watch.event.kind == "leaf"
