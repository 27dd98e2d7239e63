"""Several faults in one step: one report names them all, and its remedies, pasted at once, mend the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import NaNEvent, event_from_json
from retrograd.anomaly.catalogue import explain
from retrograd.anomaly.event import MOST_ALSO
from retrograd.anomaly.messages import message_of
from retrograd.anomaly.report import Report, format_event, format_run, read_runs
from retrograd.anomaly.report.html import format_html
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings
from tests.anomaly.both import libraries, only_event, run, runs
from tests.anomaly.several import ONE_FAULT, PROGRAMS, Program


def pasted(text: str, event: NaNEvent) -> str:
    """The program with all remedies of a report in the places of the lines that they replace."""
    lines = text.splitlines()
    for each in (event, *event.also):
        number = (each.remedy_lineno or each.lineno or 0) - 1
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        lines[number] = indent + (each.remedy or "").replace("rg.", "torch.")  # as the programs call either
    return "\n".join(lines)


def loss_and_gradients(library: str, text: str, ordinary: bool = False) -> list[np.ndarray]:
    """The loss of a program and the gradients of its leaves, which may be given numbers that do no harm."""
    module: Any = rg if library == "retrograd" else torch
    namespace: dict[str, Any] = {"torch": module, "F": module.nn.functional, "nn": module.nn}
    setup, code = text.split("\n# the step\n")
    exec(setup, namespace)
    leaves = [each for each in namespace.values() if isinstance(each, module.Tensor) and each.requires_grad]
    for leaf in leaves if ordinary else ():
        leaf.data = module.tensor(np.linspace(0.5, 0.9, leaf.numel()).reshape(tuple(leaf.shape)))
    exec(code, namespace)
    return [each.detach().numpy() for each in (namespace["loss"], *(leaf.grad for leaf in leaves))]


@libraries
@runs
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_all_remedies_of_one_report_mend_the_step(program: Program, library: str, steps: bool) -> None:
    event = only_event(run(library, program.text, steps))
    assert len(event.also) == program.faults - 1, [event, *event.also]
    text = pasted(program.text, event)
    assert not run(library, text).events, text
    mended = loss_and_gradients(library, text)
    assert all(np.isfinite(each).all() for each in mended), text
    if program.loss is not None:
        assert mended[0] == pytest.approx(program.loss, abs=2e-3)  # acos moves by the root of what its argument does
    before, after = (loss_and_gradients(library, each, ordinary=True) for each in (program.text, text))
    for one, other in zip(after, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=text)


@libraries
@runs
@pytest.mark.parametrize("program", ONE_FAULT, ids=str)
def test_legal_infinities_and_consequences_are_not_reported_beside_a_fault(
    program: Program, library: str, steps: bool
) -> None:
    event = only_event(run(library, program.text, steps))
    assert event.also == ()
    assert event.op in program.ops


@libraries
def test_a_learning_rate_that_is_too_high_is_the_only_cause(library: str) -> None:
    text = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=1e4)
x = torch.randn(32, 8)
for _ in range(30):
    optimizer.zero_grad()
    y = net(x)
    loss = (y[:, 0] ** 2).mean() + (y[:, 1].exp() * 1e-3).mean()
    loss.backward()
    if w.events:
        break
    optimizer.step()
"""
    event = run(library, text).events[0]
    assert event.also == ()


def test_the_search_for_births_to_come_runs_no_hook_and_keeps_the_graph() -> None:
    called = []
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="warn"), pytest.warns(rg.anomaly.AnomalyWarning, match="to come in SqrtBackward0"):
        root = torch.sqrt(x)
        root.register_hook(lambda grad: called.append("tensor"))
        loss = root.sum() + torch.log(x).sum()
        assert loss.grad_fn is not None
        loss.grad_fn.register_hook(lambda *grads: called.append("node"))
        loss.backward()  # goes on, as nothing that it needs is gone
    assert called == ["node", "tensor"]


