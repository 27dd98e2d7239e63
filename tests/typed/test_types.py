"""The stubs for type checkers and editors match the registered functions and are right."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from retrograd._lazy_names import NAMES, PACKAGES
from tests.typed.mistakes import MISTAKES

SOURCE = Path(__file__).parents[2] / "src"
HAS_TORCH = importlib.util.find_spec("torch") is not None

WRONG = """\
import retrograd as rg
import retrograd.nn.functional as F

x = rg.ones(2, 3)
"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, dict[int, str]]:
    """Return the complaints of mypy by file and line, from a single run with a cache because mypy is slow.

    It runs in a process of its own because it would change what the garbage collector does in this one.
    """
    folder = tmp_path_factory.mktemp("programs")
    (folder / "mistakes.py").write_text(WRONG + "\n".join(MISTAKES) + "\n")
    programs = [folder / "mistakes.py", Path(__file__).parent.parent / "typed_program.py"]
    if HAS_TORCH:
        from tests.typed.calls import program

        with warnings.catch_warnings(action="ignore"):
            (folder / "calls.py").write_text(program())
        programs.append(folder / "calls.py")
    assert request.config.cache is not None
    cache = request.config.cache.mkdir("types")
    check = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", *map(str, programs)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert not done.stderr
    found: dict[str, dict[int, str]] = {}
    for name, line, text in re.findall(r"^(?:.*[/\\])?(\w+)\.py:(\d+): error: (.*)$", done.stdout, flags=re.MULTILINE):
        found.setdefault(name, {})[int(line)] = text
    return found


def test_stubs_are_up_to_date() -> None:
    """The check runs in a fresh process, where tests have registered nothing."""
    check = [sys.executable, "-m", "tools.stubs", "--check"]
    stale = subprocess.run(check, capture_output=True, text=True, cwd=SOURCE.parent)
    assert (stale.stdout, stale.returncode) == ("", 0), f"write them anew: python -m tools.stubs\n{stale.stderr}"


def test_typical_user_program_has_no_type_errors(complaints: dict[str, dict[int, str]]) -> None:
    assert complaints.get("typed_program", {}) == {}


@pytest.mark.skipif(not HAS_TORCH, reason="the table of operation tests needs torch")
def test_type_checker_accepts_every_call_of_the_table(complaints: dict[str, dict[int, str]]) -> None:
    assert complaints.get("calls", {}) == {}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_type_checker_reports_every_mistake(mistake: str, complaints: dict[str, dict[int, str]]) -> None:
    assert WRONG.count("\n") + 1 + MISTAKES.index(mistake) in complaints["mistakes"]


def test_stubs_know_names_that_are_imported_late() -> None:
    """These are the names that ``retrograd.__getattr__`` imports on first use."""
    stub = (SOURCE / "retrograd" / "__init__.pyi").read_text(encoding="utf-8")
    known = set(re.findall(r"^(?:from \S+ import .*?(\w+)|def (\w+)\(.*)$", stub, flags=re.MULTILINE))
    names = {name for pair in known for name in pair}
    imported = set(re.findall(r"^    \w+ as (\w+),$", stub, flags=re.MULTILINE))
    assert set(PACKAGES) | set(NAMES) <= names | imported
