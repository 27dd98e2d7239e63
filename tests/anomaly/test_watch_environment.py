"""The environment variables that start a watch without a change of the program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from retrograd.anomaly import environment

pytestmark = pytest.mark.usefixtures("leaves_no_trace")

# --- the environment --------------------------------------------------------------------------------------------------

SCRIPT = "import retrograd as rg; rg.log(rg.tensor([0.0], requires_grad=True)).sum().backward(); print('done')"


def run(value: str | None, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    environment = {key: each for key, each in os.environ.items() if key != "RETROGRAD_WATCH"}
    if value is not None:
        environment["RETROGRAD_WATCH"] = value
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("value", [None, "0", ""])
def test_nothing_is_watched_without_the_variable(value: str | None) -> None:
    assert run(value).stdout == "done\n"


@pytest.mark.parametrize("value", ["1", "raise"])
def test_the_variable_starts_a_watch_that_raises(value: str) -> None:
    result = run(value)
    assert result.returncode == 1
    assert "AnomalyError: -Inf born in log" in result.stderr


def test_the_variable_can_hold_a_policy() -> None:
    result = run("warn")
    assert result.stdout == "done\n"
    assert "AnomalyWarning: -Inf born in log" in result.stderr


def test_a_wrong_value_of_the_variable_is_refused() -> None:
    result = run("rasie")
    assert result.returncode == 1
    assert "RETROGRAD_WATCH=rasie: set it to 1, or to a policy" in result.stderr


@pytest.mark.parametrize("step", ["0", "-1", "last"])
def test_a_wrong_step_in_the_variable_for_it_is_refused(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setenv("RETROGRAD_FROM_STEP", step)
    with pytest.raises(ValueError, match=f"RETROGRAD_FROM_STEP={step}: set it to a step number"):
        environment.start()


def test_importing_retrograd_does_not_import_the_watch() -> None:
    script = "import retrograd, sys; print(any(name.startswith('retrograd.anomaly') for name in sys.modules))"
    assert run(None, script).stdout == "False\n"
