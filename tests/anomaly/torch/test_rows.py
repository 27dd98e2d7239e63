"""Every row of the catalogue in torch, plain and disguised: operation, line, element and row exact."""

from __future__ import annotations

import ast

import pytest

from retrograd.anomaly.catalogue import diagnose
from retrograd.anomaly.operation_names import canonical
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


def expected(program: Program) -> tuple[str, int | None, tuple[int, ...] | None]:
    event = run(program.code, program.setup, dispatch=True)
    return FORWARD.get(program.code, canonical(event.op)), event.lineno, event.index


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_operation_line_element_and_row_are_exact(program: Program, disguise: str) -> None:
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
def test_a_mask_is_not_blamed_for_a_masked_row(program: Program) -> None:
    event = watched(program)
    assert event.op in ("softmax", "sub")
    assert event.index == (0, 0)
    assert event.born == "NaN"


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_operation_line_and_element_are_exact_without_a_second_run(program: Program) -> None:
    """The live graph tells operation, line and element; of a birth in backward, what was remembered of it does."""
    event = watched(program, again=False)
    assert event.op != "unknown"
    if program.row in (*MASKED, 20, 29, 40) or "mse_loss" in program.code:  # constants that no node keeps
        return
    op, lineno, index = expected(program)
    assert (canonical(event.op), event.lineno, event.index) == (op, lineno, index), str(event)
