"""A pasted remedy has the limits of the formula's value and gradient: finite numbers alone could still be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.anomaly.both import executed, libraries, mended, run

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


def _softmax(x: np.ndarray) -> np.ndarray:
    e: np.ndarray = np.exp(x - x.max())
    return e / e.sum()


def _size(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x * x).sum())


def _sinc(x: np.ndarray) -> np.ndarray:
    return np.sin(_size(x)) / _size(x)


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
    # directions times what is 0 with their length
    "rotation vector": Formula(
        "angle = x.norm()\naxis = x / angle\ny = 3 * torch.sin(angle) * axis", [0.0, 0.0], lambda x: 3 * _sinc(x) * x
    ),
    "exponential map": Formula(
        "n = torch.sqrt((x * x).sum())\ny = torch.tanh(n / 2) * x / n",
        [0.0, 0.0],
        lambda x: np.tanh(_size(x) / 2) * x / _size(x),
    ),
    "logarithm of a quaternion": Formula(
        "n = x.norm()\ny = 2 * x / n * torch.atan2(n, torch.tensor(0.5))",
        [0.0, 0.0],
        lambda x: 2 * x / _size(x) * np.arctan2(_size(x), 0.5),
    ),
    "vector of a length": Formula(
        "r = x.pow(2).sum() ** 0.5\nunit = x / r\ny = unit.sum() * torch.expm1(r)",
        [0.0, 0.0],
        lambda x: x.sum() * np.expm1(_size(x)) / _size(x),
    ),
    # angles of a quotient
    "aspect ratio": Formula(
        "w = torch.tensor([3.0, 0.5])\ny = torch.atan(w / x)", [0.0, 1.0], lambda x: np.arctan2([3.0, 0.5], x)
    ),
    "aspect ratio by a name": Formula(
        "w = torch.tensor([3.0, 0.5])\nq = w / (2 * x)\ny = q.atan() * 2",
        [0.0, 1.0],
        lambda x: 2 * np.arctan2([3.0, 0.5], 2 * x),
    ),
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
    # what is zero together, and has been given a name or stands beside others
    "exponential integrator": Formula(
        "dt = 0.1\nz = torch.exp(dt * x)\ny = (z - 1) / x", ZERO, lambda x: np.expm1(0.1 * x) / x
    ),
    "integrator by a tensor": Formula(
        "dt = torch.tensor(0.1)\nh = dt * x\ny = torch.expm1(h) / x", ZERO, lambda x: np.expm1(0.1 * x) / x
    ),
    "decay by a name": Formula(
        "t = 2.0\nz = torch.exp(-x * t); y = (1 - z) / x", ZERO, lambda x: -np.expm1(-2 * x) / x
    ),
    "wave": Formula(
        "k = torch.tensor([3.0, 2.0, 1.0])\ns = torch.sin(k * x)\ny = s / (2 * x)",
        ZERO,
        lambda x: np.sin([3, 2, 1] * x) / (2 * x),
    ),
    "versine": Formula("k = 3.0\nc = 1 - torch.cos(k * x)\ny = c / x", [0.0, 1.0], lambda x: (1 - np.cos(3 * x)) / x),
    "versine over a square": Formula(
        "d = x**2\ny = (1 - x.cos()) / d", [0.0, 1.0], lambda x: np.where(x == 0, 0.5, (1 - np.cos(x)) / x**2), 5e-3
    ),
    # statements of one line
    "log of a sigmoid beside it": Formula(
        "p = torch.sigmoid(x); q = 2 * p; y = torch.log(q)", [-200.0, 1.0], lambda x: np.log(2) - np.logaddexp(0, -x)
    ),
    "softmax beside it": Formula(
        "e = torch.exp(x); s = e.sum(); y = (e / s)[0]", [100.0, 99.0], lambda x: _softmax(x)[0]
    ),
    # exponentials that are divided by one another, of which a bound would make other numbers without a gradient
    "ratio of densities": Formula("y = torch.exp(-x) / torch.exp(1 / x - x)", [200.0, 2.0], lambda x: np.exp(-1 / x)),
    "ratio of large ones": Formula(
        "p, q = x.exp(), (x - 1 / x).exp()\nr = p / q\ny = 3 * r", [100.0, 2.0], lambda x: 3 * np.exp(1 / x)
    ),
    "product of a large and a small one": Formula(
        "y = torch.exp(x) * torch.exp(1 / x - x)", [100.0, 2.0], lambda x: np.exp(1 / x)
    ),
    "weighted mean": Formula(
        "w = torch.exp(x)\ny = (w * torch.tensor([1.0, 2.0])).sum() / w.sum()",
        [100.0, 99.0],
        lambda x: (_softmax(x) * [1.0, 2.0]).sum(),
    ),
    "weights by a product": Formula(
        "w = torch.exp(x)\ny = w @ torch.tensor([1.0, 2.0]) / (w.sum() + 1e-8)",
        [100.0, 99.0],
        lambda x: (_softmax(x) * [1.0, 2.0]).sum(),
    ),
    "multiple of a softmax": Formula(
        "e = torch.exp(x)\ny = (2 * e / e.sum())[0]", [100.0, 99.0], lambda x: 2 * _softmax(x)[0]
    ),
    "softmax of what is computed twice": Formula(
        "y = (torch.exp(x / 0.01) / torch.exp(x / 0.01).sum())[0]", [1.0, 0.99], lambda x: _softmax(x / 0.01)[0]
    ),
}


def program(code: str, numbers: list[float]) -> str:
    return f"x = torch.tensor({numbers}, requires_grad=True)\n{code}\ny.sum().backward()"


def value_and_gradient(function: Function, numbers: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of a function and of its derivative, from numbers on both sides of a possible singularity."""
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
@pytest.mark.parametrize("change", ["\np *= 2\n", "\np.mul_(2)\n", "; p *= 2; "])
def test_the_remedy_respects_an_in_place_change_after_the_definition(change: str, library: str) -> None:
    text = program(f"p = F.softplus(x){change}y = torch.log(p)", [-200.0, 1.0])
    event = run(library, text, True).event
    assert event is not None
    scope = executed(library, mended(text, event))
    np.testing.assert_allclose(scope["y"][1].item(), np.log(2 * np.log1p(np.e)), rtol=1e-5)


