"""The gradient guard: silent while training is healthy, heard before an explosion ends in NaN."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.anomaly import AnomalyError, AnomalyWarning, GradientGuard, watch
from retrograd.anomaly.gradient_guard import ALL, RunningThreshold, _median
from retrograd.demo import load_digits

nn = rg.nn

# --- the norms alone --------------------------------------------------------------------------------------------------


def alarms(norms: Any, guard: GradientGuard | None = None) -> list[int]:
    """The steps at which a guard speaks up."""
    guard = guard or GradientGuard()
    return [step for step, norm in enumerate(norms) if guard.observe({"weight": norm})]


def test_a_sudden_growth_is_reported_and_the_usual_variation_is_not() -> None:
    rng = np.random.default_rng(0)
    usual = np.exp(rng.normal(size=500))
    assert alarms([*usual, 1e5]) == [500]


@given(st.lists(st.floats(1.0, 6.0), max_size=300))
def test_norms_that_vary_by_a_small_factor_are_never_reported(norms: list[float]) -> None:
    assert alarms(norms) == []


@given(st.lists(st.floats(1e-3, 1e6), min_size=10, max_size=100), st.integers(-60, 60))
def test_the_scale_of_the_norms_does_not_matter(norms: list[float], power: int) -> None:
    """Gradients of a loss that is multiplied by a constant are as usual or unusual as before."""
    assert alarms(norms) == alarms([norm * 2.0**power for norm in norms])


def test_a_lasting_new_level_becomes_the_usual_one() -> None:
    heard = alarms([1.0] * 300 + [1e4] * 300)
    assert heard[0] == 300
    assert len(heard) < 150


def test_one_outlier_does_not_hide_the_next() -> None:
    assert alarms([1.0] * 100 + [1e8] + [1.0] * 20 + [1e4]) == [100, 121]


def test_norms_of_zero_do_not_change_the_threshold() -> None:
    assert alarms([1.0, 0.0] * 100 + [1e4]) == [200]
    assert alarms([0.0] * 100 + [1.0, 1.1]) == []


def test_the_parameter_that_grew_is_named() -> None:
    guard = GradientGuard()
    for step in range(50):
        assert not guard.observe({"a.weight": 1.0 + step % 3, "a.bias": 0.01, "b.weight": 2.0})
    (spike,) = guard.observe({"a.weight": 2.0, "a.bias": 1e3, "b.weight": 2.0})
    assert spike.name == "a.bias"
    assert spike.threshold < 1.0 < spike.norm == 1e3


def test_growth_of_all_parameters_together_is_reported_as_that_of_all() -> None:
    """The norm of many gradients together varies less than that of each."""
    rng = np.random.default_rng(0)
    sizes = [dict(enumerate(row)) for row in np.exp(1.5 * rng.normal(size=(200, 100)))]
    guard = GradientGuard()
    assert not any(guard.observe({f"p{number}": size for number, size in row.items()}) for row in sizes)
    (spike,) = guard.observe({f"p{number}": 200 * size for number, size in sizes[0].items()})
    assert (spike.name, spike.norm) == (ALL, guard.norm)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("threshold", ["auto", 10.0])
def test_norms_that_are_not_finite_are_always_reported(bad: float, threshold: Any) -> None:
    guard = GradientGuard(threshold)
    guard.observe({"a": 1.0, "b": 1.0})
    assert [spike.name for spike in guard.observe({"a": 1.0, "b": bad})] == ["b"]


def test_a_fixed_threshold_holds_for_each_parameter() -> None:
    guard = GradientGuard(5.0)
    assert guard.observe({"a": 5.0, "b": 4.9}) == []
    assert guard.observe({"a": 6.0, "b": 7.0, "c": 1.0}) == [("b", 7.0, 5.0), ("a", 6.0, 5.0)]
    assert guard.threshold == 5.0


def test_the_guard_has_the_last_norm_and_threshold() -> None:
    guard = GradientGuard()
    assert guard.threshold == math.inf
    for _ in range(3):
        guard.observe({"a": 3.0, "b": 4.0})
    assert guard.norm == 5.0
    assert 5.0 < guard.threshold < math.inf


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.nan, "automatic", True])
def test_a_threshold_must_be_positive_or_auto(threshold: Any) -> None:
    with pytest.raises(ValueError, match='positive number or "auto"'):
        GradientGuard(threshold)


@pytest.mark.parametrize("settings", [{"window": 1}, {"window": 0}, {"sensitivity": 0.0}, {"sensitivity": math.nan}])
def test_settings_that_never_report_anything_are_refused(settings: dict[str, Any]) -> None:
    """From one step nothing is learned: it would be silent for ever."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        GradientGuard(**settings)


