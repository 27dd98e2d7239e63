"""Small models and loops for the tests, with faults that can be switched on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

import retrograd as rg


class Net(nn.Module):
    """Two layers; ``fault`` works on the second one's output."""

    def __init__(self, fault: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        out = self.second(torch.relu(self.first(x)))
        return out if self.fault is None else self.fault(out)


class Root(torch.autograd.Function):
    """The square root, as a function of the user's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sqrt()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad / (2 * x.sqrt())  # the quotient of Root


def log_of_zero(out: Tensor) -> Tensor:
    zero = out - out.detach()
    return torch.log(zero)  # the birth of log_of_zero


def root_of_zero(out: Tensor) -> Tensor:
    zero = out - out.detach()
    return torch.sqrt(zero)  # the birth of root_of_zero


def line_of(text: str, where: Any = None) -> int:
    """The number of the line with a text, in this file or in that of a function."""
    lines, first = inspect.getsourcelines(where or inspect.getmodule(line_of))
    return next(number for number, line in enumerate(lines, first or 1) if text in line and "line_of" not in line)


def batches(count: int = 4) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(5, 4, generator=generator) for _ in range(count)]


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor], before_step: Any = None
) -> list[Tensor]:
    """An ordinary loop; the losses."""
    losses = []
    for x in data:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        if before_step is not None:
            before_step()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def watched(
    fault: Callable[[Tensor], Tensor],
    policy: Any = "record",
    *,
    net: Net | None = None,
    steps: bool = True,
    model: bool = True,
    **kwargs: Any,
) -> tuple[Any, Net]:
    """Train three good steps and one with a fault."""
    net = net or Net()
    optimizer = torch.optim.Adam(net.parameters())
    w = rg.anomaly.watch(net if model else None, optimizer if model else None, policy, **kwargs)

    def data() -> Iterable[Tensor]:
        for number, x in enumerate(batches()):
            net.fault = fault if number == 3 else None
            yield x

    with w:
        train(net, optimizer, w.steps(data()) if steps else data())
    return w, net


def weights_are_clean(model: nn.Module) -> bool:
    return all(bool(each.isfinite().all()) for each in model.parameters())


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
