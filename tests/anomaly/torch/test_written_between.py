"""Weights that a program writes to between two backward passes, as sharpness-aware minimization does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import retrograd as rg
from retrograd.anomaly import AnomalyError
from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

BAD = 2  # the round with a gradient that is infinite


class Sharpness(torch.optim.Optimizer):
    """Foret et al., Sharpness-Aware Minimization (ICLR 2021), in the form in which it is mostly written."""

    def __init__(self, params: Any, rho: float = 0.05, **options: Any) -> None:
        super().__init__(params, {"rho": rho, **options})
        self.base = torch.optim.SGD(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        norm = torch.stack([p.grad.norm() for group in self.param_groups for p in group["params"]]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.clone()
                p.add_(p.grad * group["rho"] / (norm + 1e-12))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p]["old"])
        self.base.step()
        self.zero_grad()


def train(bad: int | None, seen: list[tuple[int, bool]] | None = None) -> nn.Linear:
    """Rounds of two backward passes, of which one is bad; whether the weights were finite when they ended is noted."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = Sharpness(model.parameters(), lr=0.01, momentum=0.9)
    for index in range(5):
        x = torch.randn(4, 3)
        for part, step in enumerate((optimizer.first_step, optimizer.second_step)):
            out = model(x)
            ((out - out.detach()).sqrt().sum() if (index, part) == (BAD, bad) else out.square().sum()).backward()
            step()
            if seen is not None:
                seen.append((index, all(bool(p.isfinite().all()) for p in model.parameters())))
    return model


@pytest.mark.parametrize("bad", [0, 1])
def test_a_bad_gradient_is_never_written(bad: int) -> None:
    seen: list[tuple[int, bool]] = []
    with pytest.raises(AnomalyError, match="Inf born in SqrtBackward0") as raised, rg.anomaly.watch():
        train(bad, seen)
    assert raised.value.event.harmed == "the gradient of bias"
    assert len(seen) == 2 * BAD + bad
    assert all(fine for _, fine in seen)


@pytest.mark.parametrize("bad", [0, 1])
def test_a_skipped_bad_gradient_is_never_written(bad: int) -> None:
    seen: list[tuple[int, bool]] = []
    with rg.anomaly.watch(policy="skip_step") as w:
        train(bad, seen)
    assert [event.op for event in w.events] == ["SqrtBackward0"]
    assert len(seen) == 10
    assert all(fine for _, fine in seen)


def test_healthy_training_is_the_same_with_the_watch() -> None:
    with rg.anomaly.watch(policy="skip_step") as w:
        model = train(None)
    assert not w.events
    assert torch.equal(model.weight, train(None).weight)


def plain(model: nn.Linear) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    average = copy.deepcopy(model)
    for _ in range(4):
        for _ in range(2):  # gradients are accumulated
            model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for p, q in zip(model.parameters(), average.parameters(), strict=True):
                p.clamp_(-1, 1)
                q.lerp_(p, 0.1)


def adversaries(model: nn.Linear) -> None:
    other = nn.Linear(1, 1)
    optimizers = [torch.optim.Adam(each.parameters()) for each in (model, other)]
    for _ in range(4):
        for optimizer in optimizers:
            optimizer.zero_grad()
            other(model(torch.randn(4, 3))).square().sum().backward()
            optimizer.step()


def line_searches(model: nn.Linear) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = (model(torch.ones(4, 3)) - 1).square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)


@pytest.mark.parametrize("program", [plain, adversaries, line_searches])
def test_other_programs_are_checked_only_at_their_steps(program: Callable[[nn.Linear], None]) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    with rg.anomaly.watch(model) as w:
        program(model)
        assert not w.events
        (monitor,) = w._adapters
        assert isinstance(monitor, TorchMonitor)
        assert not monitor.now.writes_between