@libraries
@pytest.mark.parametrize("between", ["a = a + 1; y = torch.log(p) + 0 * a", "a += 1\ny = torch.log(p) + 0 * a"])
def test_the_remedy_uses_no_name_that_has_been_reassigned(between: str, library: str) -> None:
    event = run(library, program(f"a = 1 * x\np = torch.sigmoid(a); {between}", [-200.0, 1.0]), True).event
    assert event is not None
    assert (event.op, event.remedy_lineno) == ("log", None), event.remedy


@libraries
@pytest.mark.parametrize(
    "unit", ["x / x.norm(dim=1, keepdim=True)", "x / (x * x).sum(1, keepdim=True).sqrt()"], ids=["norm", "written out"]
)
def test_the_remedy_keeps_the_direction_of_short_vectors(unit: str, library: str) -> None:
    """The quotient of a vector and its norm is at most 1, however small the lower bound of the norm."""
    text = (
        f"x = torch.tensor([[0.0, 0.0], [0.003, 0.004]], requires_grad=True)\nu = {unit}\n"
        "y = torch.exp(torch.cat([u, u @ torch.ones(2, 3)], dim=1) / 0.07)\ny.mean().backward()"
    )
    event = run(library, text, True).event
    assert event is not None
    scope = executed(library, mended(text, event))
    np.testing.assert_allclose(scope["u"].detach().numpy(), [[0.0, 0.0], [0.6, 0.8]], rtol=1e-5)
    assert bool(np.isfinite(scope["x"].grad.numpy()).all())


ZERO_SPREAD = "x = torch.tensor([0.5, 0.5, 0.5], requires_grad=True)\n"
RATIOS = {
    "Sharpe ratio": "y = (x.mean() - 0.25) / x.std()",
    "signal to noise": "s = torch.std(x)\ny = x.mean() / s",
    "coefficient of variation": "v = x.var()\ny = x.mean() ** 2 / v.sqrt()",
}


@libraries
@pytest.mark.parametrize("name", RATIOS)
def test_the_remedy_keeps_a_ratio_to_a_small_spread(name: str, library: str) -> None:
    """The numerator is no deviation from the mean, and an eps for spreads of order one would change the ratio."""
    event = run(library, f"{ZERO_SPREAD}{RATIOS[name]}\ny.backward()", True).event
    assert event is not None
    module: Any = rg if library == "retrograd" else torch
    found = []
    for text in (f"{ZERO_SPREAD}{RATIOS[name]}", mended(f"{ZERO_SPREAD}{RATIOS[name]}", event)):
        scope: dict[str, Any] = {"torch": module}
        exec(text.replace("[0.5, 0.5, 0.5]", "[0.002, -0.001, 0.003]"), scope)
        found.append(scope["y"].item())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


