"""What a watch does with what it finds, and how it leaves things."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, AnomalyWarning, NaNEvent, Watch, environment, expect_nonfinite
from retrograd.anomaly.adapters.retrograd import gradient_checks
from retrograd.core import state
from retrograd.core.registry import composites, operations
from retrograd.core.tensor import Tensor
from tests.threads import in_threads


def leaf(*values: float) -> Tensor:
    return rg.tensor(list(values), requires_grad=True)


def bad_loss(x: Tensor) -> None:
    rg.log(x * 0).sum().backward()


def bad_gradient(x: Tensor) -> None:
    rg.sqrt(x * 0).sum().backward()


def scaled(x: Tensor, scaler: rg.amp.GradScaler) -> None:
    """A step whose gradient is NaN at every scale."""
    optimizer = rg.optim.SGD([x], lr=0.1)
    scaler.scale(rg.sqrt(x * 0).sum() * 0).backward()
    scaler.step(optimizer)
    scaler.update()


HARMS = [bad_loss, bad_gradient]
both = pytest.mark.parametrize("harm", HARMS, ids=["loss", "gradient"])


def surroundings() -> list[Any]:
    """Everything that a watch changes while it is on."""
    local = state.local
    return [
        np.geterr(),
        np.geterrcall(),
        state.monitor,
        local.mode,
        local.observer,
        local.within,
        local.grad_enabled,
        local.graph_task,
        list(sys.meta_path),
        rg.anomaly.current(),
        list(warnings.filters),
    ]


@pytest.fixture(autouse=True)
def leaves_no_trace() -> Iterator[None]:
    before = surroundings()
    yield
    assert surroundings() == before


# --- policies ---------------------------------------------------------------------------------------------------------


@both
def test_raise_is_what_happens_by_default(harm: Callable[[Tensor], None]) -> None:
    with pytest.raises(AnomalyError) as raised, rg.anomaly.watch() as watch:
        harm(leaf(1.0))
    assert raised.value.event is watch.event
    assert isinstance(raised.value, RuntimeError)


@both
def test_record(harm: Callable[[Tensor], None]) -> None:
    x = leaf(1.0)
    with rg.anomaly.watch(policy="record") as watch:
        harm(x)
        harm(x)
    assert len(watch.events) == 2
    assert watch.triggered
    assert x.grad is not None


@both
def test_warn_points_at_the_line_of_the_backward(harm: Callable[[Tensor], None]) -> None:
    with rg.anomaly.watch(policy="warn") as watch, pytest.warns(AnomalyWarning) as caught:
        harm(leaf(1.0))
    assert len(caught) == len(watch.events) == 1
    assert caught[0].filename == __file__
    assert caught[0].lineno == harm.__code__.co_firstlineno + 1
    assert str(watch.event).split(",")[0] in str(caught[0].message)


@both
def test_ignore(harm: Callable[[Tensor], None]) -> None:
    with rg.anomaly.watch(policy="ignore") as watch:
        harm(leaf(1.0))
    assert watch.events == ()


@both
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_skip_step_changes_nothing_and_goes_on(harm: Callable[[Tensor], None], optimizer: str) -> None:
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


@both
def test_skip_step_leaves_nothing_to_an_update_by_hand(harm: Callable[[Tensor], None]) -> None:
    x = leaf(1.0, 2.0)
    with rg.anomaly.watch(policy="skip_step"):
        harm(x)
        with rg.no_grad():
            x -= 0.1 * x.grad
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 2.0])


@pytest.mark.parametrize("answer", ["record", "ignore", None])
def test_a_function_decides(answer: str | None) -> None:
    seen: list[NaNEvent] = []

    def decide(event: NaNEvent) -> str | None:
        seen.append(event)
        return answer

    with rg.anomaly.watch(policy=decide) as watch:
        bad_loss(leaf(1.0))
    assert [event.op for event in seen] == ["log"]
    assert len(watch.events) == (0 if answer == "ignore" else 1)


def test_a_function_may_have_it_raised() -> None:
    with pytest.raises(AnomalyError), rg.anomaly.watch(policy=lambda event: "raise"):
        bad_loss(leaf(1.0))


def test_one_policy_for_each_kind() -> None:
    x = leaf(1.0)
    with pytest.raises(AnomalyError), rg.anomaly.watch(policy={"inf": "record"}) as watch:
        bad_loss(x)
        assert len(watch.events) == 1
        (x * 0 / (x * 0)).sum().backward()


def test_harmless_births_on_request() -> None:
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
def test_bad_policies_are_refused(policy: Any) -> None:
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


def test_an_optimizer_of_the_users_own_is_taken() -> None:
    class Scheduled:  # around one of the library's
        def step(self) -> None:
            pass

    with rg.anomaly.watch(optimizer=Scheduled(), budget=np.float32(0.01)) as w, pytest.raises(AnomalyError):
        bad_loss(leaf(1.0))
    assert len(w.events) == 1


def test_a_bad_answer_of_a_function_is_refused() -> None:
    with (
        pytest.raises(ValueError, match=r"must return one of .* but returned 'stop'"),
        rg.anomaly.watch(policy=lambda event: "stop"),
    ):
        bad_loss(leaf(1.0))


def test_what_comes_behind_a_loop_belongs_to_no_batch_of_it() -> None:
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


# --- what is meant ----------------------------------------------------------------------------------------------------


def test_expect_nonfinite() -> None:
    with rg.anomaly.watch() as watch:
        with expect_nonfinite("the limit is wanted"):
            bad_loss(leaf(1.0))
            bad_gradient(leaf(1.0))
        with pytest.raises(AnomalyError):
            bad_loss(leaf(1.0))
    assert len(watch.events) == 1


@pytest.mark.parametrize("reason", ["", "  ", None, 3])
def test_expect_nonfinite_wants_a_reason(reason: Any) -> None:
    with pytest.raises(ValueError, match="needs a reason"), expect_nonfinite(reason):
        pass


def test_births_that_were_expected_are_no_suspects() -> None:
    x = leaf(1.0, 2.0)
    with rg.anomaly.watch(policy="record") as watch:
        with expect_nonfinite("masked below"):
            mask = rg.log(rg.tensor([1.0, 0.0]))
        y = x * mask.clamp(min=-1e30)
        (y - x * 0 / (x * 0)).sum().backward()
    assert watch.event is not None
    assert watch.event.op == "div"


def test_allowed_operations_are_no_suspects() -> None:
    x = leaf(1.0, 0.0)
    with rg.anomaly.watch(policy="record", allow=["log"]) as watch:
        (rg.log(x) - rg.log(x)).sum().backward()
    assert watch.event is not None
    assert watch.event.op == "sub"


class Logarithm(rg.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return rg.log(x)


class Model(rg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Logarithm()

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return y - y


@pytest.mark.parametrize("allow", ["log", ["log"]])
def test_one_allowed_operation_needs_no_list(allow: Any) -> None:
    watch = rg.anomaly.watch(allow=allow, allow_modules="inner.mask")
    assert watch.allow == {"log"}
    assert watch.allow_modules == {"inner.mask"}


@pytest.mark.parametrize("name", ["LogBackward0", "log_", "aten::log", "aten.log.default", "np.log"])
def test_an_operation_may_be_allowed_by_any_of_its_names(name: str) -> None:
    x = leaf(1.0, 0.0)
    with rg.anomaly.watch(policy="record", allow=[name]) as watch:
        (rg.log(x) - rg.log(x)).sum().backward()
    assert watch.event is not None
    assert watch.event.op == "sub"


def test_misspelt_operations_are_refused() -> None:
    """They would allow nothing."""
    for name, meant in (("lgo", "log"), ("softmx", "softmax"), ("masked_fil", "masked_fill")):
        with pytest.raises(ValueError, match=f"there is no operation '{name}'; did you mean .*'{meant}"):
            rg.anomaly.watch(allow=[name])
    with pytest.raises(TypeError, match="such as 'log', but got 3"):
        rg.anomaly.watch(allow=[3])


def test_every_operation_may_be_allowed() -> None:
    rg.anomaly.watch(allow=[*operations, *composites])
    nodes = {op.node_name for op in operations.values() if op.rules}
    rg.anomaly.watch(allow=[*nodes, "true_divide", "relu_", "aten::_softmax", "np.exp"])


def test_functions_of_the_program_may_be_allowed() -> None:
    class Logarithm(rg.autograd.Function):
        pass

    assert rg.anomaly.watch(allow=[Logarithm.__name__, f"{Logarithm.__name__}Backward"]).allow
    with pytest.warns(
        UserWarning, match="no operation 'MyExpBackward'.* if a Function of that name is defined later"
    ) as told:
        rg.anomaly.watch(allow=["MyExpBackward"])
    assert told[0].filename == __file__


def test_steps_are_those_of_a_loader() -> None:
    with (
        rg.anomaly.watch() as watch,
        pytest.raises(TypeError, match=r"the batches, .* but got 3; for 3 steps give range\(3\)"),
    ):
        list(watch.steps(3))  # type: ignore[arg-type]


def test_allowed_modules_are_no_suspects() -> None:
    model = Model()
    for allowed, expected in ((), "log"), (("inner",), "sub"):
        with rg.anomaly.watch(model, policy="record", allow_modules=allowed) as watch:
            model(leaf(1.0, 0.0)).sum().backward()
        assert watch.event is not None
        assert watch.event.op == expected


@pytest.mark.parametrize(
    ("options", "error", "advice"),
    [
        ({"allow_modules": ["iner"]}, ValueError, "no module 'iner'; the names are those of model.named_modules()"),
        ({"allow_modules": ["1"]}, ValueError, "did you mean 'inner.1'?"),
    ],
)
def test_what_is_allowed_is_a_list_of_names(options: dict[str, Any], error: type[Exception], advice: str) -> None:
    """Anything else would allow nothing, and nobody would hear of it."""
    model = Model()
    model.inner = rg.nn.Sequential(rg.nn.ReLU(), Logarithm())
    with pytest.raises(error, match=re.escape(advice)):
        rg.anomaly.watch(model, **options)


def test_what_is_meant_is_told_of_if_nothing_else_explains_the_harm() -> None:
    with rg.anomaly.watch(policy="record", allow=["log"]) as watch:
        rg.log(leaf(1.0, 0.0)).sum().backward()
    assert watch.event is not None
    assert (watch.event.op, watch.event.index) == ("log", (1,))
    assert watch.event.note == "It was declared as expected, but it did harm."


# --- names ------------------------------------------------------------------------------------------------------------


def test_parameters_have_their_names() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.Linear(2, 1))
    with rg.anomaly.watch(model, policy="record") as watch:
        rg.sqrt(model[1].weight * 0).sum().backward()
    assert watch.event is not None
    assert watch.event.harmed == "the gradient of 1.weight"


def test_variables_have_their_names() -> None:
    weights = {"first": leaf(2.0)}
    with rg.anomaly.watch(policy="record") as watch:
        bad_gradient(leaf(1.0))  # which calls it x
        rg.sqrt(weights["first"] * 0).sum().backward()
    assert [event.harmed for event in watch.events] == ["the gradient of x", "the gradient of weights['first']"]


def test_layers_have_their_names() -> None:
    model = Model()
    with rg.anomaly.watch(model, policy="record") as watch:
        model(leaf(1.0, 0.0)).sum().backward()
    assert watch.event is not None
    assert (watch.event.layer_name, watch.event.module_type) == ("inner", "Logarithm")


# --- what came in so --------------------------------------------------------------------------------------------------


def train(model: Any, batches: list[Tensor], **options: Any) -> Watch:
    optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
    watch = rg.anomaly.watch(model, optimizer, policy="record", **options)
    with watch:
        for batch in watch.steps(batches):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
    return watch


def test_a_bad_batch() -> None:
    batches = [rg.randn(4, 3) for _ in range(3)]
    batches[1][2, 1] = float("nan")
    watch = train(rg.nn.Linear(3, 2), batches)
    event = watch.event
    assert event is not None
    assert len(watch.events) == 1
    assert (event.kind, event.index, event.batch_idx) == ("leaf", (2, 1), 1)
    assert event.surroundings is not None
    assert (event.surroundings.context["leaf"], event.surroundings.context["name"]) == ("batch", "batch")


def test_a_bad_batch_with_an_infinity() -> None:
    batch = rg.randn(4, 3)
    batch[0, 2] = float("inf")
    event = train(rg.nn.Linear(3, 2), [batch]).event
    assert event is not None
    assert (event.kind, event.index) == ("leaf", (0, 2))


def test_a_bad_weight() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(3, 2), rg.nn.ReLU(), rg.nn.Linear(2, 1))
    with rg.no_grad():
        model[2].weight[0, 1] = float("nan")
    event = train(model, [rg.randn(4, 3)]).event
    assert event is not None
    assert (event.kind, event.index) == ("leaf", (0, 1))
    assert event.surroundings is not None
    context = event.surroundings.context
    assert (context["leaf"], context["name"], context["updates"]) == ("parameter", "2.weight", 0)


def test_memory_that_was_never_written() -> None:
    model = rg.nn.Linear(3, 2)
    with rg.no_grad():
        model.weight.copy_(rg.tensor([[1e38, -3e37, 1e-40], [float("nan"), 2e30, 0.0]]))
    event = train(model, [rg.randn(4, 3)]).event
    assert event is not None
    assert "never written" in (event.cause or "")


def test_a_bad_target() -> None:
    x, target = leaf(1.0, 2.0), rg.tensor([1.0, float("nan")])
    with rg.anomaly.watch(policy="record") as watch:
        rg.nn.functional.mse_loss(x, target).backward()
    assert watch.event is not None
    assert watch.event.kind == "leaf"


# --- the second run ---------------------------------------------------------------------------------------------------


def test_the_second_run_is_exact() -> None:
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


def test_no_schedule_and_no_scale_moves_on_twice() -> None:
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
@both
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


def test_what_does_not_happen_again_is_said_to() -> None:
    x = leaf(1.0)
    values = iter([0.0, 1.0])
    watch = rg.anomaly.watch(policy="record")
    with watch:
        for _ in watch.steps([0]):
            rg.log(x * next(values)).sum().backward()
    assert watch.event is not None
    assert watch.event.reproducible is False
    assert "the runs differ" in (watch.event.note or "")


def test_steps_goes_on_after_a_bad_batch() -> None:
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
def test_a_watch_that_is_stopped_in_a_step_that_has_tripped(leaves: bool) -> None:
    """Nothing is left to run the step again with; what it has found is told all the same."""
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


@both
@pytest.mark.parametrize("policy", ["skip_step", "raise"])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_are_put_back(harm: Callable[[Tensor], None], policy: str, set_to_none: bool) -> None:
    """What earlier batches have accumulated, and None, in leaves that only the bad batch reaches as well."""
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


@both
@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_that_the_step_clears_stay_cleared(harm: Callable[[Tensor], None], set_to_none: bool) -> None:
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


# --- beginnings and ends ----------------------------------------------------------------------------------------------


class OddError(Exception):
    pass


@pytest.mark.parametrize("error", [OddError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["forward", "hook", "function", "module", "second run"])
def test_any_exit_leaves_things_as_they_were(error: type[BaseException], where: str) -> None:
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


def test_start_and_stop() -> None:
    watch = rg.anomaly.watch(policy="record")
    assert watch.start() is watch
    with pytest.raises(RuntimeError, match="is already running"):
        watch.start()
    bad_loss(leaf(1.0))
    watch.stop()
    watch.stop()
    bad_loss(leaf(1.0))
    assert len(watch.events) == 1


def test_a_hook_may_stop_it() -> None:
    x, before = leaf(1.0, 0.0), (np.geterr(), np.geterrcall())
    watch = rg.anomaly.watch().start()
    root = rg.sqrt(x)
    root.register_hook(lambda gradient: watch.stop())
    root.sum().backward()
    assert (watch.events, np.geterr(), np.geterrcall()) == ((), *before)


def test_as_a_decorator() -> None:
    @rg.anomaly.watch()
    def step(x: Tensor) -> str:
        """Take a step."""
        bad_loss(x)
        return "done"

    assert step.__name__ == "step"
    for _ in range(2):
        with pytest.raises(AnomalyError):
            step(leaf(1.0))


def test_of_nested_watches_the_inner_one_hears() -> None:
    with rg.anomaly.watch(policy="record") as outer:
        with rg.anomaly.watch(policy="record") as inner:
            assert rg.anomaly.current() is inner
            bad_loss(leaf(1.0))
        assert rg.anomaly.current() is outer
        bad_gradient(leaf(1.0))
    assert [event.op for event in inner.events] == ["log"]
    assert [event.op for event in outer.events] == ["SqrtBackward0"]


def test_no_weight_becomes_non_finite() -> None:
    model = rg.nn.Linear(2, 1)
    optimizer = rg.optim.SGD(model.parameters(), lr=1e30)
    with pytest.raises(AnomalyError), rg.anomaly.watch(model, optimizer):
        for _ in range(20):
            optimizer.zero_grad()
            model(rg.ones(3, 2)).square().mean().backward()
            optimizer.step()
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def test_it_keeps_nothing_alive() -> None:
    x = leaf(1.0, 0.0)
    watch = rg.anomaly.watch(policy="record")
    with watch:
        y = rg.log(x)
        (y - y).sum().backward()
        gone = weakref.ref(y)
        del y
    gc.collect()
    assert gone() is None


def test_copies_of_the_weights_go_when_it_stops() -> None:
    """Those that tell how large an update was, and those by which a step is undone."""
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

    trained()  # what optimizers and threads keep from then on
    tracemalloc.start()
    try:
        watches = [trained(), trained(policy={"spike": "record"})]
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < weight.nbytes / 2
    finally:
        tracemalloc.stop()
    assert len(watches) == 2


def test_looking_for_names_leaves_the_variables_alone() -> None:
    x = leaf(1.0)
    mine = locals()
    with rg.anomaly.watch(policy="record") as watch:
        bad_gradient(x)
    assert watch.triggered
    assert mine["x"] is x
    assert "leaf" in globals()


# --- an operation that raises -----------------------------------------------------------------------------------------


def indefinite() -> Tensor:
    return rg.tensor([[1.0, 2.0], [2.0, 1.0]], requires_grad=True)


@pytest.mark.parametrize("policy", ["record", "raise"])
def test_an_error_of_linear_algebra_gets_a_note(policy: str) -> None:
    K = indefinite()  # noqa: N806
    with pytest.raises(rg.linalg.LinAlgError) as raised, rg.anomaly.watch(policy=policy) as watch:
        L = rg.linalg.cholesky(K)  # noqa: N806
        L.sum().backward()
    event = watch.event
    assert event is not None
    assert (event.kind, event.op) == ("error", "linalg_cholesky")
    assert event.code_line == "L = rg.linalg.cholesky(K)  # noqa: N806"
    assert "not positive definite" in (event.cause or "")
    (note,) = raised.value.__notes__
    assert event.remedy is not None
    assert event.remedy in note
    assert "rg.linalg.cholesky(K + " in event.remedy


def test_an_error_about_a_value_that_was_born_before_names_the_birth() -> None:
    """What refuses NaN gets one: the line to be mended is that of the birth."""
    x = rg.tensor([1.0, 800.0], dtype=rg.float64, requires_grad=True)
    loss_of = rg.nn.BCELoss()
    with pytest.raises(RuntimeError, match="between 0 and 1") as raised, rg.anomaly.watch() as watch:
        p = rg.exp(x) / (1 + rg.exp(x))
        q = p.reshape(2, 1)
        loss_of(q, rg.ones(2, 1, dtype=rg.float64)).backward()
    event = watch.event
    assert event is not None
    assert (event.op, event.index, event.code_line) == ("exp", (1,), "p = rg.exp(x) / (1 + rg.exp(x))")
    (note,) = raised.value.__notes__
    assert "p = rg.exp(x) / (1 + rg.exp(x))" in note
    assert "reached an argument of the call that raised RuntimeError" in note
    assert event.remedy is not None
    assert event.remedy.splitlines()[0] in note


def test_a_nan_in_a_matrix_is_told_of_before_the_matrix() -> None:
    x = rg.tensor([1.0, -1.0], requires_grad=True)
    with pytest.raises(rg.linalg.LinAlgError) as raised, rg.anomaly.watch():
        rg.linalg.cholesky(rg.diag(rg.log(x)) + rg.eye(2))
    (note,) = raised.value.__notes__
    assert "born in log" in note
    assert "reached an argument of the call that raised LinAlgError" in note


def test_a_finding_of_our_own_is_told_once() -> None:
    with pytest.raises(AnomalyError) as raised, rg.anomaly.watch() as watch:
        (rg.log(leaf(0.0)) * 0).sum().backward()
    assert watch.events == (raised.value.event,)
    assert not hasattr(raised.value, "__notes__")


def test_an_error_about_shapes_says_nothing_of_legal_infinities() -> None:
    mask = rg.full((2, 2), -rg.inf)
    with pytest.raises(RuntimeError) as raised, rg.anomaly.watch() as watch:
        rg.matmul(mask, rg.ones(3, 3))
    assert watch.events == ()
    assert not hasattr(raised.value, "__notes__")


def test_an_error_that_is_dealt_with_is_none() -> None:
    with rg.anomaly.watch() as watch:
        with pytest.raises(rg.linalg.LinAlgError):
            rg.linalg.cholesky(indefinite())
        leaf(1.0).sum().backward()
    assert watch.events == ()


# --- threads ----------------------------------------------------------------------------------------------------------


def test_a_step_in_another_thread() -> None:
    with rg.anomaly.watch() as watch:
        errors = in_threads(lambda: bad_gradient(leaf(1.0)))
    assert [type(error) for error in errors] == [AnomalyError]
    assert watch.event is not None
    assert (watch.event.op, watch.event.thread) == ("SqrtBackward0", "worker 0")


def test_a_forward_birth_in_another_thread() -> None:
    with rg.anomaly.watch() as watch:
        errors = in_threads(lambda: bad_loss(leaf(1.0)))
    assert [type(error) for error in errors] == [AnomalyError]
    assert watch.event is not None
    assert (watch.event.op, watch.event.index) == ("log", (0,))


def test_a_forward_birth_in_a_thread_of_its_own_is_seen_when_it_happens() -> None:
    """No graph remembers the mask, so that only a flag can tell of it."""
    x = leaf(1.0, 2.0)
    made: list[Tensor] = []
    with rg.anomaly.watch() as watch:
        in_threads(lambda: made.append(rg.log(rg.zeros(2)) * 0))
        with pytest.raises(AnomalyError):
            (x + made[0]).sum().backward()
    assert watch.event is not None
    assert (watch.event.op, watch.event.thread) == ("log", "worker 0")


def test_what_was_born_here_is_told_before_what_another_thread_has_made() -> None:
    """Of a square root, only the result is kept: its operand might be the other thread's NaN as well."""
    made: list[Tensor] = []
    with rg.anomaly.watch() as watch:
        in_threads(lambda: made.append(rg.acos(leaf(3.0, 3.0))))
        root = rg.sqrt(leaf(0.0, 0.0) - 1)
        with pytest.raises(AnomalyError):
            root.sum().backward()
    assert watch.event is not None
    assert (watch.event.op, watch.event.thread) == ("sqrt", "MainThread")


