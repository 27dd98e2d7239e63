"""Training steps of retrograd in which a birth does harm, and a model with a layer in which it happens."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.core.tensor import Tensor


def leaf(*values: float) -> Tensor:
    return rg.tensor(list(values), requires_grad=True)


def bad_loss(x: Tensor) -> None:
    rg.log(x * 0).sum().backward()


def bad_gradient(x: Tensor) -> None:
    rg.sqrt(x * 0).sum().backward()


each_harm = pytest.mark.parametrize("harm", [bad_loss, bad_gradient], ids=["loss", "gradient"])


def scaled(x: Tensor, scaler: rg.amp.GradScaler) -> None:
    """Take a step whose gradient is NaN at every scale."""
    optimizer = rg.optim.SGD([x], lr=0.1)
    scaler.scale(rg.sqrt(x * 0).sum() * 0).backward()
    scaler.step(optimizer)
    scaler.update()


class Logarithm(rg.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return rg.log(x)


class Model(rg.nn.Module):
    """The logarithm of its input minus itself, which is NaN where the input is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Logarithm()

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return y - y