SHIFTED = {
    "ratio of slopes": "torch.roll(d, 1) / d",
    "share of a total": "d.sum() * d / d",
    "growth": "d[1:].mean() * d / d",
}


@libraries
@pytest.mark.parametrize("name", SHIFTED)
def test_no_limit_is_claimed_for_a_quotient_of_different_elements(name: str, library: str) -> None:
    text = f"x = torch.tensor([1.0, 1.0, 1.0, 2.0], requires_grad=True)\nd = x[1:] - x[:-1]\ny = {SHIFTED[name]}\n"
    event = run(library, f"{text}y.sum().backward()", True).event
    assert event is not None
    assert "tends to a number" not in (event.cause or "")


RODRIGUES = """
def rotate(r):
    angle = torch.norm(r, dim=1, keepdim=True)
    axis = r / angle
    s, c = torch.sin(angle)[:, :, None], torch.cos(angle)[:, :, None]
    x, y, z = axis.unbind(1)
    o = torch.zeros_like(x)
    K = torch.stack([o, -z, y, z, o, -x, -y, x, o], 1).view(-1, 3, 3)
    return torch.eye(3) + s * K + (1 - c) * (K @ K)

r = torch.zeros(2, 3, requires_grad=True)
v = torch.tensor([1.0, 2.0, 3.0])
y = rotate(r) @ v
y[:, 0].sum().backward()
"""


@libraries
def test_a_rotation_by_the_zero_vector_has_its_value_and_gradient(library: str) -> None:
    """The remedy depends on the factors by which the function multiplies the direction."""
    event = run(library, RODRIGUES).event
    assert event is not None
    scope = executed(library, mended(RODRIGUES, event))
    np.testing.assert_allclose(scope["y"].detach().numpy(), [[1.0, 2.0, 3.0]] * 2, rtol=1e-5)
    np.testing.assert_allclose(scope["r"].grad.numpy(), [[0.0, 3.0, -2.0]] * 2, atol=1e-4)


RANKS = """
scores = torch.tensor([0.3, 0.1, 0.2], requires_grad=True)
rank = torch.tensor([0.0, 2.0, 1.0])
y = (torch.tensor([3.0, 1.0, 2.0]) * scores / torch.log2({}rank + 1)).sum()
y.backward()
"""


@libraries
@pytest.mark.parametrize("of", ["", "0.0 + "])
def test_the_discount_of_the_first_rank_becomes_one(of: str, library: str) -> None:
    text = RANKS.format(of)
    event = run(library, text, True).event
    assert event is not None
    scope = executed(library, mended(text, event))
    np.testing.assert_allclose(scope["y"].item(), 3 * 0.3 + 1 * 0.1 / 2 + 2 * 0.2 / np.log2(3), rtol=1e-6)


FORWARD = """
log_zero = -float("inf")

def add(a, b):
    m = torch.maximum(a, b)
    return m + torch.log(torch.exp(a - m) + torch.exp(b - m))

x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
start = torch.tensor([0.0, log_zero, log_zero])
alpha = add(start, torch.cat([torch.tensor([log_zero]), start[:-1]])) + x
y = add(add(alpha[0], alpha[1]), alpha[2])
y.backward()
"""


@libraries
def test_a_log_zero_constant_becomes_finite_where_the_maximum_is_subtracted(library: str) -> None:
    event = run(library, FORWARD, True).event
    assert event is not None
    scope = executed(library, FORWARD.replace('log_zero = -float("inf")', event.remedy or ""))
    np.testing.assert_allclose(scope["y"].item(), np.logaddexp(0.5, 1.0), rtol=1e-6)
    np.testing.assert_allclose(scope["x"].grad.numpy(), [*np.exp([0.5, 1.0] - np.logaddexp(0.5, 1.0)), 0.0], rtol=1e-5)


EDGES = {
    "angle": ("torch.acos(x)", [1.0, 0.9999999]),
    "distance": ("torch.acosh(2 - x)", [1.0, 0.9999999]),
    "rapidity": ("torch.atanh(x)", [1.0, 0.9999999]),
}


