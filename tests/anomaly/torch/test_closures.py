"""Optimizers that are given a closure: loss and gradients are computed within their step."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import retrograd as rg
from tests.anomaly.torch.training import Net, batches, line_of, log_of_zero, root_of_zero, state

FAULTS = {log_of_zero: "log", root_of_zero: "SqrtBackward0"}


def closure_of(net: Net, optimizer: Any, x: Tensor, fault: Any, clip: bool) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        net.fault = fault
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        return loss

    return closure


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_skipped_update_changes_neither_weights_nor_moments(
    fault: Any, clip: bool, steps: bool, by_name: bool
) -> None:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 0.1, weight_decay=0.1)
    changed = []
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        data = list(enumerate(batches(5)))
        for number, x in w.steps(data) if steps else data:
            before = repr((state(net), optimizer.state_dict()["state"]))
            closure = closure_of(net, optimizer, x, fault if number == 2 else None, clip)
            optimizer.step(closure=closure) if by_name else optimizer.step(closure)
            changed.append(before != repr((state(net), optimizer.state_dict()["state"])))
    assert changed == ([True, True, False, False, True, True] if steps else [True, True, False, True, True])
    (event,) = w.events
    if steps:
        assert (event.op, event.lineno) == (FAULTS[fault], line_of(f"# the birth of {fault.__name__}"))
        assert event.reproducible


def test_a_birth_in_a_closure_has_its_line_without_a_second_run() -> None:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    with rg.anomaly.watch(None, optimizer, "skip_step") as w:
        for number, x in enumerate(batches(3)):
            optimizer.step(closure_of(net, optimizer, x, log_of_zero if number == 2 else None, False))
    assert (w.event.op, w.event.lineno) == ("log", line_of("# the birth of log_of_zero"))


def test_a_closure_that_only_returns_the_loss_is_skipped() -> None:
    """Gradients were computed before; frameworks do so where the program calls backward."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    before = state(net)
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        for _ in range(2):
            loss = net(batches(1)[0]).sum()
            loss.backward()
            assert net.first.bias.grad is not None
            net.first.bias.grad[0] = math.nan
            optimizer.step(lambda loss=loss: loss.item())
            optimizer.zero_grad()
    assert len(w.events) == 2
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)


@pytest.mark.parametrize("policy", ["raise", "skip_step", "record"])
@pytest.mark.parametrize("make", [torch.optim.LBFGS, torch.optim.Adam])
def test_an_unmodified_script_has_its_closure_called_again(policy: str, make: Any) -> None:
    """With every operation recorded: what the loss function has done in backward is found, however long it is."""
    torch.manual_seed(0)
    net = Net()
    optimizer = make(net.parameters())
    called = []

    def closure_for(number: int, x: Tensor) -> Callable[[], Tensor]:
        def closure() -> Tensor:
            called.append((number, torch.rand(1).item()))
            optimizer.zero_grad()
            out = net(x)
            loss = (root_of_zero(out) * 0.0 if number == 2 else out).sum()
            for _ in range(20):
                loss = torch.tanh(loss) + loss * 0.5
            loss.backward()
            return loss

        return closure

    w = rg.anomaly.watch(policy=policy)
    w.rerun_loaders = True
    before: Any = None
    with contextlib.suppress(rg.anomaly.AnomalyError), w:
        for number, x in enumerate(batches(4)):
            if number == 2:
                before = state(net)
            optimizer.step(closure_for(number, x))
            if number == 2:
                torch.testing.assert_close(state(net), before, rtol=0, atol=0)
    (event,) = w.events
    assert (event.op, event.reproducible, event.batch_idx) == ("SqrtBackward0", True, None)
    assert event.lineno == line_of("# the birth of root_of_zero")
    bad = [drawn for number, drawn in called if number == 2]
    assert len(bad) == 2
    assert bad[0] == bad[1]
    assert (called[-1][0] == 3) == (policy != "raise")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_micro_batch_is_one_event_if_every_backward_is_checked(fault: Any) -> None:
    """The bad gradient stays until the update, but it is one event."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    w = rg.anomaly.watch(net, optimizer, "skip_step")
    w.every_backward = True
    with w:
        for _ in range(2):
            for x in w.steps(batches(4)):
                net.fault = fault if w.batch_idx == 1 else None
                (net(x) ** 2).mean().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    assert [(event.op, event.batch_idx, event.reproducible) for event in w.events] == [(FAULTS[fault], 1, True)] * 2
