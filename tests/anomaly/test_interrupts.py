"""A watch that is interrupted, wherever that is, leaves everything as it was before."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError
from retrograd.core import state
from tests.interrupting import interrupted, name_of, places_in

# what begins and ends a watch, a second run or the error state of NumPy
LIFE = (
    "start",
    "stop",
    "observed_by",
    "_leave",
    "_end",
    "restore",
    "set_in_this_thread",
    "undo",
    "wrap",
    "set_monitor",
    "remove",
    "put",
)


class Training:
    """A model of a few weights, whose second batch makes a NaN; or the update after the first, ``in_update``."""

    def __init__(self, policy: str = "raise", again: bool = False, in_update: bool = False) -> None:
        rg.manual_seed(0)
        self.model = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.BatchNorm1d(2))
        self.optimizer = rg.optim.Adam(self.model.parameters(), lr=0.1, eps=0.0 if in_update else 1e-8)
        self.policy, self.again, self.factor = policy, again, 0.0 if in_update else 1.0

    def run(self) -> None:
        batches = [rg.full((3, 2), 1.0), rg.full((3, 2), 0.0)]
        with rg.anomaly.watch(self.model, self.optimizer, self.policy) as w:
            try:
                for x in w.steps(batches) if self.again else batches:
                    self.optimizer.zero_grad()
                    (self.model(x) * self.factor + x.log()).square().mean().backward()
                    self.optimizer.step()
            except AnomalyError:
                pass


def nothing() -> None:
    with rg.anomaly.watch():
        pass


def outer_and_inner() -> None:
    x = rg.ones(2, requires_grad=True)
    with rg.anomaly.watch(), rg.anomaly.watch():
        (x * x).sum().backward()


def decorated() -> None:
    x = rg.ones(2, requires_grad=True)

    @rg.anomaly.watch()
    def step() -> None:
        (x * x).sum().backward()

    step()


def detector() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.ReLU())
    with rg.anomaly.NaNDetector(model, verbose=False):
        model(rg.ones(1, 2)).sum().backward()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def surroundings() -> Any:
    """Return everything that a watch may change."""
    modes = {name: getattr(state.local, name) for name in ("grad_enabled", "observer", "listens", "reached", "mode")}
    return (
        modes,
        state.monitor,
        state._Local.mode,
        rg.anomaly.current(),
        np.geterr(),
        np.geterrcall(),
        list(sys.meta_path),
        # but for that which is about the names that our own parser gives to sources, and no module has
        [each for each in warnings.filters if "read" not in repr(each[3])],
        vars(warnings).get("_showwarnmsg"),
        vars(rg.optim.lr_scheduler.LRScheduler).get("step"),
    )


def finds() -> bool:
    """Whether a watch that begins now finds what it should."""
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    with pytest.raises(AnomalyError) as caught, rg.anomaly.watch():
        (x / x).sum().backward()
    event = caught.value.event
    return isinstance(event, rg.anomaly.NaNEvent) and (event.op, event.index) == ("div", (1,))


SCENES: dict[str, Callable[[], None]] = {
    "raise": lambda: Training().run(),
    "again": lambda: Training("skip_step", again=True).run(),
    "nothing": nothing,
    "outer and inner": outer_and_inner,
    "decorated": decorated,
    "detector": detector,
}


@pytest.mark.parametrize("scene", SCENES)
def test_an_interrupt_at_any_place_restores_everything(scene: str) -> None:
    run = SCENES[scene]
    run()
    before = surroundings()
    for place in places_in(run, {"nothing": 1000, "detector": 200, "decorated": 40}.get(scene, 12), LIFE):
        interrupted(run, place)
        assert surroundings() == before, name_of(place)
    assert finds()


@pytest.mark.parametrize(("policy", "in_update"), [("raise", True), ("raise", False), ("skip_step", False)])
def test_an_interrupt_at_any_place_leaves_finite_weights(policy: str, in_update: bool) -> None:
    def made() -> Training:
        return Training(policy, not in_update, in_update)

    for place in places_in(lambda: made().run(), 6, ("run_step", "run", "harms", "_judge", "event", "_undo", "undo")):
        training = made()
        interrupted(training.run, place)
        for name, weight in training.model.named_parameters():
            assert bool(weight.isfinite().all()), (name, name_of(place))
