"""Averages of a model that a program keeps beside it: no bad step gets into them, and none counts twice."""

from __future__ import annotations

import copy
import math
from types import ModuleType
from typing import Any

import pytest

import retrograd as rg
from tests.anomaly.both import modules

BAD = 2
EPOCH = 5


class Average:
    """A running average of all that a model has, as it is often written."""

    def __init__(self, module: ModuleType, model: Any) -> None:
        self.module = module
        self.model = copy.deepcopy(model)

    def update_parameters(self, model: Any) -> None:
        with self.module.no_grad():
            for average, value in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
                average.copy_(0.5 * average + 0.5 * value if average.is_floating_point() else value)


def train(module: ModuleType, kind: str, fault: str) -> tuple[Any, Any]:
    module.manual_seed(0)
    model = module.nn.Sequential(module.nn.Linear(3, 4), module.nn.BatchNorm1d(4), module.nn.Linear(4, 1))
    optimizer = module.optim.Adam(model.parameters(), lr=0.1)
    of_torchs = module.optim.swa_utils.AveragedModel(model, use_buffers=True)
    average = of_torchs if kind == "AveragedModel" else Average(module, model)
    batches = [module.randn(5, 3) for _ in range(EPOCH)]
    if fault == "the batch":
        batches[BAD][1, 1] = math.inf
    with rg.anomaly.watch(model, optimizer, "skip_step") as watch:
        for x in watch.steps(batches):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            if fault == "the loss" and watch.batch_idx == BAD:
                loss = loss + (loss * 0).log() * 0
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
    assert [event.batch_idx for event in watch.events] == [BAD]
    return module, average


@modules
@pytest.mark.parametrize("kind", ["AveragedModel", "of the program's own"])
@pytest.mark.parametrize("fault", ["the batch", "the loss"])
def test_averages_of_weights_stay_finite(module: ModuleType, kind: str, fault: str) -> None:
    module, average = train(module, kind, fault)
    owner = average if kind == "AveragedModel" else average.model
    assert all(bool(module.isfinite(value).all()) for value in owner.state_dict().values())


@modules
def test_a_step_that_is_run_again_is_averaged_once(module: ModuleType) -> None:
    _, average = train(module, "AveragedModel", "the loss")
    assert int(average.n_averaged) == EPOCH
