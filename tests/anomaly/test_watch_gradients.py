"""When a watch checks the gradients, and which bad ones it reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, AnomalyWarning
from retrograd.anomaly.adapters.retrograd import gradient_checks
from retrograd.core import state
from retrograd.core.tensor import Tensor
from tests.anomaly.steps import bad_gradient, leaf, scaled

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def test_leaves_of_a_backward_that_failed_do_not_count_for_the_next():
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise KeyError

    first, second, third = (rg.ones(1, requires_grad=True) for _ in range(3))
    with rg.anomaly.watch() as w:
        with pytest.raises(KeyError):
            (Fails.apply(second) + 3 * first).sum().backward()
        assert first.grad is not None
        (4 * third).sum().backward()
    assert w.grad_norm_history[-1] == 4


def silently_bad(weight: Tensor, bias: Tensor, factor: float) -> None:
    """A step whose gradients are NaN for the factor NaN, without any flag, while the loss is fine."""
    y = rg.ones(2, weight.shape[1]) @ weight.t() + bias
    y.register_hook(lambda g: g * factor)
    y.sum().backward()


@pytest.mark.parametrize("policy", ["raise", "skip_step"])
def test_a_silent_birth_is_found_in_the_step_in_which_it_happens(policy: str) -> None:
    weight, bias = rg.ones(3, 5000, requires_grad=True), rg.zeros(3, requires_grad=True)
    optimizer = rg.optim.SGD([weight, bias], lr=0.1)
    with rg.anomaly.watch(policy=policy, budget=1e-9) as w:  # the large gradient is hardly ever looked at
        for step in range(1, 30):
            optimizer.zero_grad()
            try:
                silently_bad(weight, bias, float("nan") if step == 20 else 1.0)
            except AnomalyError:
                continue
            optimizer.step()
            assert np.isfinite(weight.numpy(force=True)).all()
    assert [event.step for event in w.events] == [20]


@pytest.mark.parametrize(("tells", "step"), [(True, 9), (False, 8)])
def test_gradients_are_checked_in_every_step_if_products_raise_no_flags(
    monkeypatch: pytest.MonkeyPatch, tells: bool, step: int
) -> None:
    """Apple's Accelerate raises no flags. The hook stands for a product whose infinity raised none."""
    monkeypatch.setattr("retrograd.anomaly.adapters.retrograd.monitor.products_raise_flags", lambda: tells)
    first, second = (rg.ones(3).requires_grad_() for _ in range(2))
    second.register_hook(lambda g: rg.full_like(g, float("inf")) if w.step == 7 else g)
    optimizer = rg.optim.SGD([first, second], lr=0.1)
    with rg.anomaly.watch(policy="record", budget=1e-9) as w:
        for _ in range(9):
            optimizer.zero_grad()
            a = (first * 2).sum()  # its gradient arrives last, and the last one is checked in every step anyway
            (a + (second * 3).sum()).backward()
            optimizer.step()
    assert w.events[0].step == step


def test_the_check_whether_products_raise_flags_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    @np.errstate(all="ignore")
    def silent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a * b

    ask = (
        gradient_checks.products_raise_flags.__wrapped__
    )  # without the cache of the answer for this computer's library
    for product, tells in ((np.multiply, True), (silent, False)):
        monkeypatch.setattr(np, "matmul", product)
        assert ask() is tells


def test_gradients_that_a_policy_lets_pass_are_reported_once() -> None:
    weight, bias = rg.ones(3, 5, requires_grad=True), rg.zeros(3, requires_grad=True)
    with rg.anomaly.watch(policy="record", budget=1e-9) as w:
        for step in range(1, 60):
            weight.grad = bias.grad = None
            silently_bad(weight, bias, float("nan") if step >= 20 else 1.0)
    assert [event.step for event in w.events] == [20]


def test_reached_leaves_are_noted_only_within_a_backward() -> None:
    x, y = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    seen: list[int] = []

    def look(_: Any) -> None:
        seen.append(len(state.local.reached))
        raise KeyError("in backward")

    x.register_post_accumulate_grad_hook(look)
    with rg.anomaly.watch():
        with pytest.raises(KeyError, match="in backward"):
            (x * y).sum().backward()
        assert state.local.reached is None
        (y * y).sum().backward()
        assert state.local.reached is None
    (y * y).sum().backward()
    assert seen[0] >= 1
    assert state.local.reached is None


def test_a_nan_at_a_scale_of_1_is_reported() -> None:
    x, scaler = leaf(1.0), rg.amp.GradScaler("cpu", init_scale=4.0)
    with rg.anomaly.watch(policy={"nan": "warn"}) as watch:
        scaled(x, scaler)
        scaled(x, scaler)
        assert watch.events == ()
        with pytest.warns(AnomalyWarning, match="sqrt"):
            scaled(x, scaler)


def test_the_scale_of_an_earlier_step_hides_no_bad_gradient() -> None:
    x, scaler = leaf(1.0), rg.amp.GradScaler("cpu")
    with rg.anomaly.watch():
        scaled(x, scaler)
        with pytest.raises(AnomalyError, match="sqrt"):
            bad_gradient(x)
        scaler.scale(x.sum())
    with rg.anomaly.watch(), pytest.raises(AnomalyError, match="sqrt"):
        bad_gradient(x)
