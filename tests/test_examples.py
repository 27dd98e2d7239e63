"""The example programs do what their descriptions promise."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import retrograd as rg

EXAMPLES = Path(__file__).parent.parent / "examples"
DATA = EXAMPLES / "data"


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the folder of the examples first on the path, as for a script that runs."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(pattern: str, text: str) -> list[float]:
    """Return the number in every match of a pattern with one group."""
    return [float(number) for number in re.findall(pattern, text)]


def test_digits_example_reaches_the_promised_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("digits").main(["--seed", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10, "a progress line per epoch"


def test_digits_example_fails_below_the_required_accuracy() -> None:
    assert load("digits").main(["--epochs", "1", "--min-accuracy", "0.9999"]) == 1


def test_save_on_disk_example_computes_equal_gradients(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("save_on_disk").main(["--size", "200000", "--layers", "5"]) == 0
    assert "gradients equal: True" in capsys.readouterr().out


def test_convolutional_network_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    digits_conv = load("digits_conv")
    assert digits_conv.main(["--epochs", "4", "--width", "16", "--min-accuracy", "0.93"]) == 0
    losses = figures(r"(?m)^ +\d+ +([\d.]+) +[\d.]+%", capsys.readouterr().out)
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 2
    assert digits_conv.main(["--epochs", "1", "--width", "2"]) == 1


SMALL_MODEL = ["--width", "32", "--layers", "1", "--context", "32", "--length", "20"]


def test_language_model_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*SMALL_MODEL, "--steps", "60", "--evaluate", "20", "--lr", "0.01"]
    language_model = load("language_model")
    assert language_model.main([*arguments, "--max-loss", "2.8"]) == 0
    first = capsys.readouterr().out
    losses = figures(r"held out ([\d.]+) nats", first)
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    (final,) = figures(r"held-out loss ([\d.]+) nats", first)
    assert final == pytest.approx(losses[-1], abs=0.15), "the loss differs between the held-out text and a tenth of it"

    assert language_model.main([*arguments, "--max-loss", "1.0"]) == 1
    again = capsys.readouterr().out
    sample = "The Rays of Light "
    assert again[again.index(sample) :].startswith(first[first.index(sample) :].rstrip()), (
        "the same seed should give the same text"
    )


def test_language_model_sees_only_earlier_positions() -> None:
    language_model = load("language_model")
    model = language_model.LanguageModel(characters=11, context=8, width=16, heads=2, layers=2)
    text = rg.arange(8).reshape(1, 8)
    changed = text.clone()
    changed[0, 5] = 10
    before, after = model(text)[0], model(changed)[0]
    assert before[:5].equal(after[:5])
    assert not rg.isclose(before[5:], after[5:]).all(1).any(), "every later position sees the change"


def test_language_model_stops_at_the_time_limit_and_refuses_unknown_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    language_model = load("language_model")
    assert language_model.main([*SMALL_MODEL, "--seconds", "0"]) == 1
    assert "after 0 steps" in capsys.readouterr().out
    assert language_model.main([*SMALL_MODEL, "--prompt", "naïve"]) == 2
    assert "'naïve'" in capsys.readouterr().out


def test_text_matches_its_description() -> None:
    text = gzip.decompress((DATA / "opticks.txt.gz").read_bytes())
    assert hashlib.sha256(text).hexdigest() in (DATA / "README.md").read_text()
    assert text.isascii()
    assert text.startswith(b"THE FIRST BOOK OF OPTICKS\n")
    assert text.endswith(b"before they corrupted\nthemselves.\n")


def test_pendulum_example_finds_the_motion(capsys: pytest.CaptureFixture[str]) -> None:
    pendulum = load("pendulum")
    assert pendulum.main(["--rounds", "12", "--width", "16", "--max-error", "0.01"]) == 0
    assert pendulum.main(["--rounds", "1", "--width", "4"]) == 1
    close, far = figures(r"largest error ([\d.e+-]+) rad", capsys.readouterr().out)
    assert close < far / 10


def test_pendulum_reference_conserves_energy() -> None:
    angles = load("pendulum").reference(angle=2.0, duration=8.0, steps=2000)
    velocities = np.gradient(angles, 8.0 / 2000, edge_order=2)
    assert velocities**2 / 2 - np.cos(angles) == pytest.approx(-math.cos(2.0), abs=1e-4)


def test_progress_written_to_a_file_is_plain_lines() -> None:
    stream = io.StringIO()
    with load("_progress").Progress(total=3, interval=0.0, stream=stream) as progress:
        progress.update(1, "loss 2.0")
        progress.line("an epoch")
        progress.update(3, "loss 1.0")
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("1/3  0:00 < 0:0")
    assert first.endswith("loss 2.0")
    assert second == "an epoch"
    assert third.startswith("3/3")


def test_progress_in_a_terminal_overwrites_intermediate_lines() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    progress_module = load("_progress")
    stream = Terminal()
    with progress_module.Progress(total=2, stream=stream) as progress:
        progress.reported -= 1
        progress.update(1, "loss 2.0")
        assert stream.getvalue().startswith("\r[############............] 1/2  0:00 < 0:0")
        progress.line("an epoch")
    assert [line.split("\r")[-1] for line in stream.getvalue().split("\n")] == ["an epoch", ""]


def test_progress_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    progress_module = load("_progress")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    with progress_module.Progress(total=2, stream=stream) as progress:
        progress.reported -= 1
        progress.update(1, "loss 2.0")
        assert len(stream.getvalue().lstrip("\r")) == 29
