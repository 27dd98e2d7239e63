"""Losses that a gradient scaler has multiplied: an overflow by the scale alone is how it works."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError
from tests.anomaly.both import libraries


@libraries
def test_a_loss_that_overflows_only_by_its_scale_is_no_event(library: str) -> None:
    lib: Any = rg if library == "retrograd" else torch
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    optimizer, scaler = lib.optim.SGD([x], lr=0.01), lib.amp.GradScaler("cpu", init_scale=2.0**127)
    with rg.anomaly.watch() as watch:
        for _ in range(20):
            optimizer.zero_grad()
            scaler.scale((x * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert not watch.triggered
        assert bool((x.detach().abs() < lib.tensor([1.0, 2.0])).all())
        with pytest.raises(AnomalyError, match="log"):
            scaler.scale(lib.log(x * 0).sum()).backward()


def test_a_bad_loss_is_reported_if_another_is_scaled_after_it() -> None:
    x, scaler = rg.ones(1).requires_grad_(), rg.amp.GradScaler("cpu", init_scale=2.0**127)
    with rg.anomaly.watch(), pytest.raises(AnomalyError, match="log"):
        losses = [scaler.scale(rg.log(x * 0).sum()), scaler.scale(x.sum())]
        losses[0].backward()