def test_threads_that_train_at_once_hear_of_their_own_births() -> None:
    births = {"log": rg.log, "sqrt": lambda x: rg.sqrt(x - 1), "div": lambda x: x / x, "acos": lambda x: rg.acos(x + 3)}
    begin = threading.Barrier(len(births))
    heard: dict[str, tuple[str, str]] = {}

    def train(name: str) -> None:
        w = leaf(1.0, 1.0)
        begin.wait()
        for step in range(12):
            loss = (w + births[name](leaf(0.0, 0.0))).sum() if step == 8 else (w * w).sum()
            try:
                loss.backward()
            except AnomalyError as error:
                assert isinstance(error.event, NaNEvent)
                heard[name] = error.event.op, error.event.thread
                assert step == 8

    with rg.anomaly.watch() as watch:
        errors = in_threads(*[functools.partial(train, name) for name in births])
    assert not errors
    assert heard == {name: (name, f"worker {k}") for k, name in enumerate(births)}
    assert len(watch.events) == len(births)


def test_a_thread_from_before_is_heard_after_its_first_backward() -> None:
    begin, end = threading.Barrier(2), threading.Barrier(2)
    watches: list[Watch] = []

    def work() -> None:
        leaf(1.0).sum().backward()
        for _ in range(2):  # also a later watch
            begin.wait()
            leaf(1.0).sum().backward()
            with contextlib.suppress(AnomalyError):
                rg.where(leaf(1.0) > 0, rg.log(rg.zeros(1)) * leaf(0.0), 1.0).sum().backward()
            end.wait()

    thread = threading.Thread(target=work, name="early")
    thread.start()
    for _ in range(2):
        with rg.anomaly.watch() as watch:
            begin.wait()
            end.wait()
            watches.append(watch)
    thread.join()
    assert [(each.event.op, each.event.thread) for each in watches if each.event] == [("log", "early")] * 2