def test_a_window_of_two_is_enough() -> None:
    guard = GradientGuard(window=2)
    assert not [spike for _ in range(5) for spike in guard.observe({"w": 1.0})]
    assert [spike.name for spike in guard.observe({"w": 1e9})] == ["w"]


def test_the_ceiling_applies_after_the_warm_up() -> None:
    falling = [2.0 ** (10 - step) for step in range(40)]
    usual = RunningThreshold(ceiling=1.0)
    assert not any(usual.exceeded_by(number) for number in falling)
    assert usual.exceeded_by(2.0)
    assert not RunningThreshold(ceiling=1.0).exceeded_by(2.0)


def test_another_thread_may_add_numbers_while_the_median_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = RunningThreshold()

    def median(numbers: Iterable[float]) -> float:
        first, *others = interrupted(iter(numbers))
        return _median([first, *others])

    def interrupted(numbers: Iterator[float]) -> Iterator[float]:
        yield next(numbers)
        usual._logs.append(0.0)
        yield from numbers

    monkeypatch.setattr("retrograd.anomaly.gradient_guard._median", median)
    assert not any(usual.exceeded_by(number) for number in (1.0, 1.2, 0.9, 1.1, 0.8))


def test_the_largest_and_smallest_numbers_are_not_reported_at_first() -> None:
    usual = RunningThreshold()
    assert [usual.exceeded_by(number) for number in (1e308, 1.7e308, 1e308, 5e-324, math.inf)] == [False] * 5
    assert usual.value == math.inf


# --- real training ----------------------------------------------------------------------------------------------------


class SGD:
    def __init__(self, parameters: Any, lr: float, momentum: float = 0.0) -> None:
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.param_groups = [{"params": self.parameters, "lr": lr}]
        self.velocities = [np.zeros_like(p.numpy(force=True)) for p in self.parameters]

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def step(self) -> None:
        with rg.no_grad(), np.errstate(all="ignore"):
            for p, velocity in zip(self.parameters, self.velocities, strict=True):
                velocity *= self.momentum
                velocity += p.grad.numpy()
                p -= rg.tensor(self.lr * velocity)


class Adam(SGD):
    def step(self) -> None:
        self.moments = getattr(self, "moments", [np.zeros_like(v) for v in self.velocities])
        with rg.no_grad(), np.errstate(all="ignore"):
            for p, mean, square in zip(self.parameters, self.velocities, self.moments, strict=True):
                gradient = p.grad.numpy()
                mean += 0.1 * (gradient - mean)
                square += 0.01 * (gradient**2 - square)
                p -= rg.tensor(self.lr * mean / (np.sqrt(square) + 1e-8))


def momentum(parameters: Any, lr: float) -> SGD:
    return SGD(parameters, lr, momentum=0.9)


def shallow() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 16), nn.LeakyReLU(0.1), nn.Linear(16, 10))


def deep() -> nn.Module:
    layers = [layer for _ in range(3) for layer in (nn.Linear(24, 24), nn.LeakyReLU(0.2))]
    return nn.Sequential(nn.Linear(64, 24), nn.ELU(), *layers, nn.Linear(24, 10))


