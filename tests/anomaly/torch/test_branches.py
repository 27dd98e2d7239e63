"""Two branches of a loop that compute the same operations: which one it was is not known where no line was noted."""

from __future__ import annotations

import pytest
import torch

from retrograd.anomaly import watch
from retrograd.anomaly.adapters.program.branches import same_in_other_branches
from retrograd.anomaly.adapters.torch.source_locations.instruction_events import InstructionNotes


def positive(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def trained(steps: int, bad: int, other: bool) -> list[str | None]:
    """The notes of the events of a loop whose step ``bad`` goes wrong, in the ``other`` branch or in the usual one."""
    weight = torch.ones(3, requires_grad=True)
    with watch(policy="record", budget=1e-9) as w:
        for step in range(steps):
            x = torch.full((3,), 0.0 if step == bad else 1.0)
            if other and step == bad:
                loss = torch.log(positive(x * weight)).sum()
            else:
                loss = torch.log(positive(x * weight)).sum()
            loss.backward()
            weight.grad = None
    assert [event.op for event in w.events] == ["log"]
    return [event.note for event in w.events]


@pytest.mark.parametrize("other", [False, True])
def test_the_note_says_if_another_branch_is_possible(monkeypatch: pytest.MonkeyPatch, other: bool) -> None:
    monkeypatch.setattr(InstructionNotes, "if_possible", staticmethod(lambda: None))
    (note,) = trained(12, 11, other)
    assert note is not None
    assert "if this step took another branch, it happened at line" in note


def test_a_noted_step_has_a_certain_line() -> None:
    (note,) = trained(1, 0, False)
    assert not note


def branching(x: float) -> list[int]:
    code = branching.__code__
    first = code.co_firstlineno
    if x:
        y = min(x, 1.0)
    elif x == 2:
        y = x * x
    else:
        y = min(x, 2.0)
    at = next(start for start, _, line in code.co_lines() if line == first + 4)
    assert y is not None
    return [line - first for line in same_in_other_branches(code, at, "min")]


def test_branching_lists_the_other_branch_of_a_line() -> None:
    assert branching(1.0) == [8]
