"""A watch on PyTorch that is interrupted, wherever that is, leaves torch and the model as they were before."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError
from tests.anomaly.torch.test_start_and_stop import surroundings
from tests.interrupting import interrupted, name_of, places_in

# what begins and ends a watch and a second run, holds updates back and undoes them
LIFE = (
    *("start", "stop", "_leave", "undo", "wrap", "remove", "forget", "follow", "enter", "leave"),
    *("record_everything", "begin_second_run", "end_second_run", "_enter", "_see_writes", "_see_no_writes"),
    *("_before_step", "_after_step", "_settle", "_show_hidden", "after", "_before", "restore", "put_back", "updated"),
)


class Training:
    """A model of a few weights, whose second batch makes a NaN, or whose first update does."""

    def __init__(self, kind: str) -> None:
        torch.manual_seed(0)
        self.kind = kind
        self.model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        params = self.model.parameters()
        eps = 0.0 if kind == "update" else 1e-8
        self.optimizer = torch.optim.Adam(params, eps=eps) if kind != "by hand" else None

    def run(self) -> None:
        batches = [torch.full((3, 2), 1.0), torch.full((3, 2), 0.0)]
        if self.kind == "update":
            batches = batches[:1]
        given = () if self.kind == "by hand" else (self.model, self.optimizer)
        with rg.anomaly.watch(*given) as w:
            try:
                for x in w.steps(batches) if self.kind != "once" else batches:
                    self.step(x)
            except AnomalyError:
                pass

    def step(self, x: torch.Tensor) -> None:
        loss = (self.model(x) * (0.0 if self.kind == "update" else 1.0) + x.log()).square().mean()
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return
        parameters = list(self.model.parameters())
        with torch.no_grad():
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter -= 0.1 * gradient

    def hooks(self) -> list[Any]:
        found = [*self.model.modules(), *self.model.parameters(), *([self.optimizer] if self.optimizer else ())]
        return [hooks for each in found for name, hooks in vars(each).items() if "hooks" in name and hooks]


@pytest.mark.parametrize("kind", ["once", "again", "update", "by hand"])
def test_an_interrupt_at_any_place_restores_torch_and_the_model(kind: str) -> None:
    Training(kind).run()
    before = surroundings()
    for place in places_in(Training(kind).run, 8, LIFE):
        training = Training(kind)
        interrupted(training.run, place)
        assert surroundings() == before, name_of(place)
        assert torch.is_grad_enabled(), name_of(place)
        assert not training.hooks(), name_of(place)
        for weight in training.model.parameters():
            assert bool(weight.isfinite().all()), name_of(place)


def test_an_interrupt_at_any_place_of_an_empty_watch_restores_torch() -> None:
    """Which is so short that every place in its beginning and its end can be tried."""

    def run() -> None:
        with rg.anomaly.watch():
            pass

    run()
    before = surroundings()
    for place in places_in(run, 1000):
        interrupted(run, place)
        assert surroundings() == before, name_of(place)


@pytest.mark.parametrize(("error", "are_on"), [(KeyboardInterrupt, True), (ValueError, False)])
def test_an_interrupt_within_a_switch_of_gradients_leaves_them_on(error: type[BaseException], are_on: bool) -> None:
    """Which optimizers make for a step; after any other error it is as the program has it."""
    try:
        with pytest.raises(error), rg.anomaly.watch():
            torch.set_grad_enabled(False)
            raise error
        assert torch.is_grad_enabled() is are_on
    finally:
        torch.set_grad_enabled(True)
