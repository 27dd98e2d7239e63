"""Models compiled by ``torch.jit.script``: they take no hooks, and what is in them is no dict."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import retrograd as rg

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.layers(x)))


def scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(Net())


def trained(w: Any, net: Any, bad: bool = False, steps: bool = False) -> list[torch.Tensor]:
    """The weights of a scripted model after a training, under a watch if there is one."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    batches = [torch.randn(6, 4) for _ in range(4)]
    for number, x in enumerate(w.steps(batches) if steps else batches):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        if bad and number == 2:
            loss = torch.log(loss * 0 - 1)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            float(net(x).mean() * float("nan"))
    return [each.detach() for each in net.parameters()]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("steps", [False, True])
def test_a_scripted_model_is_trained_as_without_a_watch(given: bool, steps: bool) -> None:
    torch.manual_seed(0)
    expected = trained(None, scripted())
    torch.manual_seed(0)
    net = scripted()
    with rg.anomaly.watch(net if given else None, policy="record") as w:
        weights = trained(w, net, steps=steps)
    assert (w.step, w.events) == (4, ())
    assert all(map(torch.equal, weights, expected))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("steps", [False, True])
def test_a_fault_beside_a_scripted_model_is_found(given: bool, steps: bool) -> None:
    net = scripted()
    with rg.anomaly.watch(net if given else None, policy="record") as w:
        trained(w, net, bad=True, steps=steps)
    (event,) = w.events
    assert (event.op, event.operands, event.step) == ("log", {"input": -1.0}, 3)


def test_an_optimizer_of_a_scripted_model_among_the_variables() -> None:
    """The search for models asks a class for its forward, which a scripted one refuses."""
    net = scripted()
    with rg.anomaly.watch(policy="record") as w:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert (w.step, w.events) == (1, ())
