"""Faults as they happen in many fields: pasted, the remedy has the value and the gradient that are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.anomaly.both import executed, libraries, mended, only_event, run, runs


@dataclass(frozen=True)
class Field:
    """A program that computes ``loss`` of ``x`` after its first lines, and what it should have computed there."""

    begin: str
    code: str
    instead: str
    near: float = 1e-3


ORDINAL = (
    "x = torch.tensor([30.0, 0.5, -40.0], requires_grad=True)\n"
    "cuts, level = torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([1, 2, 1])"
)
BETWEEN = (
    "a, b = cuts[level] - x, cuts[level - 1] - x\n"
    "loss = -(F.logsigmoid(a) + F.logsigmoid(-b) + torch.log(-torch.expm1(b - a))).mean()"
)
EARTH = (
    "lat = torch.tensor([0.5, 0.7, 0.0])\nlon = torch.tensor([0.0, 0.1, 3.1415927])\n"
    "x = torch.tensor([0.5, 0.8, 0.0], requires_grad=True)\n"
    "h = torch.sin((x - lat) / 2) ** 2 + torch.cos(x) * torch.cos(lat) * torch.sin(lon / 2) ** 2"
)
ON_EARTH = "d = 2 * torch.atan2(torch.sqrt(h[1]), torch.sqrt(1 - h[1]))\n"
AXIS = (
    "r = torch.tensor([[0.0], [0.5], [1.0]], requires_grad=True)\n"
    "x = torch.tensor([[0.3, 0.7, -0.4]], requires_grad=True)\nu = torch.cos(r @ x).sum(1, keepdim=True)\n"
    "u_r = torch.autograd.grad(u.sum(), r, create_graph=True)[0]\n"
    "u_rr = torch.autograd.grad(u_r.sum(), r, create_graph=True)[0]"
)
ON_AXIS = "loss = ((u_rr + torch.cat([u_rr[:1], u_r[1:] / r[1:]])) ** 2).mean()"
GREY = "x = torch.tensor([[0.0, 0.0, 0.0], [0.2, 0.4, 0.1]], requires_grad=True)"

FIELDS = {
    "levels that are picked": Field(
        ORDINAL,
        "cdf = torch.sigmoid(cuts - x[:, None])\nupper = cdf.gather(1, level[:, None]).squeeze(1)\n"
        "lower = cdf.gather(1, level[:, None] - 1).squeeze(1)\nloss = -torch.log(upper - lower).mean()",
        BETWEEN,
    ),
    "levels that are joined": Field(
        ORDINAL,
        "cdf = torch.sigmoid(cuts - x[:, None])\n"
        "all = torch.cat([torch.zeros(3, 1), cdf, torch.ones(3, 1)], dim=1)\np = all[:, 1:] - all[:, :-1]\n"
        "loss = -torch.log(p.gather(1, level[:, None])).mean()",
        BETWEEN,
    ),
    "graded responses": Field(
        "b = torch.tensor([-1.0, 1.0])\nx = torch.tensor([60.0, 0.2], requires_grad=True)",
        "p = torch.sigmoid(x[:, None] - b)\nloss = -torch.log(p[:, 0] - p[:, 1]).mean()",
        "a, b = x - b[0], x - b[1]\n"
        "loss = -(F.logsigmoid(a) + F.logsigmoid(-b) + torch.log(-torch.expm1(b - a))).mean()",
    ),
    "items that are guessed": Field(
        "c, y = torch.tensor(0.2), torch.tensor([0.0, 1.0])\nx = torch.tensor([40.0, -2.0], requires_grad=True)",
        "p = c + (1 - c) * torch.sigmoid(3 * x)\nloss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).sum()",
        "loss = -(torch.log(1 - c) + F.logsigmoid(-3 * x[0]) + torch.log(c + (1 - c) * torch.sigmoid(3 * x[1])))",
    ),
    "a place and itself": Field(
        EARTH, "d = 2 * torch.asin(torch.sqrt(h))\nloss = 6371000 * d[0] + d[1]", f"{ON_EARTH}loss = d"
    ),
    "a place and its antipode": Field(
        EARTH, "d = 2 * h[1:].sqrt().arcsin()\nloss = d[0] + 6371 * d[1]", f"{ON_EARTH}loss = d + 6371 * torch.pi", 1e-5
    ),
    "a place and itself by its cosine": Field(
        EARTH,
        "c = torch.sin(x) * torch.sin(lat) + torch.cos(x) * torch.cos(lat) * torch.cos(lon)\n"
        "d = 6371000 * torch.acos(torch.clamp(c, -1, 1))\nloss = d[:2].sum()",
        f"{ON_EARTH}loss = 6371000 * d",
    ),
    "a place and itself in one line": Field(
        EARTH,
        "d = (torch.cos(lat) * x.cos() * torch.cos(0.0 - lon) + x.sin() * torch.sin(lat)).acos()\nloss = d[:2].sum()",
        f"{ON_EARTH}loss = d",
    ),
    "distance in a plane": Field(
        "y = torch.tensor([0.0, 0.4])\nx = torch.tensor([0.0, 0.3], requires_grad=True)",
        "d = torch.sqrt(x**2 + y**2)\nloss = 6371000 * d[0] + d[1]",
        "loss = torch.sqrt(x[1] ** 2 + y[1] ** 2)",
    ),
    "Laplacian on an axis": Field(AXIS, "loss = ((u_rr + u_r / r) ** 2).mean()", ON_AXIS),
    "Laplacian with a factor": Field(AXIS, "loss = ((u_rr + 1 / r * u_r) ** 2).mean()", ON_AXIS),
    "Langevin function": Field(
        "x = torch.tensor([0.0, 2.0], requires_grad=True)",
        "loss = (1 / torch.tanh(x) - 1 / x).sum()",
        "loss = x[0] / 3 + 1 / torch.tanh(x[1]) - 1 / x[1]",
        1e-2,
    ),
    "saturation of black": Field(
        GREY, "most, least = x.amax(1), x.amin(1)\nloss = ((most - least) / most).sum()", "loss = 1 - x[1, 2] / x[1, 1]"
    ),
    "percentage error": Field(
        "y = torch.tensor([0.0, 1.0, 4.0])\nx = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)",
        "loss = (torch.abs(x - y) / torch.abs(y)).sum()",
        "loss = (torch.abs(x - y)[1:] / torch.abs(y)[1:]).sum()",
    ),
    "variance left unexplained": Field(
        "y = torch.tensor([[2.0, 2.0], [1.0, 3.0]])\nx = torch.tensor([[1.0, 1.5], [1.0, 2.0]], requires_grad=True)",
        "r = ((y - x) ** 2).sum(1) / ((y - y.mean(1, keepdim=True)) ** 2).sum(1)\nloss = r.sum()",
        "loss = ((y - x)[1] ** 2).sum() / 2",
    ),
    "Tsallis' entropy": Field(
        "p = torch.tensor([0.3, 0.7])\nx = torch.tensor(1.0, requires_grad=True)",
        "loss = (1 - (p**x).sum()) / (x - 1)",
        "loss = -(p * torch.log(p)).sum() - (x - 1) * (p * torch.log(p) ** 2).sum() / 2",
        1e-2,
    ),
    "complementary logarithm": Field(
        "y = torch.tensor([1.0, 0.0, 1.0])\nx = torch.tensor([-120.0, 5.0, 0.4], requires_grad=True)",
        "p = 1 - torch.exp(-torch.exp(x))\nloss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).sum()",
        "loss = -x[0] + torch.exp(x[1]) - torch.log(-torch.expm1(-torch.exp(x[2])))",
    ),
    "sticks that are broken": Field(
        "x = torch.tensor([40.0, 0.3], requires_grad=True)",
        "b = torch.sigmoid(x)\nrest = torch.cat([torch.ones(1), torch.cumprod(1 - b, 0)[:-1]])\n"
        "loss = -torch.log(b * rest).sum()",
        "loss = -F.logsigmoid(x).sum() + F.softplus(x[0])",
    ),
    "counts above zero": Field(
        "y = torch.tensor([1.0, 3.0])\nx = torch.tensor([-130.0, 1.0], requires_grad=True)",
        "r = torch.exp(x)\nloss = -(y * torch.log(r) - r - torch.log(1 - torch.exp(-r))).sum()",
        "loss = -(3 * x[1] - torch.exp(x[1]) - torch.log(-torch.expm1(-torch.exp(x[1])))) + 0 * x[0]",
    ),
    "weights that add up to nothing": Field(
        "w = torch.tensor([[0.0, 0.0], [0.1, 0.3]])\nx = torch.tensor([[1.0, 2.0], [1.0, 2.0]], requires_grad=True)",
        "loss = ((w * x).sum(1) / w.sum(1)).sum()",
        "loss = (w[1] * x[1]).sum() / w[1].sum()",
    ),
    "relative norm": Field(
        "y = torch.tensor([[0.0, 0.0], [4.0, 1.0]])\nx = torch.tensor([[1.0, 2.0], [3.0, 1.5]], requires_grad=True)",
        "loss = (torch.norm(x - y, dim=1) / torch.norm(y, dim=1)).sum()",
        "loss = torch.norm(x[1] - y[1]) / torch.norm(y[1])",
    ),
    "rays that miss": Field(
        "n, far = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 2.0])\n"
        "x = torch.tensor([[1.0, 0.0], [0.6, 0.8]], requires_grad=True)",
        "t = far / (x @ n)\nloss = torch.where(torch.isfinite(t), t, 0.0).sum()",
        "loss = 2 / x[1, 1]",
    ),
    "attention to nothing": Field(
        "keep = torch.tensor([[True, False], [False, False]])\n"
        "x = torch.tensor([[0.3, 0.1], [0.2, 0.4]], requires_grad=True)",
        "a = torch.exp(x) * keep\nw = a / a.sum(1, keepdim=True)\nloss = (w * x).sum()",
        "loss = x[0, 0]",
    ),
    "normal of a flat triangle": Field(
        "x = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]], requires_grad=True)",
        "n = torch.linalg.cross(x[1] - x[0], x[2] - x[0])\nloss = (n / torch.linalg.norm(n)).sum()",
        "loss = torch.linalg.cross(x[1] - x[0], x[2] - x[0]).sum()",
    ),
}


def value_and_gradient(module: Any, text: str) -> list[Any]:
    scope: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    exec(text, scope)
    return [scope["loss"].item(), scope["x"].grad.numpy()]


def exact(field: Field) -> list[Any]:
    """Return the right value and gradient, computed in float64."""
    torch.set_default_dtype(torch.float64)
    try:
        return value_and_gradient(torch, f"{field.begin}\n{field.instead}\nloss.backward()")
    finally:
        torch.set_default_dtype(torch.float32)


@libraries
@pytest.mark.parametrize("name", FIELDS)
def test_the_remedy_gives_the_exact_value_and_gradient(name: str, library: str) -> None:
    field = FIELDS[name]
    text = f"{field.begin}\n{field.code}\nloss.backward()"
    event = run(library, text, True).event
    assert event is not None
    assert event.remedy_lineno is not None, event.cause
    instead = mended(text, event)
    found = value_and_gradient(rg if library == "retrograd" else torch, instead)
    for one, other in zip(found, exact(field), strict=True):
        np.testing.assert_allclose(one, other, rtol=field.near, atol=field.near, err_msg=instead)


# --- numbers that must be positive and come from a relu --------------------------------------------------------------

NEGATIVE_BINOMIAL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 2)
        self.last = torch.nn.ReLU()
    def forward(self, x):
        return self.last(self.linear(x))
net = Net()
with torch.no_grad():
    net.linear.weight.fill_(1.0)
    net.linear.bias.fill_(0.0)
y, x = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([[0.5], [-0.3], [-1.0]])
out = net(x)
m, r = out[:, 0], out[:, 1]
p = {}
loss = -(p + r * torch.log(r / (r + m)) + y * torch.log(m / (r + m))).mean()
loss.backward()
"""
TWEEDIE = """
y, x = torch.tensor([1.0, 0.0, 2.5]), torch.tensor([[0.5], [-0.3], [-1.0]], requires_grad=True)
net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Flatten(0))
with torch.no_grad():
    net[0].weight.fill_(1.0)
    net[0].bias.fill_(0.0)
m = net(x)
loss = (-y * m ** -0.5 / -0.5 + m ** 0.5 / 0.5).mean()
loss.backward()
"""
POSITIVE = {
    "dispersions": (NEGATIVE_BINOMIAL.format("torch.lgamma(y + r) - torch.lgamma(r)"), 6),
    "rates": (NEGATIVE_BINOMIAL.format("0.0"), 6),
    "deviance": (TWEEDIE, 3),
}


