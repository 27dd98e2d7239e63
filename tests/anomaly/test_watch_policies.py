"""The policies of a watch, and the arguments that a watch refuses."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, AnomalyWarning, NaNEvent
from retrograd.core.tensor import Tensor
from tests.anomaly.steps import bad_loss, each_harm, leaf

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


@each_harm
def test_the_default_policy_is_raise(harm: Callable[[Tensor], None]) -> None:
    with pytest.raises(AnomalyError) as raised, rg.anomaly.watch() as watch:
        harm(leaf(1.0))
    assert raised.value.event is watch.event
    assert isinstance(raised.value, RuntimeError)


@each_harm
def test_record_keeps_each_event_and_lets_the_gradients_pass(harm: Callable[[Tensor], None]) -> None:
    x = leaf(1.0)
    with rg.anomaly.watch(policy="record") as watch:
        harm(x)
        harm(x)
    assert len(watch.events) == 2
    assert watch.triggered
    assert x.grad is not None


@each_harm
def test_a_warning_points_at_the_line_that_calls_backward(harm: Callable[[Tensor], None]) -> None:
    with rg.anomaly.watch(policy="warn") as watch, pytest.warns(AnomalyWarning) as caught:
        harm(leaf(1.0))
    assert len(caught) == len(watch.events) == 1
    assert caught[0].filename == harm.__code__.co_filename
    assert caught[0].lineno == harm.__code__.co_firstlineno + 1
    assert str(watch.event).split(",")[0] in str(caught[0].message)


@each_harm
def test_ignore_keeps_no_event(harm: Callable[[Tensor], None]) -> None:
    with rg.anomaly.watch(policy="ignore") as watch:
        harm(leaf(1.0))
    assert watch.events == ()


@each_harm
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_skip_step_leaves_out_only_the_bad_update(harm: Callable[[Tensor], None], optimizer: str) -> None:
    x = leaf(1.0, 2.0)
    optim = getattr(rg.optim, optimizer)([x], lr=0.1)
    with rg.anomaly.watch(policy="skip_step") as watch:
        harm(x)
        optim.step()
        np.testing.assert_array_equal(x.detach().numpy(), [1.0, 2.0])
        optim.zero_grad()
        x.sum().backward()
        optim.step()
    assert len(watch.events) == 1
    assert bool((x.detach() < rg.tensor([1.0, 2.0])).all())


@each_harm
def test_skip_step_leaves_an_update_by_hand_nothing_to_apply(harm: Callable[[Tensor], None]) -> None:
    x = leaf(1.0, 2.0)
    with rg.anomaly.watch(policy="skip_step"):
        harm(x)
        with rg.no_grad():
            x -= 0.1 * x.grad
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 2.0])


@pytest.mark.parametrize("answer", ["record", "ignore", None])
def test_a_function_of_the_event_can_be_the_policy(answer: str | None) -> None:
    seen: list[NaNEvent] = []

    def decide(event: NaNEvent) -> str | None:
        seen.append(event)
        return answer

    with rg.anomaly.watch(policy=decide) as watch:
        bad_loss(leaf(1.0))
    assert [event.op for event in seen] == ["log"]
    assert len(watch.events) == (0 if answer == "ignore" else 1)


def test_a_policy_function_can_return_raise() -> None:
    with pytest.raises(AnomalyError), rg.anomaly.watch(policy=lambda event: "raise"):
        bad_loss(leaf(1.0))


def test_each_kind_can_have_a_policy_of_its_own() -> None:
    x = leaf(1.0)
    with pytest.raises(AnomalyError), rg.anomaly.watch(policy={"inf": "record"}) as watch:
        bad_loss(x)
        assert len(watch.events) == 1
        (x * 0 / (x * 0)).sum().backward()


def test_harmless_overflow_and_underflow_are_recorded_on_request() -> None:
    x = leaf(1.0)
    with rg.anomaly.watch(policy={"overflow": "record", "underflow": "record"}) as watch:
        (x / rg.exp(rg.tensor([100.0]))).sum().backward()
        (x * 1e-30 * 1e-30).sum().backward()
    assert [(event.kind, event.op, event.index) for event in watch.events] == [
        ("overflow", "exp", (0,)),
        ("underflow", "mul", (0,)),
        ("underflow", "MulBackward0", (0,)),
    ]


@pytest.mark.parametrize("policy", ["raises", {"nan": "stop"}, {"nans": "raise"}, {"nan": None}])
def test_unknown_policies_and_kinds_are_refused(policy: Any) -> None:
    with pytest.raises(ValueError, match=r"no such (policy|kind)"):
        rg.anomaly.watch(policy=policy)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": "warn"}, TypeError, r"but got 'warn'; did you mean policy='warn'\?"),
        ({"model": 3}, TypeError, r"model must be an nn\.Module .* but got 3$"),
        ({"model": bad_loss}, TypeError, r"call it when you use it as a decorator: @watch\(\)$"),
        ({"model": (p for p in [])}, TypeError, r"give the model itself, not its parameters\(\)$"),
        ({"model": rg.optim.SGD([leaf(1.0)])}, TypeError, "pass an optimizer as optimizer=$"),
        ({"model": rg.nn.Linear}, TypeError, "give the model itself, not its class$"),
        ({"optimizer": rg.optim.SGD}, TypeError, "optimizer must be an optimizer object, but got the class SGD"),
        ({"policy": None}, TypeError, "policy must be one of ignore, .*, but got None"),
        ({"policy": ["raise"]}, TypeError, r"policy must be .* a dictionary from kinds to these, but got \['raise'\]"),
        ({"policy": {1: "raise", "nam": "raise"}}, ValueError, "no such kind of anomaly: 1, nam; the kinds are nan"),
        ({"allow": None}, TypeError, "allow takes a name, or a list of names, but got None"),
        ({"model": rg.nn.Linear(1, 1), "allow_modules": 3}, TypeError, "allow_modules takes .* but got 3"),
        ({"max_events": 0}, ValueError, "max_events must be an int of at least 1, but got 0"),
        ({"max_events": "all"}, ValueError, "max_events must be .* but got 'all'"),
        ({"optimizer": [1]}, TypeError, "optimizer must be .* but got list"),
        ({"recorder": "runs/7"}, TypeError, r"recorder must have .* got 'runs/7'; give a .*Report\(directory\)$"),
        ({"recorder": io.StringIO()}, TypeError, r"recorder must have a method write\(event, \*, outcome\)"),
        ({"budget": -1}, ValueError, "budget must be .* got -1"),
        ({"budget": "small"}, ValueError, "budget must be .* got 'small'"),
        ({"lag": 2}, ValueError, "lag must be 0 or 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rg.anomaly.watch(**arguments)


def test_any_object_with_a_step_is_accepted_as_an_optimizer() -> None:
    class Scheduled:  # wraps an optimizer of the library
        def step(self) -> None:
            pass

    with rg.anomaly.watch(optimizer=Scheduled(), budget=np.float32(0.01)) as w, pytest.raises(AnomalyError):
        bad_loss(leaf(1.0))
    assert len(w.events) == 1


def test_a_policy_function_that_returns_no_policy_raises() -> None:
    with (
        pytest.raises(ValueError, match=r"must return one of .* but returned 'stop'"),
        rg.anomaly.watch(policy=lambda event: "stop"),
    ):
        bad_loss(leaf(1.0))


def test_an_event_after_a_loop_has_no_batch_of_that_loop() -> None:
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([1, 2]):
            for _ in w.steps([1, 2, 3, 4]):
                leaf(1.0).sum().backward()
            bad_loss(leaf(1.0))
        bad_loss(leaf(1.0))
    assert [(event.step, event.batch_idx) for event in w.events] == [(5, 0), (10, 1), (11, None)]


def test_max_events_keeps_the_latest() -> None:
    x = leaf(1.0)
    with rg.anomaly.watch(policy="record", max_events=3) as watch:
        for number in range(5):
            watch.set_batch(number)
            bad_loss(x)
    assert [event.batch_idx for event in watch.events] == [2, 3, 4]
