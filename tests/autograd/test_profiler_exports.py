"""Profiles for other programs: traces for Perfetto, ranges for NVIDIA's and Intel's tools, and nvprof's own files."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.autograd.profiler import (
    EnforceUnique,
    emit_itt,
    emit_nvtx,
    load_nvprof,
    load_nvvp,
    profile,
    record_function,
)
from retrograd.core.state import local

# --- traces -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def entries(tmp_path: Path) -> list[dict[str, Any]]:
    x = rg.ones(2, 3, requires_grad=True)
    with profile(record_shapes=True, with_stack=True, profile_memory=True) as prof:
        with record_function('say "hi"', "there"):
            y = x.exp() * x
        y.sum().backward(retain_graph=True)
        y.sum().backward()
    prof.export_chrome_trace(tmp_path / "trace.json")
    return json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def of_phase(entries: list[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["ph"] == phase]


def test_trace_events_are_nested(entries: list[dict[str, Any]]) -> None:
    open_until: list[float] = []
    for entry in sorted(of_phase(entries, "X"), key=lambda entry: (entry["ts"], -entry["dur"])):
        while open_until and open_until[-1] <= entry["ts"]:
            open_until.pop()
        if open_until:
            assert entry["ts"] + entry["dur"] <= open_until[-1] + 0.001
        open_until.append(entry["ts"] + entry["dur"])


def test_trace_arrows_lead_from_operations_to_nodes(entries: list[dict[str, Any]]) -> None:
    def named_at(flow: dict[str, Any]) -> str:
        at = [entry for entry in of_phase(entries, "X") if entry["ts"] == flow["ts"] and entry["tid"] == flow["tid"]]
        return at[-1]["name"]

    starts, ends = of_phase(entries, "s"), of_phase(entries, "f")
    assert len({flow["id"] for flow in starts}) == len(starts) == len(ends)
    arrows = [(named_at(start), named_at(end)) for start, end in zip(starts, ends, strict=True)]
    once = [("aten::exp", "ExpBackward0"), ("aten::mul", "MulBackward0"), ("aten::sum", "SumBackward0")]
    assert sorted(arrows) == sorted(once * 2)
    assert all(flow["bp"] == "e" and flow["cat"] == "fwdbwd" for flow in ends)
    assert all(start["ts"] < end["ts"] for start, end in zip(starts, ends, strict=True))


def test_trace_events_carry_details_as_arguments(entries: list[dict[str, Any]]) -> None:
    by_name = {entry["name"]: entry for entry in of_phase(entries, "X")}
    assert by_name['say "hi"']["cat"] == "user_annotation"
    assert by_name['say "hi"']["args"]["Concrete Inputs"] == ["there"]
    arguments = by_name["aten::exp"]["args"]
    assert arguments["Input Dims"] == [[2, 3]]
    assert arguments["Bytes"] == 24
    assert __file__ in arguments["Call stack"]
    assert arguments["Sequence number"] == by_name["ExpBackward0"]["args"]["Sequence number"]
    assert "[memory]" not in by_name


def test_trace_names_process_and_thread(entries: list[dict[str, Any]]) -> None:
    names = {entry["name"]: entry["args"]["name"] for entry in of_phase(entries, "M")}
    assert names["process_name"] == "retrograd"
    assert names["thread_name"].endswith("(MainThread)")


# --- ranges -----------------------------------------------------------------------------------------------------------


class FakeRanges:
    """Records ranges as an outline, indented by depth."""

    def __init__(self) -> None:
        self.outline: list[str] = []
        self.depth = 0

    def begin(self, text: str) -> None:
        self.outline.append("  " * self.depth + text)
        self.depth += 1

    def end(self) -> None:
        assert self.depth > 0
        self.depth -= 1


@pytest.fixture
def nvtx(monkeypatch: pytest.MonkeyPatch) -> FakeRanges:
    fake = FakeRanges()
    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(push_range=fake.begin, pop_range=fake.end))
    return fake


def renumbered(outline: list[str]) -> list[str]:
    """Renumber the sequence numbers from 1 in order of appearance."""
    numbers: dict[str, str] = {}
    return [
        re.sub(r"seq = (\d+)", lambda match: "seq = " + numbers.setdefault(match[1], str(len(numbers) + 1)), line)
        for line in outline
    ]


def test_nvtx_ranges_of_forward_and_backward_share_numbers(nvtx: FakeRanges) -> None:
    x = rg.ones(3, requires_grad=True)
    with emit_nvtx():
        with record_function("step"):
            y = x.exp().sum()
        y.backward()
    assert renumbered(nvtx.outline) == [
        "step",
        "  aten::exp, seq = 1",
        "  aten::sum, seq = 2",
        "autograd::engine::evaluate_function: SumBackward0",
        "  SumBackward0, seq = 2",
        "autograd::engine::evaluate_function: ExpBackward0",
        "  ExpBackward0, seq = 1",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
        "  torch::autograd::AccumulateGrad",
    ]
    assert nvtx.depth == 0


def test_nvtx_ranges_of_double_backward(nvtx: FakeRanges) -> None:
    x = rg.ones(3, requires_grad=True)
    y = x.exp().sum()
    with emit_nvtx():
        (first,) = rg.autograd.grad(y, x, create_graph=True)
        first.sum().backward()
    text = "\n".join(nvtx.outline)
    (number,) = re.findall(r"aten::mul, seq = (\d+)", text)
    assert f"MulBackward0, seq = {number}" in text


def test_nvtx_ranges_of_custom_functions(nvtx: FakeRanges) -> None:
    class Twice(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x + x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x = rg.ones(3, requires_grad=True)
    with emit_nvtx():
        y = Twice.apply(x)
    assert renumbered(nvtx.outline) == ["Twice, seq = 1", "  aten::add"]
    assert f"seq = {y.grad_fn._sequence_nr()}" in nvtx.outline[0]


def test_nvtx_ranges_with_sizes(nvtx: FakeRanges) -> None:
    with emit_nvtx(record_shapes=True), rg.no_grad():
        rg.ones(2, 3) * 2
        rg.cat([rg.ones(1), rg.ones(2)])
    assert nvtx.outline == ["aten::mul, sizes = [[2, 3], []]", "aten::cat, sizes = [[[1], [2]], []]"]


def test_nvtx_ranges_end_when_an_operation_or_backward_raises(nvtx: FakeRanges) -> None:
    x = rg.ones(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda grad: 1 / 0)
    with emit_nvtx():
        with pytest.raises(RuntimeError):
            x @ rg.ones(4)
        assert nvtx.depth == 0
        with record_function("step"), pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert nvtx.depth == 0
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert nvtx.depth > 0  # no enclosing range has ended yet
    assert nvtx.depth == 0


def test_nvtx_ranges_can_be_disabled_but_not_reentered(nvtx: FakeRanges) -> None:
    with emit_nvtx(enabled=False):
        rg.ones(3).exp()
    assert nvtx.outline == []
    ranges = emit_nvtx()
    with ranges, pytest.raises(RuntimeError, match=r"^NVTX annotation context manager is not reentrant$"):
        ranges.__enter__()
    with emit_nvtx(), profile() as prof:
        rg.ones(3).exp()
    assert [event.name for event in prof.function_events] == ["aten::exp"] and len(nvtx.outline) == 1


def test_missing_range_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, ranges in (("nvtx", emit_nvtx()), ("ittapi", emit_itt())):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=f"not installed: pip install {name}"):
            ranges.__enter__()
    assert local.observer is None


def test_itt_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRanges()
    package = SimpleNamespace(
        domain=lambda name: name,
        string_handle=lambda text: ("handle of", text),
        task_begin=lambda domain, handle: fake.begin(f"{domain}: {handle[1]}"),
        task_end=lambda domain: fake.end(),
    )
    monkeypatch.setitem(sys.modules, "ittapi", package)
    with emit_itt(record_shapes=True), rg.no_grad():
        rg.ones(2).exp()
    assert fake.outline == ["retrograd: aten::exp, sizes = [[2]]"]
    assert fake.depth == 0


# --- nvprof -----------------------------------------------------------------------------------------------------------

KERNEL = "_ZN2at6native6gemm32EPfS1_"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a file with two nested ranges and a kernel launched in the inner one; times are in nanoseconds."""
    path = tmp_path / "trace.prof"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            f"""
            CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringTable VALUES (1, 'LinearBackward, seq = 7'), (2, 'aten::mm'), (3, '{KERNEL}');
            CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (id INTEGER, name INTEGER, timestamp INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES
                (11, 1, 1000000), (12, 2, 2000000), (12, 0, 8000000), (11, 0, 9000000);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME
                (_id_ INTEGER PRIMARY KEY, cbid INTEGER, start INTEGER, end INTEGER, correlationId INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
                (1, 211, 3000000, 3100000, 77), (2, 211, 8500000, 8600000, 78), (3, 211, 9500000, 9600000, 79);
            CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                (correlationId INTEGER, start INTEGER, end INTEGER, name INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES
                (77, 4000000, 6500000, 3), (78, 9100000, 9200000, 3), (79, 9700000, 9800000, 3);
            """
        )
    return path