@libraries
@runs
@pytest.mark.parametrize("name", POSITIVE)
def test_the_relu_at_the_end_of_a_network_becomes_a_softplus(name: str, library: str, steps: bool) -> None:
    """No count that is 0 is taken for a mask, and no line is bounded where a layer is to blame."""
    text, number = POSITIVE[name]
    event = run(library, text, steps).event
    assert event is not None
    assert event.remedy_lineno == number, event.cause
    assert "torch.nn.Softplus()" in (event.remedy or "")
    assert not run(library, mended(text, event), steps).events


@libraries
def test_a_masked_relu_does_not_become_a_softplus(library: str) -> None:
    text = (
        "x = torch.tensor([-1.0, 2.0], requires_grad=True)\nkept = (x > 0).float()\n"
        "loss = (torch.log(torch.relu(x)) * kept).sum()\nloss.backward()"
    )
    assert "softplus" not in (only_event(run(library, text, True)).remedy or "")


@libraries
@pytest.mark.parametrize(
    ("code", "instead"),
    [
        ("y = 3.0 / x", "y = 3.0 / torch.where(x == 0, 1e-1, x)"),
        ("y = 2e-4 / (1e3 * x)", "y = 2e-4 / torch.where((1e3 * x) == 0, 1e2, 1e3 * x)"),
        ("y = 1 / torch.where(x == 0, 1.0, x * 1e-30)", "y = 1 / torch.where(torch.abs(x) < 1e-12, 1.0, x * 1e-30)"),
    ],
    ids=["numbers", "small numbers", "a guard"],
)
def test_the_guard_of_a_divisor_fits_the_size_of_the_others(library: str, code: str, instead: str) -> None:
    """Nor is a guard put around a guard that has let through what is too close to zero."""
    text = f"x = torch.tensor([0.0, 1.0, 0.5], requires_grad=True)\n{code}\ny.sum().backward()"
    event = run(library, text, True).event
    assert event is not None
    assert (event.remedy or "").replace("rg.", "torch.") == instead


