"""Births in operations that write to a part of a tensor, of whose nodes torch shows nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd as rg
from tests.anomaly.both import line, mended, only_event, run, runs
from tests.anomaly.disguises import HERE

# The write to y, a matrix of two columns that are x = [0, 1, 2]; what is told: the node, the element, the operands.
WRITES: dict[str, tuple[str, str, Any, dict[str, float]]] = {
    "method": ("y[:2].sqrt_()", "SqrtBackward0", (0, 0), {"input": 0.0}),
    "function": ("torch.sqrt_(y[:, 1])", "SqrtBackward0", (0,), {"input": 0.0}),
    "exponent": ("y[0].pow_(0.5)", "PowBackward0", (0,), {"input": 0.0, "exponent": 0.5}),
    "copied before": ("y[:2, 0].log_()", "LogBackward0", (0,), {"input": 0.0}),
    "reshaped": ("y.view(-1).sqrt_()", "SqrtBackward0", (0,), {"input": 0.0}),
    "transposed": ("y.t()[1].acos_()", "AcosBackward0", (1,), {"input": 1.0}),
    "another operand": ("y[:, 0].div_(x)", "DivBackward0", (0,), {"input": 0.0, "other": 0.0}),
    "augmented": ("y[:, 1] /= x", "DivBackward0", (0,), {"input": 0.0, "other": 0.0}),
    "a part of a part": ("y[1:][:, 0].sub_(1.0).sqrt_()", "SqrtBackward0", (0,), {"input": 0.0}),
}


@runs
@pytest.mark.parametrize("write", WRITES)
def test_a_birth_in_the_gradient_of_a_write_is_located(steps: bool, write: str) -> None:
    text, op, index, operands = WRITES[write]
    program = f"""
x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
y = torch.stack([x, x], 1)
{text}  {HERE}
torch.where(x[:, None] > 5, y, 0.0).sum().backward()
"""
    event = only_event(run("torch", program, steps))
    where = (event.op, event.lineno)
    assert where == (op, line(program))
    if write == "a part of a part" and not steps:  # of which the line tells only the end
        assert event.index == (1, 0)
        return
    assert (event.index, event.operands, event.is_backward) == (index, operands, True)
    if write != "transposed":  # the remedy moves the angle by so little that float32 rounds it away
        assert not run("torch", mended(program, event), steps).events, event.remedy


@runs
@pytest.mark.parametrize(
    ("write", "op", "index", "operands"),
    [
        ("y[:, 0].div_(z)", "div", (0,), {"input": 0.0, "other": 0.0}),
        ("y[1:].log_()", "log", (0, 1), {"input": -1.0}),
        ("y[:, 1] /= z", "div", (0,), {"input": -0.0, "other": 0.0}),
    ],
)
def test_a_birth_in_a_write_to_a_part_is_located(
    steps: bool, write: str, op: str, index: Any, operands: dict[str, float]
) -> None:
    program = f"""
x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
y, z = torch.stack([x, -x], 1), x * x
{write}  {HERE}
(y * 2).sum().backward()
"""
    event = only_event(run("torch", program, steps))
    assert (event.op, event.lineno, event.index, event.operands) == (op, line(program), index, operands)
    assert event.cause is not None
    assert "catalogue" not in event.cause


@runs
def test_a_birth_in_a_loop_over_parts_is_located(steps: bool) -> None:
    """The variables of the line have moved on by the time that anybody asks; torch's graph tells the whole only."""
    program = f"""
x = torch.tensor([1.0, 0.0, 2.0], requires_grad=True)
y = x * 1
for i in range(3):
    part = y[i]
    part.pow_(0.5)  {HERE}
y.sum().backward()
"""
    event = only_event(run("torch", program, steps))
    assert (event.op, event.lineno) == ("PowBackward0", line(program))
    assert event.index == (() if steps else (1,))


def test_a_gradient_of_the_other_part_is_not_blamed_on_the_write() -> None:
    """The part is finite, the bad gradient comes to another one, and from before."""
    program = f"""
x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
y = x * 1
y[1:].sqrt_()
y.sqrt().sum().backward()  {HERE}
"""
    event = only_event(run("torch", program, steps=True))
    assert (event.op, event.lineno, event.index) == ("SqrtBackward0", line(program), (0,))


def test_a_tensor_written_in_place_keeps_its_own_node() -> None:
    """The overwritten tensor is copied before, by an operation with a node of its own."""
    program = f"""
x = torch.tensor([0.0, 1.0], requires_grad=True)
y = x * 1
y.pow_(0.5)  {HERE}
y.sum().backward()
"""
    event = only_event(run("torch", program, steps=True))
    operation = event.surroundings.operation if event.surroundings else None
    assert operation is not None
    assert "pow" in operation.op
    assert (event.operands, event.lineno) == ({"input": 0.0, "exponent": 0.5}, line(program))


def test_random_numbers_are_not_drawn_for_an_explanation() -> None:
    x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    drawn = []
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            torch.manual_seed(0)
            y = x * 1
            y[1:].uniform_()
            y.sqrt().sum().backward()
            drawn.append(torch.rand(()).item())
    assert w.event is not None
    assert w.event.op == "SqrtBackward0"
    assert drawn[0] == drawn[1]
