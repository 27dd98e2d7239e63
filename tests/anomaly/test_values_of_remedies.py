"""A remedy that is finite may still be wrong: pasted, it has the value and the gradient that the formula tends to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.anomaly.both import libraries, mended, run

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Formula:
    """A program that computes ``y`` of ``x``, numbers with which it fails, and the function that it is."""

    code: str
    numbers: list[float]
    function: Function
    near: float = 2e-3  # how close a remedy comes


def _log_of_softplus(x: np.ndarray) -> np.ndarray:
    return np.where(x < -30, x, np.log(np.log1p(np.exp(np.maximum(x, -30)))))


def _share(x: np.ndarray) -> np.ndarray:
    return x - np.logaddexp(0, np.logaddexp.reduce(x))


def _gev(x: np.ndarray) -> np.ndarray:
    return np.exp(-((1 + x * 0.5) ** (-1 / x)))


LATE = [20.0, 1.0, -30.0]
ZERO = [0.0, 1.0, 0.25]

FORMULAS = {
    # one function undoes the other
    "log-odds": Formula("y = torch.logit(torch.sigmoid(x))", [20.0, 1.0, -120.0], lambda x: x),
    "log-odds by a name": Formula("p = x.sigmoid()\ny = 2 * p.logit() + 1", [20.0, 1.0, -120.0], lambda x: 2 * x + 1),
    "log of the odds": Formula("p = torch.sigmoid(x)\ny = torch.log(p / (1 - p))", LATE, lambda x: x),
    "rapidity": Formula("y = torch.atanh(torch.tanh(x))", LATE, lambda x: x),
    "Fisher's z": Formula(
        "t = torch.tanh(x / 2)\ny = 0.5 * torch.log((1 + t) / (1 - t))", [20.0, 1.0], lambda x: x / 2
    ),
    "probit": Formula("y = torch.erfinv(torch.erf(x))", [6.0, 1.0], lambda x: x),
    "power by a logarithm": Formula("y = torch.exp(2 * torch.log(x))", ZERO, lambda x: x**2),
    "exponential of a logarithm": Formula("y = torch.log(x).exp()", ZERO, lambda x: x),
    "power of a tensor": Formula(
        "p = torch.tensor(1.5)\ny = torch.exp(torch.log(2 * x) * p)", [0.0, 1.0], lambda x: np.abs(2 * x) ** 1.5
    ),
    "root of a square": Formula("y = torch.sqrt(x**2)", [0.0, 1.0, -2.0], np.abs),
    "root of a product": Formula("y = 1 + (x * x) ** 0.5", [0.0, 1.0, -2.0], lambda x: 1 + np.abs(x)),
    "root of a large square": Formula("y = torch.sqrt((x - 1) ** 2)", [1e30, 3.0], lambda x: np.abs(x - 1)),
    # logarithms
    "log of cosh": Formula("y = torch.log(torch.cosh(x))", [100.0, -2.0], lambda x: np.logaddexp(x, -x) - np.log(2)),
    "log of sinh": Formula("y = torch.log(2 * torch.sinh(x))", [100.0, 2.0], lambda x: x + np.log(-np.expm1(-2 * x))),
    "inverse softplus": Formula("y = torch.log(torch.exp(x) - 1)", [100.0, 0.25], lambda x: x + np.log(-np.expm1(-x))),
    "inverse softplus by expm1": Formula(
        "y = torch.expm1(x).log()", [100.0, 0.25], lambda x: x + np.log(-np.expm1(-x))
    ),
    "less a number": Formula("y = torch.log(torch.exp(x) - 2)", [100.0, 2.0], lambda x: x + np.log1p(-2 * np.exp(-x))),
    "more than a number": Formula(
        "y = torch.log(2 + torch.exp(x))", [100.0, 1.0], lambda x: np.logaddexp(x, np.log(2))
    ),
    "log of a mean": Formula(
        "y = torch.log(torch.mean(torch.exp(x)))", [100.0, 1.0], lambda x: np.logaddexp.reduce(x) - np.log(2)
    ),
    "log of a small mean": Formula(
        "import math\ny = torch.log(x.exp().mean(0))",
        [-200.0, -201.0, -202.0],
        lambda x: np.logaddexp.reduce(x) - np.log(3),
    ),
    "log of a rate": Formula(
        "rate = F.softplus(x)\ny = rate - 3 * torch.log(rate)",
        [-200.0, 1.0],
        lambda x: np.logaddexp(x, 0) - 3 * _log_of_softplus(x),
    ),
    "share of a market": Formula("e = torch.exp(x)\ns = e / (1 + e.sum())\ny = torch.log(s)", [90.0, 1.0], _share),
    "risks of those still there": Formula(
        "e = torch.exp(x)\ny = torch.log(torch.cumsum(e, 0))", [100.0, 2.0, 101.0], np.logaddexp.accumulate
    ),
    "risks by a matrix": Formula(
        "R = torch.tensor([[1.0, 0.0], [1.0, 1.0]])\ny = torch.log(R @ torch.exp(x))",
        [100.0, 2.0],
        np.logaddexp.accumulate,
    ),
    "joint density": Formula(
        "y = torch.log(torch.exp(-(x**2)).prod(0) * 0.5)", [20.0, 2.0], lambda x: -(x**2).sum() + np.log(0.5)
    ),
    "running product": Formula(
        "y = torch.log(torch.cumprod(x, 0))", [1e20, 1e15, 1e10], lambda x: np.cumsum(np.log(x))
    ),
    "product by a name": Formula("p = x.prod(0)\ny = -torch.log(p)", [1e20, 1e15, 1e10], lambda x: -np.log(x).sum()),
    "cross entropy of logits": Formula(
        "p = torch.sigmoid(x)\ny = -0.25 * torch.log(p) - 0.75 * torch.log(1 - p)",
        [20.0, 1.0, -120.0],
        lambda x: 0.25 * np.logaddexp(0, -x) + 0.75 * np.logaddexp(0, x),
    ),
    # quotients with a limit
    "growth": Formula("y = (torch.exp(x) - 1) / x", ZERO, lambda x: np.expm1(x) / x),
    "Bernoulli's function": Formula("y = x / (torch.exp(x) - 1)", ZERO, lambda x: x / np.expm1(x)),
    "Bernoulli's function by expm1": Formula("y = x / torch.expm1(x)", ZERO, lambda x: x / np.expm1(x)),
    "decay": Formula("y = (1 - torch.exp(-2 * x)) / (3 * x)", ZERO, lambda x: -np.expm1(-2 * x) / (3 * x)),
    "two quotients": Formula(
        "y = torch.log(1 + x) / x + x / torch.log1p(x)", ZERO, lambda x: np.log1p(x) / x + x / np.log1p(x)
    ),
    "rotation": Formula("y = (1 - torch.cos(x)) / x**2", ZERO, lambda x: 2 * (np.sin(x / 2) / x) ** 2),
    "rotation, once": Formula("y = (1 - torch.cos(x)) / x", ZERO, lambda x: 2 * np.sin(x / 2) ** 2 / x),
    "cotangent": Formula("y = (x / 2) / torch.tan(x / 2)", ZERO, lambda x: (x / 2) / np.tan(x / 2)),
    # expressions with a limit
    "extreme values": Formula("y = torch.exp(-((1 + x * 0.5) ** (-1 / x)))", [0.0, 0.25], _gev, 1e-2),
    "Pareto": Formula("y = torch.log1p(x * 0.5) / x", [0.0, 0.25], lambda x: np.log1p(x * 0.5) / x, 1e-2),
    "risk aversion": Formula(
        "y = (2.0 ** (1 - x) - 1) / (1 - x)", [1.0, 2.0], lambda x: np.expm1((1 - x) * np.log(2)) / (1 - x), 1e-2
    ),
    "elasticity": Formula(
        "y = (0.4 * 1.0 ** x + 0.6 * 2.0 ** x) ** (1 / x)",
        [0.0, 0.5],
        lambda x: np.exp(np.log1p(0.6 * np.expm1(x * np.log(2))) / x),
        1e-2,
    ),
    "two compartments": Formula(
        "y = x / (x - 1) * (torch.exp(torch.tensor(-2.0)) - torch.exp(-x * 2))",
        [1.0, 2.0],
        lambda x: x / (x - 1) * (np.exp(-2.0) - np.exp(-2 * x)),
        1e-2,
    ),
    "annuity": Formula("y = (1 - (1 + x) ** -10) / x", [0.0, 0.05], lambda x: -np.expm1(-10 * np.log1p(x)) / x, 3e-2),
    "instalments": Formula(
        "y = 10 * x / (1 - (1 + x) ** -10)", [0.0, 0.05], lambda x: -10 * x / np.expm1(-10 * np.log1p(x)), 3e-2
    ),
    "heat capacity": Formula(
        "y = x**2 * torch.exp(x) / (torch.exp(x) - 1) ** 2", ZERO, lambda x: (x / 2 / np.sinh(x / 2)) ** 2, 2e-2
    ),
    "Frank's copula": Formula(
        "y = -1 / x * torch.log(1 + (torch.exp(-x * 0.5) - 1) * (torch.exp(-x * 0.3) - 1) / (torch.exp(-x) - 1))",
        [0.0, 2.0],
        lambda x: -np.log1p(np.expm1(-x * 0.5) * np.expm1(-x * 0.3) / np.expm1(-x)) / x,
        1e-2,
    ),
    "Clayton's copula": Formula(
        "y = (0.5 ** (-x) + 0.4 ** (-x) - 1) ** (-1 / x)",
        [0.0, 2.0],
        lambda x: np.exp(-np.log1p(np.expm1(-x * np.log(0.5)) + np.expm1(-x * np.log(0.4))) / x),
        1e-2,
    ),
    "logarithmic mean": Formula(
        "b = torch.tensor([10.0, 10.0])\ny = (x - b) / torch.log(x / b)",
        [10.0, 20.0],
        lambda x: (x - 10) / np.log(x / 10),
        1e-2,
    ),
    "divided difference": Formula(
        "b = torch.tensor([2.0, 1.0])\ny = (torch.exp(x) - torch.exp(b)) / (x - b)",
        [2.0, 2.0],
        lambda x: (np.exp(x) - np.exp([2.0, 1.0])) / (x - [2.0, 1.0]),
        1e-2,
    ),
}


def program(code: str, numbers: list[float]) -> str:
    return f"x = torch.tensor({numbers}, requires_grad=True)\n{code}\ny.sum().backward()"


def value_and_gradient(function: Function, numbers: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Those that a function tends to, by numbers on both sides of where it may have none."""
    x = np.array(numbers)
    size = np.maximum(np.abs(x), 1)
    value = (function(x + 1e-5 * size) + function(x - 1e-5 * size)) / 2
    beside = x + 1e-7 * size
    steps = [np.where(np.arange(x.size) == place, 1e-4 * size, 0) for place in range(x.size)]
    slopes = [(function(beside + each) - function(beside - each)).sum() / (2 * each.max()) for each in steps]
    return value, np.array(slopes)


