"""Every learning-rate schedule gives torch's rates, can be resumed, and explains mistakes."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message

Make = Callable[[Any, Any], Any]  # (module of the schedulers, optimizer) -> scheduler


class Decay:
    """A callable object with state to save."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, epoch: float) -> float:
        return self.rate**epoch


SCHEDULES: dict[str, Make] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch),
    "LambdaLR-each": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), Decay(0.9)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, [lambda epoch: 0.95, Decay(0.99)]),
    "StepLR": lambda s, o: s.StepLR(o, 7, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [30, 5, 5, 41], gamma=0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=11),
    "ConstantLR-defaults": lambda s, o: s.ConstantLR(o),
    "LinearLR": lambda s, o: s.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=23),
    "LinearLR-defaults": lambda s, o: s.LinearLR(o),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, total_iters=40, power=1.7),
    "PolynomialLR-defaults": lambda s, o: s.PolynomialLR(o),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 17, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 6, T_mult=2, eta_min=0.01),
    "CosineAnnealingWarmRestarts-even": lambda s, o: s.CosineAnnealingWarmRestarts(o, 6),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, [0.1, 0.2], step_size_up=5, step_size_down=9),
    "CyclicLR-2": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=5, mode="triangular2", base_momentum=[0.5, 0.6]),
    "CyclicLR-range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=5, mode="exp_range", gamma=0.97),
    "CyclicLR-own": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, step_size_up=5, scale_fn=Decay(0.9), scale_mode="iterations", cycle_momentum=False
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.1, 0.5], total_steps=61),
    "OneCycleLR-linear": lambda s, o: s.OneCycleLR(
        o, 0.1, epochs=7, steps_per_epoch=9, anneal_strategy="linear", three_phase=True, pct_start=0.4
    ),
    "OneCycleLR-factors": lambda s, o: s.OneCycleLR(
        o, 0.1, total_steps=70, div_factor=5.0, final_div_factor=10.0, cycle_momentum=False
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9)]),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9), s.StepLR(o, 5)], milestones=[10, 30]
    ),
    "SequentialLR-restarts": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, total_iters=8), s.CosineAnnealingWarmRestarts(o, 7, 2)], milestones=[8]
    ),
}
OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "SGD": lambda t, groups: t.optim.SGD(groups, lr=0.2, momentum=0.7),
    "Adam": lambda t, groups: t.optim.Adam(groups, lr=0.2),
}


def optimizer_of(t: Any, kind: str = "SGD", lr: Any = None) -> Any:
    groups = [{"params": [t.ones(1, requires_grad=True)]} for _ in range(2)]
    groups[1]["lr"] = 0.5 if lr is None else lr
    return OPTIMIZERS[kind](t, groups)


def rates(t: Any, optimizer: Any, scheduler: Any, epochs: int) -> list[Any]:
    """Return the learning rates, momenta and epoch number of each epoch."""
    seen = []
    for _ in range(epochs):
        momentums = [group["betas"][0] if "betas" in group else group["momentum"] for group in optimizer.param_groups]
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        seen.append(
            (list(scheduler.get_last_lr()), momentums, scheduler.last_epoch if hasattr(scheduler, "last_epoch") else 0)
        )
        optimizer.step()
        scheduler.step()
    return seen


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_sixty_learning_rates_agree_with_torch(name: str, kind: str) -> None:
    seen = []
    for t in (rg, torch):
        optimizer = optimizer_of(t, kind)
        seen.append(rates(t, optimizer, SCHEDULES[name](t.optim.lr_scheduler, optimizer), 60))
    for (ours, momentum, epoch), (theirs, their_momentum, their_epoch) in zip(*seen, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
        assert momentum == pytest.approx(their_momentum, rel=1e-12)
        assert epoch == their_epoch
    assert len({tuple(lrs) for lrs, _, _ in seen[0]}) > 1


def test_every_scheduler_is_tested() -> None:
    tried = {name.split("-")[0] for name in SCHEDULES} | {"ReduceLROnPlateau", "LRScheduler"}
    assert tried == set(torch.optim.lr_scheduler.__all__) == set(rg.optim.lr_scheduler.__all__)


@pytest.mark.parametrize("name", SCHEDULES)
def test_resumed_scheduler_continues_exactly(name: str) -> None:
    optimizer = optimizer_of(rg)
    scheduler = SCHEDULES[name](rg.optim.lr_scheduler, optimizer)
    rates(rg, optimizer, scheduler, 13)
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    expected = rates(rg, optimizer, scheduler, 20)

    fresh = optimizer_of(rg)
    again = SCHEDULES[name](rg.optim.lr_scheduler, fresh)
    fresh.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    assert rates(rg, fresh, again, 20) == expected


@pytest.mark.parametrize("name", SCHEDULES)
def test_scheduler_states_load_from_torch(name: str) -> None:
    reference = optimizer_of(torch)
    theirs = SCHEDULES[name](torch.optim.lr_scheduler, reference)
    rates(torch, reference, theirs, 13)
    optimizer = optimizer_of(rg)
    ours = SCHEDULES[name](rg.optim.lr_scheduler, optimizer)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    optimizer.load_state_dict(reference.state_dict())
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    for (mine, momentum, _), (torchs, their_momentum, _) in zip(
        rates(rg, optimizer, ours, 20), rates(torch, reference, theirs, 20), strict=True
    ):
        assert mine == pytest.approx(torchs, rel=1e-12, abs=1e-15)
        assert momentum == pytest.approx(their_momentum, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in SCHEDULES if not name.startswith(("Chained", "Sequential"))])
