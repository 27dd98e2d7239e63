"""Every operation recorded from some step on, on retrograd's own tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core import observer
from tests.threads import in_threads


def train(from_step: int | None, policy: str = "record") -> tuple[Any, Any]:
    """Take five steps, in the last of which a value without a gradient is infinite."""
    rg.manual_seed(0)
    weight = rg.rand(2).requires_grad_()
    optimizer = rg.optim.Adam([weight], lr=0.1)
    with rg.anomaly.watch(policy=policy, from_step=from_step) as w:
        for step in range(5):
            optimizer.zero_grad()
            scale = rg.tensor([1.0, 4.0 - step]).log()
            rg.autograd.grad((weight**2).sum(), weight, create_graph=True)
            (weight * scale).sum().backward()
            optimizer.step()
    return w, weight


@pytest.mark.parametrize("from_step", [1, 2, 5])
def test_a_birth_without_a_gradient_is_found_if_every_operation_is_recorded(from_step: int) -> None:
    w, _ = train(from_step)
    assert (w.event.op, w.event.index, w.event.operands, w.event.step) == ("log", (1,), {"input": 0.0}, 5)
    assert w.step == 5


def test_recording_changes_nothing_else() -> None:
    skipped, weight = train(2, "skip_step")
    other, same = train(None, "skip_step")
    assert len(skipped.events) == len(other.events) == 1
    np.testing.assert_array_equal(weight.detach().numpy(), same.detach().numpy())
    assert list(skipped.loss_history)[:4] == list(other.loss_history)[:4]


def test_a_gradient_written_by_hand_is_checked() -> None:
    weight = rg.zeros(2).requires_grad_()
    optimizer = rg.optim.SGD([weight], lr=0.1)
    with rg.anomaly.watch(policy="skip_step", from_step=1) as w:
        weight.grad = 1 / weight.detach()
        optimizer.step()
    assert len(w.events) == 1
    assert weight.tolist() == [0.0, 0.0]


def test_steps_before_from_step_are_run_again() -> None:
    x = rg.zeros(1).requires_grad_()
    with rg.anomaly.watch(policy="record", from_step=3) as w:
        for number in w.steps(range(4)):
            x.grad = None
            (rg.sqrt(x) if number in (0, 3) else x * 1).sum().backward()
    assert [(each.step, each.reproducible) for each in w.events] == [(1, True), (4, None)]


def test_other_threads_than_the_starting_one_are_recorded() -> None:
    """One of them trains, another one stops the watch, and nothing is recorded from then on."""
    w = rg.anomaly.watch(policy="record", from_step=1)
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    assert not in_threads(w.start)
    for _ in range(2):
        rg.log(x).sum().backward()
    assert [each.harmed for each in w.events] == ["loss"] * 2
    assert w.events[1].op == "log"
    assert not in_threads(w.stop)
    rg.log(x).sum().backward()
    assert not observer.active()
