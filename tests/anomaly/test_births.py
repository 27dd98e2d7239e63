"""Every row of the catalogue that is about operations, as it stands and in disguise: where, what and why are exact.

What is expected comes from torch, where every operation of the program was looked at. Rows without a program: 23 is no
birth (see test_quiet), 42 is an error (see test_watch), 44 and later ones are about training.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest

import retrograd as rg
from retrograd.anomaly import NaNEvent, diagnose
from retrograd.anomaly.names import canonical
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
    # a number beyond float16 is infinite before it is multiplied
    "y = torch.softmax(x + mask * -1e5, dim=-1)": {"kind": "invalid", "index": (1, 0)},
    "s = x + mask * -1e9\ny = s.softmax(-1)": {"kind": "invalid", "index": (1, 0)},
    "b = (mask - 0.0) * -100000.0\ny = F.softmax(x + b, -1)": {"kind": "invalid", "index": (1, 0)},
    # the operation gives a loss for every sample; their mean is another one
    "y = F.ctc_loss(lp, t, il, tl)": {"index": (0,)},
    "z = torch.nn.functional.ctc_loss(lp, t, il, tl, reduction='sum')\ny = z * 2": {"index": (0,)},
}
FINITE_HERE = ("u, s, vh = torch.linalg.svd(x)\ny = u.sum()",)  # the gradient at equal singular values

BORN = [program for program in PROGRAMS if program.code not in FINITE_HERE]


def first_of_each_row() -> list[Program]:
    found: dict[tuple[int | None, str], Program] = {}
    for program in BORN:
        found.setdefault((program.row, program.setup), program)
    return list(found.values())


@cache
def expected(program: Program) -> NaNEvent:
    """What torch's own operations tell when each of them is looked at."""
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
@pytest.mark.parametrize("program", BORN, ids=str)
def test_as_it_stands(program: Program, steps: bool) -> None:
    text = plain(marked(program.code, expected(program).lineno))
    check(only_event(program, text, steps), program, marked_line(text))


@routes
@pytest.mark.parametrize("disguise", [name for name in DISGUISES if name != "plain"])
@pytest.mark.parametrize("program", first_of_each_row(), ids=str)
def test_in_disguise(program: Program, disguise: str, steps: bool) -> None:
    text = DISGUISES[disguise](marked(program.code, expected(program).lineno))
    check(only_event(program, text, steps), program, marked_line(text))


@routes
@pytest.mark.parametrize("program", first_of_each_row(), ids=str)
def test_the_layer_has_its_name(program: Program, steps: bool) -> None:
    event = only_event(program, in_modules(program.code), steps)
    # backward comes to the last block first
    assert (event.layer_name, event.module_type) == ("blocks.2" if event.is_backward else "blocks.0", "Inner")


@pytest.mark.parametrize("program", BORN, ids=str)
def test_the_remedy_mends_it(program: Program) -> None:
    event = only_event(program, plain(program.code), False)
    assert event.remedy is not None
    remedy = event.remedy.replace("rg.", "torch.")
    assert watched(program.setup, plain(mended(program, event.remedy_lineno, remedy)), steps=False) == ()


def test_rows_without_a_program() -> None:
    rows = {program.row for program in PROGRAMS}
    assert {row for row in range(1, 45) if row not in rows} == {23, 42, 44}


@pytest.mark.parametrize("code", FINITE_HERE)
def test_what_is_finite_here(code: str) -> None:
    (program,) = (each for each in PROGRAMS if each.code == code)
    assert watched(program.setup, plain(program.code), steps=False) == ()


def test_the_infinities_behind_an_opposed_sum_are_named() -> None:
    """Row 44 is mended where its infinities are born."""
    text = "y = torch.sqrt(x)  # born here\nloss = (y - torch.sqrt(x * 1)).sum()"
    (event,) = watched("x = torch.tensor([0.0, 1.0], requires_grad=True)", text, steps=False)
    assert canonical(event.op) == "sqrt"
    assert diagnose(event).number == 10