def squared_error(output: rg.Tensor, target: rg.Tensor) -> rg.Tensor:
    return ((output - target) ** 2).mean()


IMAGES, LABELS = load_digits()
TARGETS = np.eye(10, dtype=np.float32)[LABELS]


def batches(seed: int) -> Iterator[tuple[rg.Tensor, rg.Tensor]]:
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.integers(0, len(IMAGES), 32)
        yield rg.tensor(IMAGES[rows]), rg.tensor(TARGETS[rows])


def norms_of(
    model: nn.Module, optimizer: Any, seed: int, change: Callable[[Any, int], None]
) -> Iterator[dict[str, float]]:
    """The gradient norms of each step, until one is not finite."""
    for step, (images, targets) in enumerate(batches(seed)):
        optimizer.zero_grad()
        change(optimizer, step)
        loss = squared_error(model(images), targets)
        with np.errstate(all="ignore"):
            loss.backward()
            norms = {name: float(np.linalg.norm(p.grad.numpy().astype(float))) for name, p in model.named_parameters()}
        yield norms
        if not math.isfinite(loss.item() + sum(norms.values())):
            return
        optimizer.step()


PLANTED = 120


def jump(optimizer: Any, step: int) -> None:
    if step == PLANTED:
        optimizer.lr *= 1000.0


def ramp(optimizer: Any, step: int) -> None:
    if step >= PLANTED:
        optimizer.lr *= 2.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", [shallow, deep])
@pytest.mark.parametrize(
    ("optimizer", "lr", "plant"),
    [(SGD, 0.05, jump), (momentum, 0.01, jump), (SGD, 0.05, ramp), (momentum, 0.01, ramp), (Adam, 1e-3, ramp)],
)
def test_an_explosion_is_reported_before_the_nan(seed: int, model: Any, optimizer: Any, lr: float, plant: Any) -> None:
    rg.manual_seed(seed)
    network = model()
    guard = GradientGuard()
    heard = []
    steps = norms_of(network, optimizer(network.parameters(), lr), seed, plant)
    for step, norms in enumerate(itertools.islice(steps, 400)):
        if guard.observe(norms):
            heard.append(step)
    assert step < 399, "the planted learning rate was to end in an overflow"
    assert PLANTED <= heard[0] < step


@pytest.mark.parametrize("seed", range(3))
def test_an_explosion_from_the_first_step_is_reported_before_the_nan(seed: int) -> None:
    rg.manual_seed(seed)
    network = deep()
    guard = GradientGuard()
    steps = itertools.islice(
        norms_of(network, SGD(network.parameters(), 100.0), seed, lambda optimizer, step: None), 60
    )
    heard = [bool(guard.observe(norms)) for norms in steps]
    assert 3 < len(heard) < 60, "the learning rate was to end in an overflow"
    assert any(heard[:-1])


def test_ten_thousand_healthy_steps_give_no_report() -> None:
    """The digits, 32 at a time, until they are known by heart and gradients differ by powers of ten."""
    rg.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = momentum(network.parameters(), 0.05)
    rng = np.random.default_rng(0)
    labels = rg.tensor(LABELS)
    smallest, largest = math.inf, 0.0
    with watch(network, optimizer, policy={"spike": "raise"}) as w:
        for _ in range(10_000):
            rows = rng.integers(0, len(IMAGES), 32)
            optimizer.zero_grad()
            nn.CrossEntropyLoss()(network(rg.tensor(IMAGES[rows])), labels[rows]).backward()
            optimizer.step()
            smallest, largest = min(smallest, w.grad_norm_history[-1]), max(largest, w.grad_norm_history[-1])
    assert w.grad_events == ()
    assert largest > 1000 * smallest


# --- in a watch -------------------------------------------------------------------------------------------------------