@libraries
@pytest.mark.parametrize("name", FORMULAS)
def test_a_remedy_has_the_value_that_the_formula_tends_to(name: str, library: str) -> None:
    formula = FORMULAS[name]
    text = program(formula.code, formula.numbers)
    event = run(library, text, True).event
    assert event is not None
    assert event.remedy_lineno is not None, event.remedy
    module: Any = rg if library == "retrograd" else torch
    scope: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    instead = mended(text, event)
    exec(instead, scope)
    found = (scope["y"].detach().numpy(), scope["x"].grad.numpy())
    with np.errstate(invalid="ignore"):
        expected = value_and_gradient(formula.function, formula.numbers)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=formula.near, atol=formula.near, err_msg=instead)


@libraries
@pytest.mark.parametrize(
    "unit", ["x / x.norm(dim=1, keepdim=True)", "x / (x * x).sum(1, keepdim=True).sqrt()"], ids=["norm", "written out"]
)
def test_short_vectors_stay_directions_whatever_they_are_raised_to(unit: str, library: str) -> None:
    """The quotient of a vector and its norm is no larger than 1, however small the eps that the norm is kept above."""
    text = (
        f"x = torch.tensor([[0.0, 0.0], [0.003, 0.004]], requires_grad=True)\nu = {unit}\n"
        "y = torch.exp(torch.cat([u, u @ torch.ones(2, 3)], dim=1) / 0.07)\ny.mean().backward()"
    )
    event = run(library, text, True).event
    assert event is not None
    scope: dict[str, Any] = {"torch": rg if library == "retrograd" else torch}
    exec(mended(text, event), scope)
    np.testing.assert_allclose(scope["u"].detach().numpy(), [[0.0, 0.0], [0.6, 0.8]], rtol=1e-5)
    assert bool(np.isfinite(scope["x"].grad.numpy()).all())
