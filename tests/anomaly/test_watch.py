"""How a watch starts and stops, the names in its events, and the memory that it uses."""

from __future__ import annotations

import contextlib
import gc
import pickle
import time
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, Watch
from retrograd.core.tensor import Tensor
from tests.anomaly.steps import Model, bad_gradient, bad_loss, leaf

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_harmed_parameter_has_its_name_in_the_model() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.Linear(2, 1))
    with rg.anomaly.watch(model, policy="record") as watch:
        rg.sqrt(model[1].weight * 0).sum().backward()
    assert watch.event is not None
    assert watch.event.harmed == "the gradient of 1.weight"


def test_a_harmed_leaf_has_the_name_of_its_variable() -> None:
    weights = {"first": leaf(2.0)}
    with rg.anomaly.watch(policy="record") as watch:
        bad_gradient(leaf(1.0))  # which calls it x
        rg.sqrt(weights["first"] * 0).sum().backward()
    assert [event.harmed for event in watch.events] == ["the gradient of x", "the gradient of weights['first']"]


def test_the_event_names_the_layer_of_the_birth() -> None:
    model = Model()
    with rg.anomaly.watch(model, policy="record") as watch:
        model(leaf(1.0, 0.0)).sum().backward()
    assert watch.event is not None
    assert (watch.event.layer_name, watch.event.module_type) == ("inner", "Logarithm")


# --- start and stop ---------------------------------------------------------------------------------------------------


class OddError(Exception):
    pass


