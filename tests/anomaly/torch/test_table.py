"""The table in docs/anomaly-mode.md says what torch's anomaly mode and the watch really say."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.anomaly.programs import PROGRAMS, Program
from tests.anomaly.torch.running import watched

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

PAGE = Path(__file__).parents[3] / "docs" / "anomaly-mode.md"
FIRST = {program.row: program for program in reversed(PROGRAMS)}  # of each row


def said_by_torch(program: Program) -> str:
    """The function that torch's anomaly mode names, or a dash."""
    namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(program.setup, namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            try:
                exec(program.code, namespace)
                namespace["y"].float().sum().backward()
            except RuntimeError as error:
                found = re.match(r"Function '(\w+)' returned nan", str(error))
                assert found, error
                return found[1]
    return "-"


def line(program: Program) -> str:
    event = watched(program)
    place = f"{event.op} [{', '.join(map(str, event.index or ()))}]"
    values = ", ".join(
        f"{name}={value:.6g}" for name, value in event.operands.items() if isinstance(value, (int, float))
    )
    code = program.code.replace("\n", "; ").replace("|", "\\|")
    return f"| {program.row} | `{code}` | {said_by_torch(program)} | {event.born}: {place} {values}".rstrip() + " |"


@pytest.mark.parametrize("row", sorted(FIRST, key=lambda row: row or 0))
def test_the_table_has_the_line_of_each_row(row: int) -> None:
    assert line(FIRST[row]) in PAGE.read_text().splitlines()


def test_the_page_counts_the_silent_rows_correctly() -> None:
    silent = sum(said_by_torch(program) == "-" for program in FIRST.values())
    assert f"stays silent (-) on {silent} of these {len(FIRST)}" in PAGE.read_text()


if __name__ == "__main__":
    for row in sorted(FIRST, key=lambda row: row or 0):
        print(line(FIRST[row]))
