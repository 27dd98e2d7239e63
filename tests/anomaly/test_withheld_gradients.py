"""Gradients that are withheld stand for one step: what comes after it is trained on, whoever updates it and how."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import retrograd as rg
from retrograd import Tensor
from retrograd.anomaly import AnomalyError
from tests.anomaly.both import modules


def zeroed(optimizer: Any) -> None:
    optimizer.zero_grad()


def by_hand(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = None


@pytest.mark.parametrize("clear", [zeroed, by_hand])
def test_another_optimizer_with_its_own_gradients_still_updates(clear: Callable[[Any], None]) -> None:
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


def test_a_step_after_the_loop_updates_the_weights() -> None:
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


def test_gradients_added_to_withheld_ones_are_left_out_with_them() -> None:
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


@pytest.mark.parametrize("policy", ["skip_step", "record"])
@pytest.mark.parametrize("clears_first", [True, False])
@pytest.mark.parametrize("bad", [2, 3, 4])
def test_a_bad_micro_batch_that_is_run_again_leaves_out_the_whole_update(
    bad: int, clears_first: bool, policy: str
) -> None:
    weight = rg.ones(2).requires_grad_()
    optimizer = rg.optim.SGD([weight], lr=1.0)
    updated = []
    with rg.anomaly.watch(policy=policy) as watch:
        for number in watch.steps(range(12)):
            if clears_first and number % 3 == 0:
                optimizer.zero_grad()
            loss = (weight * 0).log() if number == bad else weight
            loss.sum().backward()
            if number % 3 == 2:
                before = weight.tolist()
                optimizer.step()
                if weight.tolist() != before:
                    updated.append(number)
                if not clears_first:
                    optimizer.zero_grad()
    assert [event.batch_idx for event in watch.events] == [bad]
    left_out = 2 if bad == 2 else 5
    assert updated == [each for each in (2, 5, 8, 11) if each != left_out]
    assert weight.tolist() == [-8.0, -8.0]


def test_gradients_after_a_clearing_belong_to_the_next_update() -> None:
    weight = rg.ones(2).requires_grad_()
    optimizer = rg.optim.SGD([weight], lr=1.0)
    with rg.anomaly.watch(policy="skip_step") as watch:
        for number in watch.steps(range(3)):
            if number == 2:
                optimizer.zero_grad()
            ((weight * 0).log() if number == 1 else weight).sum().backward()
        optimizer.step()
    assert weight.tolist() == [0.0, 0.0]


def to_none(weight: Any) -> None:
    weight.grad = None


def to_zeros(weight: Any) -> None:
    weight.grad.zero_()


@modules
@pytest.mark.parametrize("clear", [to_none, to_zeros])
@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("fault", ["log", "sqrt"])
def test_an_optimizer_made_after_a_bad_update_by_hand_updates(
    module: ModuleType, clear: Callable[[Any], None], steps: bool, fault: str
) -> None:
    weight = module.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as watch:
        for number in watch.steps(range(2)) if steps else range(2):
            (getattr(weight * 0, fault)() if number else weight).sum().backward()
            with module.no_grad():
                weight -= weight.grad
            clear(weight)
        optimizer = module.optim.SGD([weight], lr=1.0)
        weight.sum().backward()
        optimizer.step()
    assert weight.tolist() == [-1.0, -1.0]
    assert len(watch.events) == 1


@modules
@pytest.mark.parametrize("steps", [False, True])
def test_a_first_update_with_a_bad_micro_batch_is_left_out(module: ModuleType, steps: bool) -> None:
    weight = module.ones(2, requires_grad=True)
    optimizer = module.optim.SGD([weight], lr=1.0)
    with rg.anomaly.watch(policy="skip_step") as watch:
        for number in watch.steps(range(2)) if steps else range(2):
            (weight if number else (weight * 0).log()).sum().backward()
        optimizer.step()
        assert weight.tolist() == [1.0, 1.0]
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    assert weight.tolist() == [0.0, 0.0]


def test_leaves_without_an_optimizer_are_not_kept_alive() -> None:
    def bad_step() -> weakref.ref[Tensor]:
        image = rg.zeros(2).requires_grad_()
        image.log().sum().backward()
        return weakref.ref(image)

    with rg.anomaly.watch(policy="skip_step"):
        assert bad_step()() is None


# --- what is left of a backward that did not end ----------------------------------------------------------------------


def fails(gradient: Tensor) -> None:
    raise ArithmeticError("the hook fails")


def test_a_bad_gradient_after_a_failed_backward_is_an_event_of_its_own() -> None:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as watch:
        logarithm = rg.log(x)
        logarithm.register_hook(fails)
        with pytest.raises(ArithmeticError):
            logarithm.sum().backward()
        rg.sqrt(x).sum().backward()
    assert [(each.op, each.harmed) for each in watch.events] == [
        ("log", "loss"),
        ("SqrtBackward0", "the gradient of x"),
    ]


def test_returned_gradients_after_withheld_ones_are_unchanged() -> None:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step"):
        logarithm = rg.log(x)
        logarithm.register_hook(fails)
        with pytest.raises(ArithmeticError):
            rg.autograd.grad(logarithm.sum(), x)
        (gradient,) = rg.autograd.grad((3 * x).sum(), x)
    assert gradient.tolist() == [3.0, 3.0]


def test_gradients_are_withheld_only_in_the_thread_of_the_bad_one() -> None:
    found: dict[str, list[float]] = {}
    is_under_way, may_go_on = threading.Event(), threading.Event()

    def wait(gradient: Tensor) -> None:
        is_under_way.set()
        assert may_go_on.wait(60)

    def bad() -> None:
        x = rg.tensor([1.0, 0.0], requires_grad=True)
        logarithm = rg.log(x)
        logarithm.register_hook(wait)
        found["bad"] = rg.autograd.grad(logarithm.sum(), x)[0].tolist()

    def good() -> None:
        x = rg.tensor([1.0, 0.0], requires_grad=True)
        assert is_under_way.wait(60)
        found["good"] = rg.autograd.grad((3 * x).sum(), x)[0].tolist()
        may_go_on.set()

    with rg.anomaly.watch(policy="skip_step") as watch:
        threads = [threading.Thread(target=each) for each in (bad, good)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {"bad": [0.0, 0.0], "good": [3.0, 3.0]}
    assert len(watch.events) == 1


def test_gradients_returned_within_a_bad_backward_are_unchanged() -> None:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    within: list[list[float]] = []

    def ask(gradient: Tensor) -> None:
        with rg.enable_grad():
            within.append(rg.autograd.grad((3 * x).sum(), x)[0].tolist())

    with rg.anomaly.watch(policy="skip_step"):
        logarithm = rg.log(x)
        logarithm.register_hook(ask)
        (gradient,) = rg.autograd.grad(logarithm.sum(), x)
    assert (within, gradient.tolist()) == ([[3.0, 3.0]], [0.0, 0.0])


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("op", ["SqrtBackward0", "unknown"])
def test_a_nested_backward_is_judged_by_its_own_leaves(op: str, is_first: bool) -> None:
    x, y, z = (rg.tensor([1.0, 0.0], requires_grad=True) for _ in range(3))
    if op == "unknown":
        x.register_hook(lambda gradient: gradient * float("nan"))
    root = rg.sqrt(x) if op == "SqrtBackward0" else x * 2

    @y.register_post_accumulate_grad_hook
    def again(leaf: Tensor) -> None:
        with rg.enable_grad():
            (z * 2).sum().backward()

    with rg.anomaly.watch(policy="record") as watch:
        loss = root.sum() + (y * 3).sum() if is_first else (y * 3).sum() + root.sum()
        loss.backward()
    assert [(each.op, each.harmed) for each in watch.events] == [(op, "the gradient of x")]
    assert z.grad.tolist() == [2.0, 2.0]


# --- an error that the program catches --------------------------------------------------------------------------------


def test_bad_gradients_are_not_used_after_the_error_is_caught() -> None:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=1.0)
    with rg.anomaly.watch() as watch:
        with pytest.raises(AnomalyError):
            rg.sqrt(x).sum().backward()
        with pytest.raises(AnomalyError, match="SqrtBackward0"):
            optimizer.step()
        assert x.tolist() == [1.0, 0.0]
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
    assert x.tolist() == [0.0, -1.0]
    assert {each.step for each in watch.events} == {1}


def test_gradients_that_the_program_has_repaired_are_used() -> None:
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=1.0)
    with rg.anomaly.watch():
        with pytest.raises(AnomalyError):
            rg.sqrt(x).sum().backward()
        x.grad.nan_to_num_(posinf=1.0)
        optimizer.step()
    assert x.tolist() == [0.5, -1.0]