@libraries
def test_only_the_tensor_of_a_product_with_a_number_becomes_float32(library: str) -> None:
    text = (
        "x = torch.tensor([100.0], dtype=torch.float16, requires_grad=True)\nscale = 1000.0\n"
        "y = (scale * x).sum()\ny.backward()"
    )
    event = run(library, text, True).event
    assert event is not None
    assert event.remedy == "y = (scale * x.float()).sum()"


def test_vanishing_weights_are_not_taken_for_a_sinkhorn_iteration() -> None:
    text = """
x, z = torch.tensor([-200.0, -300.0], requires_grad=True), torch.tensor([0.2, 0.7])
weights = 0.5 * z * torch.exp(x)
loss = (weights * z).sum() / weights.sum()
loss.backward()
"""
    assert "Sinkhorn" not in (only_event(run("retrograd", text)).cause or "Sinkhorn")


def test_a_ratio_is_not_taken_for_a_relative_error() -> None:
    """That a number has been subtracted from the data on the way makes it none."""
    text = """
noise, x = torch.cumprod(1 - torch.tensor([0.0, 0.5, 1.0]), 0), torch.ones(3, requires_grad=True)
ratio = noise / (1.5 - noise)
weight = torch.minimum(ratio, torch.tensor(5.0)) / ratio
(weight * x).sum().backward()
"""
    assert "error" not in (only_event(run("retrograd", text)).cause or "error")