@pytest.mark.parametrize("error", [OddError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["forward", "hook", "function", "module", "second run"])
def test_any_exit_restores_the_state_of_before(error: type[BaseException], where: str) -> None:
    def interrupt(*_: object) -> None:
        raise error

    class Interrupted(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise error

    class Layer(rg.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise error

    x = leaf(1.0)
    watch = rg.anomaly.watch(policy="record")
    with pytest.raises(error), watch:
        if where == "hook":
            y = x * 2
            y.register_hook(interrupt)
            y.sum().backward()
        elif where == "function":
            Interrupted.apply(x).sum().backward()
        elif where == "module":
            rg.nn.Sequential(Layer())(x)
        elif where == "second run":
            is_second = iter([False, True])
            for _ in watch.steps([0]):
                if next(is_second):
                    interrupt()
                bad_loss(x)
        else:
            rg.log(x)
            interrupt()
    with pytest.raises(AnomalyError), rg.anomaly.watch():
        bad_loss(leaf(1.0))


def test_a_watch_can_be_used_again_after_an_error() -> None:
    watch = rg.anomaly.watch()
    for _ in range(2):
        with pytest.raises(AnomalyError), watch:
            bad_gradient(leaf(1.0))
    assert len(watch.events) == 2


def test_events_are_kept_only_between_start_and_stop() -> None:
    watch = rg.anomaly.watch(policy="record")
    assert watch.start() is watch
    with pytest.raises(RuntimeError, match="is already running"):
        watch.start()
    bad_loss(leaf(1.0))
    watch.stop()
    watch.stop()
    bad_loss(leaf(1.0))
    assert len(watch.events) == 1


def test_a_hook_may_stop_the_watch() -> None:
    x, before = leaf(1.0, 0.0), (np.geterr(), np.geterrcall())
    watch = rg.anomaly.watch().start()
    root = rg.sqrt(x)
    root.register_hook(lambda gradient: watch.stop())
    root.sum().backward()
    assert (watch.events, np.geterr(), np.geterrcall()) == ((), *before)


def test_a_watch_decorates_a_function() -> None:
    @rg.anomaly.watch()
    def step(x: Tensor) -> str:
        """Take a step."""
        bad_loss(x)
        return "done"

    assert step.__name__ == "step"
    for _ in range(2):
        with pytest.raises(AnomalyError):
            step(leaf(1.0))


def test_of_nested_watches_only_the_inner_one_reports() -> None:
    with rg.anomaly.watch(policy="record") as outer:
        with rg.anomaly.watch(policy="record") as inner:
            assert rg.anomaly.current() is inner
            bad_loss(leaf(1.0))
        assert rg.anomaly.current() is outer
        bad_gradient(leaf(1.0))
    assert [event.op for event in inner.events] == ["log"]
    assert [event.op for event in outer.events] == ["SqrtBackward0"]


def test_raise_stops_before_a_weight_becomes_non_finite() -> None:
    model = rg.nn.Linear(2, 1)
    optimizer = rg.optim.SGD(model.parameters(), lr=1e30)
    with pytest.raises(AnomalyError), rg.anomaly.watch(model, optimizer):
        for _ in range(20):
            optimizer.zero_grad()
            model(rg.ones(3, 2)).square().mean().backward()
            optimizer.step()
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def test_a_stopped_watch_keeps_no_tensor_alive() -> None:
    x = leaf(1.0, 0.0)
    watch = rg.anomaly.watch(policy="record")
    with watch:
        y = rg.log(x)
        (y - y).sum().backward()
        gone = weakref.ref(y)
        del y
    gc.collect()
    assert gone() is None


def test_copies_of_the_weights_are_freed_when_the_watch_stops() -> None:
    """There are copies that measure an update, and copies that undo a step."""
    weight = rg.ones(1 << 18).requires_grad_()

    def trained(**policy: Any) -> Watch:
        optimizer = rg.optim.SGD([weight], lr=1e-3)
        with contextlib.suppress(AnomalyError), rg.anomaly.watch(optimizer=optimizer, **policy) as w:
            for scale in w.steps([1.0, 2.0, -1.0]):
                rg.log(weight * scale).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        assert w.triggered
        weight.grad = None
        return w

    trained()  # allocates what optimizers and threads keep from then on
    tracemalloc.start()
    try:
        watches = [trained(), trained(policy={"spike": "record"})]
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < weight.nbytes / 2
    finally:
        tracemalloc.stop()
    assert len(watches) == 2


def test_the_search_for_names_changes_no_variable() -> None:
    x = leaf(1.0)
    mine = locals()
    with rg.anomaly.watch(policy="record") as watch:
        bad_gradient(x)
    assert watch.triggered
    assert mine["x"] is x
    assert "leaf" in globals()


# --- memory -----------------------------------------------------------------------------------------------------------


def test_births_that_do_no_harm_take_no_memory() -> None:
    def births(count: int) -> int:
        for _ in range(count):
            rg.log(rg.zeros(2))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    with rg.anomaly.watch() as watch:
        before = births(1000)
        assert births(10_000) - before < 20_000  # nothing is kept of a birth
    tracemalloc.stop()
    assert watch.events == ()


def test_large_arrays_of_suspects_are_released() -> None:
    with rg.anomaly.watch():
        arrays = []
        for _ in range(8):
            x = rg.zeros(1 << 22)  # 16 MB
            arrays.append(weakref.ref(x._data))
            rg.log(x)
            del x
        assert sum(ref() is not None for ref in arrays) <= 4


def test_the_repr_shows_state_steps_events_and_overhead() -> None:
    watch = rg.anomaly.watch(policy="record")
    assert repr(watch).startswith("<Watch: not started, step 0, 0 events")
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with watch:
        x.sum().backward()
        x.log().sum().backward()
        assert repr(watch).startswith("<Watch: observing, step 2, 1 event, overhead ")
    assert repr(watch).startswith("<Watch: stopped, step 2, 1 event, overhead ")


def test_the_overhead_is_a_share_of_the_watched_time() -> None:
    """The share does not fall after the watch has stopped."""
    watch = rg.anomaly.watch()
    assert watch.overhead == 0.0
    with watch:
        rg.ones(3, requires_grad=True).sum().backward()
    share = watch.overhead
    assert 0.0 < share < 1.0
    time.sleep(0.01)
    assert watch.overhead == share


def test_a_stopped_watch_is_freed_without_the_collector_of_cycles() -> None:
    model = rg.nn.Linear(3, 3)
    optimizer = rg.optim.Adam(model.parameters())
    gone = weakref.ref(model)
    gc.collect()
    gc.disable()
    try:
        with rg.anomaly.watch(model, optimizer) as w:
            for _ in w.steps(range(2)):
                optimizer.zero_grad()
                model(rg.ones(2, 3)).sum().backward()
                optimizer.step()
        del model, optimizer, w
        assert gone() is None, "a reference cycle keeps the model alive"
    finally:
        gc.enable()


def test_a_watched_function_may_call_itself() -> None:
    x = leaf(1.0, 0.0)

    @rg.anomaly.watch(policy="record")
    def descend(depth: int) -> None:
        if depth:
            descend(depth - 1)
        else:
            rg.log(x).sum().backward()

    watch = rg.anomaly.watch(policy="record")
    watched = watch(descend.__wrapped__)  # type: ignore[attr-defined]
    descend(2)
    with watch:
        watched(0)
        assert rg.anomaly.monitor.current() is watch, "the call has stopped the watch that was started around it"
    assert [event.op for event in watch.events] == ["log"]
    assert rg.anomaly.monitor.current() is None


def test_the_error_survives_pickling() -> None:
    """A worker process hands it over in this way."""
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with pytest.raises(AnomalyError) as caught, rg.anomaly.watch():
        (x / x).sum().backward()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.event) == (AnomalyError, str(caught.value), caught.value.event)
