"""Optimizers that torch has not written: an update that is left out leaves all as it was, whatever they remember."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import retrograd as rg

BAD = 2  # the batch with a NaN
STEPS = 5


class Counting(torch.optim.Optimizer):
    """Counts its steps in the group and in itself, and keeps what it averages in lists, as packages do."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "k": 0})
        self.steps = 0
        self.largest = torch.zeros(())
        self.lately: deque[float] = deque(maxlen=3)

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Any:  # type: ignore[override]
        loss = None if closure is None else torch.enable_grad()(closure)()
        self.state["all"] = self.state.get("all", torch.zeros(())) + 1
        for group in self.param_groups:
            group["k"] += 1
            self.steps += 1
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state["averages"] = [torch.zeros_like(param), torch.zeros_like(param)]
                for momentum, average in zip((0.5, 0.9), state["averages"], strict=True):
                    average.lerp_(param.grad, 1 - momentum)
                self.largest = torch.maximum(self.largest, param.grad.abs().max())
                self.lately.append(float(self.largest))
                step = sum(state["averages"]) / (1 - 0.9 ** group["k"])
                param.sub_(group["lr"] * step)
        return loss


class Drawing(Counting):
    """Makes its steps longer or shorter at random."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["lr"] = 0.1 * float(torch.rand(()))
        super().step()


class Averaging(Counting):
    """Evaluates its closure elsewhere than where the weights are kept, as schedule-free optimizers do."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor]) -> Any:  # type: ignore[override]
        params = [param for group in self.param_groups for param in group["params"]]
        for param in params:
            param.mul_(2.0)
        loss = torch.enable_grad()(closure)()
        for param in params:
            if param.grad is not None:
                param.div_(2.0)
        super().step()
        return loss


class Ahead(Counting):
    """Goes half the way that another optimizer has come in two steps, as Lookahead does."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.base = torch.optim.Adam(self.param_groups[0]["params"], lr=0.1)
        self.slow = [param.detach().clone() for param in self.base.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.base.step()
        self.steps += 1
        if self.steps % 2 == 0:
            for slow, param in zip(self.slow, self.base.param_groups[0]["params"], strict=True):
                slow.lerp_(param, 0.5)
                param.copy_(slow)


class Wrapping:
    """Passes on what another optimizer has, and is of no class of torch's."""

    def __init__(self, base: torch.optim.Optimizer) -> None:
        self.base = base

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.base.param_groups

    @property
    def state(self) -> Any:
        return self.base.state

    def zero_grad(self) -> None:
        self.base.zero_grad()

    def step(self) -> None:
        self.base.step()


def batches(bad: bool) -> list[Tensor]:
    torch.manual_seed(0)
    made = [torch.randn(5, 3) for _ in range(STEPS)]
    if bad:
        made[BAD][0, 0] = math.nan
    else:
        del made[BAD]
    return made


def held(net: nn.Module, optimizer: Counting) -> Any:
    keys = ("state", "param_groups", "steps", "largest", "lately")
    return copy.deepcopy([net.state_dict(), *(vars(optimizer)[key] for key in keys)])


def trained(kind: type[Counting], bad: bool, steps: bool = False, lag: int = 0) -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    optimizer = kind(net.parameters())
    data = batches(bad)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=lag) as w:
        for x in w.steps(data) if steps else data:
            if kind is Averaging:
                optimizer.step(lambda x=x: loss_of(net, optimizer, x))
            else:
                loss_of(net, optimizer, x)
                optimizer.step()
    return held(net, optimizer), w.events


def loss_of(net: nn.Module, optimizer: Any, x: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    return loss


@pytest.mark.parametrize("kind", [Counting, Averaging, Ahead])
@pytest.mark.parametrize(("steps", "lag"), [(False, 0), (True, 0), (False, 1)])
def test_a_skipped_update_restores_weights_and_state(kind: type[Counting], steps: bool, lag: int) -> None:
    expected, none = trained(kind, bad=False)
    found, events = trained(kind, bad=True, steps=steps, lag=lag)
    assert not none
    assert [(event.kind, event.step) for event in events] == [("leaf", BAD + 1)]
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("steps", [False, True])
def test_a_skipped_update_restores_the_random_numbers(steps: bool) -> None:
    expected, _ = trained(Drawing, bad=False)
    found, events = trained(Drawing, bad=True, steps=steps)
    assert len(events) == 1
    assert repr(found) == repr(expected)


def test_with_lag_an_optimizer_without_state_hooks_is_waited_for() -> None:
    """Which its class has not asked torch for."""

    class Bare(torch.optim.SGD):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, lr)
            del self._optimizer_state_dict_pre_hooks

    net = nn.Linear(3, 2)
    optimizer = Bare(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        for x in batches(bad=True):
            loss_of(net, optimizer, x)
            optimizer.step()
    assert [(event.kind, event.step) for event in w.events] == [("leaf", BAD + 1)]
    assert all(each.isfinite().all() for each in net.parameters())


def test_the_tensors_of_the_state_stay_the_same_objects() -> None:
    """Others may hold them, as a program that looks at the averages."""
    net = nn.Linear(3, 2)
    optimizer = Counting(net.parameters())
    good, bad = torch.ones(5, 3), torch.full((5, 3), math.nan)
    with rg.anomaly.watch(net, optimizer, "skip_step"):
        loss_of(net, optimizer, good)
        optimizer.step()
        averages = optimizer.state[net.weight]["averages"]
        loss_of(net, optimizer, bad)
        optimizer.step()
        assert optimizer.state[net.weight]["averages"] is averages
        before = averages[0].clone()
        loss_of(net, optimizer, good)
        optimizer.step()
    assert not torch.equal(averages[0], before)


def test_raise_within_a_closure_restores_the_weights() -> None:
    net = nn.Linear(3, 2)
    optimizer = Averaging(net.parameters())
    before = held(net, optimizer)
    with pytest.raises(rg.anomaly.AnomalyError), rg.anomaly.watch(net, optimizer):
        optimizer.step(lambda: loss_of(net, optimizer, torch.full((5, 3), math.nan)))
    assert repr(held(net, optimizer)) == repr(before)


def test_an_optimizer_that_is_no_torch_class_is_watched() -> None:
    net = nn.Linear(3, 2)
    optimizer = Wrapping(torch.optim.SGD(net.parameters(), 0.1))
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        for x in batches(bad=True):
            loss_of(net, optimizer, x)
            optimizer.step()
    assert [(event.kind, event.step) for event in w.events] == [("leaf", BAD + 1)]
    assert all(each.isfinite().all() for each in net.parameters())


def test_an_optimizer_that_is_no_torch_class_is_watched_without_a_model() -> None:
    net = nn.Linear(3, 2)
    optimizer = Wrapping(torch.optim.SGD(net.parameters(), 0.1))
    with rg.anomaly.watch(optimizer=optimizer, policy="skip_step") as w:
        loss_of(net, optimizer, torch.full((5, 3), math.nan))
        optimizer.step()
    assert len(w.events) == 1
