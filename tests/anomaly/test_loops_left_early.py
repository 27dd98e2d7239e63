"""Loops that the program leaves in a bad step: before that has been run again, or before ``backward``."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError, Watch, expect_nonfinite, watch
from tests.anomaly.both import modules


def loss_of(module: ModuleType, k: int) -> float:
    x = module.tensor([1.0 - k, 2.0], requires_grad=True)
    loss = x.log().mean()
    loss.backward()
    return loss.item()


def train(w: Watch, module: ModuleType) -> None:
    for k in w.steps(range(3)):
        if abs(loss_of(module, k)) == float("inf"):
            break


@modules
def test_a_loop_that_breaks_on_a_bad_loss_raises(module: ModuleType) -> None:
    """Programs stop by themselves when their loss is not finite."""
    with pytest.raises(AnomalyError, match="log"), watch() as w:
        train(w, module)
    assert [(event.op, event.batch_idx) for event in w.events] == [("log", 1)]


@modules
def test_record_keeps_the_event_of_a_loop_that_is_left(module: ModuleType) -> None:
    w = watch(policy="record").start()
    train(w, module)
    w.stop()
    assert [(event.op, event.batch_idx, event.index) for event in w.events] == [("log", 1, (0,))]


@modules
@pytest.mark.parametrize("error", [KeyError("the loss is not finite"), KeyboardInterrupt()])
def test_an_error_before_the_second_run_gets_a_note(module: ModuleType, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, watch() as w:
        for k in w.steps(range(3)):
            if abs(loss_of(module, k)) == float("inf"):
                raise error
    if isinstance(error, Exception):
        assert [(event.op, event.batch_idx) for event in w.events] == [("log", 1)]
        assert "born in log" in "".join(getattr(caught.value, "__notes__", ()))


@modules
@pytest.mark.parametrize("at", ["the loss", "a gradient"])
def test_events_after_a_loop_that_was_left_have_no_batch_of_it(module: ModuleType, at: str) -> None:
    def bad() -> None:
        x = module.zeros(2, requires_grad=True)
        (x.log() if at == "the loss" else x.sqrt()).sum().backward()

    with watch(policy="skip_step") as w:
        for _ in w.steps(range(2)):
            for inner in w.steps(range(4)):
                module.ones(1, requires_grad=True).sum().backward()
                if inner == 2:
                    break
            bad()
        for k in w.steps(range(3)):
            if k == 1:
                break
        bad()
        for _ in w.steps(range(1)):
            bad()
        bad()
    assert [(event.step, event.batch_idx) for event in w.events] == [(4, 0), (8, 1), (9, None), (10, 0), (11, None)]


@modules
def test_a_birth_seen_in_both_runs_is_one_event(module: ModuleType) -> None:
    with watch(policy="record") as w:
        for k in w.steps(range(2)):
            loss_of(module, k)
    assert [event.reproducible for event in w.events] == [True]


def nested(w: Watch, module: ModuleType) -> Any:
    for _ in w.steps(range(2)):
        for k in w.steps(range(3)):
            if math.isinf(loss_of(module, k)):
                return


def of_a_variable(w: Watch, module: ModuleType) -> Any:
    steps = w.steps(range(3))
    for k in steps:
        if math.isinf(loss_of(module, k)):
            break
    return steps


@modules
@pytest.mark.parametrize("loop", [nested, of_a_variable])
def test_a_loop_whose_iterator_something_holds_raises_as_well(
    module: ModuleType, loop: Callable[[Watch, ModuleType], Any]
) -> None:
    """The iterator of an outer loop is closed after that of the inner one, and a variable's later than the watch."""
    with pytest.raises(AnomalyError, match="log"), watch() as w:
        steps = loop(w, module)
    del steps
    assert [event.op for event in w.events] == ["log"]