def test_step_with_an_epoch_number(name: str) -> None:
    """``step(epoch)`` jumps to any epoch."""
    seen = []
    for t in (rg, torch):
        optimizer = optimizer_of(t)
        scheduler = SCHEDULES[name](t.optim.lr_scheduler, optimizer)
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lrs = []
            for epoch in (3, 17, 5, 40, 0):
                scheduler.step(epoch)
                lrs.append(scheduler.get_last_lr())
        seen.append(lrs)
    for ours, theirs in zip(*seen, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "name", ["StepLR", "LinearLR", "CosineAnnealingLR", "PolynomialLR", "MultiplicativeLR", "LambdaLR"]
)
def test_scheduler_started_with_last_epoch(name: str) -> None:
    """The optimizer's groups have an ``initial_lr``."""
    options = {
        "StepLR": {"step_size": 4},
        "LinearLR": {"total_iters": 9},
        "CosineAnnealingLR": {"T_max": 9},
        "PolynomialLR": {"total_iters": 12},
        "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.9},
        "LambdaLR": {"lr_lambda": lambda epoch: 0.9**epoch},
    }[name]
    seen = []
    for t in (rg, torch):
        optimizer = optimizer_of(t)
        for group in optimizer.param_groups:
            group["initial_lr"] = 2 * group["lr"]
        scheduler = getattr(t.optim.lr_scheduler, name)(optimizer, **options, last_epoch=4)
        seen.append([lrs for lrs, _, _ in rates(t, optimizer, scheduler, 10)])
    for ours, theirs in zip(*seen, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
    fresh = optimizer_of(rg)
    with pytest.raises(KeyError, match=r"'initial_lr' is not specified in param_groups\[0\]"):
        getattr(rg.optim.lr_scheduler, name)(fresh, **options, last_epoch=4)


PLATEAU = [3.0, 2.0, 2.0, 2.0, 2.0, 1.9999, 1.9, 1.9, 1.9, 1.9, 1.9, 2.5, 2.5, 2.5, 2.5, 0.1, *[0.1] * 30]


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"patience": 1, "factor": 0.5, "cooldown": 3},
        {"patience": 1, "mode": "max", "threshold": 0.01, "threshold_mode": "abs"},
        {"patience": 1, "threshold": 0.05, "threshold_mode": "abs", "min_lr": [0.01, 0.1]},
        {"patience": 0, "mode": "max", "min_lr": 0.05, "eps": 0.1},
        {"patience": 2, "threshold": 0.06},
    ],
    ids=lambda options: "-".join(map(str, options)),
)
def test_reduce_on_plateau_agrees_with_torch(options: dict[str, Any]) -> None:
    seen = []
    for t in (rg, torch):
        optimizer = optimizer_of(t)
        scheduler = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        lrs = []
        for number, loss in enumerate(PLATEAU):
            scheduler.step(t.tensor(loss) if number % 2 else loss)
            lrs.append([*scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.in_cooldown])
            if number == 9:  # continue with a new scheduler that loads the state of the old one
                saved = json.loads(json.dumps(scheduler.state_dict()))
                scheduler = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
                scheduler.load_state_dict(saved)
        seen.append(lrs)
    for ours, theirs in zip(*seen, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12)
    assert seen[0][0] != seen[0][-1]


def test_reduce_on_plateau_with_epoch_numbers() -> None:
    seen = []
    for t in (rg, torch):
        optimizer = optimizer_of(t)
        scheduler = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        told = []
        for loss, epoch in ((1.0, 3), (2.0, None), (3.0, 7)):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                scheduler.step(loss, epoch=epoch)
            told.append((scheduler.last_epoch, scheduler.get_last_lr(), len(said)))
        seen.append(told)
    assert seen[0] == seen[1]


def test_reduce_on_plateau_after_adding_a_group() -> None:
    optimizer = optimizer_of(rg)
    each = rg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.0, 0.1])
    shared = rg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.3)
    optimizer.add_param_group({"params": rg.ones(1, requires_grad=True), "lr": 1.0})
    for loss in (1.0, 1.0):
        shared.step(loss)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.2, 0.3, 0.3])
    each.step(1.0)
    with pytest.raises(RuntimeError, match=r"\(3\) differs from when .* was initialized \(2\)"):
        each.step(1.0)


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedulers_with_tensor_learning_rates(name: str, shape: tuple[int, ...]) -> None:
    seen = []
    for t in (rg, torch):
        optimizer = optimizer_of(t, lr=t.full(shape, 0.5, dtype=t.float64))
        scheduler = SCHEDULES[name](t.optim.lr_scheduler, optimizer)
        for _ in range(12):
            optimizer.step()
            scheduler.step()
        rate = optimizer.param_groups[1]["lr"]
        assert tuple(rate.shape) == shape
        seen.append([rate.item(), scheduler.get_last_lr()[1].item()])
    assert seen[0] == pytest.approx(seen[1], rel=1e-12)


