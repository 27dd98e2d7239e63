"""Batches that a program leaves out by itself: now and then is its own affair, all of them are training in vain."""

from __future__ import annotations

import math
import warnings
from types import ModuleType
from typing import Any

import pytest

from retrograd.anomaly import AnomalyError, AnomalyWarning, expect_nonfinite, watch
from tests.anomaly.both import modules


def loss_of(module: ModuleType, weight: Any, factor: float) -> Any:
    return module.log(weight * factor).mean()  # born here


def by_continue(module: ModuleType, weight: Any, factor: float) -> bool:
    for _ in range(1):
        loss = loss_of(module, weight, factor)
        if module.isnan(loss) or module.isinf(loss):
            continue
        loss.backward()
        return True
    return False


def by_number(module: ModuleType, weight: Any, factor: float) -> bool:
    for _ in range(1):
        loss = loss_of(module, weight, factor)
        value = loss.item()
        if not math.isfinite(value):
            continue
        loss.backward()
        return True
    return False


def by_a_condition(module: ModuleType, weight: Any, factor: float) -> bool:
    loss = loss_of(module, weight, factor)
    done = False
    if module.isfinite(loss):
        loss.backward()
        done = True
    return done


FORMS = pytest.mark.parametrize("form", [by_continue, by_number, by_a_condition])


