"""Births inside a reentrant checkpoint, which has no graph, in a step that cannot be run again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from retrograd.anomaly import NaNEvent, watch
from tests.anomaly.both import only_event


def event_of(function: Any, *given: Any, after: Any = lambda made: made) -> NaNEvent:
    """Return the event of a step through a reentrant checkpoint."""
    weight = torch.tensor([1.0, 0.5, 0.0], requires_grad=True)
    with watch(policy="record") as w:
        after(checkpoint(function, weight * 1, *given, use_reentrant=True)).sum().backward()
    return only_event(w)


def logarithm(x: Tensor, factor: float) -> Tensor:
    scaled = x * factor
    return torch.log(scaled)


def distance(x: Tensor) -> Tensor:
    gap = x - x.detach()
    return torch.sqrt(gap * gap)


def test_a_birth_in_the_forward_of_a_checkpoint_has_its_line() -> None:
    event = event_of(logarithm, 2.0)
    assert (event.op, event.index, event.operands, event.harmed) == ("log", (2,), {"input": 0.0}, "loss")
    assert (event.code_line, event.function) == ("return torch.log(scaled)", "logarithm")
    assert event.path[:2] == ("log", "checkpoint_function")


def test_a_birth_in_the_backward_of_a_checkpoint_has_its_line() -> None:
    event = event_of(distance)
    assert (event.op, event.index, event.operands) == ("SqrtBackward0", (0,), {"input": 0.0})
    assert (event.code_line, event.harmed) == ("return torch.sqrt(gap * gap)", "the gradient of weight")


def test_a_birth_in_a_nested_checkpoint_has_its_line() -> None:
    event = event_of(lambda x: checkpoint(logarithm, x, 2.0, use_reentrant=True), after=lambda y: y * 2)
    assert (event.op, event.code_line) == ("log", "return torch.log(scaled)")


def test_the_search_in_a_checkpoint_draws_the_random_numbers_of_the_step() -> None:
    torch.manual_seed(1)
    made: list[Tensor] = []

    def drawn(x: Tensor) -> Tensor:
        made.append(torch.rand(64) < 0.5)
        return torch.where(made[-1], x[1], x[2]).log()

    event = event_of(drawn)
    assert event.op == "log" and torch.equal(made[0], made[1])
    assert event.index == (int((~made[0]).nonzero()[0]),)


def test_the_search_in_a_checkpoint_changes_no_gradient_and_no_average() -> None:
    block = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    block[0].weight.grad = torch.full((3, 3), 2.0)
    x = torch.rand(4, 3).requires_grad_()

    def logs(x: Tensor) -> Tensor:
        return (block(x) * 0).log()

    with watch(policy="skip_step") as w:  # so that the program's own backward does not call it once more
        loss = checkpoint(logs, x * 1, use_reentrant=True).sum()
        before = {name: value.clone() for name, value in block.state_dict().items()}
        loss.backward()
    assert only_event(w).op == "log"
    assert all(torch.equal(value, before[name]) for name, value in block.state_dict().items())
    assert torch.equal(block[0].weight.grad, torch.full((3, 3), 2.0))
