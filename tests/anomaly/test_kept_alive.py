"""A watch that stays open keeps nothing alive that the program has dropped."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg


def trained(lib: Any, fails: bool) -> list[weakref.ref[Any]]:
    """Train a model of its own for a few steps, and return references to all that is gone with it."""
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 1))
    optimizer = lib.optim.Adam(model.parameters())
    refs = [weakref.ref(each) for each in (model, optimizer, *model.parameters())]
    for number in range(3):
        out = model(lib.ones(2, 3))
        loss = lib.log(out * 0).mean() if fails and number == 1 else (out**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        refs += [weakref.ref(out), weakref.ref(loss)]
    return refs


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("policy", ["skip_step", {"nan": "skip_step", "inf": "skip_step", "spike": "record"}])
@pytest.mark.parametrize(("lib", "lag"), [(torch, 0), (torch, 1), (rg, 0)])
def test_a_watch_keeps_no_earlier_model_alive(lib: Any, lag: int, policy: Any, fails: bool) -> None:
    with rg.anomaly.watch(policy=policy, lag=lag) as watch:
        refs = trained(lib, fails) + trained(lib, fails)
        trained(lib, False)  # what is known of the latest step is known until the next
        watch.settle()
        gc.collect()
        alive = [type(each).__name__ for ref in refs if (each := ref()) is not None]
    assert not alive
    assert watch.triggered is fails


class Held:
    """An object that a variable of the program holds."""


def ends_badly(lib: Any) -> weakref.ref[Any]:
    held = Held()
    x = lib.tensor([0.0, 1.0], requires_grad=True)
    lib.log(x).sum().backward()
    return weakref.ref(held)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("lib", [torch, rg])
def test_a_harm_keeps_no_variables_of_the_program_alive(lib: Any, again: bool) -> None:
    """A frame kept in a reference cycle would keep them, and the iterator of its loop, until the collector runs."""
    gc.collect()
    gc.disable()
    try:
        with rg.anomaly.watch(policy="record") as watch:
            refs = [ends_badly(lib) for _ in (watch.steps(range(1)) if again else range(1))]
            assert [ref() for ref in refs] == [None] * (1 + again)
    finally:
        gc.enable()
    assert watch.triggered


def test_the_record_of_a_second_run_goes_with_it() -> None:
    """The record holds every array of the step, and copies of those that it has written to."""

    def step() -> weakref.ref[Any]:
        values = np.ones(3)
        y = rg.from_numpy(values).mul_(2).sub_(2)
        (rg.log(y) * rg.ones(3).requires_grad_()).sum().backward()
        return weakref.ref(values)

    gc.collect()
    gc.disable()
    try:
        with rg.anomaly.watch(policy="record") as watch:
            _, second = [step() for _ in watch.steps(range(1))]
            assert second() is None
    finally:
        gc.enable()
    assert watch.triggered