def test_the_search_for_births_to_come_runs_no_custom_backward() -> None:
    called = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            called.append(grad)
            return grad * 2

    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w, pytest.raises(ZeroDivisionError):
        loss = Twice.apply(torch.sqrt(x)).sum() + torch.log(x).sum()
        loss.register_hook(lambda grad: 1 / 0)  # the program's own backward ends at once
        loss.backward()
    assert only_event(w).also == ()
    assert not called


@libraries
def test_bad_gradients_of_several_leaves_are_reported_up_to_a_limit(library: str) -> None:
    leaves = "\n".join(f"x{k} = torch.tensor([1.0, 0.0], requires_grad=True)" for k in range(MOST_ALSO + 3))
    terms = "\n".join(f"y{k} = torch.sqrt(x{k}).sum()" for k in range(MOST_ALSO + 3))
    total = " + ".join(f"y{k}" for k in range(MOST_ALSO + 3))
    event = only_event(run(library, f"{leaves}\n{terms}\n({total}).backward()", steps=True))
    assert len(event.also) == MOST_ALSO
    assert len({each.lineno for each in (event, *event.also)}) == MOST_ALSO + 1


# --- what is told -------------------------------------------------------------------------------------------------


def event_of(name: str) -> NaNEvent:
    program = next(each for each in PROGRAMS if each.name == name)
    return only_event(run("retrograd", program.text))


def test_json_keeps_the_further_births_of_an_event() -> None:
    event = event_of("five faults")
    again = event_from_json(event.to_json())
    assert again == event
    assert isinstance(again, NaNEvent)
    assert [str(each) for each in again.also] == [str(each) for each in event.also]


def test_a_report_has_a_row_for_each_birth_and_fits_a_screen() -> None:
    event = event_of("three terms of the loss")
    rows = format_event(event, width=80).splitlines()
    assert [row[:43] for row in rows if row.startswith("also")] == [
        "also      NaN born in sqrt, line 7, input = -0.0001 at [1]"[:43],
        "also      Inf born in div, line 8, input = 1, other = 0.0 at [1]"[:43],
    ]
    assert "instead   b = torch.sqrt(torch.clamp(d, min=1e-12)).sum()" in rows
    assert "next      Change lines 6, 7 and 8 as above, then run again." in rows
    assert len(rows) <= 24
    assert max(map(len, rows)) <= 80


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("sqrt(d)", "log(q)", "Change line 6 as above; write what line 7 computes in that form, then run again."),
        ("log(q)", "sqrt(d)", "Write what line 6 computes in the form above, with your own names, and line 7 as well,"),
    ],
)
def test_a_line_with_only_a_general_form_is_named(first: str, second: str, said: str) -> None:
    text = f"""scores, d = torch.tensor([[200.0, -10.0]], requires_grad=True), torch.tensor([-1e-4], requires_grad=True)
class Policy(nn.Module):
    def forward(self, scores):
        return torch.softmax(scores, dim=-1)
q = Policy()(scores)[[0], [1]]
a = torch.{first}.sum()
b = torch.{second}.sum()
loss = a + b
loss.backward()
"""
    event = only_event(run("retrograd", text))
    shown = format_event(event, width=100)
    assert f"next      {said}" in shown
    is_form = first == "sqrt(d)"  # under "also", with letters that only the cause explains
    assert shown.count("\nwhy ") == 1 + is_form
    assert (event.also[0].cause or "")[:60] in shown or not is_form


def test_a_report_shows_three_further_births_and_counts_the_others() -> None:
    text = format_event(event_of("five faults"), width=80)
    assert text.count("\nalso ") == 3
    assert "          and 1 more" in text.splitlines()


