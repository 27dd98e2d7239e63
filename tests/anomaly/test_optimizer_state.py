"""A bad number in what an optimizer of retrograd's has loaded is told before a weight is changed by it."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

import retrograd as rg
from retrograd import nn

OPTIMIZERS = {
    "exp_avg": lambda params: rg.optim.Adam(params, 0.1),
    "exp_avg_sq": lambda params: rg.optim.AdamW(params, 0.1),
    "momentum_buffer": lambda params: rg.optim.SGD(params, 0.1, momentum=0.9),
    "square_avg": lambda params: rg.optim.RMSprop(params, 0.1),
}


def model() -> nn.Sequential:
    rg.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def train(net: nn.Module, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        (net(rg.randn(5, 4)) ** 2).mean().backward()
        optimizer.step()


def weights(net: nn.Module) -> list[Any]:
    return [each.detach().numpy().tolist() for each in net.parameters()]


def saved(net: nn.Module, key: str, number: float) -> Any:
    """Return the state of an optimizer after two steps, with a given number at one place."""
    optimizer = OPTIMIZERS[key](net.parameters())
    train(net, optimizer, 2)
    loaded = copy.deepcopy(optimizer.state_dict())
    loaded["state"][2][key][1, 3] = number
    return loaded


@pytest.mark.parametrize("key", OPTIMIZERS)
@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("when", ["before the watch", "before the first update", "later"])
def test_an_update_with_a_bad_number_in_the_state_is_left_out(key: str, number: float, when: str) -> None:
    net = model()
    loaded = saved(net, key, number)
    optimizer = OPTIMIZERS[key](net.parameters())
    if when == "before the watch":
        optimizer.load_state_dict(loaded)
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        if when == "later":
            train(net, optimizer, 1)
        if when != "before the watch":
            optimizer.load_state_dict(loaded)
        before, remembered = weights(net), repr(optimizer.state_dict())
        train(net, optimizer, 1)
        assert weights(net) == before
        assert repr(optimizer.state_dict()) == remembered
        event = w.events[0]
        assert (event.kind, event.index, event.harmed) == ("leaf", (1, 3), "the update of 2.weight")
        assert str(event).startswith(f"{event.born} came in with the optimizer state {key} of 2.weight")
        assert repr(event.operands[key]) == repr(number)
        assert event.code_line == "optimizer.step()"
        optimizer.state.clear()  # as the cause says
        train(net, optimizer, 1)
    assert len(w.events) == 1
    assert weights(net) != before


def test_raise_leaves_the_weights_clean() -> None:
    net = model()
    loaded = saved(net, "exp_avg", math.nan)
    optimizer = rg.optim.Adam(net.parameters(), 0.1)
    optimizer.load_state_dict(loaded)
    before = weights(net)
    with pytest.raises(rg.anomaly.AnomalyError, match=r"exp_avg of 2\.weight"), rg.anomaly.watch(net):
        train(net, optimizer, 1)
    assert weights(net) == before


@pytest.mark.parametrize("key", OPTIMIZERS)
def test_a_finite_or_expected_state_is_not_reported(key: str) -> None:
    net = model()
    loaded = saved(net, key, 0.5)
    optimizer = OPTIMIZERS[key](net.parameters())
    with rg.anomaly.watch(net, optimizer) as w:
        optimizer.load_state_dict(loaded)
        train(net, optimizer, 2)
        optimizer.load_state_dict(loaded)
        with rg.anomaly.expect_nonfinite("a restart"):
            optimizer.state[net[0].bias][key][0] = math.inf
            optimizer.step()
    assert not w.events
