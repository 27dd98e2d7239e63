"""Loops over the steps of a watch: the second run of a bad step, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError
from retrograd.core.tensor import Tensor
from tests.anomaly.steps import each_harm, leaf

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def test_steps_refuses_a_number_and_suggests_a_range() -> None:
    with (
        rg.anomaly.watch() as watch,
        pytest.raises(TypeError, match=r"the batches, .* but got 3; for 3 steps give range\(3\)"),
    ):
        list(watch.steps(3))  # type: ignore[arg-type]


def test_the_second_run_repeats_random_numbers_and_buffers() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(4, 4), rg.nn.Dropout(0.5), rg.nn.BatchNorm1d(4))
    seen: list[np.ndarray] = []
    buffers: list[np.ndarray] = []
    rng_draws: list[float] = []
    watch = rg.anomaly.watch(model, policy="record")
    with watch:
        for batch in watch.steps([rg.randn(3, 4), rg.randn(3, 4)]):
            buffers.append(model[2].running_mean.numpy().copy())
            hidden = model[1](model[0](batch))
            seen.append(hidden.detach().numpy().copy())
            rng_draws.append(float(np.random.rand()))
            (model[2](hidden).sum() + rg.log(hidden.sum() * 0 + 1 - (watch.batch_idx or 0))).backward()
    assert watch.event is not None
    assert watch.event.reproducible
    first, second, again = seen
    np.testing.assert_array_equal(second, again)
    assert not np.array_equal(first, second)
    assert rng_draws[1] == rng_draws[2]
    np.testing.assert_array_equal(buffers[1], buffers[2])


def test_schedules_and_scales_do_not_advance_in_the_second_run() -> None:
    schedules = rg.optim.lr_scheduler

    def moved(make: Callable[[rg.optim.Optimizer], Any], again: bool) -> list[tuple[float, dict[str, Any]]]:
        net = rg.nn.Linear(2, 1)
        optimizer = rg.optim.SGD(net.parameters(), 0.1)
        schedule, scaler = make(optimizer), rg.amp.GradScaler("cpu", growth_interval=3)
        measured = (1.0,) if isinstance(schedule, schedules.ReduceLROnPlateau) else ()
        found = []
        with rg.anomaly.watch(net, optimizer, policy="skip_step") as watch:
            data = [rg.full((3, 2), value) for value in (1.0, float("nan"), 1.0, 1.0)]
            for batch in watch.steps(data) if again else data:
                optimizer.zero_grad()
                scaler.scale((net(batch) ** 2).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                schedule.step(*measured)
                found.append((optimizer.param_groups[0]["lr"], scaler.state_dict()))
        assert len(watch.events) == 1
        return found[:1] + found[1 + again :]

    def on_plateau(optimizer: rg.optim.Optimizer) -> Any:
        return schedules.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)

    for make in (lambda each: schedules.StepLR(each, 2), on_plateau):
        assert moved(make, True) == moved(make, False)


@pytest.mark.parametrize("policy", ["record", "skip_step", "raise"])
@each_harm
def test_weights_are_put_back_bit_for_bit(harm: Callable[[Tensor], None], policy: str) -> None:
    x = leaf(1.0, 2.0)
    other = leaf(3.0)
    watch = rg.anomaly.watch(policy=policy)

    def loop() -> None:
        for _ in watch.steps([0]):
            (x.sum() * other.sum()).backward()
            harm(x)
            with rg.no_grad():
                x.sub_(x.grad).sub_(1.0)

    with watch:
        if policy == "raise":
            with pytest.raises(AnomalyError):
                loop()
        else:
            loop()
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 2.0])
    assert len(watch.events) == 1


def test_the_note_says_if_the_birth_does_not_happen_again() -> None:
    x = leaf(1.0)
    values = iter([0.0, 1.0])
    watch = rg.anomaly.watch(policy="record")
    with watch:
        for _ in watch.steps([0]):
            rg.log(x * next(values)).sum().backward()
    assert watch.event is not None
    assert watch.event.reproducible is False
    assert "the runs differ" in (watch.event.note or "")


def test_steps_goes_on_after_it_has_run_a_bad_batch_twice() -> None:
    seen = []
    watch = rg.anomaly.watch(policy="record")
    x = leaf(1.0)
    with watch:
        for batch in watch.steps([1.0, 0.0, 2.0]):
            seen.append(batch)
            rg.log(x * batch).sum().backward()
    assert seen == [1.0, 0.0, 0.0, 2.0]
    assert watch.event is not None
    assert watch.event.batch_idx == 1


@pytest.mark.parametrize("leaves", [False, True])
def test_a_bad_step_in_which_the_watch_is_stopped_is_still_reported(leaves: bool) -> None:
    """The step cannot be run again, and what the watch has found so far becomes the event."""
    watch = rg.anomaly.watch(policy="record").start()
    x, seen = leaf(1.0, 0.0), []
    for batch in watch.steps([1.0, 2.0]):
        seen.append(batch)
        if batch == 1.0:
            rg.log(x * batch).sum().backward()
            watch.stop()
            assert not watch.events
            if leaves:
                break
    assert seen == ([1.0] if leaves else [1.0, 2.0])
    assert [event.op for event in watch.events] == ["log"]
    watch.start()
    watch.stop()
    assert len(watch.events) == 1


def test_a_loop_left_in_the_middle_does_not_disturb_the_next() -> None:
    x = leaf(1.0)
    watch = rg.anomaly.watch(policy="record")
    with watch:
        left = watch.steps([1.0, 2.0])
        next(left)
        for batch in watch.steps([0.0]):
            left.close()
            rg.log(x * batch).sum().backward()
    assert watch.event is not None
    assert watch.event.reproducible


@each_harm
@pytest.mark.parametrize("policy", ["skip_step", "raise"])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_skip_step_and_raise_restore_the_gradients_of_before_the_bad_batch(
    harm: Callable[[Tensor], None], policy: str, set_to_none: bool
) -> None:
    """These are the sums of earlier batches, and None in leaves that only the bad batch reaches."""
    x, other, late = leaf(1.0, 2.0), leaf(3.0), leaf(4.0)
    optimizer = rg.optim.SGD([x, other, late], lr=1.0)
    sums: list[np.ndarray] = []
    watch = rg.anomaly.watch(policy=policy)

    def loop() -> None:
        for batch in watch.steps(range(3)):
            if batch == 0:
                optimizer.zero_grad(set_to_none)
            (x.sum() * (batch + 2.0)).backward()
            if batch == 1:
                assert x.grad is not None
                sums.append(x.grad.numpy().copy())
                (late * 5.0).sum().backward()
                harm(x)

    with watch:
        if policy == "raise":
            with pytest.raises(AnomalyError):
                loop()
        else:
            loop()
    assert x.grad is not None
    first = [2.0, 2.0]
    np.testing.assert_array_equal(sums, [[5.0, 5.0], [5.0, 5.0]])
    np.testing.assert_array_equal(x.grad.numpy(), first if policy == "raise" else [6.0, 6.0])
    assert other.grad is None
    assert late.grad is None


@each_harm
@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_that_a_skipped_step_clears_stay_cleared(harm: Callable[[Tensor], None], set_to_none: bool) -> None:
    x = leaf(1.0, 2.0)
    optimizer = rg.optim.SGD([x], lr=1.0)
    watch = rg.anomaly.watch(policy="skip_step")
    with watch:
        for batch in watch.steps(range(4)):
            x.sum().backward()
            if batch == 1:
                harm(x)
            if batch % 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none)
    np.testing.assert_array_equal(x.detach().numpy(), [-1.0, 0.0])
    assert len(watch.events) == 1


def test_random_numbers_advance_after_a_step_that_was_run_again() -> None:
    """Otherwise a loop that draws its own data would draw the same bad batch for ever under "skip_step"."""
    drawn: list[list[float]] = []
    x = rg.ones(3).requires_grad_()
    with rg.anomaly.watch(policy="skip_step") as w:
        for number in w.steps(range(3)):
            drawn.append(rg.rand(3).tolist())
            rg.log(x * (0.0 if number == 1 else 1.0)).sum().backward()
    first, tripped, again, after = drawn
    assert tripped == again
    assert len({tuple(each) for each in (first, tripped, after)}) == 3


@pytest.mark.parametrize("loader", [[1.0, 2.0, 3.0], range(3), rg.utils.data.DataLoader([1.0, 2.0, 3.0])])
def test_steps_has_the_length_of_its_loader(loader: Any) -> None:
    """A progress bar asks for the length. The second run of a step does not count as a batch."""
    with rg.anomaly.watch() as watch:
        steps = watch.steps(loader)
        assert len(steps) == len(loader) == 3
        assert iter(steps) is steps
        assert len(list(steps)) == 3


def test_steps_over_a_generator_has_no_length() -> None:
    with rg.anomaly.watch() as watch:
        steps = watch.steps(each for each in (1.0, 2.0))
        with pytest.raises(TypeError, match=r"object of type 'generator' has no len\(\)"):
            len(steps)
        assert list(steps) == [1.0, 2.0]
        assert list(steps) == []
