"""Commands that a report gives to be copied, for the shells of POSIX and of Windows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from retrograd.anomaly import environment
from retrograd.anomaly.shell import command_line, with_environment
from retrograd.cli.again import Command

WORDS = ["python", "a b.py", "--text", 'it\'s "so"', r"C:\data\x", "$HOME", ""]


def test_a_posix_shell_reads_the_words_back() -> None:
    program = "import sys; print(sys.argv[1:])"
    line = command_line([sys.executable, "-c", program, *WORDS])
    assert subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout == f"{WORDS}\n"
    show = [sys.executable, "-c", "import os; print(os.environ['A'], os.environ['B'])"]
    line = with_environment({"A": "1", "B": "two words"}, show)
    assert subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout == "1 two words\n"


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every question for the name of the system answer Windows."""
    monkeypatch.setattr(sys, "platform", "win32")


@pytest.mark.usefixtures("windows")
def test_words_are_quoted_for_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    # so that no command is searched for: Python 3.12 asks more of Windows for that than its name
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "retrograd", "run"])
    again = Command({"--report": r"C:\my runs\7"}, 5, [r"C:\work\train.py", "--lr", "0.1"])
    command = again(53).command
    assert command == (
        r'python -m retrograd run --from-step 53 --seed 5 --report "C:\my runs\7" C:\work\train.py --lr 0.1'
    )


@pytest.mark.usefixtures("windows")
def test_variables_are_set_by_cmd_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.VARIABLE, "warn")
    monkeypatch.setattr(sys, "orig_argv", ["python", r"C:\work\train.py"])
    command = environment._again(53).command
    # the value ends where "&&" begins: a blank before it would be part of it
    assert command == r'cmd /c "set RETROGRAD_FROM_STEP=53&& set RETROGRAD_WATCH=warn&& python C:\work\train.py"'
