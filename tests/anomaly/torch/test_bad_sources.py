"""Data that a chain of lines computed without a gradient: the variable of the chain in which NaN appears first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import retrograd as rg
from retrograd.anomaly import NaNEvent

CRITIC = torch.nn.Linear(1, 1)


def found(program: Callable[[Tensor], None]) -> NaNEvent:
    weight = torch.ones(4, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        program(weight)
    return w.events[0]


def advantages_of_rewards(weight: Tensor) -> None:
    """Rewards that are all the same; each line overwrites what it reads."""
    rewards = torch.zeros(4)
    for step in range(4):
        rewards[step] = 1.0
    with torch.no_grad():
        values = CRITIC(torch.ones(4, 1)).flatten()
    rewards = (rewards - rewards.mean()) / rewards.std()
    advantages = torch.zeros(4)
    last: Any = 0
    for step in reversed(range(4)):
        delta = rewards[step] - values[step]
        advantages[step] = last = delta + 0.9 * last
    chosen = advantages[torch.tensor([3, 2, 1, 0])]
    chosen = chosen - chosen.mean()
    (-chosen * weight).sum().backward()


def returns_of_one_step(weight: Tensor) -> None:
    """A loop over tensors gives numbers, which are what reaches the loss; names are used twice."""
    returns: Any = []
    total: Any = 0
    for reward in [1.0]:
        total = reward + 0.9 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    losses = []
    for value, total in zip([0.5], returns, strict=True):
        advantage = total - value
        losses.append(-weight * advantage)
    torch.stack(losses).sum().backward()


def scaled_by_a_critic(weight: Tensor) -> None:
    """The line that made it calls a module."""
    with torch.no_grad():
        scale = 2 * CRITIC(torch.tensor([[1.0], [2.0], [3.0], [float("nan")]])).flatten()
    targets = scale + 1
    targets[0] = 2.0
    (weight * targets).sum().backward()


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize(
    ("program", "name", "line", "remedy"),
    [
        (
            advantages_of_rewards,
            "rewards",
            "rewards = (rewards - rewards.mean()) / rewards.std()",
            "rewards = (rewards - rewards.mean()) / torch.sqrt(rewards.var() + 1e-5)",
        ),
        (
            returns_of_one_step,
            "returns",
            "returns = (returns - returns.mean()) / (returns.std() + 1e-8)",
            "returns = (returns - returns.mean()) / (returns.std(correction=0) + 1e-8)",
        ),
    ],
)
def test_the_first_variable_of_a_chain_is_named(program: Any, name: str, line: str, remedy: str) -> None:
    event = found(program)
    assert str(event).startswith(f"NaN came in with {name} at")
    assert f"`{line}`" in (event.cause or "")
    assert event.remedy == remedy


def test_a_module_in_the_line_that_made_it_is_still_named() -> None:
    event = found(scaled_by_a_critic)
    assert str(event).startswith("NaN came in with scale at")
    assert "without a gradient, with CRITIC (Linear)" in (event.cause or "")


def from_two_sides(weight: Tensor) -> None:
    one, two = torch.tensor([torch.nan, 0.0, 0.0, 0.0]), torch.tensor([0.0, torch.nan, 0.0, 0.0])
    both = one.cumsum(0) + two.cumsum(0)
    both[2] = 1.0
    (weight * both).sum().backward()


def test_no_variable_is_singled_out_of_several() -> None:
    assert str(found(from_two_sides)).startswith("NaN came in with the batch both at")


def renamed(weight: Tensor) -> None:
    """What a formula has not made is left as it is: it came in like this."""
    data = torch.zeros(4)
    data[1] = torch.nan
    samples = data
    data = samples[[1, 0, 2, 3]]
    data[3] = 1.0
    (weight * data).sum().backward()


def read_by_the_line_itself(weight: Tensor) -> None:
    data = torch.zeros(4)
    data[1] = torch.nan
    (weight * data).sum().backward()


@pytest.mark.parametrize("program", [renamed, read_by_the_line_itself])
def test_other_data_is_reported_as_before(program: Any) -> None:
    assert str(found(program)).startswith("NaN came in with the batch data at")
