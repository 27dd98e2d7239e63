"""A watch that stays open keeps nothing alive that the program has dropped."""

from __future__ import annotations

import gc
import weakref
from typing import Any

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
