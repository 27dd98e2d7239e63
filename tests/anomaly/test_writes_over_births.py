"""A birth that the program has overwritten, under a mask or at indices, has not reached the loss."""

from __future__ import annotations

import pytest

from tests.anomaly.both import libraries, line, mended, only_event, run, runs
from tests.anomaly.disguises import HERE

MASK = "torch.tensor([True, False, False, False])"

# what removes the first element, or writes only there
REMOVALS = {
    "mask": f"y[{MASK}] = 0",
    "indices": "y[torch.tensor([0])] = 0",
    "index_put": f"y = y.index_put(({MASK},), torch.zeros(()))",
    "masked_fill": f"y = y.masked_fill({MASK}, 0.0)",
    "masked_fill_": f"y.masked_fill_({MASK}, 0)",
    "where": f"y = torch.where({MASK}, 0.0, y)",
}


@libraries
@runs
@pytest.mark.parametrize("between", ["", "y = y * 1.0\n"], ids=["at once", "later"])
@pytest.mark.parametrize("removal", REMOVALS)
def test_the_nan_that_was_not_overwritten_is_named(library: str, steps: bool, between: str, removal: str) -> None:
    program = f"""
x = torch.tensor([-1.0, 2.0, -3.0, 4.0], requires_grad=True)
y = torch.log(x)  {HERE}
{between}{REMOVALS[removal]}
y.sum().backward()
"""
    event = only_event(run(library, program, steps))
    assert (event.lineno, event.index, event.operands) == (line(program), (2,), {"input": -3.0})


@libraries
@runs
def test_the_infinity_that_was_not_overwritten_is_named(library: str, steps: bool) -> None:
    program = f"""
x = torch.tensor([-1.0, 2.0, 0.0, 4.0], requires_grad=True)
y = torch.log(x)  {HERE}
y[torch.isnan(y)] = 0
y.sum().backward()
"""
    event = only_event(run(library, program, steps))
    assert (event.lineno, event.kind, event.index, event.operands) == (line(program), "divide", (2,), {"input": 0.0})


@libraries
@runs
@pytest.mark.parametrize("write", ["y[torch.isnan(y)] = 0", "y.masked_fill_(torch.isnan(y), 0)", "y[:] = 0"])
def test_a_birth_elsewhere_is_named_if_the_first_is_overwritten(library: str, steps: bool, write: str) -> None:
    program = f"""
x = torch.tensor([-1.0, 2.0, -3.0, 4.0], requires_grad=True)
z = torch.tensor([1.0, 1.0, 0.5, 0.0], requires_grad=True)
y = torch.log(x) * 1.0
{write}
y = y + torch.log(z)  {HERE}
y.sum().backward()
"""
    event = only_event(run(library, program, steps))
    assert (event.lineno, event.index, event.operands) == (line(program), (3,), {"input": 0.0})


@runs
def test_a_nan_outside_the_overwritten_part_is_named(steps: bool) -> None:
    """Of a write to a view, torch's graph does not tell which part that was."""
    program = f"""
x = torch.tensor([-1.0, 2.0, -3.0, 4.0], requires_grad=True)
y = torch.log(x)  {HERE}
y[:2] = 0
y.sum().backward()
"""
    event = only_event(run("retrograd", program, steps))
    assert (event.lineno, event.index, event.operands) == (line(program), (2,), {"input": -3.0})


@libraries
@runs
def test_a_written_birth_is_found_in_its_own_operation(library: str, steps: bool) -> None:
    program = f"""
x = torch.tensor([-1.0, 2.0, -3.0, 4.0], requires_grad=True)
z = torch.ones(4, requires_grad=True) * 2.0
y = torch.log(x)  {HERE}
z[torch.tensor([3, 2, 1, 0])] = y
z.sum().backward()
"""
    event = only_event(run(library, program, steps))
    assert (event.lineno, event.index, event.operands) == (line(program), (0,), {"input": -1.0})


@libraries
@runs
def test_a_nan_outside_the_overwritten_column_is_named(library: str, steps: bool) -> None:
    program = f"""
x = torch.tensor([[-1.0, 2.0], [-3.0, -4.0]], requires_grad=True)
y = torch.log(x)  {HERE}
y[:, torch.tensor([True, False])] = 0
y.sum().backward()
"""
    event = only_event(run(library, program, steps))
    assert (event.lineno, event.index, event.operands) == (line(program), (1, 1), {"input": -4.0})


@pytest.mark.parametrize(("library", "steps"), [("retrograd", False), ("retrograd", True), ("torch", True)])
@pytest.mark.parametrize("divisor", ["torch.zeros(2)", "s"])
def test_a_view_taken_after_a_write_is_not_taken_for_the_written_one(library: str, steps: bool, divisor: str) -> None:
    """``h[1] /= s`` divides a view of ``h`` in place and then takes another one, to write the first to."""
    program = f"""
x = torch.ones(2, 2, requires_grad=True)
h, s = x * 1, torch.zeros(2)
h[1] /= {divisor}  {HERE}
h.sum().backward()
"""
    event = only_event(run(library, program, steps))
    assert (event.lineno, event.kind) == (line(program), "divide")
    operation = event.surroundings.operation if event.surroundings else None
    assert operation is not None
    assert [each.name for each in operation.args][:2] == ["input", "other"]
    assert not run(library, mended(program, event), steps).events, event.remedy


@libraries
@runs
@pytest.mark.parametrize("write", ["y[:2].sqrt_()", "y[:2].pow_(0.5)"])
def test_the_gradient_of_a_write_to_a_view_is_mended(library: str, steps: bool, write: str) -> None:
    """PyTorch shows of such a node nothing that could tell the operation: the line does, or the second run."""
    program = f"""
x = torch.tensor([0.0, 2.0, 1.0], requires_grad=True)
y = x * 1
{write}  {HERE}
y.sum().backward()
"""
    event = only_event(run(library, program, steps))
    assert (event.lineno, event.kind, event.index) == (line(program), "divide", (0,))
    assert not run(library, mended(program, event), steps).events


@libraries
def test_a_remedy_keeps_the_annotation_of_a_name(library: str) -> None:
    program = f"""
x = torch.tensor([200.0, 2.0], requires_grad=True)
h: torch.Tensor = torch.exp(x)  {HERE}
h.sum().backward()
"""
    event = only_event(run(library, program))
    assert (event.remedy or "").startswith("h: torch.Tensor = torch.exp(")
    assert not run(library, mended(program, event)).events


@libraries
@pytest.mark.parametrize("options", ["1", "dim=-1, keepdim=True"])
def test_the_mean_over_an_empty_dimension_is_mended(library: str, options: str) -> None:
    program = f"""
x = torch.ones(3, 0, requires_grad=True)
x.mean({options}).sum().backward()  {HERE}
"""
    event = only_event(run(library, program))
    assert (event.op, event.lineno) == ("mean", line(program))
    assert not run(library, mended(program, event)).events
