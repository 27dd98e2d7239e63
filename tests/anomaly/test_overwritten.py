"""Tensors that were overwritten after an operation took or made them: the second run recorded their former values."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly.adapters.retrograd.second_run import recording
from tests.anomaly.both import libraries, line, mended, only_event, run

USED_AND_CLEARED = """
w = torch.ones(2, requires_grad=True)
x = torch.log(torch.tensor([1.0, 0.0]))  # born here
s = torch.{joined}
x.zero_()
s.sum().backward()
"""


@libraries
@pytest.mark.parametrize("joined", ["cat([x, w])", "stack([w, x])", "add(x, w)"])
def test_a_birth_in_a_result_that_was_cleared_later_is_found(library: str, joined: str) -> None:
    program = USED_AND_CLEARED.format(joined=joined)
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.index, event.operands) == ("log", line(program), (1,), {"input": 0.0})
    assert event.reproducible and event.note is None


@libraries
def test_a_birth_in_a_reused_buffer_is_found(library: str) -> None:
    program = """
w, h, loss = torch.ones(2, requires_grad=True), torch.zeros(2), 0
for x in torch.tensor([[1.0, 2.0], [1.0, 0.0], [1.0, 1.0]]):
    h.copy_(torch.log(x))  # born here
    loss = loss + (h + w).sum()
loss.backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.index, event.operands) == ("log", line(program), (1,), {"input": 0.0})


@libraries
def test_the_operands_are_shown_as_they_were_before_a_fill(library: str) -> None:
    program = """
w, x = torch.ones(2, requires_grad=True), torch.tensor([1.0, 0.0])
y = torch.log(x) + w  # born here
x.fill_(5.0)
y.sum().backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.operands) == ("log", line(program), {"input": 0.0})


@libraries
def test_bad_data_that_was_cleared_after_use_is_named(library: str) -> None:
    program = """
w, images = torch.ones(2, requires_grad=True), torch.tensor([1.0, float("nan")])
y = images + w
images.zero_()
y.sum().backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.kind, event.lineno, event.index) == ("leaf", 3, (1,))
    assert event.operands.keys() == {"images"}


@libraries
def test_a_tensor_divided_by_itself_in_place_shows_both_operands(library: str) -> None:
    program = """
w, x = torch.zeros(2, requires_grad=True), torch.tensor([0.0, 1.0]) * 2
x.div_(x)  # born here
(x + w).sum().backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.operands) == ("div", line(program), {"input": 0.0, "other": 0.0})


@libraries
def test_a_birth_is_found_behind_writes_of_single_elements(library: str) -> None:
    program = """
w, x = torch.ones(2, requires_grad=True), torch.log(torch.tensor([0.0, 1.0]))  # born here
first = x[:1]
s = torch.cat([first, w])
x[1] = 3.0
loss = s.sum() + torch.cat([x, w]).sum()
first.zero_()
loss.backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.index) == ("log", line(program), (0,))


@libraries
@pytest.mark.parametrize("written", ["s[1] = bad[2]", "s[1:2] = bad[2:]", "s[1:2].copy_(bad[2:])"])
def test_a_birth_copied_to_another_element_has_its_own_index(library: str, written: str) -> None:
    program = f"""
w, s = torch.ones(3, requires_grad=True), torch.tensor([1.0, 2.0, 3.0])
bad = torch.log(torch.tensor([2.0, 1.0, -1.0]))  # born here
{written}
loss = (s + w).sum()
bad[torch.isnan(bad)] = 0.0
s[1] = 2.0
loss.backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.index, event.operands) == ("log", line(program), (2,), {"input": -1.0})


@libraries
def test_a_birth_written_to_a_view_is_found_if_the_base_is_used_too(library: str) -> None:
    program = """
w, base = torch.ones(3, requires_grad=True), torch.tensor([-1.0, 0.0, 1.0])
view = base[:2]
view.div_(view)  # born here
loss = (base + w).sum() + (view + w[:2]).sum()
loss.backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.index) == ("div", line(program), (1,))
    assert event.operands == {"input": 0.0, "other": 0.0}


@libraries
def test_a_birth_in_a_tensor_given_as_out_is_found(library: str) -> None:
    program = """
w, x = torch.ones(2, requires_grad=True), torch.tensor([1.0, 0.0])
buffer = torch.sqrt(torch.tensor([-1.0, -1.0]))  # this NaN goes nowhere
torch.log(x, out=buffer)  # born here
loss = (buffer + w).sum()
torch.exp(x, out=buffer)
loss.backward()
"""
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.lineno, event.index, event.operands) == ("log", line(program), (1,), {"input": 0.0})


def test_the_profiler_records_writes_of_elements() -> None:
    x = rg.zeros(3)
    with rg.autograd.profiler.profile() as found:
        x[1] = 2.0
        x[rg.tensor([0, 2])] = rg.ones(2)
    names = {event.name for event in found.function_events}
    assert {"aten::copy_", "aten::index_put_"} <= names
    assert x.tolist() == [1.0, 2.0, 1.0]


def test_the_work_of_a_second_run_grows_linearly_with_the_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not grow with their square, because a write concerns only the calls that share its memory."""
    looks = []
    memory = recording._memory
    monkeypatch.setattr(recording, "_memory", lambda array: looks.append(1) or memory(array))

    def looks_at(writes: int) -> int:
        looks.clear()
        run(
            "retrograd",
            f"""
x = torch.tensor([-1.0, 2.0], requires_grad=True)
for _ in range({writes}):
    buffer = torch.zeros(2)
    buffer.add_(1.0).mul_(2.0)
torch.log(x).sum().backward()
""",
            steps=True,
        )
        return len(looks)

    assert looks_at(80) < 3 * looks_at(40)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("y.sqrt_()", "y.add_(1e-12).sqrt_()"),
        ("y.log_()", "y.clamp_(min=1e-12).log_()"),
        ("torch.log_(y)", "torch.log_(y.clamp_(min=1e-12))"),
        ("y[1:].reciprocal_()", "y[1:].copy_(torch.where(y[1:] == 0, 1e-12, y[1:])).reciprocal_()"),
        ("y.div_(x)", "y.div_(torch.where(x == 0, 1.0, x))"),
    ],
)
def test_the_remedy_of_an_in_place_call_changes_the_tensor(call: str, remedy: str) -> None:
    """A new tensor in its place would be thrown away, and the old one stay as it was."""
    text = f"x = torch.tensor([4.0, 0.0], requires_grad=True)\ny = x * 1\n{call}  # born here\ny.sum().backward()"
    event = only_event(run("retrograd", text))
    assert (event.remedy or "").replace("rg.", "torch.").removesuffix("  # born here") == remedy
    assert not run("retrograd", mended(text, event)).events