def test_nvprof_ranges_and_kernels(recorded: Path) -> None:
    outer, inner = load_nvprof(recorded)
    assert (outer.name, outer.cpu_time_total, inner.name, inner.cpu_time_total) == (
        "LinearBackward, seq = 7",
        8000.0,
        "aten::mm",
        6000.0,
    )
    assert inner.cpu_parent is outer
    assert [(kernel.duration, kernel.name) for kernel in inner.kernels] == [
        (2500.0, rg.autograd.profiler_util.StringTable()[KERNEL])
    ]
    assert (outer.self_device_time_total, outer.device_time_total) == (100.0, 2600.0)


def test_nvprof_tables(recorded: Path) -> None:
    text = load_nvvp(recorded).key_averages().table(sort_by="cuda_time_total")
    assert "Self CUDA time total: 2.600ms" in text


def test_nvprof_ranges_agree_with_torch(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as left_open:  # torch does not close the connection
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda path: left_open.enter_context(closing(connect(path))))
        theirs = torch.autograd.profiler.load_nvprof(str(recorded))
    ours = load_nvprof(recorded)
    assert [(event.id, event.name) for event in ours] == [(event.id, event.name) for event in theirs]
    # torch reads the nanoseconds as microseconds
    assert [event.cpu_time_total for event in ours] == [event.cpu_time_total / 1000 for event in theirs]


def test_nvprof_without_gpu_work(recorded: Path) -> None:
    with closing(sqlite3.connect(recorded)) as connection:
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
    assert [event.kernels for event in load_nvprof(recorded)] == [[], []]


def test_load_nvprof_refuses_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no nvprof file at '.*absent.prof'"):
        load_nvprof(tmp_path / "absent.prof")
    assert not (tmp_path / "absent.prof").exists()
    (tmp_path / "text.prof").write_text("no database, but long enough to be taken for one " * 30)
    with pytest.raises(ValueError, match=r"was not written by nvprof .*nvprof -o FILE"):
        load_nvprof(tmp_path / "text.prof")


def test_enforce_unique_refuses_duplicates() -> None:
    unique = EnforceUnique()
    unique.see(1, "a")
    unique.see(1, "b")
    with pytest.raises(RuntimeError, match=re.escape("duplicate key: (1, 'a')")):
        unique.see(1, "a")
