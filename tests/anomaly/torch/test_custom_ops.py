"""Operations that a program makes with ``torch.library.custom_op``: a birth is told at the line inside."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import retrograd as rg
from tests.anomaly.torch.training import line_of


@torch.library.custom_op("retrograd_tests::scaled_log", mutates_args=())
def scaled_log(x: Tensor, scale: float) -> Tensor:
    scaled = x * scale
    return torch.log(scaled)  # the birth in program


@torch.library.custom_op("retrograd_tests::through_numpy", mutates_args=())
def through_numpy(x: Tensor) -> Tensor:
    with np.errstate(divide="ignore"):
        return torch.from_numpy(1 / x.detach().numpy())


@torch.library.custom_op("retrograd_tests::log_in_place", mutates_args=("x",))
def log_in_place(x: Tensor) -> None:
    x.log_()  # the birth in in_place


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (x,) = ctx.saved_tensors
    return grad / x, None


scaled_log.register_autograd(_backward, setup_context=_keep)


def program(x: Tensor) -> Tensor:
    return scaled_log(x, 2.0).sum()


def in_place(x: Tensor) -> Tensor:
    data = x.detach() * 1
    log_in_place(data)
    return (data * x).sum()


@pytest.mark.parametrize("from_step", [None, 1])
@pytest.mark.parametrize("function", [program, in_place])
def test_a_birth_in_a_custom_op_has_its_line(function: Any, from_step: int | None) -> None:
    weight = torch.tensor([1.0, 2.0, 0.5], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", from_step=from_step) as w:
        for factors in w.steps([torch.ones(3), torch.tensor([1.0, 0.0, 1.0])]):
            function(weight * factors).backward()
    (event,) = w.events
    assert (event.op, event.index, event.kind) == ("log", (1,), "divide")
    assert event.operands["input"] == 0.0
    assert event.lineno == line_of("# the birth in " + function.__name__, inspect.getmodule(program))


def test_a_birth_in_numpy_within_a_custom_op_names_the_op() -> None:
    x = torch.tensor([1.0, 0.0])
    weight = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        for _ in w.steps([0]):
            made = through_numpy(x)
            (weight * made).sum().backward()
    (event,) = w.events
    assert (event.op, event.index) == ("through_numpy", (1,))


def test_a_custom_op_gives_the_same_numbers_with_the_watch() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(from_step=1):
        recorded = program(x)
        recorded.backward()
    gradient, x.grad = x.grad, None
    plain = program(x)
    plain.backward()
    assert torch.equal(recorded, plain)
    assert gradient is not None
    assert x.grad is not None
    assert torch.equal(gradient, x.grad)
