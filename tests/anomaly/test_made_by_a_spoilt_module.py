"""Data that a module has made without a gradient, one of whose weights is not finite: the weight is named."""

from __future__ import annotations

import pytest

from retrograd.anomaly.messages import outcome_of
from tests.anomaly.both import libraries, line, only_event, run

AVERAGED = """
import copy
student = nn.Linear(2, 2)
teacher = copy.deepcopy(student)
for decay in (0.5, float("inf"), 0.5):
    x = torch.ones(3, 2)
    with torch.no_grad():
        target = teacher(x).softmax(-1)
    if w.events:
        break
    F.mse_loss(student(x), target).backward()
    with torch.no_grad():
        for p, q in zip(teacher.parameters(), student.parameters()):
            p.mul_(decay).add_(q, alpha=1 - decay)  # born here
"""


def test_the_line_that_spoilt_the_module_is_named() -> None:
    event = only_event(run("retrograd", AVERAGED))
    assert (event.op, event.lineno, event.step) == ("add", line(AVERAGED), 3)
    assert "written to teacher.weight" in (event.note or "")
    assert outcome_of("nan", event, "raise").endswith(", but teacher.weight is not clean")


def test_an_unknown_origin_of_a_bad_weight_gets_a_command() -> None:
    event = only_event(run("torch", AVERAGED))
    assert (event.kind, event.step) == ("leaf", 3)
    assert "in teacher.weight and 1 more" in (event.cause or "")
    assert event.rerun == "watch(..., from_step=2)"
    assert event.remedy is None


@libraries
@pytest.mark.parametrize("statement", ["target = teacher(x)", "h = teacher(x)\n    target = 2 * h"])
def test_a_bad_weight_that_was_loaded_is_named(library: str, statement: str) -> None:
    """No birth was seen at all."""
    program = f"""
student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
teacher.load_state_dict({{"weight": torch.tensor([[1.0, float("nan")], [0.0, 1.0]]), "bias": torch.zeros(2)}})
x = torch.ones(3, 2)
with torch.no_grad():
    {statement}
F.mse_loss(student(x), target).backward()
"""
    event = only_event(run(library, program))
    assert event.kind == "leaf"
    assert "in teacher.weight:" in (event.cause or "")
    assert event.remedy is None


@libraries
def test_a_module_with_good_weights_is_not_named(library: str) -> None:
    program = """
student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
x = torch.tensor([[1.0, float("nan")], [0.0, 1.0]])
with torch.no_grad():
    target = teacher(x)
F.mse_loss(student(torch.ones(2, 2)), target).backward()
"""
    event = only_event(run(library, program))
    assert event.kind == "leaf"
    assert "teacher.weight" not in (event.cause or "")
