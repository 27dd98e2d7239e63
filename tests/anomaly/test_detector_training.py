"""Training loops with the detector of layers: ``train_with_nan_guard``, and loops that never look at the detector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import train_with_nan_guard
from tests.anomaly.detecting import hooks_on, layer_of, quiet

nn = rg.nn
Layer: Any = layer_of(rg)
NAN = math.nan
ONES = rg.ones(2, 3)


class SGD:
    def __init__(self, parameters: Any, lr: float) -> None:
        self.param_groups = [{"params": list(parameters), "lr": lr}]
        self.steps = 0

    def zero_grad(self) -> None:
        for p in self.param_groups[0]["params"]:
            p.grad = None

    def step(self) -> None:
        self.steps += 1
        with rg.no_grad():
            for p in self.param_groups[0]["params"]:
                p -= self.param_groups[0]["lr"] * p.grad


def squared_error(output: rg.Tensor, target: rg.Tensor) -> rg.Tensor:
    return ((output - target) ** 2).mean()


def training(batches: list[Any], criterion: Any = squared_error, **kwargs: Any) -> Any:
    rg.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = SGD(model.parameters(), 0.1)
    losses, event = train_with_nan_guard(model, batches, criterion, optimizer, verbose=False, **kwargs)
    assert bool(rg.isfinite(model.weight).all())
    return losses, event, optimizer, model


GOOD = (ONES, rg.zeros(2, 1))
BAD = (ONES * NAN, rg.zeros(2, 1))
BAD_TARGET = (ONES, rg.full((2, 1), NAN))


def test_training_without_an_anomaly_returns_the_losses_and_no_event() -> None:
    losses, event, optimizer, model = training([GOOD] * 5)
    assert event is None
    assert losses == sorted(losses, reverse=True)
    assert (len(losses), optimizer.steps, model.training) == (5, 5, True)
    assert hooks_on(model) == 0


@pytest.mark.parametrize("bad", [BAD, BAD_TARGET])
def test_training_ends_before_the_weights_are_spoilt(bad: Any) -> None:
    losses, event, optimizer, _ = training([GOOD, GOOD, bad, GOOD])
    assert event.batch_idx == 2
    assert (len(losses), optimizer.steps) == (3, 2)
    assert math.isnan(losses[-1])


def test_a_bad_gradient_ends_the_training_before_the_update() -> None:
    losses, event, optimizer, _ = training([GOOD], lambda output, target: rg.sqrt((output * 0).sum()))
    assert (event.op, event.is_backward, event.batch_idx) == ("SqrtBackward0", True, 0)
    assert (losses, optimizer.steps) == ([0.0], 0)


def test_training_may_go_on_without_the_bad_batches() -> None:
    losses, event, optimizer, _ = training([GOOD, BAD, GOOD, BAD_TARGET, GOOD], stop_on_first=False)
    assert event.batch_idx == 1
    assert (len(losses), optimizer.steps) == (5, 3)
    assert [math.isnan(loss) for loss in losses] == [False, True, False, True, False]


def test_max_batches_draws_no_further_batch_from_the_loader() -> None:
    batches = iter([GOOD] * 5)
    losses, _, _, _ = training(batches, max_batches=2)  # type: ignore[arg-type]
    assert len(losses) == 2
    assert len(list(batches)) == 3


def test_batches_may_have_any_structure() -> None:
    rg.manual_seed(0)
    model = Layer(lambda batch: batch["x"][0].sum() * model.scale)
    model.scale = nn.Parameter(rg.ones(1))
    losses, event = train_with_nan_guard(
        model,
        [({"x": [ONES], "n": 3}, None)],
        lambda output, target: output.sum(),
        SGD([model.scale], 0.1),
        verbose=False,
    )
    assert (losses, event) == ([6.0], None)


def test_an_exception_of_the_loss_is_raised_and_leaves_no_hooks() -> None:
    model = nn.Linear(3, 1)
    with pytest.raises(ZeroDivisionError):
        train_with_nan_guard(model, [GOOD], lambda output, target: 1 / 0, SGD(model.parameters(), 0.1), verbose=False)
    assert hooks_on(model) == 0


def test_the_weights_stay_finite_if_the_program_never_checks_the_detector() -> None:
    """Many loops take the step first and look at the detector afterwards."""
    model = nn.Linear(3, 1)
    optimizer = SGD(model.parameters(), 0.1)
    with quiet(model) as det:
        for inputs, targets in (GOOD, BAD, GOOD):
            optimizer.zero_grad()
            squared_error(model(inputs), targets).backward()
            optimizer.step()
    assert det.triggered
    assert np.isfinite(model.weight.numpy(force=True)).all()
