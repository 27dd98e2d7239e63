"""Warnings that Python gives when it compiles a program are not repeated when the watch reads its text."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import retrograd as rg
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.parsing import expression_of, module_of
from tests.threads import in_threads

PROGRAM = """\
def loss_of(x):
    name = "\\d"
    x = x - len("\\d") + 2
    return rg.log(x * len("\\d") - NUMBER * len(name)).sum()

def loss_in_try(x):
    try:
        pass
    finally:
        return loss_of(x)
"""

NUMBERS = itertools.count(5)  # a text that was read before is not read again


@pytest.fixture(params=["loss_of", "loss_in_try"])
def loss_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], Any]:
    path = tmp_path / "program.py"
    program = PROGRAM.replace("NUMBER", f"1e-{next(NUMBERS)}")
    path.write_text(program)
    names: dict[str, Any] = {"rg": rg, "__name__": "program"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(program, str(path), "exec", dont_inherit=True), names)
    return names[request.param]


def event_of(loss_of: Callable[[Any], Any], policy: Any) -> NaNEvent:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy=policy) as w, contextlib.suppress(rg.anomaly.AnomalyError):
        loss_of(x).backward()
    assert w.event.lineno == 4
    return w.event


@pytest.mark.parametrize("policy", ["record", "raise"])
def test_reading_the_program_gives_no_warning(loss_of: Callable[[Any], Any], policy: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        event_of(loss_of, policy)
    assert [str(each.message) for each in said] == []


@pytest.mark.parametrize("policy", ["record", "raise"])
def test_a_remedy_is_found_where_warnings_are_errors(loss_of: Callable[[Any], Any], policy: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        event = event_of(loss_of, policy)
    assert event.remedy is not None
    assert event.remedy.startswith("return rg.log(rg.clamp(")


def test_warnings_that_the_program_has_shown_are_not_repeated(loss_of: Callable[[Any], Any]) -> None:
    """Python forgets what it has shown where ``catch_warnings`` was used."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            warnings.warn("that of the program", UserWarning, stacklevel=1)
            event_of(loss_of, "record")
            module_of(f"x = {next(NUMBERS)} * '\\d'")
    assert [str(each.message) for each in said] == ["that of the program"]


def test_several_threads_can_parse_at_once() -> None:
    """Up to Python 3.12, they share one count of the depth, and may take turns where the collector runs."""
    text = f"f({', '.join(f'g(x[{i}], [a for a in b if a > {i}])' for i in range(50))})"
    pause = lambda phase, info: time.sleep(0)  # noqa: E731
    before = gc.get_threshold()
    gc.callbacks.append(pause)
    gc.set_threshold(20, 5, 5)
    try:
        errors = in_threads(*[lambda: [(module_of(text), expression_of(text)) for _ in range(10)]] * 4)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(pause)
    assert not errors
