"""Training programs of further kinds, each stopped in its first steps; the remedy is pasted, and the program trains."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from retrograd.anomaly import AnomalyError, NaNEvent
from tests.anomaly.both import libraries, line, mended, run


class Program(NamedTuple):
    """A training loop with a planted fault, and what is to be told of it; ``remedy`` is a part of the line to write."""

    op: str
    cause: str
    remedy: str
    setup: str
    body: str


PROGRAMS = {
    "survival": Program("exp", "overflows", "torch.logcumsumexp(risk, dim=0)", """\
weight = torch.full((3, 1), 50.0, requires_grad=True)
x = torch.ones(4, 3); died = torch.tensor([1.0, 0.0, 1.0, 0.0])
optimizer = torch.optim.Adam([weight], lr=1e-3)
""", """\
    risk = (x @ weight).squeeze(1)
    hazard = torch.exp(risk)  # born here
    loss = -((risk - torch.log(torch.cumsum(hazard, 0))) * died).sum() / died.sum()
"""),
    "length scale": Program("div", "exp(-120) underflows", "log_l.clamp(min=-10.0).exp() ** 2", """\
log_l = torch.tensor(-120.0, requires_grad=True)
x = torch.tensor([[0.0], [1.0], [2.0]])
optimizer = torch.optim.SGD([log_l], lr=1e-3)
""", """\
    d2 = (x - x.T) ** 2
    loss = torch.exp(-0.5 * d2 / log_l.exp() ** 2).sum()  # born here
"""),
    "logit scale": Program("exp", "leaves room", "logit_scale.clamp(max=", """\
a = torch.eye(3).requires_grad_(); b = torch.eye(3)
logit_scale = torch.tensor(100.0, requires_grad=True)
optimizer = torch.optim.Adam([a, logit_scale], lr=1e-3)
""", """\
    logits = logit_scale.exp() * a @ b.T  # born here
    loss = F.cross_entropy(logits, torch.tensor([1, 2, 0]))
"""),
    "radius": Program("div", "tends to the second derivative", "2.0 / torch.where(r == 0, 1.0, r) * slope", """\
net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
r = torch.linspace(0.0, 1.0, 5)[:, None].requires_grad_()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
""", """\
    (slope,) = torch.autograd.grad(net(r).sum(), r, create_graph=True)
    loss = (2.0 / r * slope).pow(2).mean()  # born here
"""),
    "contrast": Program("exp", "Subtracting the largest", "torch.amax(", """\
z = torch.eye(3).requires_grad_()
optimizer = torch.optim.Adam([z], lr=1e-3)
""", """\
    sim = torch.exp(z @ z.T / 0.01)  # born here
    pos = sim.diag()
    loss = -torch.log(pos / sim.sum(1)).mean()
"""),
}  # fmt: skip

RUNS = [(library, steps) for library in ("retrograd", "torch") for steps in (False, True)]


def text_of(program: Program, steps: bool) -> str:
    head = "w.steps(range(3))" if steps else "range(3)"
    update = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    return f"{program.setup}for _ in {head}:\n{program.body}{update}"


def stopped(library: str, text: str) -> NaNEvent:
    """The event that has stopped a program."""
    with pytest.raises(AnomalyError) as error:
        run(library, text, policy="raise")
    event = error.value.event
    assert isinstance(event, NaNEvent)
    return event


@pytest.mark.parametrize(("library", "steps"), RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_operation_line_and_cause_are_right_and_the_remedy_mends_the_program(
    name: str, library: str, steps: bool
) -> None:
    program = PROGRAMS[name]
    text = text_of(program, steps)
    event = stopped(library, text)
    assert (event.op.replace("reciprocal", "div"), event.lineno) == (program.op, line(text))
    assert program.cause in (event.cause or "")
    assert program.remedy in (event.remedy or "").replace("rg.", "torch.")
    assert not run(library, mended(text, event), policy="raise").events


MASK = """\
x = torch.ones(1, 3, 3)
weight = torch.eye(3).requires_grad_()
slope = torch.tensor([0.0])
for _ in {}:
    causal = torch.triu(torch.full((3, 3), float("-inf")), 1)
    scores = (x @ weight) @ x.transpose(1, 2) + slope * causal  # born here
    loss = torch.softmax(scores, -1).pow(2).sum()
    loss.backward()
"""


@pytest.mark.parametrize(("library", "steps"), RUNS)
def test_a_mask_that_is_multiplied_is_not_taken_for_bad_data(library: str, steps: bool) -> None:
    event = stopped(library, MASK.format("w.steps([0])" if steps else "[0]"))
    assert event.lineno == line(MASK)
    assert "isfinite" not in (event.remedy or "")
    if library == "torch" and not steps:
        assert "as a mask does" in (event.cause or "")
        assert 'float("-inf")' in (event.cause or "")
    else:
        assert (event.op, event.index) == ("mul", (0, 1))
        assert "0 times an infinity" in (event.cause or "")


@libraries
def test_no_samples_of_a_computed_table_are_dropped(library: str) -> None:
    """The weights of the steps of a diffusion, computed before the loop."""
    text = (
        "bar = torch.cumprod(1 - torch.linspace(0.0, 0.2, 5), 0)\n"
        "table = bar / (1 - bar)\n"
        "net = nn.Linear(2, 2)\n"
        "for t in w.steps([torch.zeros(3).long()]):\n"
        "    factor = table[t][:, None]\n"
        "    loss = (factor * net(torch.ones(3, 2)) ** 2).mean()\n"
        "    loss.backward()\n"
    )
    event = stopped(library, text)
    assert "drops such samples" not in (event.cause or "")
    assert "table = table[" not in (event.remedy or "")
