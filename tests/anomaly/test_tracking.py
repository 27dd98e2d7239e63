"""Experiment trackers receive finite floats in all cases, as their own readers confirm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import NaNDetector, scalars, watch

NN = [rg, torch]


def trained(library: Any, observer: Any, model: Any, factors: list[float]) -> list[dict[str, float]]:
    """Return the scalars after each step."""
    found = []
    with observer:
        for factor in factors:
            model.zero_grad()
            (factor * model(library.ones(2, 3))).sum().backward()
            if isinstance(observer, NaNDetector):
                observer.check_grad_norms()
            found.append(scalars(observer))
    return found


@pytest.mark.parametrize("library", NN)
def test_the_scalars_of_a_watch_are_finite(library: Any) -> None:
    model = library.nn.Linear(3, 1)
    first, last = trained(library, watch(model, policy="record"), model, [1.0, math.nan])
    assert first["anomaly/loss"] == pytest.approx(model(library.ones(2, 3)).sum().item())
    assert (first["anomaly/events"], first["anomaly/not_finite"]) == (0.0, 0.0)
    assert last["anomaly/events"] >= 1.0
    assert "anomaly/loss" not in last
    assert last["anomaly/not_finite"] >= 1.0


@pytest.mark.parametrize("library", NN)
def test_the_scalars_of_a_detector_include_the_layers(library: Any) -> None:
    model = library.nn.Sequential(library.nn.Linear(3, 1, bias=False), library.nn.Tanh())
    with library.no_grad():
        model[0].weight.fill_(2.0)
    detector = NaNDetector(model, verbose=False, grad_norm_warn=None)
    first, bad = trained(library, detector, model, [1.0, math.inf])
    assert first["anomaly/absmax/0"] == 6.0
    assert first["anomaly/absmin/1"] == first["anomaly/absmax/1"] == first["anomaly/absmax/root"]
    assert 0.0 < first["anomaly/grad_norm"] < 1.0
    assert first["anomaly/overhead_ms"] > 0.0
    assert all(type(value) is float and math.isfinite(value) for each in (first, bad) for value in each.values())
    assert bad["anomaly/not_finite"] >= 1.0


def test_the_prefix_can_be_chosen() -> None:
    assert set(scalars(watch(), prefix="train/")) >= {"train/events", "train/overhead", "train/not_finite"}


def test_tensorboard_receives_only_finite_scalars(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    model = torch.nn.Linear(3, 1)
    steps = trained(torch, NaNDetector(model, verbose=False), model, [1.0, math.nan])
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        for number, step in enumerate(steps):
            for name, value in step.items():
                writer.add_scalar(name, value, number)
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [each.value for each in events.Scalars("anomaly/events")] == [0.0, 1.0]
    assert [each.step for each in events.Scalars("anomaly/loss")] == [0], "the other one was NaN"
    assert all(math.isfinite(each.value) for tag in events.Tags()["scalars"] for each in events.Scalars(tag))


def test_weights_and_biases_receives_the_scalars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    model = torch.nn.Linear(3, 1)
    steps = trained(torch, NaNDetector(model, verbose=False), model, [1.0, math.nan])
    with wandb.init(mode="disabled", dir=str(tmp_path)) as run:
        for step in steps:
            run.log(step)
        assert dict(run.summary)["anomaly/events"] == 1.0


def test_scalars_of_anything_else_are_refused() -> None:
    with pytest.raises(TypeError, match="a watch or a NaNDetector, but got 3"):
        rg.anomaly.scalars(3)  # type: ignore[arg-type]