# --- causes ----------------------------------------------------------------------------------------------------------

INFLATED = """
def probability(h):
    return torch.sigmoid(h)

def likelihood(pi, rate, y):
    zero = torch.log(pi + (1 - pi) * torch.exp(-rate))
    return torch.where(y == 0, zero, torch.log(1 - pi) + y * torch.log(rate) - rate)

h = torch.tensor([-200.0, 3.0], requires_grad=True)
loss = -likelihood(probability(h), torch.tensor([120.0, 2.0]), torch.tensor([0.0, 3.0])).sum()
loss.backward()
"""


@libraries
@runs
def test_the_remedy_of_a_likelihood_needs_the_logits_from_another_function(library: str, steps: bool) -> None:
    event = only_event(run(library, INFLATED, steps))
    assert "pi is sigmoid(h), computed in line 3: pass h on from there as well" in (event.cause or "")
    assert event.remedy_lineno is None
    form = (event.remedy or "").removeprefix("log_p = ").replace("rg.", "torch.")
    rate, h = torch.tensor(120.0, dtype=torch.float64), torch.tensor(-200.0, dtype=torch.float64, requires_grad=True)
    log_p = eval(form, {"torch": torch, "F": torch.nn.functional, "pi_logits": h, "rate": rate})
    log_p.backward()
    share = torch.sigmoid(h) + torch.exp(-rate)
    np.testing.assert_allclose(log_p.item(), torch.log(share).item())
    np.testing.assert_allclose(h.grad, (torch.sigmoid(h) / share).item(), rtol=1e-6)


