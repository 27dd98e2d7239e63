"""Events say in which step they happened, and reports put each number under its own step."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, Watch, scalars, watch
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.report import format_event
from retrograd.anomaly.report.training_history import remembered

BAD = (1, 4)  # which steps go wrong, counted from 1


def loss_of(weight: rg.Tensor, step: int, where: str) -> rg.Tensor:
    factor = 0.0 if step in BAD else 1.0
    return rg.log(weight * factor).sum() if where == "loss" else rg.where(weight < 0, rg.sqrt(weight * factor), 1).sum()


def train(w: Watch, where: str, *, again: bool = False) -> list[int | None]:
    weight = rg.tensor([1.0, 4.0], requires_grad=True)
    optimizer = rg.optim.SGD([weight], lr=0.0)
    with w:
        for step in w.steps(range(1, 7)) if again else range(1, 7):
            optimizer.zero_grad()
            try:
                loss_of(weight, step, where).backward()
            except AnomalyError:
                continue
            optimizer.step()
    return [event.step for event in w.events]


@pytest.mark.parametrize("again", [False, True], ids=["once", "steps"])
@pytest.mark.parametrize("policy", ["skip_step", "raise"])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_steps_are_counted_from_one(where: str, policy: str, again: bool) -> None:
    w = watch(policy=policy, budget=1.0)
    if policy == "raise" and again:
        with pytest.raises(AnomalyError) as caught:
            train(w, where, again=True)
        assert caught.value.event.step == 1
        return
    assert train(w, where, again=again) == [1, 4]
    assert w.step == 6
    assert len(w.loss_history) == len(w.grad_norm_history) == 6


@pytest.mark.parametrize("library", ["retrograd", "torch"])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_the_event_names_the_first_of_two_backward_passes_in_a_loop(where: str, library: str) -> None:
    """The second run counts as the first did, and remembers no more than had happened then."""
    module = rg if library == "retrograd" else pytest.importorskip("torch")
    critic = module.tensor([1.0, 4.0], requires_grad=True)
    actor = module.tensor([2.0], requires_grad=True)
    optimizers = [module.optim.SGD([each], lr=0.1) for each in (critic, actor)]
    w = watch(policy="skip_step", budget=1.0)
    with w:
        for factor in w.steps([1.0, 0.0, 1.0]):
            for optimizer in optimizers:
                optimizer.zero_grad()
            root = critic * factor
            bad = module.log(root) if where == "loss" else module.where(root < 0, module.sqrt(root), 1)
            bad.sum().backward()
            optimizers[0].step()
            (actor * 3).sum().backward()
            optimizers[1].step()
    (event,) = w.events
    assert (event.step, event.reproducible) == (3, True)
    assert [row["step"] for row in remembered(event)] == [1, 2, 3]
    assert w.step == len(w.loss_history) == 6


def test_a_gradient_norm_stands_under_the_step_in_which_it_was_taken() -> None:
    w = watch(policy="record", budget=1.0)
    weight = rg.tensor([2.0], requires_grad=True)
    with w:
        for factor in (1.0, 3.0, 0.0):
            weight.grad = None
            rg.autograd.grad((weight * 7).sum(), weight)  # is no step, and no loss
            (rg.log(weight * factor) * factor).sum().backward()
    (event,) = w.events
    rows = remembered(event)
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert [round(row["grad_norm"], 3) for row in rows[:2]] == [0.5, 1.5]
    assert "grad_norm" not in rows[2]  # the loss was bad before there was a gradient
    assert scalars(w)["anomaly/grad_norm"] == pytest.approx(1.5)


def test_a_second_start_counts_from_one_again() -> None:
    w = watch(policy="skip_step", budget=1.0)
    for _ in range(2):
        assert train(w, "loss")[-2:] == [1, 4]
        assert len(w.loss_history) == 6


def test_scalars_have_the_last_norm_that_was_taken() -> None:
    w = watch(policy="record")
    w.grad_norm_history.extend([0.5, None])
    w.loss_history.extend([2.0, 1.0])
    assert scalars(w)["anomaly/grad_norm"] == 0.5


def test_a_report_leaves_out_columns_without_numbers() -> None:
    history: list[dict[str, float]] = [{"step": step, "loss": 1.0} for step in range(1, 40)]
    history[0]["grad_norm"] = history[1]["grad_norm"] = 0.5
    event = NaNEvent(kind="invalid", op="log")
    assert "grad_norm" not in format_event(event, width=60, history=history)
    assert "grad_norm" in format_event(event, width=60, history=history[:3])


def ask(weight: rg.Tensor, factor: float, how: str) -> None:
    def loss(w: rg.Tensor) -> rg.Tensor:
        return rg.log(w * factor).sum() if factor >= 0 else rg.where(w < 0, rg.sqrt(w * 0), 1).sum()

    if how == "grad":
        rg.autograd.grad(loss(weight), weight)
    else:
        rg.func.grad(loss)(weight.detach())


@pytest.mark.parametrize("factor", [0.0, -1.0], ids=["loss", "gradient"])
@pytest.mark.parametrize("how", ["grad", "func"])
def test_returned_gradients_count_as_steps_without_backward(how: str, factor: float) -> None:
    weight = rg.tensor([1.0, 4.0], requires_grad=True)
    w = watch(policy="record", budget=1.0)
    with w:
        for each in (1.0, 2.0, factor, 1.0, factor):
            ask(weight, each, how)
    assert [event.step for event in w.events] == [3, 5]
    assert w.step == len(w.loss_history) == len(w.grad_norm_history) == 5
    rows = remembered(w.events[0])
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert [round(row["loss"], 3) for row in rows[:2]] == [1.386, 2.773]
    assert [round(row["grad_norm"], 3) for row in rows[:2]] == [1.031, 1.031]


@pytest.mark.parametrize("how", ["grad", "func"])
def test_returned_gradients_do_not_count_beside_backward(how: str) -> None:
    weight = rg.tensor([1.0, 4.0], requires_grad=True)
    w = watch(policy="record")
    with w:
        for factor in (1.0, 2.0, 0.0):
            ask(weight, 3.0, how)
            rg.log(weight * factor).sum().backward()
    assert [event.step for event in w.events] == [3]
    assert w.step == len(w.loss_history) == 3


def test_second_derivatives_do_not_count_as_steps() -> None:
    def energy(x: rg.Tensor) -> rg.Tensor:
        return (x**4).sum()

    x = rg.tensor([1.0, 2.0])
    w = watch()
    with w:
        rg.func.grad(lambda x: rg.func.grad(energy)(x).sum())(x)
        rg.func.hessian(energy)(x)
        rg.func.jvp(rg.func.grad(energy), (x,), (rg.ones(2),))
    assert w.step == 1


def test_a_step_of_returned_gradients_can_be_recorded() -> None:
    weight = rg.tensor([1.0, 4.0], requires_grad=True)
    w = watch(policy="record", from_step=2)
    with w:
        for factor in (1.0, 0.0):
            ask(weight, factor, "func")
    (event,) = w.events
    assert (event.op, event.step) == ("log", 2)


@pytest.mark.parametrize("how", ["loss", "gradient", "tangent"])
def test_returned_gradients_before_backward_do_not_shift_the_losses(how: str) -> None:
    weight = rg.tensor([1.0, 4.0], requires_grad=True)
    w = watch(policy="record", budget=1.0)
    with w:
        for step in range(1, 4):
            factor = 0.0 if step == 3 else 1.0
            if how == "tangent":
                rg.func.jvp(rg.sqrt, (weight.detach() * factor,), (rg.ones(2),))
            else:
                inner = rg.log(weight * factor) if how == "loss" else rg.sqrt(weight * factor)
                rg.autograd.grad(inner.sum(), weight, create_graph=True)
            (weight * step).sum().backward()
    event = w.events[0]
    assert event.step == 3
    rows = remembered(event)
    assert [(row["step"], row.get("loss")) for row in rows] == [(1, 5.0), (2, 10.0), (3, None)]
