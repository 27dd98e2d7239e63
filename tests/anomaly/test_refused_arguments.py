"""Errors about NaN in what a function was given, distributions above all: the birth is named, with either library."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import NaNEvent, Watch, diagnose
from retrograd.anomaly.report import format_event

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")


@pytest.fixture(params=[rg, torch], ids=["retrograd", "torch"])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return request.param  # type: ignore[no-any-return]


def actor_of(lib: Any) -> Any:
    lib.manual_seed(0)

    class Actor(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = lib.nn.Linear(4, 8)
            self.mean = lib.nn.Linear(8, 2)
            self.log_std = lib.nn.Parameter(lib.zeros(2))

        def forward(self, obs: Any) -> Any:
            hidden = lib.tanh(self.body(obs))
            mean = self.mean(hidden)
            return lib.distributions.Normal(mean, self.log_std.exp())

    return Actor()


def refused(train: Any, *args: Any) -> NaNEvent:
    """The event of the ValueError that a program ends with."""
    with pytest.raises(ValueError, match="to satisfy the constraint") as raised, Watch() as w:
        train(*args)
    assert w.event is not None
    assert w.event.harmed == "an argument of the call that raised ValueError"
    assert "reached an argument of the call that raised ValueError" in raised.value.__notes__[0]
    format_event(w.event)
    return w.event


def normalised(lib: Any, obs: Any) -> Any:
    obs = obs - obs.mean(0)
    obs = obs / obs.std(0)  # a column of one value
    return obs.contiguous()


@pytest.mark.parametrize("grad", [False, True])
def test_observations_divided_by_a_spread_of_zero_are_named_in_the_error(lib: Any, grad: bool) -> None:
    actor = actor_of(lib)

    def rollout() -> None:
        obs = normalised(lib, lib.tensor([[1.0, 2.0, 3.0, 5.0], [2.0, 5.0, 9.0, 5.0]]))
        with lib.set_grad_enabled(grad):
            actor(obs).sample()

    event = refused(rollout)
    if lib is rg:
        assert (event.op, event.index) == ("div", (0, 3))
        assert (event.code_line or "").startswith("obs = obs / obs.std(0)")
        assert "standard deviation is 0" in (event.cause or "")
    else:
        assert (event.kind, event.op, [*event.operands]) == ("leaf", "leaf", ["obs"])
        assert (event.function or "").endswith("forward" if grad else "rollout")


def test_the_line_that_divides_by_a_spread_of_zero_is_mended(lib: Any) -> None:
    actor = actor_of(lib)

    def rollout() -> None:
        obs = lib.tensor([[1.0, 2.0, 3.0, 5.0], [2.0, 5.0, 9.0, 5.0]])
        obs = (obs - obs.mean(0)) / obs.std(0)
        with lib.no_grad():
            actor(obs)

    event = refused(rollout)
    module = "rg" if lib is rg else "torch"
    assert event.remedy == f"obs = (obs - obs.mean(0)) / {module}.sqrt(obs.var(0) + 1e-5)"
    scope = {module: lib, "obs": lib.tensor([[1.0, 5.0], [2.0, 5.0]])}
    exec(event.remedy, scope)
    assert bool(lib.isfinite(scope["obs"]).all())
    assert diagnose(event).remedy == event.remedy
    assert event.rerun is None


@pytest.mark.parametrize("grad", [False, True])
def test_a_weight_that_was_bad_before_is_named(lib: Any, grad: bool) -> None:
    actor = actor_of(lib)
    with lib.no_grad():
        actor.mean.weight.mul_(float("nan"))

    def rollout() -> None:
        with lib.set_grad_enabled(grad):
            actor(lib.ones(2, 4))

    event = refused(rollout)
    assert "mean.weight" in f"{event.operands} {event.cause}"


def test_a_birth_in_the_graph_behind_a_refused_argument_is_named(lib: Any) -> None:
    actor = actor_of(lib)

    def train() -> None:
        for step in range(3):
            loss = actor(lib.ones(2, 4)).mean.sum()
            if step == 1:
                scale = (actor.log_std * 0).log()
                lib.distributions.Normal(lib.zeros(2), scale - scale)
            loss.backward()

    event = refused(train)
    assert event.code_line == "scale = (actor.log_std * 0).log()"
    assert event.op == "log"


def test_a_refused_finite_argument_is_no_event(lib: Any) -> None:
    with pytest.raises(ValueError, match="to satisfy the constraint"), Watch() as w:
        lib.distributions.Normal(lib.zeros(2), -lib.ones(2))
    assert w.event is None


def test_the_birth_behind_an_error_of_multinomial_is_named(lib: Any) -> None:
    """The function is one of torch's own in C, whose arguments the line alone tells."""
    logits = lib.tensor([0.0, 1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="probability tensor contains"), Watch() as w:
        probs = lib.softmax(lib.log(logits - 1.0), 0)
        lib.multinomial(probs, 1)
    assert w.event is not None
    assert (w.event.op, w.event.code_line) == ("log", "probs = lib.softmax(lib.log(logits - 1.0), 0)")


@pytest.mark.parametrize(
    "statement", ["raise ValueError(data.shape)", "data[7]", "{}[data.shape]", "assert not data.shape"]
)
def test_errors_about_something_else_are_no_events(statement: str) -> None:
    """The NaN in the data has nothing to do with them."""
    scope = {"data": torch.tensor([1.0, float("nan")])}
    with pytest.raises((ValueError, LookupError, AssertionError)), Watch() as w:
        exec(statement, scope)
    assert w.event is None


def rollout(lib: Any, policy: Any, observe: Any) -> None:
    """Gather experience, as reinforcement learning does: the results of an observation reuse earlier names."""
    stored = lib.zeros(4, 4)
    seen = observe(0)

    def act(given: Any) -> Any:
        return policy(given).sample(), given

    for step in range(4):
        stored[step] = seen
        with lib.no_grad():
            action, _ = act(seen)
        seen = observe(step + (action.sum() > 1e9))
        worth, _ = act(stored)
    worth.backward()


def test_a_bad_observation_is_named_and_not_the_list_that_stores_it(lib: Any) -> None:
    def observe(step: Any) -> Any:
        return lib.tensor([1.0, float("nan") if step == 2 else 0.5, 0.0, 0.0])

    event = refused(rollout, lib, actor_of(lib), observe)
    assert (event.op, event.index, event.operands.keys()) == ("leaf", (1,), {"seen"})
    assert event.output_shape == (4,)