BETA = """
x, y = torch.tensor([2.0, 0.5], requires_grad=True), torch.tensor([[0.0], [0.4]])
p = (x - 1) * torch.log(y) + 0.5 * torch.log(1 - y) - torch.lgamma(x) + torch.lgamma(x + 1.5)
loss = -torch.logsumexp(p, 1).mean()
loss.backward()
"""


@libraries
@runs
def test_several_sums_in_a_line_are_not_taken_for_a_loop(library: str, steps: bool) -> None:
    assert "takes its own result as input" not in (only_event(run(library, BETA, steps)).cause or "")


PRUNING = """
Q = torch.tensor([[0.7, 0.1], [0.1, 0.7]])
x = torch.tensor(0.3, requires_grad=True)
L = torch.ones(2)
for _ in range(120):
    L = (Q * x) @ L
loss = -torch.log(L.sum() / 2)
loss.backward()
"""


@libraries
def test_a_likelihood_over_a_tree_is_computed_in_log_space(library: str) -> None:
    event = only_event(run(library, PRUNING, True))
    text = PRUNING.replace("L = torch.ones(2)", "log_L = torch.zeros(2)").replace(
        "L = (Q * x) @ L", (event.remedy or "").replace("rg.", "torch.")
    )
    text = text.replace("torch.log(L.sum() / 2)", "(torch.logsumexp(log_L, 0) - 0.6931471805599453)")
    value, gradient = value_and_gradient(rg if library == "retrograd" else torch, text)
    np.testing.assert_allclose([value, gradient], [-120 * np.log(0.8 * 0.3), -120 / 0.3], rtol=1e-4)


WEIBULL = """
y, d = torch.tensor([0.0, 1.5]), torch.tensor([0.0, 1.0])
x = torch.tensor(0.4, requires_grad=True)
log_h = x + torch.expm1(x) * torch.log(y)
loss = (d * log_h).sum()
loss.backward()
"""


@libraries
@runs
@pytest.mark.parametrize("loss", ["(d * log_h).sum()", "((x * 2 - torch.log(y)) ** 2).sum()"])
def test_the_logarithm_of_zero_data_is_mended_in_its_own_line(loss: str, library: str, steps: bool) -> None:
    """Though nothing has kept what it was taken of, where no operation without a gradient is seen."""
    text = WEIBULL.replace("(d * log_h).sum()", loss)
    if "log_h" not in loss:
        text = text.replace("log_h = x + torch.expm1(x) * torch.log(y)\n", "")
    event = run(library, text, steps).event
    assert event is not None
    assert event.remedy_lineno is not None, event.cause
    scope = executed(library, mended(text, event))
    assert np.isfinite([scope["loss"].item(), scope["x"].grad.item()]).all()
