"""What is said where a number that decides between two causes was not kept."""

from __future__ import annotations

import torch
from torch import Tensor

import retrograd as rg


def density(x: Tensor, log_variance: Tensor) -> Tensor:
    return (log_variance + x**2 / torch.exp(log_variance)).sum()


def test_an_exponential_that_is_zero_may_be_that_of_minus_infinity() -> None:
    x = torch.ones(3, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        density(x, torch.log(torch.zeros(3))).backward()
    assert w.event is not None
    assert w.event.op == "div"
    assert "exp(log_variance) is 0 in float32" in (w.event.cause or "")
    assert "If log_variance is -inf there, it is the log of a 0" in (w.event.cause or "")


def inner_steps(weight: Tensor, x: Tensor, rate: float) -> Tensor:
    inner = weight
    for _ in range(5):
        (gradient,) = torch.autograd.grad((x @ inner).pow(4).mean(), inner, create_graph=True)
        inner = inner - rate * gradient
    return (x @ inner).pow(2).mean()


def test_numbers_that_run_away_in_a_derivative_are_no_pole() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(6, 4, requires_grad=True), torch.randn(8, 6)
    with rg.anomaly.watch(policy="skip_step") as w:
        inner_steps(weight, x, rate=3.0).backward()
    assert w.event is not None
    assert "of a derivative" in str(w.event)
    assert "they have run away until they overflowed float32" in (w.event.cause or "")
    assert "pole" not in (w.event.cause or "")
