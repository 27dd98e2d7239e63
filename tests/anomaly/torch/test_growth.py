"""Gradients and updates that grow beyond what is usual, on torch's models."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import retrograd as rg
from retrograd.anomaly import AnomalyError

from .training import Net, batches


def run(net: nn.Module, optimizer: Any, watch: Any, factors: list[float], clip: bool = False) -> None:
    """One step for each factor that the loss is multiplied with."""
    with watch:
        for factor, x in zip(factors, batches(len(factors)), strict=True):
            optimizer.zero_grad()
            ((net(x) ** 2).mean() * factor).backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()


USUAL = [1.0] * 12


@pytest.mark.parametrize("clip", [False, True])
def test_a_spike_raises_before_the_update(clip: bool) -> None:
    """Of the gradient as backward left it: what clipping makes of it looks like all others."""
    net = Net()
    twin = copy.deepcopy(net)
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3) for each in (net, twin)]
    with pytest.raises(AnomalyError) as raised:
        run(net, optimizers[0], rg.anomaly.watch(net, policy={"spike": "raise"}), [*USUAL, 1e6], clip)
    run(twin, optimizers[1], rg.anomaly.watch(policy="ignore"), USUAL, clip)
    event: Any = raised.value.event
    assert event.layer_name in ("first", "second")
    assert event.param_name in ("weight", "bias")
    assert event.grad_norm > event.threshold
    for mine, usual in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, usual)


def test_skip_step_leaves_out_the_step_of_a_spike() -> None:
    torch.manual_seed(0)
    net = Net()
    twin = copy.deepcopy(net)
    optimizers = [torch.optim.Adam(each.parameters(), lr=1e-3) for each in (net, twin)]
    watch = rg.anomaly.watch(net, policy={"spike": "skip_step"})
    run(net, optimizers[0], watch, [*USUAL, 1e6])
    assert len(watch.grad_events) == 1
    assert not watch.events
    run(twin, optimizers[1], rg.anomaly.watch(policy="ignore"), USUAL)
    for mine, usual in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, usual)


def test_a_change_of_the_scale_is_no_spike() -> None:
    """The scale of a scaler changes by powers of two, which is no spike."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4)
    watch = rg.anomaly.watch(net, policy={"spike": "raise"})
    with watch:
        for number, x in enumerate(batches(30)):
            optimizer.zero_grad()
            scaler.scale((net(x) ** 2).mean()).backward()
            scaler.step(optimizer)
            scaler.update(new_scale=2.0**4 if number < 20 else 2.0**30)
    assert not watch.grad_events


def test_an_update_that_is_too_large_is_reported_with_its_ratio() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    watch = rg.anomaly.watch(net, optimizer, policy={"spike": "record"})
    with watch:
        for number, x in enumerate(batches(27)):
            optimizer.param_groups[0]["lr"] = 0.5 if number == 25 else 1e-3
            optimizer.zero_grad()
            (net(x) ** 2).mean().backward()
            optimizer.step()
    assert any(event.quantity == "update-to-weight ratio" for event in watch.grad_events)
    assert watch.update_ratio is not None


@pytest.mark.parametrize("library", [rg, torch], ids=["retrograd", "torch"])
def test_a_too_large_update_explains_the_overflow_after_it(library: Any) -> None:
    weight = library.ones(4).requires_grad_()
    optimizer = library.optim.SGD([weight], lr=1e18)
    with rg.anomaly.watch(optimizer=optimizer, policy={"inf": "record", "spike": "record"}) as watch:
        for _ in range(3):
            optimizer.zero_grad()
            (weight * weight).sum().backward()
            optimizer.step()
    assert watch.event is not None
    assert "the last update was 2e+18 times as large as the weights" in (watch.event.cause or "")


def test_a_spike_of_a_leaf_has_the_name_of_its_variable() -> None:
    weight = torch.ones(3, requires_grad=True)
    with rg.anomaly.watch(policy={"spike": "skip_step"}) as watch:
        for factor in [*USUAL, 1e8]:
            (weight * factor).sum().backward()
            with torch.no_grad():
                weight -= 1e-3 * weight.grad
            weight.grad = None
    (event,) = watch.grad_events
    assert event.param_name == "weight"
    assert torch.allclose(weight, torch.tensor(1 - 12e-3))


@pytest.mark.parametrize("owner", ["optimizer", "model"])
def test_a_step_that_the_loop_leaves_out_costs_no_other_update(owner: str) -> None:
    """The loop looks at the loss and does not come to ``optimizer.step()``: the next update is a good one."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with rg.anomaly.watch(net, policy="skip_step") as watch:
        for number, x in enumerate(batches(3)):
            (optimizer if owner == "optimizer" else net).zero_grad()
            loss = (net(x) ** 2).mean() * (float("nan") if number == 1 else 1.0)
            loss.backward()
            if loss.isnan():
                continue
            before = net.first.weight.detach().clone()
            optimizer.step()
            assert not torch.equal(before, net.first.weight)
    assert len(watch.events) == 1
