"""A bad number in what an optimizer has loaded is told before a weight is changed by it."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.anomaly.torch.training import Net, batches, state, train

OPTIMIZERS = {
    "exp_avg": lambda params: torch.optim.Adam(params, 0.1),
    "exp_avg_sq": lambda params: torch.optim.AdamW(params, 0.1),
    "momentum_buffer": lambda params: torch.optim.SGD(params, 0.1, momentum=0.9),
    "square_avg": lambda params: torch.optim.RMSprop(params, 0.1),
}


def saved(net: Net, key: str, number: float) -> Any:
    """Return the state of an optimizer after two steps, with a given number at one place."""
    optimizer = OPTIMIZERS[key](net.parameters())
    train(net, optimizer, batches(2))
    loaded = copy.deepcopy(optimizer.state_dict())
    loaded["state"][2][key][1, 3] = number
    return loaded


@pytest.mark.parametrize("key", OPTIMIZERS)
@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("when", ["before the watch", "before the first update", "later"])
def test_an_update_with_a_bad_number_in_the_state_is_left_out(key: str, number: float, when: str) -> None:
    net = Net()
    loaded = saved(net, key, number)
    optimizer = OPTIMIZERS[key](net.parameters())
    if when == "before the watch":
        optimizer.load_state_dict(loaded)
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        if when == "later":
            train(net, optimizer, batches(1))
        if when != "before the watch":
            optimizer.load_state_dict(loaded)
        before = state(net), repr(optimizer.state_dict())
        train(net, optimizer, batches(1))
        assert repr(optimizer.state_dict()) == before[1]
        torch.testing.assert_close(state(net), before[0], rtol=0, atol=0)
        event = w.events[0]
        assert (event.kind, event.index, event.harmed) == ("leaf", (1, 3), "the update of second.weight")
        assert str(event).startswith(f"{event.born} came in with the optimizer state {key} of second.weight")
        assert repr(event.operands[key]) == repr(number)
        assert event.step == (2 if when == "later" else 1)
        optimizer.state.clear()  # as the cause says
        train(net, optimizer, batches(1))
    assert len(w.events) == 1
    assert not torch.equal(net.second.weight, before[0]["second.weight"])


def test_raise_leaves_the_weights_clean() -> None:
    net = Net()
    loaded = saved(net, "exp_avg", math.nan)
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    optimizer.load_state_dict(loaded)
    before = state(net)
    with pytest.raises(rg.anomaly.AnomalyError, match=r"exp_avg of second\.weight"), rg.anomaly.watch():
        train(net, optimizer, batches(1))
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)


def test_record_reports_the_bad_state_once() -> None:
    net = Net()
    loaded = saved(net, "exp_avg", math.nan)
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    optimizer.load_state_dict(loaded)
    with rg.anomaly.watch(net, optimizer, "record") as w:
        train(net, optimizer, batches(1))
    assert len(w.events) == 1


@pytest.mark.parametrize("key", OPTIMIZERS)
def test_a_finite_or_expected_state_is_not_reported(key: str) -> None:
    net = Net()
    loaded = saved(net, key, 0.5)
    optimizer = OPTIMIZERS[key](net.parameters())
    with rg.anomaly.watch(net, optimizer) as w:
        optimizer.load_state_dict(loaded)
        train(net, optimizer, batches(2))
        optimizer.load_state_dict(loaded)
        with rg.anomaly.expect_nonfinite("a restart"):
            optimizer.state[net.first.bias][key][0] = math.inf
            optimizer.step()
    assert not w.events


class Bare(torch.optim.Optimizer):
    """Remembers one thing of each parameter, without a name."""

    def __init__(self, params: Any, memory: Any) -> None:
        super().__init__(params, {"lr": 0.1})
        for param in self.param_groups[0]["params"]:
            self.state[param] = memory(param)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for param in self.param_groups[0]["params"]:
            param.add_(param.grad, alpha=-0.1)


MEMORIES = {"tensor": torch.zeros_like, "list": lambda param: [torch.zeros_like(param)], "number": lambda param: 3}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("from_step", [None, 1])
def test_state_of_any_structure_is_accepted(memory: str, from_step: int | None) -> None:
    torch.manual_seed(0)
    net = Net()
    alone = copy.deepcopy(net)
    train(alone, Bare(alone.parameters(), MEMORIES[memory]), batches(2))
    optimizer = Bare(net.parameters(), MEMORIES[memory])
    with rg.anomaly.watch(net, optimizer, from_step=from_step):
        train(net, optimizer, batches(2))
    torch.testing.assert_close(state(net), state(alone), rtol=0, atol=0)


def test_a_bad_number_in_unnamed_state_is_reported() -> None:
    net = Net()
    optimizer = Bare(net.parameters(), lambda param: torch.full_like(param, math.nan))
    before = state(net)
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        train(net, optimizer, batches(1))
    assert str(w.event).startswith("NaN came in with the optimizer state state of first.weight")
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)
