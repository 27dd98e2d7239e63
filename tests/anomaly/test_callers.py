"""Functions that are called in several places: which of the calls it was."""

from __future__ import annotations

import pytest

from retrograd.anomaly import NaNEvent
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, only_event, run

pytestmark = [libraries]

HELPER = """\
def entropy(p):
    return -(p * p.log()).sum()
"""


def called(event: NaNEvent) -> list[str]:
    """The callers' lines of code, the innermost first."""
    return [each["code_line"] for each in event.callers]


def rows(event: NaNEvent) -> list[str]:
    """Return the rows of the report that show the callers."""
    lines = format_event(event, width=100).splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("called")), None)
    if first is None:
        return []
    found = [lines[first]]
    for line in lines[first + 1 :]:
        if not line.startswith("   "):
            break
        found.append(line)
    return [line.removeprefix("called").partition("  ")[2].strip().partition("  ")[2] for line in found]


def test_the_call_with_the_zero_is_named_among_several(library: str) -> None:
    text = HELPER + (
        "a = torch.tensor([0.5, 0.5], requires_grad=True)\n"
        "b = torch.tensor([1.0, 0.0], requires_grad=True)\n"
        "loss = entropy(a)\n"
        "loss = loss + entropy(b)\n"
        "loss.backward()"
    )
    event = only_event(run(library, text, True))
    assert (event.op, event.lineno) == ("log", 2)
    assert called(event) == ["loss = loss + entropy(b)"]
    assert rows(event) == ["loss = loss + entropy(b)"]
    assert NaNEvent.from_json(event.to_json()) == event


def test_the_guilty_call_of_several_in_a_line_is_shown(library: str) -> None:
    text = HELPER + (
        "a = torch.tensor([0.5, 0.5], requires_grad=True)\n"
        "b = torch.tensor([1.0, 0.0], requires_grad=True)\n"
        "(entropy(a) + entropy(b)).backward()"
    )
    event = only_event(run(library, text, True))
    assert called(event) == ["(entropy(a) + entropy(b)).backward()"]
    assert rows(event) == ["... entropy(b)"]


def test_a_birth_in_backward_has_its_callers(library: str) -> None:
    text = (
        "def length(v):\n    return (v ** 2).sum().sqrt()\n"
        "def penalty(v):\n    return length(v) * 2\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "loss = penalty(x)\n"
        "loss = loss + penalty(x - x)\n"
        "loss.backward()"
    )
    event = only_event(run(library, text, True))
    assert (event.is_backward, event.lineno) == (True, 2)
    assert called(event) == ["return length(v) * 2", "loss = loss + penalty(x - x)"]


def test_the_callers_end_at_the_function_that_runs_backward(library: str) -> None:
    text = HELPER + (
        "def step(p):\n"
        "    loss = entropy(p)\n"
        "    loss.backward()\n"
        "def main():\n"
        "    step(torch.tensor([1.0, 0.0], requires_grad=True))\n"
        "main()"
    )
    assert called(only_event(run(library, text, True))) == ["loss = entropy(p)"]


def test_the_caller_of_the_function_that_runs_backward_is_not_shown(library: str) -> None:
    text = (
        "def step(p):\n"
        "    loss = p.log().sum()\n"
        "    loss.backward()\n"
        "step(torch.tensor([1.0, 0.0], requires_grad=True))"
    )
    event = only_event(run(library, text, True))
    assert event.callers == ()
    assert rows(event) == []


def test_the_callers_end_at_the_forward_of_a_module(library: str) -> None:
    text = HELPER + (
        "class Gate(nn.Module):\n"
        "    def forward(self, p):\n"
        "        first = entropy(p + 1)\n"
        "        return first + entropy(p)\n"
        "gate = Gate()\n"
        "def step(p):\n"
        "    return gate(p)\n"
        "step(torch.tensor([1.0, 0.0], requires_grad=True)).backward()"
    )
    event = only_event(run(library, text, True))
    assert called(event) == ["return first + entropy(p)"]
    assert event.module_type == "Gate"


def test_a_comprehension_is_no_caller(library: str) -> None:
    text = HELPER + (
        "def step(p):\n"
        "    parts = [(lambda q: entropy(q))(each) for each in p]\n"
        "    return sum(parts)\n"
        "p = torch.tensor([[0.5, 0.5], [1.0, 0.0]], requires_grad=True)\n"
        "loss = step(p)\n"
        "loss.backward()"
    )
    lines = called(only_event(run(library, text, True)))
    assert lines == ["parts = [(lambda q: entropy(q))(each) for each in p]", "loss = step(p)"]