def explode(w: Any, optimizer: Any = None, factor: float = 1e4, steps: int = 45) -> nn.Module:
    """Train under a watch; in step 40 the gradient of one layer is too large."""
    rg.manual_seed(0)
    network = w.model or shallow()
    x = rg.randn(8, 64)
    with w:
        for step in range(steps):
            network.zero_grad()
            w.set_batch(step)
            loss = (network(x) ** 2).mean()
            if step == 40:
                loss = loss + factor * network[2].weight.sum()
            loss.backward()
            if optimizer is not None:
                optimizer.step()
    return network


def test_a_watch_records_spikes_on_request() -> None:
    w = watch(shallow(), policy={"spike": "record"})
    explode(w)
    (event,) = w.grad_events
    assert (event.batch_idx, event.layer_name, event.param_name) == (40, "2", "weight")
    assert event.grad_norm == pytest.approx(1e4 * math.sqrt(160), rel=1e-3)
    assert event.threshold < 1e3
    assert not w.triggered


def test_a_watch_reports_no_spikes_by_default() -> None:
    w = watch(shallow())
    explode(w)
    assert w.grad_events == ()


def test_without_a_model_a_spike_has_the_name_of_the_variable() -> None:
    slope = rg.ones(3).requires_grad_()
    with watch(policy={"spike": "record"}) as w:
        for step in range(40):
            slope.grad = None
            ((1e6 if step == 30 else 1.0) * slope).sum().backward()
    (event,) = w.grad_events
    assert (event.layer_name, event.param_name) == ("", "slope")


def test_a_spike_raises_under_the_policy_raise() -> None:
    w = watch(shallow(), policy={"spike": "raise"})
    with pytest.raises(
        AnomalyError, match=r"gradient norm of 2.weight is 1\.26\de\+05, above the threshold .*, at batch 40"
    ) as info:
        explode(w)
    assert "Lower the learning rate" in str(info.value)
    assert info.value.event == w.grad_events[0]


def test_a_spike_warns_under_the_policy_warn() -> None:
    with pytest.warns(AnomalyWarning, match="gradient norm of 2.weight"):
        explode(watch(shallow(), policy={"spike": "warn"}))


def test_skip_step_leaves_out_the_step_of_a_spike() -> None:
    network = shallow()
    w = watch(network, policy={"spike": "skip_step"})
    optimizer = SGD(network.parameters(), 1e-3)
    before = network[2].weight.numpy(force=True).copy()
    explode(w, optimizer)
    assert len(w.grad_events) == 1
    assert np.abs(network[2].weight.numpy(force=True) - before).max() < 1.0


def test_a_spike_goes_to_listeners_and_to_the_recorder() -> None:
    class Recorder:
        def write(self, event: Any, *, outcome: str) -> None:
            told.append((event, outcome))

    told: list[Any] = []
    w = watch(shallow(), policy={"spike": "record"}, recorder=Recorder())
    w.listeners.append(told.append)
    explode(w)
    assert told == [(w.grad_events[0], "no harm so far"), w.grad_events[0]]


def test_updates_that_are_too_large_for_the_weights_are_reported() -> None:
    """Gradients that saturate do not show a learning rate that is too high; what it does to the weights does."""
    rg.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10), nn.Sigmoid())
    optimizer = Adam(network.parameters(), 1e-3)
    with watch(network, optimizer, policy={"spike": "record"}) as w:
        for step, (images, targets) in enumerate(itertools.islice(batches(0), 60)):
            w.set_batch(step)
            optimizer.zero_grad()
            squared_error(network(images), targets).backward()
            optimizer.lr = 10.0 if step >= 50 else 1e-3
            optimizer.step()
    event = w.grad_events[0]
    assert (event.batch_idx, event.quantity, event.param_name) == (51, "update-to-weight ratio", ALL)
    assert str(event).startswith("update-to-weight ratio of all parameters is ")
    assert event.grad_norm > 10 * event.threshold


def test_norms_without_names_are_refused() -> None:
    with pytest.raises(TypeError, match=r"must map parameter names .* but got 3.0; .*observe\(\{'all': norm\}\)"):
        GradientGuard().observe(3.0)  # type: ignore[arg-type]
