"""The command that a finding suggests: run the same program again, recorded from the right step on."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from retrograd.anomaly.report import read_runs
from retrograd.cli.again import called
from tests.test_cli import ENVIRONMENT, SOURCE, write
from tests.test_cli import forked as python

pytest.importorskip("torch", reason="torch is not installed")  # imported by the programs below

SCRIPT = """\
import random, sys
import numpy as np
import torch

def loss_of(out):
    size = (out * out).sum(1)
    d = torch.where(size > 0, torch.sqrt(size), 0.0)
    for _ in range(25):  # longer than what is kept of a loss
        d = torch.tanh(d) * 0.9 + d * 0.1
    return d.mean()

net = torch.nn.Linear(3, 3, bias=False)
optimizer = torch.optim.Adam(net.parameters())
print(sys.argv[1:])
while True:
    x = torch.randn(5, 3) * (random.random() > 0.1) * (np.random.rand() > 0.1) * (torch.rand(1) > 0.1)
    optimizer.zero_grad()
    loss_of(net(x)).backward()
    optimizer.step()
"""
HEALTHY = """\
import torch
x = torch.ones(2, requires_grad=True)
for _ in range(4):
    (x * 2).sum().backward()
"""


def retrograd(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "retrograd", *arguments, cwd=cwd, **environment)


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "PYTHONPATH": str(SOURCE), "COLUMNS": "200"}
    return subprocess.run(
        shlex.split(command), cwd=cwd, capture_output=True, text=True, timeout=100, env=environment, check=False
    )


def test_suggested_command_finds_the_birth_in_a_program_without_seeds(tmp_path: Path) -> None:
    write(tmp_path / "train.py", SCRIPT)
    first = retrograd("run", "--report", "a b", "train.py", "--lr", "it's", cwd=tmp_path, COLUMNS="200")
    [event] = read_runs(tmp_path / "a b" / "events.jsonl")[0].events
    assert event.op == "unknown"
    assert event.rerun is not None
    assert f"\n{event.rerun}\n" in first.stderr.replace("again     ", "again\n"), (
        "the command should be one line that can be copied"
    )
    assert re.search(rf" -m retrograd run --from-step {event.step} --seed \d+ --report 'a b' train.py ", event.rerun)
    second = shell(event.rerun, tmp_path)
    assert second.stdout == first.stdout
    found = read_runs(tmp_path / "a b" / "events.jsonl")[1].events[0]
    assert (found.op, found.lineno, found.step) == ("SqrtBackward0", 7, event.step)
    assert "--from-step" not in second.stderr


def test_suggested_command_runs_a_module_as_a_module(tmp_path: Path) -> None:
    write(tmp_path / "train.py", SCRIPT)
    retrograd("run", "--policy", "raise", "--report", "out", "-m", "train", "-x", cwd=tmp_path)
    [event] = read_runs(tmp_path / "out" / "events.jsonl")[0].events
    assert event.rerun.endswith(" --report out -m train -x")


def test_suggested_command_uses_the_same_program_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin" / "retrograd"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    for path, words, expected in (
        ("", ["python", str(script), "run", "train.py"], (str(script),)),
        (str(script.parent), ["python", str(script), "run", "train.py"], ("retrograd",)),
        ("", ["python", "-X", "dev", "-m", "retrograd", "demo"], ("python", "-m", "retrograd")),
        ("", ["python", "-c", "from retrograd.cli import main; main()"], ("retrograd",)),
    ):
        monkeypatch.setenv("PATH", path)
        monkeypatch.setattr("sys.orig_argv", words)
        assert called() == expected


def test_suggested_command_has_no_seed_for_several_processes(tmp_path: Path) -> None:
    write(tmp_path / "train.py", "import torch, random; torch.manual_seed(3); random.seed(3)\n" + SCRIPT)
    retrograd("run", "--report", "out", "train.py", cwd=tmp_path, RANK="1")
    [event] = read_runs(tmp_path / "out" / "events-rank1.jsonl")[0].events
    assert "--seed" not in event.rerun


def test_programs_own_seeds_are_kept(tmp_path: Path) -> None:
    code = "import torch, random, numpy as np\n{}\nprint(torch.rand(1).item(), random.random(), np.random.rand())"
    write(tmp_path / "seeded.py", code.format("torch.manual_seed(1); random.seed(1); np.random.seed(1)"))
    write(tmp_path / "free.py", code.format(""))
    seeded = retrograd("run", "--seed", "7", "seeded.py", cwd=tmp_path).stdout
    assert seeded == python("seeded.py", cwd=tmp_path).stdout
    same = {retrograd("run", "--seed", "7", "free.py", cwd=tmp_path).stdout for _ in range(2)}
    assert len(same) == 1
    assert same != {retrograd("run", "free.py", cwd=tmp_path).stdout}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("2", "every operation of steps 2 to 4 was recorded, and no NaN or infinity did harm"),
        ("9", "the program ended with step 4, but the recording was to begin with step 9"),
    ],
)
def test_recorded_run_without_a_finding_says_so(tmp_path: Path, step: str, said: str) -> None:
    write(tmp_path / "healthy.py", HEALTHY)
    done = retrograd("run", "--from-step", step, "healthy.py", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == f"retrograd: {said}\n"


@pytest.mark.parametrize("step", ["2", "5"])
def test_failing_recorded_run_without_a_finding_says_so(tmp_path: Path, step: str) -> None:
    """The failing step does not end, but it has been recorded."""
    write(tmp_path / "fails.py", HEALTHY + "\nraise KeyError('after step 4')")
    done = retrograd("run", "--from-step", step, "fails.py", cwd=tmp_path)
    assert done.returncode == 1
    assert f"every operation was recorded from step {step} on, and no NaN or infinity had reached" in done.stderr


def test_suggested_command_for_a_retrograd_program(tmp_path: Path) -> None:
    text = HEALTHY.replace("torch", "retrograd").replace("x * 2", "x * retrograd.zeros(2).log()")
    write(tmp_path / "own.py", text)
    done = retrograd("run", "--from-step", "1", "own.py", cwd=tmp_path)
    assert "-Inf born in log, own.py:4, step 1" in done.stderr


@pytest.mark.parametrize("step", ["0", "-2", "x"])
def test_from_step_refuses_what_is_not_a_step(tmp_path: Path, step: str) -> None:
    done = retrograd("run", "--from-step", step, "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "--from-step" in done.stderr


def test_environment_variables_do_the_same_as_the_options(tmp_path: Path) -> None:
    seeds = "import retrograd, torch, random\ntorch.manual_seed(1)\nrandom.seed(1)\n"
    write(tmp_path / "train.py", seeds + SCRIPT.replace("np.random.rand()", "1"))
    first = python("train.py", "a b", cwd=tmp_path, RETROGRAD_WATCH="1")
    found = re.search(
        r"^ *(RETROGRAD_FROM_STEP=(\d+) RETROGRAD_WATCH=1 \S+ train.py 'a b')$", first.stderr, re.MULTILINE
    )
    assert found is not None, first.stderr
    second = python("train.py", "a b", cwd=tmp_path, RETROGRAD_WATCH="1", RETROGRAD_FROM_STEP=found[2])
    assert "NaN born in SqrtBackward0" in second.stderr
    wrong = python("train.py", cwd=tmp_path, RETROGRAD_WATCH="1", RETROGRAD_FROM_STEP="soon")
    assert "RETROGRAD_FROM_STEP=soon: set it to a step number" in wrong.stderr
