"""Births in forward mode, which are found where a program is given the tangents."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, diagnose, event_from_json
from retrograd.anomaly.report import format_event
from tests.anomaly.both import line, mended, only_event, run, runs

JVP = """
x, v = torch.tensor([0.0, 1.0]), torch.ones(2)
y, t = torch.func.jvp(lambda x: torch.sqrt(x), (x,), (v,))  # born here
"""
LEVEL = """
import retrograd.autograd.forward_ad as fw
with fw.dual_level():
    x = fw.make_dual(torch.tensor([0.0, 1.0]), torch.ones(2))
    y = x ** 0.5  # born here
    t = fw.unpack_dual(y).tangent
"""
JACOBIAN = """
def f(x):
    return x.pow(2).sum().sqrt() * x  # born here
torch.func.jacfwd(f)(torch.zeros(3))
"""
HESSIAN = """
def f(x):
    return x.abs().pow(1.5).sum()  # born here
torch.func.hessian(f)(torch.tensor([0.0, 1.0]))
"""
OF_A_GRADIENT = """
def f(x):
    return (x ** 1.5).sum()  # born here
torch.func.jvp(torch.func.grad(f), (torch.tensor([0.0, 1.0]),), (torch.ones(2),))
"""
LINEAR = """
y, push = torch.func.linearize(lambda x: torch.sqrt(x), torch.tensor([0.0, 1.0]))  # born here
t = push(torch.ones(2))
"""


@runs
@pytest.mark.parametrize(
    ("text", "op", "number"),
    [
        (JVP, "sqrt", 10),
        (LEVEL, "pow", 21),
        (JACOBIAN, "sqrt", 13),
        (HESSIAN, "pow", 21),
        (OF_A_GRADIENT, "pow", 21),
        (LINEAR, "sqrt", 10),
    ],
)
def test_a_bad_tangent_has_its_operation_and_line(text: str, op: str, number: int, steps: bool) -> None:
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.lineno, event.is_backward) == (op, line(text), True)
    assert diagnose(event).number == number
    assert not run("retrograd", mended(text, event), steps).events, event.remedy
    if text is not LINEAR:
        assert event.harmed == "a tangent"
        assert "the tangent of " in str(event)
        assert "the tangent of " in format_event(event_from_json(event.to_json()))


def test_a_bad_tangent_has_its_element_and_operands() -> None:
    event = only_event(run("retrograd", JVP))
    assert (event.kind, event.born, event.index, event.operands) == ("divide", "Inf", (0,), {"input": 0.0, "result": 0})


def test_a_bad_value_is_blamed_and_not_its_tangent() -> None:
    text = """
a, b = torch.ones(2), torch.tensor([1.0, 0.0])
torch.func.jvp(lambda a, b: a / b, (a, b), (a, a))  # born here
"""
    for steps in (False, True):
        event = only_event(run("retrograd", text, steps))
        assert (event.op, event.is_backward, event.index, event.lineno) == ("div", False, (1,), line(text))


def test_the_error_is_raised_before_the_program_gets_the_tangent() -> None:
    with pytest.raises(AnomalyError, match="a tangent"), rg.anomaly.watch():
        rg.func.jvp(rg.sqrt, (rg.zeros(1),), (rg.ones(1),))
    assert rg.func.jvp(rg.sin, (rg.zeros(1),), (rg.ones(1),))[1] == 1  # outside of any level


def test_several_bad_tangents_are_one_event_with_a_count() -> None:
    text = """
def f(x):
    return torch.where(x > 0, x.sqrt(), 0.0) + x.abs() ** 0.5
torch.func.jvp(f, (torch.tensor([0.0, 1.0]),), (torch.ones(2),))
"""
    event = only_event(run("retrograd", text))
    assert "the first of 2 births" in (event.note or "")


def root(x: rg.Tensor) -> rg.Tensor:
    return rg.where(x > 0, rg.sqrt(x), 0.0)


@pytest.mark.parametrize("steps", [False, True])
def test_a_discarded_tangent_is_not_reported(steps: bool) -> None:
    x, v = rg.tensor([0.0, 4.0]), rg.ones(2)
    masked = rg.tensor([-rg.inf, 0.0])
    with rg.anomaly.watch() as w:
        for _ in w.steps([0]) if steps else [0]:
            assert rg.func.jvp(root, (x,), (v,))[1].tolist() == [0.0, 0.25]
            # both differentiate a product with zero, whose value nobody wants
            assert rg.func.linearize(root, x)[1](v).tolist() == [0.0, 0.25]
            assert rg.autograd.functional.jvp(root, x, v)[1].tolist() == [0.0, 0.25]
            assert rg.func.jvp(lambda s: (s + masked).softmax(-1), (x,), (v,))[1].tolist() == [0.0, 0.0]
    assert not w.events


def test_an_expected_tangent_is_not_reported() -> None:
    with rg.anomaly.watch() as w, rg.anomaly.expect_nonfinite("the slope of a root is infinite at 0"):
        assert rg.func.jvp(rg.sqrt, (rg.zeros(1),), (rg.ones(1),))[1].item() == rg.inf
    assert not w.events


@pytest.mark.parametrize("steps", [False, True])
def test_a_step_with_a_bad_tangent_is_left_out(steps: bool) -> None:
    """Training by forward gradients: the tangent times its direction."""
    weight = rg.tensor([4.0, 0.0], requires_grad=True)
    optimizer = rg.optim.SGD([weight], 0.1)
    functions = [rg.sqrt, rg.sin]  # the first has no slope at 0
    with rg.anomaly.watch(policy="skip_step") as w:
        for k in w.steps(range(2)) if steps else range(2):
            before = weight.tolist()
            _, slope = rg.func.jvp(functions[k], (weight.detach(),), (rg.ones(2),))
            weight.grad = slope
            optimizer.step()
            assert (weight.tolist() == before) == (k == 0)
    assert [(event.op, event.step) for event in w.events] == [("sqrt", 1)]
