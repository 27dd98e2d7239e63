"""A learning rate that a program writes into its own updates is named with its line."""

from __future__ import annotations

import pytest

from retrograd.anomaly import AnomalyError, NaNEvent
from retrograd.anomaly.report import format_event
from tests.anomaly.both import mended, run

FUNCTIONAL = """
from retrograd.func import grad, value_and_grad
from retrograd.utils._pytree import tree_map
def loss(params):
    return ((params[0] * params[1] - 3.0) ** 2).sum()
params = [torch.ones(2), torch.full((2,), 0.5)]
"""
BY_HAND = """
w = torch.tensor([1.0, 0.5], requires_grad=True)
for step in range(300):
    ((w - 3.0) ** 2).sum().backward()
    {}
    w.grad = None
"""
LOOP = "for step in range(300):\n    "
LITERAL = LOOP + "params = [p - 4.0 * g for p, g in zip(params, grad(loss)(params))]"
PROGRAMS = {
    FUNCTIONAL + LITERAL: "params = [p - 0.001 * g for p, g in zip(params, grad(loss)(params))]",
    FUNCTIONAL + LOOP + "grads = grad(loss)(params)\n    params = tree_map(lambda p, g: p - g * 4.0, params, grads)": (
        "params = tree_map(lambda p, g: p - g * 0.001, params, grads)"
    ),
    FUNCTIONAL + "rate = 4\n" + LOOP + "value, g = value_and_grad(loss)(params)\n    "
    "params = [params[0] - rate * g[0], params[1] - rate * g[1]]": "rate = 0.001",
    FUNCTIONAL + "def moved(params, lr=4.0):\n    slope = grad(loss)\n    gs = slope(params)\n    "
    "return [p - lr * g for p, g in zip(params, gs)]\n" + LOOP + "params = moved(params)": (
        "def moved(params, lr=0.001):"
    ),
    FUNCTIONAL + "def moved(params, *, lr=4.0):\n    g = grad(loss)(params)\n    "
    "return [params[0] - lr * g[0], params[1] - lr * g[1]]\n" + LOOP + "params = moved(params)": (
        "def moved(params, *, lr=0.001):"
    ),
    BY_HAND.format("with torch.no_grad(): w -= 4.0 * w.grad"): "with torch.no_grad(): w -= 0.4 * w.grad",
    BY_HAND.format("w.data = w.data - 4.0 * w.grad"): "w.data = w.data - 0.4 * w.grad",
}


def stopped(text: str) -> NaNEvent:
    """The event that has stopped a program."""
    with pytest.raises(AnomalyError) as error:
        run("retrograd", text, policy="raise")
    assert isinstance(error.value.event, NaNEvent)
    return error.value.event


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_number_of_the_rate_is_lowered_in_its_line(text: str) -> None:
    event = stopped(text)
    assert "Use a smaller learning rate than 4, " in (event.cause or "")
    assert event.remedy == PROGRAMS[text]
    assert f"Change line {event.remedy_lineno} as above" in format_event(event)
    assert not run("retrograd", mended(text, event), policy="raise").events


UNKNOWN = {
    # what is subtracted is no gradient
    BY_HAND.format("with torch.no_grad(): w.add_(w.grad, alpha=-4.0); y = w - 4.0 * w"): "lr = lr / 10",
    # two rates: no telling which
    BY_HAND.format("with torch.no_grad(): w -= 4.0 * w.grad; v = w - 3.0 * w.grad"): "lr = lr / 10",
    # a rate that comes from a schedule has no number to be changed
    "rates = iter([4.0] * 300)\n" + BY_HAND.format("rate = next(rates); w.data = w.data - rate * w.grad"): (
        "rate = rate / 10"
    ),
    # what a caller gives is not what another function calls so
    "def other():\n    lr = 0.5\ndef moved(w, *, lr):\n    w.data = w.data - lr * w.grad\n"
    + BY_HAND.format("moved(w, lr=4.0)"): "lr = lr / 10",
    "class Options: rate = 4.0\n" + BY_HAND.format("w.data = w.data - Options.rate * w.grad"): (
        "Options.rate = Options.rate / 10"
    ),
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_rate_gets_only_a_general_remedy(text: str) -> None:
    event = stopped(text)
    assert event.remedy == UNKNOWN[text]
    assert event.remedy_lineno is None
    assert "Make the update steps smaller, as above" in format_event(event)


def test_the_rate_of_an_optimizer_is_changed_in_its_own_line() -> None:
    text = """
w = torch.tensor([1.0, 0.5], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=4.0)
for step in range(300):
    loss = ((w - 3.0) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    attack = w.detach() - 0.5 * w.grad
    optimizer.step()
"""
    assert stopped(text).remedy == "optimizer = torch.optim.SGD([w], lr=0.4)"