def test_scheduler_updates_a_tensor_learning_rate_in_place() -> None:
    lr = rg.tensor(0.5)
    optimizer = optimizer_of(rg, lr=lr)
    scheduler = rg.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[1]["lr"] is lr and lr.item() == 0.25
    assert scheduler.get_last_lr()[1] is not lr


@pytest.mark.parametrize("t", [rg, torch], ids=["retrograd", "torch"])
def test_scheduler_step_before_optimizer_step_warns(t: Any) -> None:
    scheduler = t.optim.lr_scheduler.StepLR(optimizer_of(t), 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        scheduler.get_lr()


MISTAKES: list[Make] = [
    lambda s, o: s.StepLR([1], 3),
    lambda s, o: s.LambdaLR(o, [abs]),
    lambda s, o: s.MultiplicativeLR(o, [1.0, 2.0]),
    lambda s, o: s.ConstantLR(o, factor=2.0),
    lambda s, o: s.ConstantLR(o, factor=-1.0),
    lambda s, o: s.LinearLR(o, start_factor=0.0),
    lambda s, o: s.LinearLR(o, end_factor=1.5),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 2.5),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, T_mult=0),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, eta_min="0"),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 2).step(-1),
    lambda s, o: s.CyclicLR(o, [0.1], 0.2),
    lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    lambda s, o: s.OneCycleLR(o, 0.1),
    lambda s, o: s.OneCycleLR(o, 0.1, epochs=3),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=0),
    lambda s, o: s.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3),
    lambda s, o: s.OneCycleLR(o, 0.1, epochs=3, steps_per_epoch=1.5),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=10, pct_start=2.0),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=10, pct_start=1),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=10, anneal_strategy="sin"),
    lambda s, o: s.OneCycleLR(o, [0.1], total_steps=10),
    lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    lambda s, o: s.ReduceLROnPlateau(o, mode="mean"),
    lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="mean"),
    lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    lambda s, o: s.ReduceLROnPlateau(3),
    lambda s, o: s.ChainedScheduler([]),
    lambda s, o: s.ChainedScheduler([3], o),
    lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
    lambda s, o: s.ChainedScheduler([s.StepLR(o, 3)], o.other),
    lambda s, o: s.SequentialLR(o, [s.StepLR(o, 3)], [4]),
    lambda s, o: s.SequentialLR(o.other, [s.StepLR(o, 3)], []),
    lambda s, o: [s.StepLR(o, 3) for _ in range(2)] and s.LRScheduler(o),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_wrong_uses_of_schedulers_are_refused_as_in_torch(number: int) -> None:
    outcomes, texts = [], []
    for t in (rg, torch):
        optimizer = optimizer_of(t)
        optimizer.other = optimizer_of(t)
        outcomes.append(attempt(lambda: MISTAKES[number](t.optim.lr_scheduler, optimizer)))  # noqa: B023
        texts.append(message(lambda: MISTAKES[number](t.optim.lr_scheduler, optimizer)))  # noqa: B023
    assert outcomes[0] == outcomes[1]
    assert str(outcomes[0]).startswith("raises")
    assert texts[0]


def test_one_cycle_refuses_more_steps_than_total_steps() -> None:
    optimizer = optimizer_of(rg)
    scheduler = rg.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match=r"Tried to step 4 times\. The specified number of total steps is 3"):
        scheduler.step()


def test_first_scheduler_of_a_sequence_may_be_composed() -> None:
    s, seen = rg.optim.lr_scheduler, []
    for nested in (False, True):
        optimizer = optimizer_of(rg)
        scheduler = s.ChainedScheduler([s.LinearLR(optimizer, total_iters=9), s.ExponentialLR(optimizer, 0.9)])
        if nested:
            inner = s.SequentialLR(optimizer, [scheduler, s.StepLR(optimizer, 3)], [14])
            scheduler = s.SequentialLR(optimizer, [inner, s.StepLR(optimizer, 3)], [16])
        seen.append([])
        for _ in range(13):
            seen[-1].append(scheduler.get_last_lr())
            optimizer.step()
            scheduler.step()
    assert seen[0] == seen[1]


def test_later_schedulers_of_a_sequence_may_not_be_composed() -> None:
    """In torch, this fails only at the milestone."""
    optimizer, s = optimizer_of(rg), rg.optim.lr_scheduler
    chained = s.ChainedScheduler([s.StepLR(optimizer, 3)])
    with pytest.raises(ValueError, match="cannot begin a ChainedScheduler at a milestone, but got one at index 1"):
        s.SequentialLR(optimizer, [s.StepLR(optimizer, 3), chained], [4])


def test_cyclic_schedule_needs_an_optimizer_with_momentum() -> None:
    optimizer = rg.optim.Adagrad([rg.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="but Adagrad does not; set cycle_momentum=False"):
        rg.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.2)
