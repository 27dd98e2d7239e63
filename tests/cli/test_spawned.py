"""Processes that a program starts by ``multiprocessing``, run here in the process of the test."""

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


def test_what_is_forked_is_watched_anew(capfd: pytest.CaptureFixture[str]) -> None:
    """What its copy of the first watch found, only the process itself would know."""
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
    """Processes that are started are handed over, and run here."""

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
def test_one_that_runs_the_programs_own_code_is_watched(
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
def test_others_run_as_they_are(target: Any) -> None:
    args = ("ls",) if target is shutil.which else ()
    with Children("raise", Report(), AGAIN, None) as children:
        multiprocessing.Process(target=target, args=args).start()
    assert not children.started


@pytest.mark.usefixtures("_handed_over")
def test_a_watch_of_the_programs_own_goes_on_in_it() -> None:
    with Children("raise", Report(), AGAIN, None) as children, watch(policy="record") as own:
        multiprocessing.Process(target=train, args=(0, 2.0)).start()
    assert not children.started
    assert own.event is not None
    assert own.event.op == "log"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_one_that_is_forked_leaves_its_own_processes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseProcess, "start", lambda process: None)
    with Children("raise", Report(), AGAIN, None) as children:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        multiprocessing.Process(target=train).start()
    assert not children.started


# --- several that agree -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "is_elsewhere"), [(0, False), (1, True)])
def test_whose_finding_it_is_does_not_go_by_the_order_in_which_they_were_started(
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
