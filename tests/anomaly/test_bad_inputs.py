"""Bad numbers from outside (data, gradients given to backward, leaves) are distinguished from births in operations."""

from __future__ import annotations

import pytest

from tests.anomaly.both import libraries, line, only_event, run, runs
from tests.anomaly.disguises import HERE

TAKEN_OUT = f"""
w = torch.tensor([1.0, 2.0], requires_grad=True)
data = torch.tensor([float("nan"), 1.0])
kept = (w * data)[1:]
loss = torch.log(kept - 5).sum()  {HERE}
loss.backward()
"""

COMPUTED_WITHOUT_GRADIENT = """
w = torch.tensor([1.0, 2.0], requires_grad=True)
data = torch.tensor([float("nan"), 1.0])
scaled = data * 2
loss = torch.where(torch.tensor([False, True]), w * scaled, torch.tensor(0.0)).sum()
loss.backward()
"""

BORN_WITHOUT_GRADIENT = f"""
w = torch.tensor([1.0, 2.0], requires_grad=True)
logs = torch.log(torch.tensor([-1.0, 1.0]))  {HERE}
scaled = logs * 2
loss = torch.where(torch.tensor([False, True]), w * scaled, torch.tensor(0.0)).sum()
loss.backward()
"""

INFINITE = f"""
w = torch.tensor([0.0, 2.0], requires_grad=True)
data = torch.tensor([float("inf"), 1.0])
loss = (w * data).sum()  {HERE}
loss.backward()
"""

GIVEN_TO_BACKWARD = f"""
w = torch.tensor([1.0, 2.0], requires_grad=True)
(w * 2).backward(torch.tensor([float("nan"), 1.0]))  {HERE}
"""

OF_NO_NAME = f"""
def step():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    return torch.sqrt(x).sum()  {HERE}
"""


@libraries
@runs
def test_a_nan_that_an_index_left_out_is_not_blamed(library: str, steps: bool) -> None:
    event = only_event(run(library, TAKEN_OUT, steps))
    assert (event.op, event.lineno, event.operands) == ("log", line(TAKEN_OUT), {"input": -3.0})


@libraries
@runs
def test_bad_data_behind_an_operand_without_a_gradient_is_named(library: str, steps: bool) -> None:
    event = only_event(run(library, COMPUTED_WITHOUT_GRADIENT, steps))
    assert (event.kind, event.harmed, event.index) == ("leaf", "the gradient of w", (0,))
    assert list(event.operands) == ["data" if steps else "scaled"]


@pytest.mark.parametrize(("library", "steps"), [("retrograd", False), ("retrograd", True), ("torch", True)])
def test_a_birth_behind_an_operand_without_a_gradient_is_named(library: str, steps: bool) -> None:
    event = only_event(run(library, BORN_WITHOUT_GRADIENT, steps))
    assert (event.op, event.lineno, event.index) == ("log", line(BORN_WITHOUT_GRADIENT), (0,))


@libraries
@runs
def test_infinite_data_times_zero_is_reported_as_bad_data(library: str, steps: bool) -> None:
    event = only_event(run(library, INFINITE, steps))
    assert (event.kind, event.lineno, list(event.operands)) == ("leaf", line(INFINITE), ["data"])


@libraries
@runs
def test_a_bad_gradient_given_to_backward_is_reported_at_its_line(library: str, steps: bool) -> None:
    event = only_event(run(library, GIVEN_TO_BACKWARD, steps))
    assert (event.lineno, event.index, event.harmed) == (line(GIVEN_TO_BACKWARD), (0,), "the gradient of w")
    assert event.kind == ("leaf" if library == "retrograd" or steps else "invalid")


@libraries
@runs
def test_a_leaf_without_a_variable_is_named_by_its_shape(library: str, steps: bool) -> None:
    event = only_event(run(library, OF_NO_NAME, steps, function=True))
    assert (event.op, event.lineno) == ("SqrtBackward0", line(OF_NO_NAME))
    assert event.harmed == "the gradient of a leaf of shape [2]"
