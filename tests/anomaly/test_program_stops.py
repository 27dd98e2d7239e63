"""Programs that look at their loss by themselves, and stop with an error of their own before ``backward``."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import Watch
from retrograd.anomaly.messages import outcome_of
from tests.anomaly.both import libraries
from tests.anomaly.disguises import HERE


def loss_of(module: Any, values: list[float]) -> Any:
    x = module.tensor(values, requires_grad=True)
    return module.log(x).sum()  # born here


def refuse(loss: Any) -> None:
    raise FloatingPointError(f"the loss is {loss.item()}")


def assert_finite(loss: Any) -> None:
    assert abs(loss.item()) < float("inf")


def assert_by_numpy(loss: Any) -> None:
    np.testing.assert_array_less(-1e9, loss.item())


def leave(loss: Any) -> None:
    sys.exit(1)


def stopped(library: str, stop: Callable[[Any], None], error: type[BaseException], **policy: Any) -> Watch:
    module = rg if library == "retrograd" else torch
    with pytest.raises(error), rg.anomaly.watch(**policy) as w:
        loss_of(module, [1.0, 2.0]).backward()
        loss = loss_of(module, [1.0, 0.0])
        stop(loss)
    return w


@libraries
@pytest.mark.parametrize(
    ("stop", "error"),
    [
        (refuse, FloatingPointError),
        (assert_finite, AssertionError),
        (assert_by_numpy, AssertionError),
        (leave, SystemExit),
    ],
)
def test_the_birth_behind_an_error_of_the_program_is_named(
    library: str, stop: Callable[[Any], None], error: type[BaseException]
) -> None:
    (event,) = stopped(library, stop, error).events
    assert (event.op, event.index, event.harmed, event.step) == ("log", (1,), "loss", 2)
    assert (event.code_line or "").endswith(HERE)


@libraries
def test_the_error_has_a_note(library: str) -> None:
    module = rg if library == "retrograd" else torch
    with pytest.raises(FloatingPointError) as raised, rg.anomaly.watch():
        refuse(loss_of(module, [0.0]))
    (note,) = raised.value.__notes__
    assert "return module.log(x).sum()" in note


@libraries
def test_an_exit_without_an_error_gives_no_event(library: str) -> None:
    module = rg if library == "retrograd" else torch
    with pytest.raises(SystemExit), rg.anomaly.watch() as w:
        loss = loss_of(module, [0.0])
        assert loss.isinf()
        sys.exit()
    assert not w.events


@libraries
def test_infinite_numbers_that_are_no_losses_give_no_event(library: str) -> None:
    module = rg if library == "retrograd" else torch
    with pytest.raises(KeyError), rg.anomaly.watch() as w:
        best, mask = module.tensor(float("inf")), module.full((2,), -float("inf"))
        loss = loss_of(module, [1.0])
        raise KeyError(str((best, mask, loss)))
    assert not w.events


@libraries
def test_errors_of_the_library_give_no_event(library: str) -> None:
    module = rg if library == "retrograd" else torch
    with pytest.raises(RuntimeError), rg.anomaly.watch() as w:
        loss = loss_of(module, [0.0])
        module.ones(2, 3) @ (module.ones(2, 3) * loss)
    assert not w.events


def look_up(loss: Any) -> None:
    {"loss": 0}[str(loss)]


def to_integer(loss: Any) -> None:
    int(loss.item())


@libraries
@pytest.mark.parametrize(("stop", "error", "count"), [(look_up, KeyError, 0), (to_integer, OverflowError, 1)])
def test_an_error_of_python_gives_an_event_only_if_it_is_about_a_number(
    library: str, stop: Callable[[Any], None], error: type[BaseException], count: int
) -> None:
    assert len(stopped(library, stop, error).events) == count


@libraries
def test_a_birth_that_was_reported_is_not_reported_again(library: str) -> None:
    module = rg if library == "retrograd" else torch
    with pytest.raises(FloatingPointError), rg.anomaly.watch(policy="record") as w:
        loss = loss_of(module, [0.0])
        loss.backward()
        refuse(loss)
    assert len(w.events) == 1


@libraries
def test_an_ignored_birth_stays_ignored(library: str) -> None:
    assert not stopped(library, refuse, FloatingPointError, policy={"nan": "ignore", "inf": "ignore"}).events


def test_the_outcome_says_that_the_program_stopped() -> None:
    event = stopped("retrograd", refuse, FloatingPointError).event
    assert event is not None
    assert outcome_of("nan", event, "explain") == "the program stopped on its own"


@libraries
def test_the_history_ends_with_the_loss_that_stopped_the_program(library: str) -> None:
    event = stopped(library, refuse, FloatingPointError).event
    assert event is not None
    assert event.surroundings is not None
    *_, before, last = event.surroundings.context["loss_history"]
    assert (before, last) == (pytest.approx(math.log(2), rel=1e-6), -float("inf"))


SCRIPT = """
import math, sys
import retrograd as rg
loss = rg.log(rg.zeros(2, requires_grad=True)).sum()
if not math.isfinite(loss.item()):
    print("stopping")
    sys.exit(3)
"""


def test_a_script_keeps_its_exit_code(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "-m", "retrograd", "run", str(script)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (3, "stopping\n")
    assert "-Inf born in log, train.py:4, step 1 - the program stopped on its own" in ran.stderr