@modules
def test_an_error_in_a_loop_whose_iterator_something_holds_gets_a_note(module: ModuleType) -> None:
    steps = None
    with pytest.raises(KeyError) as caught, watch() as w:
        steps = w.steps(range(3))
        for k in steps:
            if math.isinf(loss_of(module, k)):
                raise KeyError("the loss is not finite")
    del steps
    assert [event.op for event in w.events] == ["log"]
    assert "born in log" in "".join(caught.value.__notes__)


# --- before backward --------------------------------------------------------------------------------------------------

Program = Callable[[Watch, ModuleType], object]


def loss_before(module: ModuleType, k: int) -> Any:
    x = module.tensor([1.0 - k, 2.0], requires_grad=True)
    return x.log().mean()  # born here


def checked_by_the_library(w: Watch, module: ModuleType) -> None:
    for k in w.steps(range(3)):
        loss = loss_before(module, k)
        if not module.isfinite(loss):
            break
        loss.backward()


def checked_as_a_number(w: Watch, module: ModuleType) -> str:
    for k in w.steps(range(3)):
        loss = loss_before(module, k)
        value = loss.item()
        if math.isnan(value) or math.isinf(value):
            return "stopped"
        loss.backward()
    return "trained"


def checked_by_a_flag(w: Watch, module: ModuleType) -> None:
    for k in w.steps(range(3)):
        loss = loss_before(module, k)
        healthy = math.isfinite(loss.item())
        if not healthy:
            break
        loss.backward()


def checked_as_a_member(w: Watch, module: ModuleType) -> None:
    trainer = SimpleNamespace()
    for k in w.steps(range(3)):
        trainer.loss = loss_before(module, k)
        if abs(trainer.loss.item()) == math.inf:
            break
        trainer.loss.backward()


def checked_in_the_other_branch(w: Watch, module: ModuleType) -> None:
    for k in w.steps(range(3)):
        loss = loss_before(module, k)
        if loss.isfinite():
            loss.backward()
        else:
            print("the loss is not finite")
            return


leaving = pytest.mark.parametrize(
    "program",
    [
        checked_by_the_library,
        checked_as_a_number,
        checked_by_a_flag,
        checked_as_a_member,
        checked_in_the_other_branch,
    ],
)


@modules
@leaving
def test_a_bad_loss_for_which_the_program_leaves_before_backward_raises(module: ModuleType, program: Program) -> None:
    with pytest.raises(AnomalyError, match="log"), watch() as w:
        program(w, module)
    (event,) = w.events
    assert (event.op, event.index, event.batch_idx, event.step, event.harmed) == ("log", (0,), 1, 2, "loss")
    assert (event.code_line or "").endswith("# born here")


@modules
@leaving
def test_record_keeps_the_event_of_a_loss_without_backward(module: ModuleType, program: Program) -> None:
    with watch(policy="record") as w:
        program(w, module)
    assert [(event.op, event.index) for event in w.events] == [("log", (0,))]


def in_a_function(module: ModuleType) -> None:
    for k in range(3):
        loss = loss_before(module, k)
        if module.isnan(loss) or module.isinf(loss):
            return
        loss.backward()


def is_fine(loss: Any) -> bool:
    return bool(loss.isfinite().all())


def by_another_function(module: ModuleType) -> None:
    for k in range(3):
        loss = loss_before(module, k)
        if not is_fine(loss):
            break
        loss.backward()


def of_a_history(module: ModuleType) -> None:
    losses = []
    for k in range(3):
        loss = loss_before(module, k)
        losses.append(loss.item())
        if any(map(math.isinf, losses)):
            break
        loss.backward()


def of_the_running_mean(module: ModuleType) -> None:
    mean = 0.0
    for k in range(3):
        loss = loss_before(module, k)
        mean = 0.9 * mean + 0.1 * float(loss.detach())
        if not math.isfinite(mean):
            break
        loss.backward()


