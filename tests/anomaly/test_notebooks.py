"""Births in the cells of a notebook: named and shown as IPython names and shows them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli import forked

# Runs cells as the kernel of a notebook does, and writes the value of the last expression of the last cell.
RUN = """
import json, sys, warnings
warnings.simplefilter("ignore")
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.loads(sys.argv[1]):
    run = shell.run_cell(cell, store_history=True, silent=False)
    run.raise_error()
sys.stderr.write(json.dumps(run.result))
"""


def result_of(folder: Path, *cells: str) -> object:
    """Return the value of the last cell; cells that use torch run in a process that has imported it already."""
    (folder / "cells.py").write_text(RUN)
    if any("import torch" in cell for cell in cells):
        done = forked("cells.py", json.dumps(cells), cwd=folder)
    else:
        command = [sys.executable, "cells.py", json.dumps(cells)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stderr)


OURS = """import retrograd as rg
def loss_of(x):
    y = x * 2
    return y.log().sum()
"""

PYTORCH = """import torch, retrograd as rg
def loss_of(x):
    y = x * 2
    return y.log().sum()
"""


@pytest.mark.parametrize(
    ("imports", "make"), [(OURS, "rg.tensor"), (PYTORCH, "torch.tensor")], ids=["retrograd", "torch"]
)
def test_a_birth_has_its_cell_and_line(imports: str, make: str, tmp_path: Path) -> None:
    if imports is PYTORCH:
        pytest.importorskip("torch", reason="torch is not installed")
    run = f"""with rg.anomaly.watch(policy="record") as w:
    loss_of({make}([2.0, -1.0], requires_grad=True)).backward()
from retrograd.anomaly.report import format_event
[w.event.filename, w.event.lineno, w.event.code_line, str(w.event), format_event(w.event)]"""
    filename, lineno, code_line, text, report = result_of(tmp_path, imports, run)
    assert (filename, lineno, code_line) == ("Cell In[1]", 4, "return y.log().sum()")
    assert text.startswith("NaN born in log at Cell In[1]:4, element [1]")
    assert "Cell In[1]:4 in loss_of" in report
    assert "y = x * 2" in report  # the line before it
    assert report.index("y.log()") < report.index("^^^^")


def test_an_event_is_shown_as_its_report(tmp_path: Path) -> None:
    run = """from IPython.lib.pretty import pretty
with rg.anomaly.watch(policy="record") as w:
    loss_of(rg.tensor([2.0, -1.0], requires_grad=True)).backward()
[pretty(w.event), pretty(w.events)]"""
    alone, among_others = result_of(tmp_path, OURS, run)
    assert alone.startswith("-- retrograd ---")
    assert "> 4 | return y.log().sum()" in alone
    assert among_others == "(NaN born in log at Cell In[1]:4, element [1], input=-2.0,)"


def test_a_profile_is_shown_as_its_table(tmp_path: Path) -> None:
    run = """from IPython.lib.pretty import pretty
with rg.autograd.profiler.profile() as prof:
    loss_of(rg.ones(2))
[pretty(prof) == str(prof), pretty(prof.key_averages()) == prof.key_averages().table(), str(prof)]"""
    whole, averages, table = result_of(tmp_path, OURS, run)
    assert whole and averages
    assert "Self CPU time total: " in table


def test_the_traceback_of_anomaly_mode_leaves_out_what_runs_the_cells(tmp_path: Path) -> None:
    run = """try:
    with rg.autograd.detect_anomaly():
        loss_of(rg.tensor([2.0, -1.0], requires_grad=True)).sqrt().backward()
except RuntimeError as error:
    text = str(error)
text"""
    text = result_of(tmp_path, OURS, run)
    places = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    assert places == ['File "Cell In[2]", line 3, in <module>']


def test_running_a_notebook_file_is_refused(tmp_path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text('{"cells": [], "nbformat": 4}')
    done = subprocess.run(
        [sys.executable, "-m", "retrograd", "run", str(path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0
    assert "it is a notebook" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("imports", "make"), [(OURS, "rg.tensor"), (PYTORCH, "torch.tensor")], ids=["retrograd", "torch"]
)
def test_the_traceback_of_a_finding_ends_in_the_cell(imports: str, make: str, tmp_path: Path) -> None:
    if imports is PYTORCH:
        pytest.importorskip("torch", reason="torch is not installed")
    found = f"""w = rg.anomaly.watch().start()
try:
    loss_of({make}([2.0, -1.0], requires_grad=True)).backward()
except rg.anomaly.AnomalyError as error:
    shown = "\\n".join(error._render_traceback_())
w.stop()
shown"""
    shown = result_of(tmp_path, imports, found)
    assert isinstance(shown, str)
    assert "In[2]" in shown
    assert "NaN born in log at Cell In[1]:4" in shown
    assert "site-packages" not in shown
    assert "monitor.py" not in shown


LIBRARIES = pytest.mark.parametrize("library", ["retrograd", "torch"])
FINDING = "[w.events[0].remedy, w.events[0].remedy_lineno, w.events[0].remedy_filename, format_event(w.events[0])]"


def finding(folder: Path, library: str, *cells: str) -> tuple[str, int | None, str | None, str]:
    """Return the remedy, its line and file, and the report of the event in the last cell, which runs the program."""
    if library == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    first = f"import {library} as torch, retrograd as rg\nfrom retrograd.anomaly.report import format_event\n"
    first += "w = rg.anomaly.watch(policy='record')\nw.start()"
    last = f"{cells[-1]}\nw.stop()\n{FINDING}"
    remedy, lineno, filename, report = result_of(folder, first, *cells[:-1], last)  # type: ignore[misc]
    return remedy, lineno, filename, report


OPTIMIZER = """net = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(
    net.parameters(),
    lr={rate},
)
"""
STEP = """def step():
    opt.zero_grad()
    (net(torch.ones(3, 4)) ** 2).sum().backward()
    opt.step()
"""


@LIBRARIES
def test_the_remedy_changes_the_optimizer_in_its_latest_cell(library: str, tmp_path: Path) -> None:
    """One that was changed and run again is the later one."""
    first, again = (OPTIMIZER.format(rate=rate) for rate in ("1e-2", "1e20"))
    remedy, lineno, filename, report = finding(tmp_path, library, first, again, STEP, "for _ in range(3): step()")
    assert remedy.startswith("lr=")
    assert (lineno, filename) == (4, "Cell In[3]")
    assert "Change line 4 of Cell In[3] as above" in " ".join(report.split())


MADE = """x = torch.tensor([0.0, -200.0], requires_grad=True)
p = torch.softmax(x, dim=0)
{then}
"""
LOSS = "loss = -torch.log(p).sum()\nloss.backward()"


def test_a_remedy_uses_variables_of_an_earlier_cell(tmp_path: Path) -> None:
    remedy, lineno, filename, report = finding(tmp_path, "retrograd", MADE.format(then=""), LOSS)
    assert (remedy, lineno, filename) == ("loss = -torch.log_softmax(x, dim=0).sum()", 1, None)
    assert "made by   softmax, Cell In[2]:2" in report


@pytest.mark.parametrize(("then", "loss"), [("x = 0", LOSS), ("", f"x = 0\n{LOSS}")])
def test_a_remedy_uses_no_variable_that_was_reassigned(then: str, loss: str, tmp_path: Path) -> None:
    remedy, lineno, _, _ = finding(tmp_path, "retrograd", MADE.format(then=then), loss)
    assert (remedy, lineno) == ("log_p = torch.log_softmax(x, dim=0)", None)
