"""Warnings explain each place in full once, and a weight that stays bad at most once."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.messages import message_of


@pytest.mark.parametrize("library", [rg, torch], ids=["retrograd", "torch"])
def test_each_place_is_explained_in_full_once(library: Any) -> None:
    weight = library.nn.Parameter(library.tensor([0.5]))
    model = library.nn.ParameterList([weight])
    optimizer = library.optim.SGD([weight], lr=0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rg.anomaly.watch(model, optimizer, policy={"nan": "warn"}) as w:
            for number in (1, 2, 3, -4e-4, -5e-4, -6e-4):
                optimizer.zero_grad()
                library.log(weight * number).sum().backward()
                weight.grad = None  # no step has a bad gradient
            library.log(weight).sum().backward()
            with library.no_grad():
                weight[0] = float("nan")
            for _ in range(3):
                optimizer.zero_grad()
                (weight * 2).sum().backward()
    births = [str(event) for event in w.events if event.op == "log"]
    assert len(births) == 3
    assert len(w.events) == 6
    full, again, once_more, of_weight = (str(each.message) for each in caught)
    assert full.startswith(births[0])
    assert "Write instead:" in full
    for short, birth in ((again, births[1]), (once_more, births[2])):
        assert short == f"{birth}; see the warning about step {w.events[0].step}"
    assert "Look at what was written there" in of_weight


PROGRAM = """
import sys
import retrograd as rg
for _ in range(2):
    with rg.anomaly.watch(policy="warn"):
        for _ in range(3):
            rg.log(rg.zeros(1, requires_grad=True)).sum().backward()
"""


@pytest.mark.parametrize(("option", "shown", "in_full"), [((), 6, 2), (("-W", "once"), 2, 1), (("-W", "ignore"), 0, 0)])
def test_pythons_warning_filters_decide_how_often_a_watch_warns(
    option: tuple[str, ...], shown: int, in_full: int
) -> None:
    done = subprocess.run([sys.executable, *option, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stderr.count("AnomalyWarning: -Inf born in log") == shown
    assert done.stderr.count("Write instead:") == in_full


def test_a_note_that_refers_to_a_command_stands_below_it() -> None:
    event = NaNEvent(kind="divide", op="log", cause="Why.", remedy="y = 1", rerun="python -m x", note="The line above.")
    lines = message_of(event).splitlines()
    assert lines[1:] == [
        "Why.",
        "Write instead:",
        "    y = 1",
        "To record every operation:",
        "    python -m x",
        "The line above.",
    ]
