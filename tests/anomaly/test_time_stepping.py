"""Simulations that write their state in place, step after step, and explode."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly.adapters.retrograd.postmortem import further_births, rules
from tests.anomaly.both import line, only_event, run, runs

EXPLICIT = """
import numpy as np
u = torch.tensor([1e300, -3e300, 2e300, 5e300, -1e300], dtype=torch.float64, requires_grad=True).clone()
for _ in range({steps}):
    {step}  # born here
u.sum().backward()
"""
STEPS = {
    "added to a slice": "u[1:-1] += 0.9 * (u[2:] - 2 * u[1:-1] + u[:-2])",
    "written to a slice": "u[1:-1] = u[1:-1] - 18 * u[1:-1] + 4 * u[:-2]",
    "added to the whole": "u += 3 * u",
    "times a number": "u *= 10.0",
    "from copies of slices": "u[1:-1] = 1e8 * u[1:-1].clone() - u[2:]",
}


@runs
@pytest.mark.parametrize("step", STEPS)
def test_the_operands_are_shown_as_they_were_at_the_birth(step: str, steps: bool) -> None:
    """Not what the next steps have written over them."""
    program = EXPLICIT.format(steps=40, step=STEPS[step])
    event = only_event(run("retrograd", program, steps))
    assert (event.kind, event.lineno) == ("overflow", line(program))
    assert event.operands
    assert all(map(np.isfinite, event.operands.values()))
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[event.op]
    with np.errstate(over="ignore"):
        assert np.isinf(ufunc(*event.operands.values()))


def test_a_tensor_squared_in_place_shows_its_former_value() -> None:
    """Backward needs what it was, and would raise after that."""
    end = "\nimport contextlib\nwith contextlib.suppress(RuntimeError):\n    u.sum().backward()"
    program = EXPLICIT.format(steps=1, step="u *= u").replace("\nu.sum().backward()", end)
    event = only_event(run("retrograd", program))
    assert (event.kind, event.operands) == ("overflow", {"input": 1e300, "other": 1e300})


def test_an_operand_filled_later_is_shown_as_it_was_without_a_second_run() -> None:
    program = """
w, x = torch.ones(2, requires_grad=True), torch.tensor([1.0, 0.0])
y = torch.log(x) + w  # born here
x.fill_(5.0)
y.sum().backward()
"""
    event = only_event(run("retrograd", program))
    assert (event.op, event.lineno, event.index, event.operands) == ("log", line(program), (1,), {"input": 0.0})


WIDE = """
u = torch.zeros(400, dtype=torch.float64, requires_grad=True).clone()
u[200] = 1e307
for _ in range({}):
    u[1:-1] += 0.9 * (u[2:] - 2 * u[1:-1] + u[:-2])  # born here
u.sum().backward()
"""


def test_the_first_of_many_births_is_reported() -> None:
    """However long the loop goes on after that."""
    found = [only_event(run("retrograd", WIDE.format(steps))) for steps in (6, 100)]
    assert found[0].index == found[1].index
    assert found[0].operands == found[1].operands


def test_the_search_for_further_births_does_not_grow_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop has few lines, however often it runs on after it has exploded."""
    ran: Counter[str] = Counter()
    original = rules.reaches

    def counting(*args: Any) -> bool:
        ran["reaches"] += 1
        return original(*args)

    monkeypatch.setattr(further_births, "reaches", counting)
    u = rg.tensor([1.0, -3.0, 2.0, 5.0, -1.0], dtype=rg.float64, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        v = u
        for _ in range(60):
            change = np.zeros_like(v)
            change[1:-1] = v[2:] - 2 * v[1:-1] + v[:-2]
            v = v + 1e100 * change
        v.sum().backward()
    assert w.event is not None
    assert 0 < ran["reaches"] < 20


STENCILS = {
    "with copies": "flux = k * (u[2:] - 2 * u[1:-1] + u[:-2]) / 0.01  # born here\n"
    "    v = u.copy()\n    v[1:-1] += flux\n    u = v",
    "in a function": "u = step(u)",
    "padded": "u = u + k * np.pad((u[2:] - 2 * u[1:-1] + u[:-2]) / 0.01, 1)  # born here",
}


@runs
@pytest.mark.parametrize("name", STENCILS)
def test_an_unstable_scheme_is_recognised_by_the_runs_of_its_line(name: str, steps: bool) -> None:
    """Copies and writes in place lie between one step and the next."""
    program = (
        "import numpy as np\n"
        "def step(u):\n    v = u.copy()\n    v[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2]) / 0.01\n    return v\n"
        "k = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)\n"
        "u = torch.tensor(np.exp(-np.linspace(-3, 3, 16) ** 2))\n"
        f"for _ in range(130):\n    {STENCILS[name]}\n"
        "loss = (u**2).sum()\nloss.backward()"
    )
    event = only_event(run("retrograd", program, steps))
    assert "dt > dx**2 / (2 * D)" in (event.cause or ""), event.cause
    assert "look at what went in there" not in (event.cause or "")


def test_the_same_line_in_a_few_layers_is_no_scheme() -> None:
    program = (
        "x = torch.tensor([1e150], dtype=torch.float64, requires_grad=True)\nh = x\n"
        "for _ in range(3):\n    h = (h - 1.0) / 1e-60\nloss = h.sum()\nloss.backward()"
    )
    event = only_event(run("retrograd", program))
    assert (event.op, event.kind) == ("div", "overflow")
    assert "dt > dx**2" not in (event.cause or "")
