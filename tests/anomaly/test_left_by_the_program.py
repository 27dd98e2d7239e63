"""Loops over ``w.steps`` that the program leaves in a bad step, before that has been run again."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError, Watch, watch

both = pytest.mark.parametrize("module", [rg, torch], ids=["retrograd", "torch"])


def loss_of(module: ModuleType, k: int) -> float:
    x = module.tensor([1.0 - k, 2.0], requires_grad=True)
    loss = x.log().mean()
    loss.backward()
    return loss.item()


def train(w: Watch, module: ModuleType) -> None:
    for k in w.steps(range(3)):
        if abs(loss_of(module, k)) == float("inf"):
            break


@both
def test_a_loop_that_is_broken_off(module: ModuleType) -> None:
    """Programs stop by themselves when their loss is not finite."""
    with pytest.raises(AnomalyError, match="log"), watch() as w:
        train(w, module)
    assert [(event.op, event.batch_idx) for event in w.events] == [("log", 1)]


@both
def test_only_recorded(module: ModuleType) -> None:
    w = watch(policy="record").start()
    train(w, module)
    w.stop()
    assert [(event.op, event.batch_idx, event.index) for event in w.events] == [("log", 1, (0,))]


@both
@pytest.mark.parametrize("error", [KeyError("the loss is not finite"), KeyboardInterrupt()])
def test_an_error_comes_before_the_second_run(module: ModuleType, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, watch() as w:
        for k in w.steps(range(3)):
            if abs(loss_of(module, k)) == float("inf"):
                raise error
    if isinstance(error, Exception):
        assert [(event.op, event.batch_idx) for event in w.events] == [("log", 1)]
        assert "born in log" in "".join(getattr(caught.value, "__notes__", ()))


@both
def test_what_was_seen_twice_is_told_once(module: ModuleType) -> None:
    with watch(policy="record") as w:
        for k in w.steps(range(2)):
            loss_of(module, k)
    assert [event.reproducible for event in w.events] == [True]
