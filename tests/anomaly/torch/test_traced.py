"""Functions that PyTorch traces to make a graph of them: what the watch computes is no part of that graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import retrograd as rg
from retrograd.anomaly import Watch

X = torch.tensor([0.5, 2.0])


def loss_of(x: torch.Tensor) -> torch.Tensor:
    return (torch.sin(x) * 2).sum()


def updated(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(x), x)
    return x - 0.1 * gradient


def after_backward(x: torch.Tensor) -> Any:
    x = x.detach().requires_grad_()
    loss_of(x).backward()  # type: ignore[no-untyped-call]
    return x.grad


def linearized() -> Any:
    return torch.func.linearize(torch.sin, X)[1](X).tolist()


def code_of(function: Callable[..., Any]) -> Callable[[], str]:
    return lambda: make_fx(function)(X).code


PROGRAMS = {
    "linearize": linearized,
    "gradient": code_of(torch.func.grad(loss_of)),
    "update": code_of(updated),
    "backward": code_of(after_backward),
}


def plain(watch: Watch, program: Callable[[], None]) -> None:
    program()


def in_a_second_run(watch: Watch, program: Callable[[], None]) -> None:
    for _ in watch.steps([0]):
        torch.zeros(2, requires_grad=True).sqrt().sum().backward()  # type: ignore[no-untyped-call]
        program()


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning", "ignore:Attempted to insert a get_attr")
@pytest.mark.parametrize(("run", "from_step"), [(plain, None), (plain, 1), (in_a_second_run, None)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_traced_graph_is_the_same_with_the_watch(name: str, run: Any, from_step: int | None) -> None:
    trace, got = PROGRAMS[name], []
    expected = trace()
    with rg.anomaly.watch(policy="record", from_step=from_step) as w:
        run(w, lambda: got.append(trace()))
        torch.tensor(-1.0, requires_grad=True).log().backward()  # type: ignore[no-untyped-call]
    assert got == [expected] * len(got)
    assert w.events[-1].op == "log"
    assert math.isnan(w.loss_history[-1] or 0.0)
