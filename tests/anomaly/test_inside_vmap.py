"""Births in operations that vmap maps over samples, where operands have a hidden axis in front."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly import diagnose, watch
from tests.anomaly.both import line, mended, only_event, run


@pytest.mark.parametrize("again", [False, True], ids=["once", "steps"])
def test_operands_of_different_dimensions_are_aligned(again: bool) -> None:
    """A vector by its norm: with the axis of the samples these are of shapes (2, 3) and (2,)."""

    def direction(x: rg.Tensor) -> rg.Tensor:
        y = weight @ x
        return y / y.norm()  # its value is thrown away, its derivative is not

    weight = rg.eye(3).requires_grad_()
    with watch(policy="record") as w:
        for _ in w.steps([0]) if again else [0]:
            rg.func.vmap(rg.func.jacrev(direction))(rg.zeros(2, 3)).pow(2).sum().backward()
    event = w.events[0]
    assert (event.code_line or "").startswith("return y / y.norm()")
    assert "failed" not in (event.note or "")


BY_ITS_NORM = """
w = torch.ones(3)
def f(w, x):
    y = w * x
    return (y / y.norm()).sum()  # born here
torch.func.vmap(torch.func.grad(f), in_dims=(None, 0))(w, torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
"""
BY_ITS_SUM = """
x = torch.tensor([[1.0, 2.0], [3.0, -3.0]], requires_grad=True)
torch.func.vmap(lambda r: (r / r.sum()).mean())(x).sum().backward()  # born here
"""
SOFTMAX = """
x = torch.zeros(3, 3, requires_grad=True)
mask = torch.tensor([[False] * 3, [True] * 3, [False, True, False]])
def attend(s):
    return torch.softmax(s, 0).pow(2).sum()  # born here
torch.func.vmap(lambda r, m: attend(r.masked_fill(m, -float("inf"))))(x, mask).sum().backward()
"""
DISCARDED = """
x = torch.tensor([[1.0, 2.0], [0.0, 1.0]], requires_grad=True)
s = torch.tensor([1.0, 0.0], requires_grad=True)
def f(x, s):
    return torch.where(x > 1, x / s, 0.0).sum()  # born here
torch.func.vmap(f)(x, s).sum().backward()
"""
ROOT = """
def f(w, x):
    return torch.sqrt((w * x).sum())  # born here
torch.func.vmap(torch.func.grad(f), in_dims=(None, 0))(torch.ones(3), torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
"""
NESTED = """
x = torch.tensor([[1.0, 2.0], [0.0, 0.0], [0.0, 3.0]], requires_grad=True)
def f(a, b):
    return a.sum() / (a - b).norm()  # born here
torch.func.vmap(lambda a: torch.func.vmap(lambda b: f(a, b))(x))(x).sum().backward()
"""


@pytest.mark.parametrize("again", [False, True], ids=["once", "steps"])
@pytest.mark.parametrize(
    ("text", "op", "index", "operands", "number"),
    [
        (BY_ITS_NORM, "div", (1, 0), {"input": 0.0, "other": 0.0}, 14),
        (BY_ITS_SUM, "div", (1, 0), {"input": 3.0, "other": 0.0}, 32),
        (SOFTMAX, "softmax", (1, 0), {"input": -float("inf"), "dim": 0}, 19),
        (DISCARDED, "DivBackward0", (1, 0), {"input": 0.0, "other": 0.0}, 12),
        (ROOT, "SqrtBackward0", (1,), {"result": 0.0}, 10),
        (NESTED, "div", (1, 1), {"input": 0.0, "other": 0.0}, 14),
    ],
)
def test_the_event_has_the_index_of_the_sample_and_its_operands(
    text: str, op: str, index: tuple[int, ...], operands: dict[str, float], number: int, again: bool
) -> None:
    """The first axis is that of the samples, whatever the dimensions of the operands."""
    event = only_event(run("retrograd", text, again))
    assert (event.op, event.index, event.operands) == (op, index, operands)
    assert (event.lineno, diagnose(event).number) == (line(text), number)
    assert f"{operands.get('input', 0.0):g} / 0" in (event.cause or "") or number != 32
    assert not run("retrograd", mended(text, event), again).events
