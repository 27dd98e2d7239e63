"""Every row of the catalogue in torch, plain and disguised: operation, line, element and row exact."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from retrograd.anomaly.catalogue import diagnose
from retrograd.anomaly.names import canonical
from tests.anomaly.programs import PROGRAMS, Program
from tests.anomaly.torch.running import DISGUISES, OFFSET, watched
from tests.anomaly.tracing import run

pytestmark = [
    pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning"),
]

# The independent tracer of the tests calls a mask the birth; the watch names the operation that made a NaN of it. It
# also blames the backward of a function whose result was infinite before; the watch names the forward operation.
MASKED = (19,)
FORWARD = {"y = torch.where(x == 0, 0.0, 1 / x)": "reciprocal"}

PAGE = Path(__file__).parents[3] / "docs" / "pytorch.md"
TABLE = re.findall(r"^\| (\d+) \| `(.*)` \| (\S+) \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)


def expected(program: Program) -> tuple[str, int | None, tuple[int, ...] | None]:
    event = run(program.code, program.setup, dispatch=True)
    return FORWARD.get(program.code, canonical(event.op)), event.lineno, event.index


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_birth(program: Program, disguise: str) -> None:
    event = watched(program, disguise)
    assert event.reproducible
    found = diagnose(event)
    assert found.number == program.row, f"{event}: {found}"
    assert found.remedy is not None
    ast.parse(found.remedy)
    if program.row not in MASKED:
        op, lineno, index = expected(program)
        assert (canonical(event.op), event.lineno) == (op, (lineno or 1) + OFFSET.get(disguise, 0)), str(event)
        assert event.index == index


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.row in MASKED], ids=str)
def test_a_mask_is_not_the_birth(program: Program) -> None:
    event = watched(program)
    assert event.op in ("softmax", "sub")
    assert event.index == (0, 0)
    assert event.born == "NaN"


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_no_second_run_is_needed(program: Program) -> None:
    """The live graph tells operation, line and element; of a birth in backward, what was remembered of it does."""
    event = watched(program, again=False)
    assert event.op != "unknown"
    if program.row in (*MASKED, 20, 29, 40) or "mse_loss" in program.code:  # constants that no node keeps
        return
    op, lineno, index = expected(program)
    assert (canonical(event.op), event.lineno, event.index) == (op, lineno, index), str(event)


@pytest.mark.parametrize(("row", "code", "named_by_torch", "named_here"), TABLE, ids=[row for row, *_ in TABLE])
def test_the_table_of_the_page(row: str, code: str, named_by_torch: str, named_here: str) -> None:
    program = next(each for each in PROGRAMS if each.row == int(row))
    assert program.code.replace("\n", "; ") == code
    event = watched(program)
    operands = ", ".join(f"{name}={value:g}" for name, value in event.operands.items())
    assert f"{event.born}: {event.op} {list(event.index or ())} {operands}".strip() == named_here
    assert named_by_anomaly_mode(program) == named_by_torch


def named_by_anomaly_mode(program: Program) -> str:
    namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(program.setup, namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode is on, and where the operation was called
        return _node_that_raises(program.code, namespace)


def _node_that_raises(code: str, namespace: dict[str, Any]) -> str:
    with torch.autograd.detect_anomaly():
        exec(code, namespace)
        try:
            namespace["y"].sum().backward()
        except RuntimeError as error:
            return str(error).split("'")[1]
    return "-"


def test_what_the_page_says_of_its_table() -> None:
    silent = sum(named_by_torch == "-" for _, _, named_by_torch, _ in TABLE)
    assert f"stays silent (-) on {silent} of these {len(TABLE)}" in PAGE.read_text()
    assert {int(row) for row, *_ in TABLE} == {each.row for each in PROGRAMS if each.row is not None}
