"""Gradients that are finite, and whose squares are not: an optimizer would remember infinity ever after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import retrograd as rg
from retrograd.anomaly import AnomalyError, NaNEvent

BAD = 3  # the step with a huge gradient

SQUARING: list[tuple[type[torch.optim.Optimizer], str, dict[str, Any]]] = [
    (torch.optim.Adam, "exp_avg_sq", {}),
    (torch.optim.Adam, "exp_avg_sq", {"foreach": True}),
    (torch.optim.AdamW, "exp_avg_sq", {"amsgrad": True}),
    (torch.optim.NAdam, "exp_avg_sq", {}),
    (torch.optim.RAdam, "exp_avg_sq", {}),
    (torch.optim.Adagrad, "sum", {}),
    (torch.optim.RMSprop, "square_avg", {}),
    (torch.optim.Adadelta, "square_avg", {}),
]


def train(
    kind: type[torch.optim.Optimizer],
    options: dict[str, Any],
    steps: Callable[[int], bool] = lambda step: True,
    huge: float = 1e25,
    dtype: torch.dtype = torch.float32,
) -> tuple[nn.Linear, Any]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).to(dtype)
    optimizer = kind(model.parameters(), **{"lr": 1e-3} | options)
    for step in range(6):
        x = torch.randn(4, 3).to(dtype)
        if steps(step):
            optimizer.zero_grad()
            loss = (model(x) * (huge if step == BAD else 1.0)).mean()
            loss.backward()
            optimizer.step()
    return model, optimizer


def is_clean(model: nn.Linear, optimizer: Any) -> bool:
    state = [value for each in optimizer.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
    return all(bool(each.isfinite().all()) for each in [*model.parameters(), *state])


@pytest.mark.parametrize(("kind", "key", "options"), SQUARING, ids=lambda each: getattr(each, "__name__", str(each)))
def test_an_update_whose_squares_overflow_is_left_out(
    kind: type[torch.optim.Optimizer], key: str, options: dict[str, Any]
) -> None:
    with rg.anomaly.watch(policy="skip_step") as w:
        model, optimizer = train(kind, options)
    (event,) = w.events
    assert (event.kind, event.op, event.code_line) == ("overflow", f"{kind.__name__}.step", "optimizer.step()")
    assert event.harmed == f"{key} of weight"
    assert event.index is not None
    assert abs(event.operands["grad"]) > 1e20
    assert abs(event.operands["param"]) < 1
    assert abs(event.operands[key]) < 1
    assert event.step == BAD + 1
    assert event.cause is not None
    assert f"so is {key} of weight; it would stay infinite in all later steps" in event.cause
    assert event.remedy == "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"
    assert NaNEvent.from_json(event.to_json()) == event
    assert is_clean(model, optimizer)
    without, _ = train(kind, options, lambda step: step != BAD)
    assert torch.equal(model.weight, without.weight)


def test_an_overflow_in_the_first_update_leaves_no_state() -> None:
    """The state did not exist before the update."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([weight])
    with pytest.raises(AnomalyError, match=r"it reached exp_avg_sq of weight"), rg.anomaly.watch():
        (weight * torch.tensor([1.0, 1e22])).sum().backward()
        optimizer.step()
    assert not optimizer.state
    assert weight.tolist() == [1.0, 1.0]


def test_the_policy_and_expect_nonfinite_are_respected() -> None:
    with rg.anomaly.watch(policy={"nan": "raise", "inf": "record"}) as w:
        train(torch.optim.Adam, {})
    assert [event.harmed for event in w.events] == ["exp_avg_sq of weight"]
    with rg.anomaly.watch(policy={"nan": "raise", "inf": "ignore"}) as w:
        train(torch.optim.Adam, {})
    assert not w.events
    with rg.anomaly.watch() as w, rg.anomaly.expect_nonfinite("the scale of this data"):
        train(torch.optim.Adam, {})
    assert not w.events


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adamax, torch.optim.Rprop])
def test_optimizers_without_squares_are_not_stopped(kind: type[torch.optim.Optimizer]) -> None:
    with rg.anomaly.watch(policy="skip_step") as w:
        model, _ = train(kind, {})
    assert not w.events
    without, _ = train(kind, {})
    assert torch.equal(model.weight, without.weight)


def test_large_gradients_with_finite_squares_are_no_event() -> None:
    with rg.anomaly.watch() as w:
        model, _ = train(torch.optim.Adam, {}, huge=1e18)
    assert not w.events
    without, _ = train(torch.optim.Adam, {}, huge=1e18)
    assert torch.equal(model.weight, without.weight)


def test_squares_overflow_early_in_float16() -> None:
    with rg.anomaly.watch(policy="skip_step") as w:
        model, optimizer = train(torch.optim.Adam, {"eps": 1e-4}, huge=6e4, dtype=torch.float16)
    (event,) = w.events
    assert (event.harmed, event.dtype) == ("exp_avg_sq of bias", "float16")
    assert is_clean(model, optimizer)


def test_clipping_prevents_the_overflow() -> None:
    with rg.anomaly.watch() as w:
        weight = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.Adam([weight])
        (weight * torch.tensor([1.0, 1e18])).sum().backward()
        weight.grad *= 1e4
        nn.utils.clip_grad_norm_([weight], 1.0)
        optimizer.step()
    assert not w.events
    assert bool(weight.isfinite().all())


def test_ordinary_updates_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.anomaly.adapters.torch.boundaries import updates

    def refused(optimizer: Any) -> None:
        raise AssertionError("copied")

    monkeypatch.setattr(updates, "BeforeUpdate", refused)
    with rg.anomaly.watch():
        train(torch.optim.Adam, {}, huge=1e15)
