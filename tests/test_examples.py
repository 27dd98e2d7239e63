"""The examples do what they promise."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_reach_the_promised_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("digits").main(["--seed", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10, "a progress line per epoch"


def test_digits_fails_below_the_demanded_accuracy() -> None:
    assert load("digits").main(["--epochs", "1", "--min-accuracy", "0.9999"]) == 1
