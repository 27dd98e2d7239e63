"""Gradients that are withheld stand for one step: what comes after it is trained on, whoever updates it and how."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from retrograd import Tensor


def zeroed(optimizer: Any) -> None:
    optimizer.zero_grad()


def by_hand(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = None


@pytest.mark.parametrize("clear", [zeroed, by_hand])
def test_the_step_of_another_optimizer_with_gradients_of_its_own(clear: Callable[[Any], None]) -> None:
    critic, generator = rg.nn.Linear(2, 1), rg.nn.Linear(2, 2)
    of_critic = rg.optim.SGD(critic.parameters(), lr=0.1)
    of_generator = rg.optim.SGD(generator.parameters(), lr=0.1)
    before, other = critic.weight.clone(), generator.weight.clone()
    with rg.anomaly.watch(policy="skip_step") as watch:
        rg.log(critic(generator(rg.ones(1, 2))) * 0).sum().backward()  # a bad loss of both
        of_generator.step()
        clear(of_critic)
        critic(rg.ones(1, 2)).sum().backward()
        of_critic.step()
    assert len(watch.events) == 1
    assert bool((generator.weight == other).all())
    assert bool((critic.weight != before).all())


def test_a_step_after_the_loop_that_runs_bad_ones_again() -> None:
    weight = rg.ones(2).requires_grad_()
    optimizer = rg.optim.SGD([weight], lr=1.0)
    with rg.anomaly.watch(policy="skip_step") as watch:
        for batch in watch.steps([rg.tensor([0.0, 1.0])]):
            (weight * batch).log().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    assert len(watch.events) == 1
    assert weight.tolist() == [0.0, 0.0]


def test_gradients_that_are_added_to_those_withheld_belong_to_the_same_step() -> None:
    weight = rg.ones(2).requires_grad_()
    optimizer = rg.optim.SGD([weight], lr=1.0)
    with rg.anomaly.watch(policy="skip_step"):
        (weight * 0).log().sum().backward()
        weight.sum().backward()
        optimizer.step()
        assert weight.tolist() == [1.0, 1.0]
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    assert weight.tolist() == [0.0, 0.0]


def test_leaves_that_no_optimizer_updates_are_not_kept() -> None:
    def bad_step() -> weakref.ref[Tensor]:
        image = rg.zeros(2).requires_grad_()
        image.log().sum().backward()
        return weakref.ref(image)

    with rg.anomaly.watch(policy="skip_step"):
        assert bad_step()() is None