def test_a_thread_warns_as_before_when_the_watch_has_stopped() -> None:
    worked, stopped = threading.Event(), threading.Event()
    said: list[str] = []

    def work() -> None:
        leaf(1.0).sum().backward()
        worked.set()
        stopped.wait()
        try:
            np.log(np.zeros(1))
        except RuntimeWarning as warning:
            said.append(str(warning))

    thread = threading.Thread(target=work)
    with rg.anomaly.watch():
        thread.start()
        worked.wait()
    stopped.set()
    thread.join()
    assert said == ["divide by zero encountered in log"]


def test_two_threads_that_train() -> None:
    def good() -> None:
        x = leaf(1.0, 0.0)
        for _ in range(200):
            safe = rg.where(x > 0, x, 1.0)
            rg.where(x > 0, rg.log(safe), 0.0).sum().backward()
            x.grad = None

    def bad() -> None:
        x = leaf(1.0)
        for _ in range(100):
            (x * 2).sum().backward()
        bad_gradient(x)

    with rg.anomaly.watch() as watch:
        errors = in_threads(good, bad)
    assert [type(error) for error in errors] == [AnomalyError]
    assert [(event.op, event.thread) for event in watch.events] == [("SqrtBackward0", "worker 1")]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_memory_is_bounded() -> None:
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


