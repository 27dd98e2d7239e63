"""A learning rate that is not finite is found before it is used."""

from __future__ import annotations

import math
from typing import Any

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
def test_under_ignore_the_update_is_made(library: Any) -> None:
    weight = library.ones(1).requires_grad_()
    optimizer = library.optim.SGD([weight], lr=math.inf)
    with rg.anomaly.watch(policy="ignore"):
        weight.sum().backward()
        optimizer.step()
    assert weight.tolist() == [-math.inf]