@modules
@pytest.mark.parametrize("program", [in_a_function, by_another_function, of_a_history, of_the_running_mean])
def test_a_loop_in_a_function_that_has_returned_is_reported(
    module: ModuleType, program: Callable[[ModuleType], None]
) -> None:
    with pytest.raises(AnomalyError, match="log"), watch() as w:
        program(module)
    (event,) = w.events
    assert (event.op, event.index, event.step) == ("log", (0,), 2)
    assert (event.code_line or "").endswith("# born here")


@modules
def test_a_loop_without_steps_is_reported(module: ModuleType) -> None:
    with pytest.raises(AnomalyError, match="log"), watch() as w:
        for k in range(3):
            loss = loss_before(module, k)
            if loss.isinf():
                break
            loss.backward()
    assert [(event.op, event.step) for event in w.events] == [("log", 2)]


@modules
def test_a_bad_loss_in_the_condition_of_a_while_loop_is_reported(module: ModuleType) -> None:
    with watch(policy="record") as w:
        loss, k = loss_before(module, 0), 0
        while math.isfinite(loss.item()):
            loss.backward()
            k += 1
            loss = loss_before(module, k)
    assert [(event.op, event.step) for event in w.events] == [("log", 2)]


@modules
def test_a_bad_loss_before_stop_is_reported(module: ModuleType) -> None:
    w = watch(policy="record").start()
    loss = loss_before(module, 1)
    if loss == -math.inf:
        w.stop()
        assert [event.op for event in w.events] == ["log"]
        return
    pytest.fail("the loss is finite")


@modules
def test_a_program_that_goes_on_after_a_bad_loss_is_not_stopped(module: ModuleType) -> None:
    """It has put back a checkpoint, say."""
    with watch() as w:
        checked_by_the_library(w, module)
        loss_before(module, 0).backward()
    assert not w.events


@modules
def test_the_event_has_the_losses_up_to_the_bad_one(module: ModuleType) -> None:
    with watch(policy="record") as w:
        in_a_function(module)
    assert w.event is not None
    assert w.event.surroundings is not None
    losses = w.event.surroundings.context["loss_history"]
    assert losses == (pytest.approx(math.log(2) / 2), -math.inf)
    assert tuple(w.loss_history) == losses[:1]


@modules
def test_only_the_last_loss_for_which_the_program_stops_is_reported(module: ModuleType) -> None:
    with pytest.raises(AnomalyError), watch() as w:
        checked_by_the_library(w, module)
        checked_by_the_library(w, module)
    assert [event.step for event in w.events] == [3]


@modules
def test_an_error_of_the_program_comes_first_and_gets_a_note(module: ModuleType) -> None:
    with pytest.raises(KeyError) as caught, watch() as w:
        checked_by_the_library(w, module)
        raise KeyError
    assert [event.op for event in w.events] == ["log"]
    assert "born in log" in "".join(caught.value.__notes__)


# --- healthy programs -------------------------------------------------------------------------------------------------


@modules
def test_a_loop_that_is_left_for_another_reason_has_no_event(module: ModuleType) -> None:
    with watch() as w:
        for k in w.steps(range(5)):
            if k >= 2:
                break
            x = module.tensor([1.0, 0.0], requires_grad=True)
            entropy = module.where(x > 0, x * x.log(), 0.0).detach().sum()
            masked = x.log().sum()  # is not used, and not looked at
            (x.sum() + entropy).backward()
    assert masked.isinf()
    assert not w.events


@modules
def test_values_that_are_checked_in_order_to_go_on_have_no_event(module: ModuleType) -> None:
    """A sampler rejects points in this way, and a loop leaves out batches."""
    with watch() as w:
        for k in w.steps(range(4)):
            log_density = loss_before(module, k % 2)
            if log_density.isinf():
                continue
            log_density.backward()
    assert log_density.isinf()
    assert not w.events


