"""One fault is told once: the loss and not its gradients too, and not again when gradients add up."""

from __future__ import annotations

import weakref

import pytest

import retrograd as rg
from tests.anomaly.both import libraries, only_event, run

STEP = """
x = torch.tensor([1.0, 0.0], requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.0)
for _ in range(2):
    optimizer.zero_grad()
    (x / x).sum().backward()
    optimizer.step()
"""


@libraries
def test_a_bad_loss_and_its_gradients_are_one_event_in_every_step(library: str) -> None:
    w = run(library, STEP.replace("range(2)", "range(1)"))
    assert (only_event(w).op, only_event(w).harmed) == ("div", "loss")
    w = run(library, STEP)
    assert {event.harmed for event in w.events} == {"loss"}


@libraries
def test_a_bad_loss_without_an_optimizer_is_one_event(library: str) -> None:
    w = run(library, "x = torch.tensor([1.0, 0.0], requires_grad=True)\n(x / x).sum().backward()")
    assert only_event(w).harmed == "loss"


ACCUMULATED = """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
parts = [torch.ones(2, 2), torch.zeros(2, 2), torch.ones(2, 2), torch.ones(2, 2)]
for part in parts:
    h = {form}
    (model(h).sum() / 4).backward()
optimizer.step()
"""


@libraries
@pytest.mark.parametrize("form", ["part / part.norm(dim=1, keepdim=True)", "part / part.sum()"])
def test_a_bad_loss_is_one_event_if_gradients_accumulate(library: str, form: str) -> None:
    assert only_event(run(library, ACCUMULATED.format(form=form))).harmed == "loss"


FINITE_LOSS = """
x = torch.tensor([1.0, 0.0], requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.1)
torch.sqrt(x).sum().backward()
x.square().sum().backward()
optimizer.step()
"""


@libraries
def test_a_bad_gradient_is_one_event_if_a_good_one_is_added_to_it(library: str) -> None:
    event = only_event(run(library, FINITE_LOSS))
    assert event.harmed == "the gradient of x"


TWO = """
x = torch.tensor([1.0, 0.0], requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.1)
(x / x).sum().backward()
optimizer.zero_grad()
torch.sqrt(x).sum().backward()
optimizer.step()
"""


@libraries
def test_a_bad_gradient_after_a_clearing_is_a_new_event(library: str) -> None:
    """A gradient that is bad after the clearing has not been reported before."""
    w = run(library, TWO)
    assert [event.harmed for event in w.events] == ["loss", "the gradient of x"]


@libraries
def test_a_gradient_with_a_stricter_policy_is_an_event_after_the_loss(library: str) -> None:
    """The infinite loss is recorded; a NaN is to be raised."""
    text = (
        "x = torch.tensor([1.0, 0.0], requires_grad=True)\n"
        "optimizer = torch.optim.SGD([x], lr=0.1)\n"
        "(torch.log(x) * torch.tensor([1.0, 1.0])).sum().backward()\n"
        "optimizer.step()\n"
    )
    w = run(library, text, policy={"inf": "record", "nan": "skip_step"})
    assert w.events[0].harmed == "loss"


SAMPLES = {
    "jacrev": "torch.func.jacrev(torch.sqrt)(x)",
    "gradients of samples": "torch.func.vmap(torch.func.grad(torch.sqrt))(x)",
    "batched gradients": "torch.autograd.grad(torch.sqrt(y), y, torch.eye(2), is_grads_batched=True)",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_bad_gradients_of_several_samples_are_one_event(name: str) -> None:
    text = "x = torch.tensor([1.0, {}])\ny = x.clone().requires_grad_()\n" + SAMPLES[name]
    assert not run("retrograd", text.format("4.0")).triggered
    event = only_event(run("retrograd", text.format("0.0")))
    assert (event.op, event.operands, event.lineno) == ("SqrtBackward0", {"result": 0.0}, 3)
    assert event.index is not None
    assert event.index[-1] == 1


def test_a_bad_loss_of_one_sample_has_its_index() -> None:
    with rg.anomaly.watch(policy="record") as w:
        rg.func.vmap(rg.func.grad(lambda v: rg.log(v)))(rg.tensor([1.0, 0.0]))
    assert w.event is not None
    assert (w.event.op, w.event.index) == ("log", (1,))


def test_reported_gradients_are_released() -> None:
    told = []
    with rg.anomaly.watch(policy="record") as w:
        for _ in range(3):
            x = rg.zeros(2, requires_grad=True)
            (x / x).sum().backward()
            told.append(weakref.ref(x.grad))
            x.grad = None
        assert len(w.events) == 3
        assert [each() for each in told] == [None] * 3
