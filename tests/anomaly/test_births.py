"""Every row of the catalogue that is about operations, as it stands and in disguise: where, what and why are exact.

The expected event comes from torch, with a check of every operation of the program. Rows without a program: 23 is no
birth (see test_quiet), 42 is an error (see test_watch_errors), 44 is about a sum (see below), later ones concern
training.
"""

from __future__ import annotations

import ast
import re

import pytest

import retrograd as rg
from retrograd.anomaly import NaNEvent, diagnose
from retrograd.anomaly.operation_names import canonical
from tests.anomaly import tracing
from tests.anomaly.disguises import DISGUISES, in_modules, marked, marked_line, plain, watched
from tests.anomaly.programs import PROGRAMS, Program
from tests.anomaly.test_catalogue_programs import mended

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

NOT_HERE = ("ctc_loss", "cross_entropy", "nll_loss", "mse_loss")  # of nn.functional, as long as it has them not

# torch divides a number by a tensor by way of its reciprocal
SAME = {("rdiv", "div"), ("reciprocal", "div")}

# where retrograd computes something else than torch, the event says what it computed
DIFFERENT = {
    "y = x**-1.0": {"kind": "divide"},
    # the operation gives a loss for every sample; their mean is another one
    "y = F.ctc_loss(lp, t, il, tl)": {"index": (0,)},
    "z = torch.nn.functional.ctc_loss(lp, t, il, tl, reduction='sum')\ny = z * 2": {"index": (0,)},
}


def first_of_each_row() -> list[Program]:
    found: dict[tuple[int | None, str], Program] = {}
    for program in PROGRAMS:
        found.setdefault((program.row, program.setup), program)
    return list(found.values())


def expected(program: Program) -> NaNEvent:
    """Return the event that torch gives if every operation is checked."""
    return tracing.run(program.code, program.setup)


def check(event: NaNEvent, program: Program, lineno: int | None) -> None:
    told = expected(program)
    different = DIFFERENT.get(program.code, {})
    ops = canonical(told.op), canonical(event.op)
    assert ops[0] == ops[1] or ops in SAME, ops
    assert event.lineno == lineno
    assert (event.index, event.kind) == (different.get("index", told.index), different.get("kind", told.kind))
    assert event.is_backward == told.is_backward
    found = diagnose(event)
    assert found.number == program.row
    assert found.remedy is not None
    ast.parse(found.remedy)
    assert (event.cause, event.remedy, event.remedy_lineno) == (found.cause, found.remedy, found.lineno)


def only_event(program: Program, text: str, steps: bool) -> NaNEvent:
    missing = [name for name in NOT_HERE if name in text and not hasattr(rg.nn.functional, name)]
    if missing:
        pytest.skip(f"retrograd.nn.functional has no {missing[0]} yet")
    (event,) = watched(program.setup, text, steps=steps)
    return event


routes = pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])


@routes
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_as_it_stands_is_reported_exactly(program: Program, steps: bool) -> None:
    text = plain(marked(program.code, expected(program).lineno))
    check(only_event(program, text, steps), program, marked_line(text))


@routes
@pytest.mark.parametrize("disguise", [name for name in DISGUISES if name != "plain"])
@pytest.mark.parametrize("program", first_of_each_row(), ids=str)
def test_a_disguised_program_is_reported_exactly(program: Program, disguise: str, steps: bool) -> None:
    text = DISGUISES[disguise](marked(program.code, expected(program).lineno))
    check(only_event(program, text, steps), program, marked_line(text))


@routes
@pytest.mark.parametrize("program", first_of_each_row(), ids=str)
def test_the_event_names_the_layer(program: Program, steps: bool) -> None:
    event = only_event(program, in_modules(program.code), steps)
    # backward comes to the last block first
    assert (event.layer_name, event.module_type) == ("blocks.2" if event.is_backward else "blocks.0", "Inner")


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_the_remedy_mends_the_program(program: Program) -> None:
    event = only_event(program, plain(program.code), False)
    assert event.remedy is not None
    remedy = event.remedy.replace("rg.", "torch.")
    assert watched(program.setup, plain(mended(program, event.remedy_lineno, remedy)), steps=False) == ()


def test_only_three_rows_have_no_program() -> None:
    rows = {program.row for program in PROGRAMS}
    assert {row for row in range(1, 45) if row not in rows} == {23, 42, 44}


SUMS = {
    "in a leaf": "a = torch.sqrt(x)\nb = torch.sqrt(x * 2)\nloss = (a - b).sum()",
    "on the way": "h = x * 1\na = torch.sqrt(h)\nb = torch.sqrt(h * 2)\nloss = (a - b).sum()",
}


@routes
@pytest.mark.parametrize("where", SUMS)
def test_the_infinities_behind_an_opposed_sum_are_named(where: str, steps: bool) -> None:
    """Row 44 is mended where its infinities are born."""
    text = SUMS[where]
    lines = text.splitlines()
    first, second = (next(k for k, line in enumerate(lines, 1) if line.startswith(name)) for name in "ab")
    (event,) = watched("x = torch.tensor([1.0, 0.0], requires_grad=True)", text, steps=steps)
    assert (event.op, event.kind, event.index, event.is_backward) == ("AccumulateGrad", "invalid", (1,), True)
    assert event.operands == {"grad": -float("inf"), "other": float("inf")}
    found = diagnose(event)
    assert (found.number, found.lineno) == (44, second)
    assert f"sqrt (line {second}) and sqrt (line {first})" in found.cause
    assert found.remedy == f"b = torch.sqrt({'h' if where == 'on the way' else 'x'} * 2 + 1e-12)"


def train(learning_rate: float) -> NaNEvent:
    """A regression that runs away."""
    rg.manual_seed(0)
    model = rg.nn.Linear(4, 1)
    x = rg.randn(8, 4)
    optimizer = rg.optim.SGD(model.parameters(), lr=learning_rate)
    watch = rg.anomaly.watch(model, optimizer, policy="skip_step")
    with watch:
        while not watch.triggered:
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert watch.event is not None
    return watch.event


def losses(learning_rate: float) -> tuple[float, float]:
    """The first and the last of that regression."""
    rg.manual_seed(0)
    model = rg.nn.Linear(4, 1)
    x = rg.randn(8, 4)
    optimizer = rg.optim.SGD(model.parameters(), lr=learning_rate)
    found = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found[0], found[-1]


@pytest.mark.parametrize("learning_rate", [3.0, 100.0])
def test_a_learning_rate_that_is_too_high_is_recognised(learning_rate: float) -> None:
    """Row 47."""
    event = train(learning_rate)
    assert diagnose(event).number == 47
    smaller = re.search(r"lr=([\d.]+)\)", event.remedy or "")
    assert smaller is not None
    first, last = losses(float(smaller[1]))
    assert last < first
