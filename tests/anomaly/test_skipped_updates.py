"""Updates that "skip_step" leaves out one after another."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyWarning, watch
from retrograd.anomaly.report import Recorder, read_runs
from tests.anomaly.both import modules


def train(module: ModuleType, factors: list[float], spoilt: int | None = None, recorder: Any = None) -> tuple[Any, Any]:
    """The messages of warnings, and the weight after steps whose losses have these factors."""
    weight = module.nn.Parameter(module.tensor([0.5, 1.0]))
    optimizer = module.optim.SGD([weight], lr=0.1)
    with warnings.catch_warnings(record=True) as said, watch(None, optimizer, "skip_step", recorder=recorder):
        warnings.simplefilter("always")
        for step, factor in enumerate(factors):
            if step == spoilt:
                with module.no_grad():
                    weight.mul_(float("nan"))
            optimizer.zero_grad()
            (module.log(weight * factor) ** 2).sum().backward()
            optimizer.step()
    assert all(each.category is AnomalyWarning for each in said)
    return [str(each.message) for each in said], weight


@modules
def test_a_weight_that_stays_bad_is_warned_about_once(module: ModuleType) -> None:
    (said,), _ = train(module, [1.0] * 20, spoilt=3)
    assert "The parameter weight has not been finite since step 4" in said
    assert "Load an earlier checkpoint" in said


@modules
def test_many_skipped_updates_in_a_row_give_one_warning(module: ModuleType) -> None:
    (said,), weight = train(module, [1.0, *[-1.0] * 20])
    assert "The last 8 steps were all skipped, from step 2 on" in said
    assert weight.isfinite().all()


@modules
def test_many_skipped_updates_from_the_first_on_give_one_warning(module: ModuleType) -> None:
    (said,), _ = train(module, [-1.0] * 8)
    assert "The last 8 steps were all skipped, from step 1 on" in said
    assert not train(module, [-1.0] * 7)[0]


@modules
def test_skipped_updates_here_and_there_give_no_warning(module: ModuleType) -> None:
    said, _ = train(module, [1.0, *[-1.0] * 7] * 3)
    assert not said


@modules
def test_a_weight_that_is_restored_is_no_further_event(module: ModuleType) -> None:
    weight = module.nn.Parameter(module.tensor([0.5, 1.0]))
    optimizer = module.optim.SGD([weight], lr=0.1)
    with watch(None, optimizer, "skip_step") as w:
        for step in range(12):
            with module.no_grad():
                weight.copy_(module.tensor([float("nan") if step == 4 else 0.5, 1.0]))
            optimizer.zero_grad()
            (weight**2).sum().backward()
            optimizer.step()
    assert len(w.events) == 1


@pytest.mark.parametrize("recovers", [False, True])
def test_the_closing_note_counts_events_that_were_not_kept(recovers: bool, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "events.jsonl", max_events=12)
    with recorder:
        train(rg, [1.0, *[-1.0] * 50, *[1.0] * recovers, *[-1.0] * recovers], recorder=recorder)
    (read,) = read_runs(tmp_path / "events.jsonl")
    for run in (recorder.run, read):
        stalled = [each for each in run.remarks if "nothing was learned" in each]
        expected = "every update from step 2 to step 51 was skipped: nothing was learned in these steps"
        assert stalled == ([] if recovers else [expected])