def run(module: ModuleType, form: Any, factors: list[float], policy: str = "raise") -> tuple[Any, list[Any]]:
    weight = module.tensor([1.0, 2.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with watch(policy=policy) as w:
            for factor in factors:
                assert form(module, weight, factor) == (factor > 0)
    return w, [each for each in caught if each.category is AnomalyWarning]


@modules
@FORMS
@pytest.mark.parametrize("policy", ["raise", "skip_step", "warn"])
def test_a_watch_warns_when_all_further_batches_are_left_out(module: ModuleType, form: Any, policy: str) -> None:
    w, told = run(module, form, [1.0] * 3 + [0.0] * 20, policy)
    (warning,) = told
    assert "skipped 8 batches in a row" in str(warning.message)
    (event,) = w.events
    assert (event.op, event.code_line) == ("log", "return module.log(weight * factor).mean()  # born here")
    assert w.left_out.total == 20
    assert "20 skipped by the program" in repr(w)


@modules
@FORMS
def test_batches_left_out_now_and_then_give_no_warning(module: ModuleType, form: Any) -> None:
    w, told = run(module, form, [1.0, 0.0, 0.0] * 8)
    assert not told
    assert not w.events
    assert w.left_out.total == 16


@modules
def test_under_record_batches_left_out_are_events_without_a_warning(module: ModuleType) -> None:
    w, told = run(module, by_continue, [0.0] * 10, "record")
    assert not told
    assert [event.op for event in w.events] == ["log"]


@modules
def test_the_warning_is_repeated_after_a_good_batch(module: ModuleType) -> None:
    _, told = run(module, by_continue, [*[0.0] * 10, 1.0, *[0.0] * 10])
    assert len(told) == 2


@modules
def test_expected_births_are_not_counted(module: ModuleType) -> None:
    weight = module.tensor([1.0, 2.0], requires_grad=True)
    with watch() as w, expect_nonfinite("a test"):
        for _ in range(10):
            by_continue(module, weight, 0.0)
    assert not w.events


def solved(module: ModuleType, state: Any, until: Any, size: Any) -> Any:
    """A solver's loop, whose times are tensors; its parts are called like those of a loop that is left by its state."""
    time = until * 0
    while time < until:
        if size is None:
            finer = state.log()
            finer, size = finer, (finer - state).abs().max()
        after = time + 0.1 if size is None else time + size
        time, state = after, module.sqrt(state - 1)  # born here
    return state


def converged(module: ModuleType, state: Any) -> Any:
    change, steps = state.sum(), 0
    while (module.isnan(change) or change > 0) and steps < 20:
        state = module.sqrt(state - 1)  # born here
        change = state.sum()
        steps += 1
    return state


@modules
@pytest.mark.parametrize("solve", [lambda *given: solved(*given, 0.1), lambda *given: converged(*given[:2])])
def test_a_loop_of_a_solver_leaves_no_batch_out(module: ModuleType, solve: Any) -> None:
    weight = module.tensor([1.5], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with watch(policy="skip_step") as w:
            solve(module, weight * 1, module.tensor(2.0)).sum().backward()
    assert not caught
    assert w.left_out.total == 0
    assert {event.op for event in w.events} == {"sqrt"}


@modules
def test_a_variable_assigned_beside_the_condition_is_not_read_by_it(module: ModuleType) -> None:
    weight = module.tensor([1.5], requires_grad=True)
    with watch(policy="record") as w:
        solved(module, weight * 1, module.tensor(2.0), 0.1)  # and its result is not used
    assert not w.events


@modules
@FORMS
def test_the_first_batch_left_out_is_remembered_with_its_birth(module: ModuleType, form: Any) -> None:
    w, told = run(module, form, [1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    assert not told
    assert w.left_out.first is not None
    assert (w.left_out.first.op, w.left_out.first.step) == ("log", 3)
    assert w.left_out.outcome == "the program skipped 2 such batches"


def by_return(module: ModuleType, weight: Any, factor: float) -> bool:
    loss = loss_of(module, weight, factor)
    if not module.isfinite(loss):
        return False
    loss.backward()
    return True


@modules
def test_a_return_for_one_batch_is_an_event_only_if_no_batch_follows(module: ModuleType) -> None:
    """But if the first of them was the last that the program has computed, it may have ended for it."""
    w, told = run(module, by_return, [1.0, 0.0, 1.0, 0.0])
    assert (w.events, told, w.left_out.total) == ((), [], 2)
    with pytest.raises(AnomalyError):
        run(module, by_return, [1.0, 1.0, 0.0])


def by_break(module: ModuleType, weight: Any, factors: list[float]) -> None:
    bad = 0
    for factor in factors:
        loss = loss_of(module, weight, factor)
        if module.isinf(loss):
            bad += 1
            if bad == 2:
                break
            continue
        loss.backward()


@modules
def test_the_event_of_a_loop_that_is_left_is_the_last_bad_batch(module: ModuleType) -> None:
    weight = module.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(AnomalyError), watch() as w:
        by_break(module, weight, [1.0, 0.0, 1.0, 0.0, 1.0])
    assert [event.step for event in w.events] == [3]


def by_a_constant(module: ModuleType, loss: Any) -> Any:
    if not module.isfinite(loss):
        loss = module.tensor(1e9)
    return loss


def by_a_truth_value(module: ModuleType, loss: Any) -> Any:
    is_bad = module.isnan(loss) or module.isinf(loss)
    if is_bad:
        loss = module.zeros(())
    return loss


def in_an_expression(module: ModuleType, loss: Any) -> Any:
    kept = loss
    loss = loss if math.isfinite(loss.item()) else module.tensor(0.0)
    return loss if kept is not None else None


def where_it_is_returned(module: ModuleType, loss: Any) -> Any:
    return module.tensor(0.0) if module.isinf(loss) else loss


REPLACED = pytest.mark.parametrize("replace", [by_a_constant, by_a_truth_value, in_an_expression, where_it_is_returned])


@modules
@REPLACED
def test_a_replaced_loss_is_named_in_the_error_of_backward(module: ModuleType, replace: Any) -> None:
    weight = module.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad") as raised, watch() as w:
        for factor in (1.0, 0.0):
            replace(module, loss_of(module, weight, factor)).backward()
    (event,) = w.events
    assert (event.op, event.step, event.code_line) == (
        "log", 2, "return module.log(weight * factor).mean()  # born here"
    )  # fmt: skip
    assert "replaced this loss" in raised.value.__notes__[0]


@modules
@REPLACED
def test_a_loss_that_is_replaced_is_left_out(module: ModuleType, replace: Any) -> None:
    weight = module.tensor([1.0, 2.0], requires_grad=True)
    with watch() as w:
        for factor in (1.0, 0.0, 1.0, 0.0, 1.0):
            (replace(module, loss_of(module, weight, factor)) + weight.sum()).backward()
        with pytest.raises(RuntimeError, match="does not require grad") as raised:
            module.tensor(1.0).backward()  # a fault of its own
    assert (w.events, w.left_out.total) == ((), 2)
    assert not hasattr(raised.value, "__notes__")


@modules
def test_keeping_the_best_loss_does_not_count_as_replacing(module: ModuleType) -> None:
    weight, best = module.tensor([1.0, 2.0], requires_grad=True), math.inf
    with watch(policy="record") as w:
        for factor in (1.0, -1.0, 1.0):
            loss = loss_of(module, weight, factor)
            loss.backward()
            if loss < best:
                best = loss
    assert len(w.events) == 1
    assert w.left_out.total == 0
