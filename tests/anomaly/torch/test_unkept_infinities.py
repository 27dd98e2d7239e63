"""An infinity of which the graph does not tell where it comes from, and the operation that makes a NaN of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import retrograd as rg
from retrograd.anomaly import NaNEvent
from tests.anomaly.torch.training import line_of


def logarithm(z: Tensor) -> Tensor:
    return torch.log(z)  # the birth of an infinity


def without_a_gradient(z: Tensor) -> Tensor:
    with torch.no_grad():
        return logarithm(z)


def checkpointed(z: Tensor) -> Tensor:
    result: Tensor = checkpoint(logarithm, z, use_reentrant=True)
    return result


def written_to_a_view(z: Tensor) -> Tensor:
    result = z.clone()
    result[:, 1:2] = logarithm(z[:, 1:2])
    return result


WAYS = [without_a_gradient, checkpointed, written_to_a_view]


class Net(torch.nn.Module):
    def __init__(self, way: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.head, self.way = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), way

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h = h + self.way(torch.sigmoid(h) * x[:, :1])
        return self.head(h)  # type: ignore[no-any-return]


def found_in(way: Callable[[Tensor], Tensor], with_model: bool) -> NaNEvent:
    torch.manual_seed(0)
    net = Net(way)
    with torch.no_grad():
        net.head.weight.copy_(torch.tensor([[1.0, -1.0], [1.0, 1.0]]))  # inf - inf
    with rg.anomaly.watch(net if with_model else None, policy="record") as w:
        net(torch.tensor([[0.0, 1.0], [1.0, 2.0]])).mean().backward()
    (event,) = w.events
    return event


@pytest.mark.parametrize("way", WAYS)
def test_the_birth_is_found_if_the_model_can_be_run_again(way: Callable[[Tensor], Tensor]) -> None:
    event = found_in(way, with_model=True)
    assert (event.op, event.lineno) == ("log", line_of("# the birth of an infinity", logarithm))


@pytest.mark.parametrize("way", WAYS)
def test_otherwise_the_operation_that_makes_the_nan_is_not_called_a_certain_birth(
    way: Callable[[Tensor], Tensor],
) -> None:
    event = found_in(way, with_model=False)
    assert event.op == "log" or "was not kept" in (event.note or "")