def test_large_arrays_are_let_go() -> None:
    with rg.anomaly.watch():
        arrays = []
        for _ in range(8):
            x = rg.zeros(1 << 22)  # 16 MB
            arrays.append(weakref.ref(x._data))
            rg.log(x)
            del x
        assert sum(ref() is not None for ref in arrays) <= 4


# --- the environment --------------------------------------------------------------------------------------------------

SCRIPT = "import retrograd as rg; rg.log(rg.tensor([0.0], requires_grad=True)).sum().backward(); print('done')"


def run(value: str | None, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    environment = {key: each for key, each in os.environ.items() if key != "RETROGRAD_WATCH"}
    if value is not None:
        environment["RETROGRAD_WATCH"] = value
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("value", [None, "0", ""])
def test_no_watch_without_the_variable(value: str | None) -> None:
    assert run(value).stdout == "done\n"


@pytest.mark.parametrize("value", ["1", "raise"])
def test_a_watch_by_the_variable(value: str) -> None:
    result = run(value)
    assert result.returncode == 1
    assert "AnomalyError: -Inf born in log" in result.stderr


def test_a_policy_by_the_variable() -> None:
    result = run("warn")
    assert result.stdout == "done\n"
    assert "AnomalyWarning: -Inf born in log" in result.stderr


def test_a_wrong_value_of_the_variable() -> None:
    result = run("rasie")
    assert result.returncode == 1
    assert "RETROGRAD_WATCH=rasie: set it to 1, or to a policy" in result.stderr


@pytest.mark.parametrize("step", ["0", "-1", "last"])
def test_a_wrong_step_of_the_variable(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setenv("RETROGRAD_FROM_STEP", step)
    with pytest.raises(ValueError, match=f"RETROGRAD_FROM_STEP={step}: set it to a step number"):
        environment.start()


def test_the_import_stays_light() -> None:
    script = "import retrograd, sys; print(any(name.startswith('retrograd.anomaly') for name in sys.modules))"
    assert run(None, script).stdout == "False\n"


def test_random_numbers_move_on_after_a_step_that_was_run_again() -> None:
    """Else a loop that draws its own data under "skip_step" would draw the same bad batch for ever."""
    drawn: list[list[float]] = []
    x = rg.ones(3).requires_grad_()
    with rg.anomaly.watch(policy="skip_step") as w:
        for number in w.steps(range(3)):
            drawn.append(rg.rand(3).tolist())
            rg.log(x * (0.0 if number == 1 else 1.0)).sum().backward()
    first, tripped, again, after = drawn
    assert tripped == again
    assert len({tuple(each) for each in (first, tripped, after)}) == 3


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
def test_gradients_are_looked_at_in_every_step_where_products_tell_no_flags(
    monkeypatch: pytest.MonkeyPatch, tells: bool, step: int
) -> None:
    """As with Apple's Accelerate; the hook stands for a product of which no flag has told."""
    monkeypatch.setattr("retrograd.anomaly.adapters.retrograd.monitor.products_raise_flags", lambda: tells)
    first, second = (rg.ones(3).requires_grad_() for _ in range(2))
    second.register_hook(lambda g: rg.full_like(g, float("inf")) if w.step == 7 else g)
    optimizer = rg.optim.SGD([first, second], lr=0.1)
    with rg.anomaly.watch(policy="record", budget=1e-9) as w:
        for _ in range(9):
            optimizer.zero_grad()
            a = (first * 2).sum()  # whose gradient, the last to come, is looked at in every step anyhow
            (a + (second * 3).sum()).backward()
            optimizer.step()
    assert w.events[0].step == step


def test_it_is_found_out_whether_products_tell_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    @np.errstate(all="ignore")
    def silent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a * b

    ask = gradient_checks.products_raise_flags.__wrapped__  # what this computer's library does is remembered
    for product, tells in ((np.multiply, True), (silent, False)):
        monkeypatch.setattr(np, "matmul", product)
        assert ask() is tells


def test_what_a_policy_lets_pass_is_not_looked_at_in_every_step() -> None:
    weight, bias = rg.ones(3, 5, requires_grad=True), rg.zeros(3, requires_grad=True)
    with rg.anomaly.watch(policy="record", budget=1e-9) as w:
        for step in range(1, 60):
            weight.grad = bias.grad = None
            silently_bad(weight, bias, float("nan") if step >= 20 else 1.0)
    assert [event.step for event in w.events] == [20]


def test_what_a_watch_says_of_itself() -> None:
    watch = rg.anomaly.watch(policy="record")
    assert repr(watch).startswith("<Watch: not started, step 0, 0 events")
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with watch:
        x.sum().backward()
        x.log().sum().backward()
        assert repr(watch).startswith("<Watch: observing, step 2, 1 event, overhead ")
    assert repr(watch).startswith("<Watch: stopped, step 2, 1 event, overhead ")


def test_the_overhead_is_that_of_the_time_it_was_on() -> None:
    """What is asked after the end, perhaps much later, is not diluted by the time since."""
    watch = rg.anomaly.watch()
    assert watch.overhead == 0.0
    with watch:
        rg.ones(3, requires_grad=True).sum().backward()
    share = watch.overhead
    assert 0.0 < share < 1.0
    time.sleep(0.01)
    assert watch.overhead == share


def test_a_look_while_another_thread_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.anomaly.adapters.retrograd.monitor import RetrogradMonitor

    look = RetrogradMonitor._look_at_gradients
    others: list[threading.Thread] = []
    failed: list[BaseException] = []

    def backward() -> None:
        try:
            (leaf(1.0, 2.0) ** 2).sum().backward()
        except BaseException as error:
            failed.append(error)

    def look_with_another(*args: Any) -> bool:
        if not others:
            others.append(threading.Thread(target=backward))
            others[0].start()
            others[0].join()
        return look(*args)

    monkeypatch.setattr(RetrogradMonitor, "_look_at_gradients", look_with_another)
    with rg.anomaly.watch() as w:
        backward()
    assert others
    assert not failed
    assert w.step == 2


def test_nothing_is_noted_of_leaves_outside_of_a_backward() -> None:
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


def test_a_watch_that_has_ended_goes_with_the_last_name_for_it() -> None:
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
        assert gone() is None, "it waits for the collector of cycles"
    finally:
        gc.enable()


def test_a_gradient_scaler_is_no_excuse_once_its_scale_is_1() -> None:
    x, scaler = leaf(1.0), rg.amp.GradScaler("cpu", init_scale=4.0)
    with rg.anomaly.watch(policy={"nan": "warn"}) as watch:
        scaled(x, scaler)
        scaled(x, scaler)
        assert watch.events == ()
        with pytest.warns(AnomalyWarning, match="sqrt"):
            scaled(x, scaler)


def test_a_scale_of_an_earlier_step_excuses_nothing() -> None:
    x, scaler = leaf(1.0), rg.amp.GradScaler("cpu")
    with rg.anomaly.watch():
        scaled(x, scaler)
        with pytest.raises(AnomalyError, match="sqrt"):
            bad_gradient(x)
        scaler.scale(x.sum())
    with rg.anomaly.watch(), pytest.raises(AnomalyError, match="sqrt"):
        bad_gradient(x)


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
        assert rg.anomaly.monitor.current() is watch, "the call has not ended what was started around it"
    assert [event.op for event in watch.events] == ["log"]
    assert rg.anomaly.monitor.current() is None


def test_a_scale_in_a_thread_that_has_ended_excuses_nothing() -> None:
    """The system gives the numbers of threads again."""
    found = []

    def bad() -> None:
        with pytest.raises(AnomalyError, match="sqrt") as info:
            bad_gradient(leaf(1.0))
        found.append(info.value.event)

    with rg.anomaly.watch():
        for run in (lambda: rg.amp.GradScaler("cpu").scale(leaf(1.0).sum()), bad):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    assert len(found) == 1


def test_the_error_survives_a_pickle() -> None:
    """As when a worker process hands it over."""
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with pytest.raises(AnomalyError) as caught, rg.anomaly.watch():
        (x / x).sum().backward()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.event) == (AnomalyError, str(caught.value), caught.value.event)


@pytest.mark.parametrize("loader", [[1.0, 2.0, 3.0], range(3), rg.utils.data.DataLoader([1.0, 2.0, 3.0])])
def test_steps_are_as_long_as_the_loader(loader: Any) -> None:
    """A progress bar around them asks for it; the second run of a step is no batch of its own."""
    with rg.anomaly.watch() as watch:
        steps = watch.steps(loader)
        assert len(steps) == len(loader) == 3
        assert iter(steps) is steps
        assert len(list(steps)) == 3


def test_steps_of_what_has_no_length_have_none() -> None:
    with rg.anomaly.watch() as watch:
        steps = watch.steps(each for each in (1.0, 2.0))
        with pytest.raises(TypeError, match=r"object of type 'generator' has no len\(\)"):
            len(steps)
        assert list(steps) == [1.0, 2.0]
        assert list(steps) == []
