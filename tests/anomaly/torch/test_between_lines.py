"""Operations that no noted step has: their line is not known, but between which others they were called."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from retrograd.anomaly import watch
from retrograd.anomaly.adapters.torch.source_locations.instruction_events import InstructionNotes
from tests.anomaly.torch.training import line_of

Births = Callable[[Tensor], Tensor]


@pytest.fixture(autouse=True)
def _notes_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noted as before Python 3.12, where that costs so much that few steps are."""
    monkeypatch.setattr(InstructionNotes, "if_possible", lambda: None)


def straight(x: Tensor, births: Births | None) -> Tensor:
    for _ in range(12):
        x = x * 1.0  # before it
    if births is not None:
        x = births(x)
    for _ in range(12):
        x = x + 1.0  # after it
    return x


def branching(x: Tensor, births: Births | None) -> Tensor:
    for _ in range(12):
        if births is None:  # noqa: SIM108 (branches are what this is about)
            x = x * 1.0
        else:
            x = x * 1.0  # as in the other one
    if births is not None:
        x = births(x)
    for _ in range(12):
        x = x + 1.0
    return x


def at_the_end(x: Tensor, births: Births | None) -> Tensor:
    for _ in range(12):
        x = x * 1.0
    return x if births is None else births(x)


def note_of(function: Callable[[Tensor, Births | None], Tensor], births: Births) -> str:
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    with watch(policy="skip_step", budget=1e-9) as w:
        for step in range(12):
            optimizer.zero_grad()
            function(weight, births if step == 11 else None).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    assert w.event is not None
    assert w.event.lineno is None
    return w.event.note or ""


def in_forward(x: Tensor) -> Tensor:
    return torch.log(x - 2).tanh()


def in_backward(x: Tensor) -> Tensor:
    return torch.sqrt(x - 1).tanh()


@pytest.mark.parametrize("births", [in_forward, in_backward])
def test_the_note_names_the_operations_around_an_unknown_line(births: Births) -> None:
    before, after = line_of("# before it", straight), line_of("# after it", straight)
    said = f"It was called between the operations at {__file__}:{before} and {__file__}:{after}."
    assert said in note_of(straight, births)


@pytest.mark.parametrize("function", [branching, at_the_end])
def test_the_note_names_no_uncertain_operations(
    function: Callable[[Tensor, Births | None], Tensor],
) -> None:
    """The other branch may have called the same; and of the end of a step nothing is like that of another."""
    assert "It was called between" not in note_of(function, in_forward)


def rarely(x: Tensor, births: Births | None) -> Tensor:
    if births is not None:
        return torch.acos(x + 1.0)  # the rare line
    return x * 1.0


def test_the_note_names_the_line_that_no_noted_step_has_run() -> None:
    rare = line_of("# the rare line", rarely)
    assert f"This file has acos at line {rare}, which no recorded step had run." in note_of(rarely, in_forward)


def rarely_twice(x: Tensor, births: Births | None) -> Tensor:
    if births is not None:
        part = torch.asin(0.5 * x[:3])
        part = part + torch.asin(x[:3])
        return part + torch.asin(x + 1.0)  # the line of the sum
    return x * 1.0


def test_the_note_leaves_out_lines_with_another_operand() -> None:
    rare = line_of("# the line of the sum", rarely_twice)
    assert f"This file has asin at line {rare}, which" in note_of(rarely_twice, in_forward)
