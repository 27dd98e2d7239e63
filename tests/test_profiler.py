"""The profiler and its schedules, compared with torch."""

from __future__ import annotations

import gzip
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import retrograd as rg

LIBRARIES = pytest.mark.parametrize("m", [rg, torch], ids=["retrograd", "torch"])


def quiet_schedule(m: Any, **options: int) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Profiler won't be using warmup")  # torch warns here
        return m.profiler.schedule(**options)


def test_profiler_schedules_match_torch() -> None:
    for wait, warmup, active, repeat, skip_first, skip_first_wait in itertools.product(
        (0, 2), (0, 1), (1, 3), (0, 2), (0, 3), (0, 1)
    ):
        options = {
            "wait": wait,
            "warmup": warmup,
            "active": active,
            "repeat": repeat,
            "skip_first": skip_first,
            "skip_first_wait": skip_first_wait,
        }
        ours, theirs = (quiet_schedule(m, **options) for m in (rg, torch))
        assert [ours(step).name for step in range(25)] == [theirs(step).name for step in range(25)]


@LIBRARIES
def test_invalid_profiler_schedules_raise(m: Any) -> None:
    for options in ({"active": 0}, {"active": 1, "wait": -1}, {"active": 1, "repeat": -1}):
        with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
            m.profiler.schedule(**{"wait": 1, "warmup": 1, **options})
    with pytest.raises(AssertionError, match="Step must be non-negative"):
        m.profiler.schedule(wait=1, warmup=1, active=1)(-1)


def cycles(m: Any, steps: int, **options: int) -> list[Any]:
    """Return the step number and the counts of recorded steps and products at every callback."""
    told: list[Any] = []

    def ready(prof: Any) -> None:
        counts = {average.key: average.count for average in prof.key_averages()}
        products = counts.get("aten::matmul", 0)
        assert products == sum(event.name == "aten::matmul" for event in prof.events())
        told.append((prof.step_num, counts.get("ProfilerStep*"), products))

    a = m.ones(2, 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Profiler clears events")
        with m.profiler.profile(
            activities=[m.profiler.ProfilerActivity.CPU], schedule=quiet_schedule(m, **options), on_trace_ready=ready
        ) as prof:
            for _ in range(steps):
                _ = a @ a
                prof.step()
    return [*told, prof.step_num, prof.current_action.name]


@pytest.mark.parametrize("active", [1, 2])
@pytest.mark.parametrize("warmup", [0, 1])
@pytest.mark.parametrize("repeat", [0, 1])
def test_profiler_cycles_match_torch(warmup: int, active: int, repeat: int) -> None:
    for wait, steps in ((0, 7), (2, 8)):
        options = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
        ours, theirs = (cycles(m, steps, **options) for m in (rg, torch))
        assert ours == theirs
        assert len(ours) > 2


@LIBRARIES
def test_profiler_without_a_schedule_records_everything(m: Any) -> None:
    told = []
    prof = m.profiler.profile(record_shapes=True, on_trace_ready=told.append)
    prof.start()
    _ = m.ones(2, 3) @ m.ones(3, 4)
    prof.step()
    with m.profiler.record_function("mine"):
        _ = m.ones(2, 3).exp()
    prof.stop()
    assert told == [prof]
    counts = {average.key: average.count for average in prof.key_averages()}
    assert (counts["aten::matmul"], counts["aten::exp"], counts["mine"]) == (1, 1, 1)
    assert "ProfilerStep*" not in counts
    (product,) = (event for event in prof.events() if event.name == "aten::matmul")
    assert product.input_shapes == [[2, 3], [3, 4]]


def test_profiler_warns_about_a_schedule_that_saves_nothing() -> None:
    actions = rg.profiler.ProfilerAction
    with rg.profiler.profile(schedule=lambda step: actions.NONE if step else actions.RECORD) as prof:
        with pytest.warns(UserWarning, match="RECORD followed by NONE"):
            prof.step()
        prof.step()
    with (
        rg.profiler.profile(schedule=lambda step: actions.NONE if step else actions.WARMUP) as prof,
        pytest.warns(UserWarning, match="WARMUP followed by NONE"),
    ):
        prof.step()


@LIBRARIES
def test_reading_a_profile_without_records_raises(m: Any) -> None:
    prof = m.profiler.profile(schedule=m.profiler.schedule(wait=1, warmup=1, active=1))
    for read in (prof.key_averages, prof.events, lambda: prof.export_chrome_trace("trace.json")):
        with pytest.raises(AssertionError):
            read()
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        m.profiler.profile(activities=[])


def test_tensorboard_trace_handler_writes_files(tmp_path: Path) -> None:
    for compressed in (False, True):
        folder = tmp_path / str(compressed)
        handler = rg.profiler.tensorboard_trace_handler(str(folder), "one", use_gzip=compressed)
        with rg.profiler.profile(
            schedule=rg.profiler.schedule(wait=0, warmup=1, active=1), on_trace_ready=handler
        ) as prof:
            for _ in range(4):
                _ = rg.ones(2, 2) @ rg.ones(2, 2)
                prof.step()
        paths = sorted(folder.iterdir())
        assert len(paths) == 2
        for path, step in zip(paths, (1, 3), strict=True):
            assert path.name.startswith("one.")
            assert path.name.endswith(".pt.trace.json.gz" if compressed else ".pt.trace.json")
            text = gzip.decompress(path.read_bytes()) if compressed else path.read_bytes()
            names = {event["name"] for event in json.loads(text)["traceEvents"]}
            assert {f"ProfilerStep#{step}", "aten::matmul"} <= names


def test_exported_stacks_contain_the_caller(tmp_path: Path) -> None:
    with rg.profiler.profile(with_stack=True) as prof:
        _ = rg.ones(20, 20) @ rg.ones(20, 20)
    prof.export_stacks(tmp_path / "stacks.txt")
    assert "test_exported_stacks_contain_the_caller" in (tmp_path / "stacks.txt").read_text()


@LIBRARIES
def test_profiling_cuda_without_a_gpu(m: Any) -> None:
    if m.cuda.is_available():
        pytest.skip("there is a GPU")
    kinds = m.profiler.ProfilerActivity
    assert {kind.name for kind in m.profiler.supported_activities()} == {"CPU"}
    with (
        pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"),
        m.profiler.profile(activities=[kinds.CPU, {kinds.CUDA: []}]),
    ):
        pass