@libraries
@pytest.mark.parametrize("name", EDGES)
def test_a_bound_next_to_1_is_as_close_as_float64_allows(name: str, library: str) -> None:
    code, numbers = EDGES[name]
    text = f"x = torch.tensor({numbers}, dtype=torch.float64, requires_grad=True)\ny = {code}\ny.sum().backward()"
    event = run(library, text, True).event
    assert event is not None
    scope = executed(library, mended(text, event))
    functions: dict[str, Callable[[float], float]] = {
        "angle": np.arccos,
        "distance": lambda x: float(np.arccosh(2 - x)),
        "rapidity": np.arctanh,
    }
    exact = functions[name](numbers[1])
    np.testing.assert_allclose(scope["y"][1].item(), exact, rtol=1e-9)
    assert np.isfinite(scope["x"].grad.numpy()).all()


SHARES = {
    "depth": "y = (w * torch.tensor([1.0, 2.0])).sum(1) / w.sum(1)",
    "Dice": "y = 2 * (w * w.detach()).sum(1) / (w.sum(1) + (w * w.detach()).sum(1))",
    "shrinkage": "y = w / w.abs() * torch.clamp(w.abs() - 0.1, min=0)",
}


@libraries
@pytest.mark.parametrize("name", SHARES)
def test_a_share_of_a_zero_total_gets_no_huge_derivative(name: str, library: str) -> None:
    text = f"w = torch.tensor([[0.0, 0.0], [1.0, 3.0]], requires_grad=True)\n{SHARES[name]}\ny.sum().backward()"
    event = run(library, text, True).event
    assert event is not None
    scope = executed(library, mended(text, event))
    expected: dict[str, Any] = {"torch": torch}
    exec(text.replace("[[0.0, 0.0], [1.0, 3.0]]", "[[2.0, 2.0], [1.0, 3.0]]"), expected)
    np.testing.assert_allclose(scope["y"].detach().numpy()[0], 0)
    np.testing.assert_allclose(scope["y"].detach().numpy()[1], expected["y"].detach().numpy()[1], rtol=1e-5)
    np.testing.assert_allclose(scope["w"].grad.numpy()[1], expected["w"].grad.numpy()[1], rtol=1e-5)
    assert abs(scope["w"].grad.numpy()).max() < 10


@libraries
@pytest.mark.parametrize("code", ["torch.log(x / (1 - x))", "0.5 * torch.log((1 + x) / (1 - x))"], ids=["odds", "z"])
def test_the_log_odds_of_1_stay_larger_than_those_of_0_999(code: str, library: str) -> None:
    """Other batches may contain a probability of 0.999."""
    text = program(f"y = {code}", [0.5, 1.0])
    event = run(library, text, True).event
    assert event is not None
    scope = executed(library, mended(text, event))
    assert scope["y"][1].item() > np.log(0.999 / 0.001)


@libraries
@pytest.mark.parametrize("power", [-2, -0.5, -6])
def test_the_negative_power_of_zero_stays_within_ten_times_the_others(power: float, library: str) -> None:
    text = program(f"y = x ** {power}", [0.0, 1.0, 3.0])
    event = run(library, text, True).event
    assert event is not None
    scope = executed(library, mended(text, event))
    y = scope["y"].detach().numpy()
    assert y[1] <= y[0] <= 10 * y[1]
    assert np.isfinite(scope["x"].grad.numpy()).all()


@libraries
def test_the_logarithm_of_a_product_in_a_loop_becomes_a_sum_of_logarithms(library: str) -> None:
    text = program("p = torch.tensor(1.0)\nfor i in range(3):\n    p = p * x[i]\ny = -torch.log(p)", [1e-20] * 3)
    event = run(library, text, True).event
    assert event is not None
    assert (event.remedy or "").replace("rg.", "torch.") == "log_p = log_p + torch.log(x[i])"


@libraries
def test_scores_that_are_too_far_apart_are_not_blamed_on_a_mask(library: str) -> None:
    text = program("y = F.nll_loss(F.log_softmax(x, 0), torch.tensor(1))", [3e38, -3e38])
    event = run(library, text, True).event
    assert event is not None
    assert "further apart" in (event.cause or "")
    assert "mask" not in (event.cause or "")


@libraries
def test_an_infinite_quotient_is_named_where_only_its_derivative_is_nan(library: str) -> None:
    text = program("y = torch.atan(x / torch.tensor([0.0, 1.0]))", [1.0, 2.0])
    event = run(library, text, True).event
    assert event is not None
    assert (event.cause or "").startswith("1 / 0 is infinite")
