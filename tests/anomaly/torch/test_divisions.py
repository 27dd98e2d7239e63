"""Optimizers that divide by zero: the update is undone, whatever it did to the weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import retrograd as rg
from retrograd.anomaly import AnomalyError, diagnose

IDS = torch.tensor([1, 2])  # the other rows get a gradient of zero


def stepped(policy: Any, kind: type[torch.optim.Optimizer] = torch.optim.Adam, **options: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    table = nn.Embedding(4, 3)
    optimizer = kind(table.parameters(), **{"lr": 0.1, "eps": 0.0} | options)  # type: ignore[arg-type]
    before = table.weight.detach().clone()
    with rg.anomaly.watch(table, policy=policy) as w:
        table(IDS).sum().backward()
        optimizer.step()
    return w, table.weight.detach() - before, optimizer


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
def test_an_update_that_divides_by_zero_is_left_out(kind: type[torch.optim.Optimizer]) -> None:
    w, change, optimizer = stepped("skip_step", kind)
    assert not change.any()
    assert all(bool(each.isfinite().all()) for state in optimizer.state.values() for each in state.values())
    event = w.event
    assert (event.op, event.index, event.harmed) == ("div", (0, 0), "the update of weight")
    assert event.operands["grad"] == 0
    assert event.code_line == "optimizer.step()"
    assert diagnose(event).number == 46


def test_the_gradient_is_shown_as_it_was_before_the_step() -> None:
    class Scaling(torch.optim.Optimizer):
        def __init__(self, params: Any, **options: Any) -> None:
            super().__init__(params, options)

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for param in group["params"]:
                    param.grad.div_(param.grad.pow(2).sqrt().add_(group["eps"]))
                    param.add_(param.grad, alpha=-group["lr"])

    w, change, _ = stepped("skip_step", Scaling)
    assert not change.any()
    assert w.event.operands["grad"] == 0
    assert diagnose(w.event).number == 46
    assert w.event.remedy == "optimizer = Scaling(table.parameters(), lr=0.1, eps=1e-8)"  # torch has none of this name


def test_raise_leaves_the_weights_clean() -> None:
    torch.manual_seed(0)
    table = nn.Embedding(4, 3)
    before = table.weight.detach().clone()
    optimizer = torch.optim.Adam(table.parameters(), eps=0.0)
    with pytest.raises(AnomalyError, match="the update of weight"), rg.anomaly.watch():
        table(IDS).sum().backward()
        optimizer.step()
    assert torch.equal(table.weight, before)
    assert not optimizer.state


def test_record_lets_the_update_happen() -> None:
    w, change, _ = stepped("record")
    assert w.event is not None
    assert change[0].isnan().all()


@pytest.mark.parametrize("eps", [1e-8, 1e-12])
def test_an_optimizer_with_an_eps_gets_no_hooks(eps: float) -> None:
    w, change, optimizer = stepped("raise", eps=eps)
    assert not w.events
    assert change[1].any()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_training_without_zeros_is_the_same_with_the_watch() -> None:
    def weights(watched: bool) -> torch.Tensor:
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(net.parameters(), eps=0.0)
        w = rg.anomaly.watch()
        if watched:
            w.start()
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2, 3)).pow(2).sum().backward()
            optimizer.step()
        w.stop()
        assert not w.events
        return net.weight.detach()

    assert torch.equal(weights(True), weights(False))


def test_no_hook_is_left_after_the_watch() -> None:
    _, _, optimizer = stepped("record")
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_an_eps_that_float16_rounds_to_zero_is_found() -> None:
    weight = nn.Parameter(torch.ones(2, dtype=torch.float16))
    optimizer = torch.optim.Adam([weight], lr=0.1, eps=1e-8)
    with rg.anomaly.watch(policy="skip_step") as w:
        (weight * torch.tensor([1.0, 0.0], dtype=torch.float16)).sum().backward()
        optimizer.step()
    assert w.event is not None
    assert (w.event.index, w.event.harmed) == ((1,), "the update of weight")
    assert weight.isfinite().all()
