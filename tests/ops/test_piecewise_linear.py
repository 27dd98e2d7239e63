"""Second derivatives of piecewise linear functions are zeros, not errors; compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import parity

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda lib, x: x.relu(),
    "relu_": lambda lib, x: (x * 1).relu_(),
    "relu6": lambda lib, x: lib.nn.functional.relu6(x),
    "leaky_relu": lambda lib, x: lib.nn.functional.leaky_relu(x, 0.2),
    "rrelu": lambda lib, x: lib.nn.functional.rrelu(x),
    "prelu": lambda lib, x: lib.nn.functional.prelu(x, lib.tensor([0.5, 0.25])),
    "hardtanh": lambda lib, x: lib.nn.functional.hardtanh(x),
    "threshold": lambda lib, x: lib.nn.functional.threshold(x, 0.1, 20.0),
    "hardshrink": lambda lib, x: lib.nn.functional.hardshrink(x),
    "softshrink": lambda lib, x: lib.nn.functional.softshrink(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_of_piecewise_linear_operations(name: str) -> None:
    @parity
    def check(lib: Any) -> Any:
        x = lib.tensor([[0.5, -1.0], [2.0, 0.3], [-0.2, 7.0]], requires_grad=True)
        w = lib.tensor([[1.0, 2.0], [-1.0, 0.5]], requires_grad=True)
        (first,) = lib.autograd.grad(FUNCTIONS[name](lib, x @ w).sum(), x, create_graph=True)
        penalty = (first**2).sum()
        (second,) = lib.autograd.grad(first.sum(), x, retain_graph=True)
        return [first.requires_grad, second, *lib.autograd.grad(penalty, [w, x])]

    check()


@parity
def test_higher_derivatives_of_piecewise_linear_operations(lib: Any) -> Any:
    x = lib.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    derivatives = [x.relu()]
    for _ in range(4):
        derivatives += lib.autograd.grad(derivatives[-1].sum(), x, create_graph=True)
    return [*derivatives, derivatives[-1].requires_grad]


@parity
def test_hessian_of_a_piecewise_linear_function_in_strict_mode(lib: Any) -> Any:
    x = lib.tensor([-1.0, 2.0])
    return [
        product(lambda x: x.relu().sum(), x, *vector, strict=True)
        for product, vector in (
            (lib.autograd.functional.hessian, ()),
            (lib.autograd.functional.vhp, (lib.ones(2),)),
        )
    ]


def test_second_derivative_of_hardsigmoid_which_torch_lacks() -> None:
    x = rg.tensor([-4.0, 0.0, 1.0, 4.0], requires_grad=True)
    (first,) = rg.autograd.grad(rg.nn.functional.hardsigmoid(x).sum(), x, create_graph=True)
    (second,) = rg.autograd.grad(first.sum(), x)
    assert np.allclose(first.detach(), [0, 1 / 6, 1 / 6, 0])
    assert second.tolist() == [0, 0, 0, 0]
