"""Processes that a program starts with ``multiprocessing``, run in the process of the test."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from multiprocessing import context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing

from retrograd.anomaly import AnomalyError, watch
from retrograd.anomaly.adapters.torch.runtime.distributed import Agreement
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.report import Report, read_latest
from retrograd.cli.again import Command
from retrograd.cli.observing import found_on_other_rank
from retrograd.cli.spawned import Children, Watched

AGAIN = Command({"--policy": "raise"}, 7, ["train.py"])


def train(index: int, start: float) -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    for step in range(3):
        (weight * (start - step)).log().mean().backward()  # type: ignore[no-untyped-call]


# --- torch.multiprocessing.spawn --------------------------------------------------------------------------------------


def spawn(monkeypatch: pytest.MonkeyPatch, report: Report, *args: Any) -> Children:
    """Start two processes and call the function handed to them."""

    def start_processes(fn: Any, args: Any = (), nprocs: int = 1, *rest: Any, **more: Any) -> None:
        for index in range(nprocs):
            pickle.loads(pickle.dumps(fn))(index, *args)

    for name in ("torch.multiprocessing", "torch.multiprocessing.spawn"):
        monkeypatch.setattr(sys.modules[name], "start_processes", start_processes)
    with Children("raise", report, AGAIN, None) as children:
        torch.multiprocessing.spawn(train, args, nprocs=2)
    return children


def test_healthy_spawned_processes_print_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert spawn(monkeypatch, Report(), 5.0).started
    assert capfd.readouterr() == ("", "")


def test_every_spawned_process_is_watched(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Report(tmp_path) as report, pytest.raises(AnomalyError):
        spawn(monkeypatch, report, 2.0)
    assert not report.run.entries
    (entry,) = read_latest(tmp_path / "events-rank0.jsonl").entries
    assert (entry.event.op, entry.event.step) == ("log", 3)  # type: ignore[union-attr]
    assert "-Inf born in log" in capfd.readouterr().err


def test_suggested_command_of_a_spawned_process_has_no_seed() -> None:
    assert "--seed 7" in AGAIN(3).command
    assert "--seed" not in AGAIN.in_other_process()(3).command


def test_forked_process_gets_its_own_watch(capfd: pytest.CaptureFixture[str]) -> None:
    """Findings of its copy of the first watch would be known only to the process itself."""
    report = Report()
    with Children("record", report, AGAIN, None) as children:
        watch(policy="record", recorder=report).start()
        Watched(train, children._settings)(0, 2.0)
    assert not report.run.entries
    assert capfd.readouterr().err.count("-Inf born in log") == 1


# --- Process ----------------------------------------------------------------------------------------------------------


class Training(BaseProcess):
    def run(self) -> None:
        train(0, 2.0)


class Trainer:
    def __call__(self, start: float) -> None:
        train(0, start)

    def train(self, start: float) -> None:
        train(0, start)


@pytest.fixture
def _handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run started processes here."""

    def start(process: BaseProcess) -> None:
        context.set_spawning_popen(object())  # type: ignore[attr-defined]
        try:
            other = pickle.loads(pickle.dumps(process))
        finally:
            context.set_spawning_popen(None)  # type: ignore[attr-defined]
        other.run()

    monkeypatch.setattr(BaseProcess, "start", start)


OWN: dict[str, Callable[[], BaseProcess]] = {
    "function": lambda: multiprocessing.Process(target=train, args=(0, 2.0)),
    "with keywords": lambda: multiprocessing.Process(target=train, kwargs={"index": 0, "start": 2.0}),
    "part of a function": lambda: multiprocessing.Process(target=functools.partial(train, 0), args=(2.0,)),
    "method": lambda: multiprocessing.Process(target=Trainer().train, args=(2.0,)),
    "object": lambda: multiprocessing.Process(target=Trainer(), args=(2.0,)),
    "class": Training,
    "torch's": lambda: torch.multiprocessing.Process(target=train, args=(0, 2.0)),
}


@pytest.mark.usefixtures("_handed_over")
@pytest.mark.parametrize("kind", OWN)
def test_process_that_runs_the_programs_own_code_is_watched(
    kind: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    process = OWN[kind]()
    with Report(tmp_path) as report, Children("raise", report, AGAIN, None) as children:
        with pytest.raises(AnomalyError):
            process.start()
        assert children.started
    assert not report.run.entries
    assert "run" not in vars(process)
    (entry,) = read_latest(tmp_path / "events-rank0.jsonl").entries
    assert (entry.event.op, entry.event.step) == ("log", 3)  # type: ignore[union-attr]
    assert "-Inf born in log" in capfd.readouterr().err


@pytest.mark.usefixtures("_handed_over")
@pytest.mark.parametrize("target", [None, shutil.which, os.getcwd, functools.partial(shutil.which, "ls")])
def test_other_processes_are_not_watched(target: Any) -> None:
    args = ("ls",) if target is shutil.which else ()
    with Children("raise", Report(), AGAIN, None) as children:
        multiprocessing.Process(target=target, args=args).start()
    assert not children.started


@pytest.mark.usefixtures("_handed_over")
def test_programs_own_watch_continues_in_a_process() -> None:
    with Children("raise", Report(), AGAIN, None) as children, watch(policy="record") as own:
        multiprocessing.Process(target=train, args=(0, 2.0)).start()
    assert not children.started
    assert own.event is not None
    assert own.event.op == "log"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_processes_of_a_forked_process_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseProcess, "start", lambda process: None)
    with Children("raise", Report(), AGAIN, None) as children:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        multiprocessing.Process(target=train).start()
    assert not children.started


# --- several that agree -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "is_elsewhere"), [(0, False), (1, True)])
def test_finding_is_attributed_to_the_right_process_in_any_start_order(
    rank: int, is_elsewhere: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    event = NaNEvent(kind="divide", op="log", harmed="loss")

    def gather(answers: list[Any], mine: Any, group: Any) -> None:
        answers[:] = [mine, (NaNEvent(kind="invalid", op="unknown").to_json(), True)]

    monkeypatch.setattr(dist, "all_gather_object", gather)
    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda group: [0, 1])
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    told, _ = Agreement().guilty(event, known=True, again=False)
    report = Report(rank=1 - rank)
    report.write(told)
    assert found_on_other_rank(report, None) is is_elsewhere
    assert ("it happened on rank 0" in capsys.readouterr().err) is is_elsewhere
