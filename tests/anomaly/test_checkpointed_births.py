"""Births in a part of the forward pass that a checkpoint runs again within the backward pass."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyWarning, watch
from retrograd.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::retrograd.anomaly.AnomalyWarning")


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("policy", ["record", "warn"])
def test_a_bad_loss_is_one_event_in_each_step(use_reentrant: bool, policy: str) -> None:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with watch(policy=policy) as w:
        for _ in range(2):
            checkpoint(rg.log, x, use_reentrant=use_reentrant).sum().backward()
            x.grad = None
    assert [(event.op, event.index, event.harmed, event.step) for event in w.events] == [
        ("log", (1,), "loss", 1),
        ("log", (1,), "loss", 2),
    ]
    assert w.step == 2


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_birth_in_backward_is_one_event_in_each_step(use_reentrant: bool) -> None:
    weight = rg.tensor([4.0, 0.0], requires_grad=True)
    with watch(policy="record") as w:
        for _ in range(2):
            x = weight * 1
            checkpoint(lambda x: rg.sqrt(x) * 2, x, use_reentrant=use_reentrant).sum().backward()
            weight.grad = None
    assert [(event.op, event.index, event.step) for event in w.events] == [
        ("SqrtBackward0", (1,), 1),
        ("SqrtBackward0", (1,), 2),
    ]
    assert w.step == 2


def test_a_checkpoint_run_again_warns_once() -> None:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with pytest.warns(AnomalyWarning) as given, watch(policy="warn"):
        checkpoint(rg.log, x, use_reentrant=True).sum().backward()
    assert len(given) == 1
