"""The benchmarks measure the same work: on tiny inputs, all libraries compute the same gradients."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def load() -> Iterator[Any]:
    """Import a module of the benchmarks as a script next to it does."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module
    sys.path.remove(str(BENCHMARKS))
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def gradients(workload: Any, name: str, library: ModuleType) -> list[np.ndarray]:
    step = workload.builders[name](library, workload.make_inputs(True))
    return [each.detach().numpy() if hasattr(each, "detach") else each for each in step()]


def test_workloads_compute_the_same_gradients_in_every_library(load: Any) -> None:
    workloads = load("workloads").WORKLOADS
    assert len({workload.name for workload in workloads}) == len(workloads)
    for workload in workloads:
        expected = gradients(workload, "torch", torch)
        for name, library in (("retrograd", rg), ("numpy", np)):
            if name in workload.builders:
                for found, wanted in zip(gradients(workload, name, library), expected, strict=True):
                    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5, err_msg=workload.name)


@pytest.mark.skipif(rg.cuda.is_available(), reason="counts on the stand-in")
def test_benchmark_counts_calls_on_a_gpu(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    load("gpu").count(["chain 1k"], True)
    header, row, *callers = capsys.readouterr().out.splitlines()
    kernels, _, *copies = map(int, row.removeprefix("chain 1k").split())
    assert header.split() == ["kernels", "views", "copies", "in", "copies", "out"]
    assert kernels > 50
    assert copies == [0, 0]
    assert any("tanh" in line and "operands.py" in line for line in callers)


def test_results_replace_the_block_between_the_markers_of_a_page(load: Any, tmp_path: Path) -> None:
    tables, page = load("tables"), tmp_path / "page.md"
    page.write_text("before\n\n<!-- b -->\n\nold\n\n<!-- e -->\n\nafter\n")
    table = ["step", "ratio"], [["one", tables.spread([1.0, 2.0, 3.0])], ["another", tables.spread([])]]
    tables.publish(table, page, "<!-- b -->", "<!-- e -->")
    lines = page.read_text().splitlines()
    assert [lines[0], lines[-1]] == ["before", "after"]
    assert "old" not in lines
    assert lines[-8:-4] == [
        "| step    | ratio            |",
        "|---------|------------------|",
        "| one     | 2.00 (1.50-2.50) |",
        "| another | -                |",
    ]


def test_summary_tells_met_targets_from_missed_ones(load: Any) -> None:
    verdict = load("tables").verdict
    assert verdict(0.9, 1.0, "torch") == "torch <= 1: ok"
    assert verdict(61, 60, unit="ms") == "<= 60 ms: MISSED"
    assert verdict(None, 1.2, "torch") == "torch <= 1.2: -"
