"""Processes that a program starts by ``torch.multiprocessing.spawn``, run here in the process of the test."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing

from retrograd.anomaly import AnomalyError
from retrograd.anomaly.report import Report, read_latest
from retrograd.cli.again import Command
from retrograd.cli.spawned import Children

AGAIN = Command({"--policy": "raise"}, 7, ["train.py"])


def train(index: int, start: float) -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    for step in range(3):
        (weight * (start - step)).log().mean().backward()  # type: ignore[no-untyped-call]


def spawn(monkeypatch: pytest.MonkeyPatch, report: Report, *args: Any) -> Children:
    """Start two processes, whose function is handed over and called."""

    def start_processes(fn: Any, args: Any = (), nprocs: int = 1, *rest: Any, **more: Any) -> None:
        for index in range(nprocs):
            pickle.loads(pickle.dumps(fn))(index, *args)

    for name in ("torch.multiprocessing", "torch.multiprocessing.spawn"):
        monkeypatch.setattr(sys.modules[name], "start_processes", start_processes)
    with Children("raise", report, AGAIN, None) as children:
        torch.multiprocessing.spawn(train, args, nprocs=2)
    return children


def test_healthy_ones_say_nothing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert spawn(monkeypatch, Report(), 5.0).started
    assert capfd.readouterr() == ("", "")


def test_each_is_watched(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Report(tmp_path) as report, pytest.raises(AnomalyError):
        spawn(monkeypatch, report, 2.0)
    assert not report.run.entries
    (entry,) = read_latest(tmp_path / "events-rank0.jsonl").entries
    assert (entry.event.op, entry.event.step) == ("log", 3)  # type: ignore[union-attr]
    assert "-Inf born in log" in capfd.readouterr().err


def test_the_command_names_no_seed() -> None:
    assert "--seed 7" in AGAIN(3).command
    assert "--seed" not in AGAIN.in_other_process()(3).command


def test_what_is_forked_goes_on_under_the_same_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(torch.multiprocessing, "start_processes", lambda fn, **more: started.append(fn))
    with Children("raise", Report(), AGAIN, None) as children:
        torch.multiprocessing.start_processes(train, args=(1.0,), start_method="fork")
    assert started == [train]
    assert not children.started