def test_a_remedy_for_two_births_of_a_line_is_shown_once() -> None:
    text = format_event(event_of("different elements of one line"), width=80)
    assert text.count("torch.sqrt(torch.clamp(s, min=1e-12)) - torch.log(torch.clamp(p, min=1e-12))") == 1
    assert "the line above fixes it" in text
    assert "next      Change line" in text


def test_exceptions_pages_and_recordings_name_the_further_births(tmp_path: Path) -> None:
    event = event_of("a pole in forward and one in backward")
    further = "Inf to come in SqrtBackward0"
    assert f"In the same step: {further}" in message_of(event)
    assert "b = torch.sqrt(q + 1e-12).sum()" in message_of(event)
    with Report(tmp_path) as report:
        report.write(event)
    [again] = read_runs(tmp_path / "events.jsonl")
    for text in (format_run(again), format_html(again)):
        assert "Inf to come in the backward of sqrt, line 6" in text
        assert "b = torch.sqrt(q + 1e-12).sum()" in text


# --- how the remedies go together ---------------------------------------------------------------------------------


def birth(op: str, line: str, value: float, lineno: int = 3, **fields: Any) -> NaNEvent:
    """A birth in the only operation of its kind in a line."""
    argument = Operand(name="input", value=value, dtype="float32", requires_grad=True)
    operation = Operation(op=op, args=(argument,), code_line=line, lineno=lineno, filename="train.py")
    return NaNEvent(
        kind="divide" if value == 0 else "invalid",
        op=op,
        filename="train.py",
        lineno=lineno,
        code_line=line,
        operands={"input": value},
        surroundings=Surroundings(operation=operation, library="torch"),
        **fields,
    )


def test_one_remedy_mends_all_births_of_a_line() -> None:
    line = "y = torch.log(torch.sqrt(x) + b) + torch.sqrt(z)"
    event = explain(birth("log", line, 0.0, also=(birth("log", "v = torch.log(u)", 0.0, lineno=9),)))
    assert event.also[0].remedy == "v = torch.log(torch.clamp(u, min=1e-12))"
    line = "y = torch.log(p) + torch.acos(z)"
    event = explain(birth("log", line, 0.0, also=(birth("acos", line, 1.0005),)))
    assert event.remedy is not None
    assert "torch.log(torch.clamp(p, min=1e-12))" in event.remedy
    assert "torch.acos(torch.clamp(z, " in event.remedy
    assert event.also[0].remedy == event.remedy


@libraries
@runs
def test_two_logarithms_of_different_forms_are_both_mended(library: str, steps: bool) -> None:
    text = """
x = torch.tensor([1.0, 700.0], requires_grad=True)
loss = torch.log(torch.exp(x).mean()) + torch.log(1 + torch.exp(x)).mean()
loss.backward()
"""
    event = only_event(run(library, text, steps))
    assert "torch.exp" not in (event.remedy or "torch.exp")
    assert [each.remedy for each in event.also] == [event.remedy]


def test_nested_operations_are_both_mended() -> None:
    line = "y = torch.sqrt(torch.log(p))"
    event = explain(birth("log", line, 0.0, also=(birth("sqrt", line, -1e-4),)))
    assert event.remedy == "y = torch.sqrt(torch.clamp(torch.log(torch.clamp(p, min=1e-12)), min=1e-12))"


def test_several_births_of_one_operation_are_one() -> None:
    line = "y = torch.log(p)"
    event = explain(birth("log", line, 0.0, also=(birth("log", line, -1e-4), birth("LogBackward0", line, 0.0))))
    assert event.also == ()


@pytest.mark.parametrize("role", ["parameter", "buffer"])
def test_nothing_else_is_reported_if_weights_were_bad_before(role: str) -> None:
    weight = NaNEvent(
        kind="leaf",
        op="leaf",
        filename="train.py",
        lineno=2,
        surroundings=Surroundings(context={"leaf": role, "name": "fc.weight"}),
        also=(birth("log", "y = torch.log(p)", 0.0),),
    )
    assert explain(weight).also == ()
