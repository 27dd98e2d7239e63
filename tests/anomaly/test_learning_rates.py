"""A learning rate that is not finite is found before it is used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

libraries = pytest.mark.parametrize("library", [torch, rg], ids=["torch", "retrograd"])


@libraries
@pytest.mark.parametrize(("rate", "born"), [(math.inf, "Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")])
def test_a_rate_that_is_not_finite_changes_no_weight(library: Any, rate: float, born: str) -> None:
    weight = library.ones(2).requires_grad_()
    optimizer = library.optim.SGD([weight], lr=0.1)
    with rg.anomaly.watch(policy="skip_step") as w:
        for step in range(3):
            optimizer.param_groups[0]["lr"] = rate if step == 1 else 0.5
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
    assert weight.tolist() == [0.0, 0.0]
    [event] = w.events
    assert (event.step, event.harmed, event.born) == (2, "the update of every weight", born)
    assert event.code_line == "optimizer.step()"
    assert "learning rate" in (event.cause or "")


@libraries
@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_a_rate_that_is_a_number_of_numpy_is_checked_too(library: Any, number: Any) -> None:
    weight = library.ones(1).requires_grad_()
    optimizer = library.optim.SGD([weight], lr=0.1)
    schedule = library.optim.lr_scheduler.LambdaLR(optimizer, lambda step: number(0.5 if step == 0 else math.inf))
    with rg.anomaly.watch(policy="skip_step") as w:
        for _ in range(2):
            weight.sum().backward()
            optimizer.step()
            schedule.step()
    assert math.isfinite(weight.item())
    assert [(event.step, event.operands["lr"]) for event in w.events] == [(2, math.inf)]


def test_a_rate_that_is_a_tensor_is_checked_too() -> None:
    weight = torch.ones(1).requires_grad_()
    optimizer = torch.optim.Adam([weight], lr=torch.tensor(math.inf))
    with rg.anomaly.watch(policy="skip_step") as w:
        weight.sum().backward()
        optimizer.step()
    assert weight.item() == 1.0
    [event] = w.events
    assert (event.harmed, event.born) == ("the update of every weight", "Inf")


@libraries
def test_under_ignore_the_update_is_made(library: Any) -> None:
    weight = library.ones(1).requires_grad_()
    optimizer = library.optim.SGD([weight], lr=math.inf)
    with rg.anomaly.watch(policy="ignore"):
        weight.sum().backward()
        optimizer.step()
    assert weight.tolist() == [-math.inf]
