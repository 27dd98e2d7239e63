"""A backward pass that a hook of the program's own has ended by an error: what comes after it has its own lines."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

import retrograd as rg
from tests.anomaly.torch.training import line_of


def fails(gradient: Tensor) -> None:
    raise ArithmeticError("the hook fails")


def spoilt(weight: Tensor) -> Tensor:
    zero = weight - weight
    return zero.log().sum()  # the birth after an error


def good(weight: Tensor, hook: Any = None) -> None:
    product = weight * 3
    root = product.sqrt()
    if hook is not None:
        root.register_hook(hook)
    root.sum().backward()


@pytest.mark.parametrize("steps", [0, 1, 6])
def test_the_next_birth_after_a_failed_backward_has_its_line(steps: int) -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        for _ in range(steps):
            good(weight)
        with pytest.raises(ArithmeticError):
            good(weight, fails)
        spoilt(weight).backward()
    (event,) = w.events
    assert event.op == "log"
    assert event.lineno == line_of("# the birth after an error", inspect.getmodule(spoilt))


def test_a_birth_after_a_refused_argument_of_backward_has_its_line() -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            (weight * 3).sum().backward(torch.ones(5))
        spoilt(weight).backward()
    (event,) = w.events
    assert event.lineno == line_of("# the birth after an error", inspect.getmodule(spoilt))


def test_a_birth_after_a_skipped_loss_has_its_line() -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e9) as w:
        for _ in range(4):
            good(weight)
        (weight * 0).log().sum().backward()
        spoilt(weight).backward()
    assert [event.op for event in w.events] == ["log", "log"]
    assert w.events[1].lineno == line_of("# the birth after an error", inspect.getmodule(spoilt))