@pytest.mark.parametrize("depth", [2, 40])
def test_the_calls_of_a_recursion_are_shown_once(library: str, depth: int) -> None:
    text = (
        "def fall(p, depth):\n"
        "    if depth == 0:\n"
        "        return p.log().sum()\n"
        "    return fall(p, depth - 1)\n"
        f"loss = fall(torch.tensor([1.0, 0.0], requires_grad=True), {depth})\n"
        "loss.backward()"
    )
    lines = called(only_event(run(library, text, True)))
    assert lines[0] == "return fall(p, depth - 1)"
    assert len(lines) <= 2


def test_the_error_message_has_the_innermost_caller(library: str) -> None:
    text = HELPER + ("p = torch.tensor([1.0, 0.0], requires_grad=True)\nloss = entropy(p)\nloss.backward()")
    with pytest.raises(RuntimeError, match=r"called from <program .*>:4\n    loss = entropy\(p\)"):
        run(library, text, True, policy="raise")


def test_no_second_run_is_needed_for_a_birth_in_forward(library: str) -> None:
    text = HELPER + "p = torch.tensor([1.0, 0.0], requires_grad=True)\nloss = entropy(p)\nloss.backward()"
    assert called(only_event(run(library, text, False))) == ["loss = entropy(p)"]


@pytest.mark.parametrize("first", ["a", "b"])
def test_the_caller_is_known_in_a_step_between_noted_ones(library: str, first: str) -> None:
    second = "b" if first == "a" else "a"
    text = HELPER + (
        "a = torch.tensor([0.5, 0.5], requires_grad=True)\n"
        "b = torch.tensor([0.5, 0.5], requires_grad=True)\n"
        "for step in range(40):\n"
        "    if step == 39:\n"
        "        with torch.no_grad():\n"
        "            b[0] = 0\n"
        f"    loss = entropy({first})\n"
        f"    loss = loss + entropy({second})\n"
        "    loss.backward()"
    )
    (line,) = called(only_event(run(library, text, False)))
    assert "entropy(b)" in line


def test_the_wrapper_of_a_decorated_function_is_a_caller(library: str) -> None:
    text = (
        "def logged(f):\n    def inner(*args):\n        return f(*args)\n    return inner\n@logged\n"
        + HELPER
        + "p = torch.tensor([1.0, 0.0], requires_grad=True)\nloss = entropy(p)\nloss.backward()"
    )
    assert called(only_event(run(library, text, True))) == ["return f(*args)", "loss = entropy(p)"]


def test_without_callers_the_report_names_the_operations_that_used_the_result(library: str) -> None:
    text = (
        "def length(v):\n    return (v ** 2).sum().sqrt()\n"
        "def penalty(v):\n    return 2 * length(v)\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "loss = penalty(x)\n"
        "loss = loss + penalty(x - x)\n"
        "loss.backward()"
    )
    event = only_event(run(library, text, False))
    shown = format_event(event, width=100)
    if library == "torch":
        assert called(event) == ["return 2 * length(v)", "loss = loss + penalty(x - x)"]
        assert "used by" not in shown
    else:
        assert (
            "used by   mul, line 4  return 2 * length(v)\nused by   add, line 7  loss = loss + penalty(x - x)" in shown
        )


def test_the_next_layer_is_not_shown_as_a_user_of_the_result(library: str) -> None:
    text = (
        "class Length(nn.Module):\n    def forward(self, v):\n        return (v ** 2).sum().sqrt()\n"
        "x = torch.zeros(3, requires_grad=True)\n"
        "loss = Length()(x) * 2\n"
        "loss.backward()"
    )
    event = only_event(run(library, text, False))
    assert event.is_backward
    assert "used by" not in format_event(event)


def test_a_long_line_takes_one_row(library: str) -> None:
    text = HELPER + (
        "p = torch.tensor([1.0, 0.0], requires_grad=True)\n"
        "a_loss_with_a_long_name = entropy(torch.stack([p, p]).reshape(-1)[:2] * torch.ones(2)) + 0 * p.sum() + 1\n"
        "a_loss_with_a_long_name.backward()"
    )
    event = only_event(run(library, text, False))
    (row,) = (each for each in format_event(event, width=60).splitlines() if each.startswith("called"))
    assert row.startswith("called    line 4  a_loss_with_a_long_name = entropy(torch.")
    assert row.endswith("...")
    assert len(row) <= 60