@modules
def test_a_skipped_loss_for_which_the_program_breaks_is_one_event(module: ModuleType) -> None:
    with watch(policy="skip_step") as w:
        for k in w.steps(range(4)):
            loss = loss_before(module, int(k == 3))
            loss.backward()
            if loss.isinf():
                break
    assert [event.op for event in w.events] == ["log"]


@modules
def test_expected_infinities_for_which_the_program_leaves_have_no_event(module: ModuleType) -> None:
    with watch() as w:
        with expect_nonfinite("the point is outside"):
            checked_by_the_library(w, module)
        with watch(allow="log") as inner:
            checked_by_the_library(inner, module)
    assert not w.events
    assert not inner.events


def test_tensors_without_numbers_in_a_condition_do_no_harm() -> None:
    """A tensor of shapes without numbers may stand in a condition, beside one that has some."""
    is_on = torch.tensor(True)
    with watch() as w:
        loss = torch.ones(2, device="meta", requires_grad=True).log().sum()
        if is_on and loss.shape:
            raise AssertionError
    assert not w.events


@modules
def test_points_that_a_sampler_rejects_have_no_event(module: ModuleType) -> None:
    """Its gradients go to no weights, so that no step is counted."""

    def leap(position: float) -> float | None:
        x = module.tensor([position], requires_grad=True)
        density = x.log().sum()
        if density.isinf():
            return None
        (slope,) = module.autograd.grad(density, [x])
        return position + 0.1 * slope.item()

    with watch() as w:
        for position in (1.0, 0.0, 2.0):
            leap(position)
    assert not w.events


@modules
def test_an_infinity_that_is_only_printed_has_no_event(module: ModuleType) -> None:
    """A part of the loss that is masked out, in a function that checks the loss."""
    with watch() as w:
        for _ in w.steps(range(3)):
            x = module.tensor([1.0, 0.0], requires_grad=True)
            part = x.log().sum()
            loss = (x * x).sum() + module.where(part.detach().isinf(), module.zeros(()), part.detach())
            print(part.item())
            if loss > 100:
                break
            loss.backward()
    assert part.isinf()
    assert not w.events


@modules
def test_a_bad_loss_under_no_grad_has_no_event(module: ModuleType) -> None:
    """Validation does this."""

    def validated() -> Watch:
        with watch() as w:
            loss_before(module, 0).backward()
            with module.no_grad():
                loss = loss_before(module, 1)
                if loss.isinf():
                    return w
        raise AssertionError("the loss is finite")

    assert not validated().events


@modules
def test_infinite_numbers_without_a_graph_have_no_event(module: ModuleType) -> None:
    best = math.inf
    worst = module.tensor(math.inf)
    with watch() as w:
        for _ in w.steps(range(3)):
            loss = loss_before(module, 0)
            loss.backward()
            if best < loss or worst < loss or (math.isinf(best) and math.isinf(worst)):
                break
    assert not w.events


@modules
def test_unusual_objects_in_a_condition_do_no_harm(module: ModuleType) -> None:
    class Odd:
        def item(self) -> float:
            raise ValueError

        def __bool__(self) -> bool:
            return True

    odd, several = Odd(), module.ones(3)
    with watch() as w:
        for _ in w.steps(range(3)):
            loss = loss_before(module, 0)
            loss.backward()
            if odd and several.sum() and missing(loss):
                break
    assert not w.events


@modules
@pytest.mark.parametrize(
    "other",
    [torch.ones(2), rg.ones(2), torch.float64, rg.float64],
    ids=["tensor of torch", "tensor", "dtype of torch", "dtype"],
)
def test_tensors_and_dtypes_of_another_library_in_a_condition_do_no_harm(module: ModuleType, other: Any) -> None:
    """A dtype has ``is_floating_point`` as well, but as a truth value; a data set may be the other library's."""
    with watch() as w:
        for _ in w.steps(range(3)):
            loss = loss_before(module, 0)
            loss.backward()
            if other is None or loss > 100:
                break
    assert not w.events


def missing(loss: Any) -> bool:
    return bool(loss < 1)
