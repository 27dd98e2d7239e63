"""Gradients of several micro-batches make one update: the bad one of them is found, in whatever place it comes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import retrograd as rg
from tests.anomaly.torch.training import Net, batches, line_of, root_of_zero, state


def train(net: Net, optimizer: Any, data: Any, bad: int | None, left_out: int | None = None) -> None:
    """An update for every two batches, clipped; one of them may be left out."""
    for number, x in data:
        net.fault = root_of_zero if number == bad else None
        (net(x) ** 2).mean().backward()
        if number % 2:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            if number != left_out:
                optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize(
    "counted", [lambda w, data: w.steps(list(enumerate(data))), lambda w, data: enumerate(w.steps(data))]
)
@pytest.mark.parametrize(("given", "bad"), [(False, 0), (False, 1), (True, 1), (True, 4), (False, 4), (True, 5)])
def test_the_bad_micro_batch_is_run_again(given: bool, bad: int, counted: Any) -> None:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    with rg.anomaly.watch(net if given else None, optimizer if given else None, "skip_step") as w:
        train(net, optimizer, counted(w, batches(8)), bad)
    (event,) = w.events
    assert (event.op, event.step, event.batch_idx) == ("SqrtBackward0", bad + 1, bad)
    assert event.lineno == line_of("# the birth of root_of_zero")
    assert event.reproducible
    torch.manual_seed(0)
    other = Net()
    train(other, torch.optim.Adam(other.parameters(), 0.1), enumerate(batches(8)), None, left_out=bad | 1)
    torch.testing.assert_close(state(net), state(other), rtol=0, atol=0)


@pytest.mark.parametrize("bad", [2, 3])
def test_without_a_second_run_the_bad_micro_batch_is_named(bad: int) -> None:
    """Only for the last micro-batch are the operations of the loss function's backward known."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(None, optimizer, "skip_step") as w:
        train(net, optimizer, enumerate(batches(6)), bad)
    (event,) = w.events
    assert (event.op, event.step) == ("SqrtBackward0", bad + 1)


def test_clipping_is_not_blamed_for_a_bad_gradient() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "record") as w:
        (net(batches(1)[0]) ** 2).mean().backward()
        assert net.first.bias.grad is not None
        net.first.bias.grad[3] = math.inf
        nn.utils.clip_grad_norm_(net.parameters(), 2.5)
        optimizer.step()
    (event,) = w.events
    assert event.op == "unknown"
    assert "clipping" in (event.cause or "")
    assert "error_if_nonfinite=True" in (event.remedy or "")


@pytest.mark.parametrize("bad", [0, 1, 4, 5])
def test_a_program_with_its_own_count_leaves_out_one_update(bad: int) -> None:
    """It is ahead by one after the second run, in which the update comes with another batch than in the first."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    step, updated = 0, []
    with rg.anomaly.watch(policy="skip_step") as w:
        for number, x in w.steps(list(enumerate(batches(8)))):
            step += 1
            net.fault = root_of_zero if number == bad else None
            (net(x) ** 2).mean().backward()
            if step % 2 == 0:
                before = state(net)
                optimizer.step()
                optimizer.zero_grad()
                if any(not torch.equal(each, before[name]) for name, each in state(net).items()):
                    updated.append(number)
    assert [(event.op, event.batch_idx) for event in w.events] == [("SqrtBackward0", bad)]
    assert updated == {0: [4, 6], 1: [2, 4, 6], 4: [1, 3], 5: [1, 3, 6]}[bad]
