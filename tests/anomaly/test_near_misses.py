"""Programs that look like a row of the catalogue and are not: their cause is another one, or none that is known."""

from __future__ import annotations

import pytest

from retrograd.anomaly import diagnose
from tests.anomaly.both import only_event, run
from tests.anomaly.disguises import watched
from tests.anomaly.programs import HALF, ZERO, ZEROS, leaf

DOMAIN = "argument outside the function's domain"
UNKNOWN = "unknown cause"
POWERS = "powers that overflow inside a reduction"
LARGE = leaf("[1e30, 1.0]")
SQUARE = leaf("[[1e20, 0.0], [0.0, 1e20]]")

# The row (its title, if it has no number), what it starts from, the program.
NEAR_MISSES: list[tuple[int | str, str, str]] = [
    # attention and softmax: an overflow is no masked row
    (
        53,
        "v = torch.full((1, 2, 3, 4), 3e38).requires_grad_()",
        "y = F.scaled_dot_product_attention(v * 1e-38, v * 1e-38, v)",
    ),
    (53, leaf("[[1e38, 1.0]]"), "y = torch.softmax(x * 100, -1)"),
    (53, leaf("[[1e38, 1.0]]"), "y = F.cross_entropy(x * 100, torch.tensor([0]))"),
    (50, leaf("[[float('inf'), 1.0]]"), "y = torch.softmax(x, -1)"),
    # logarithms
    (53, leaf("[1e38, 1.0]"), "y = x * torch.log(x)"),  # not x log x at 0
    (2, leaf("[-1.0, 1.0]"), "y = x * torch.log(x)"),
    (2, f"{leaf('[1.0, 2.0]', name='p')}; {leaf('[-0.5, 1.0]', name='q')}", "y = p * torch.log(p / q)"),
    (1, ZERO, "y = torch.log(torch.tanh(x))"),
    (1, leaf("[1.0, 0.5]"), "y = torch.log(1 - x**2)"),  # no tanh
    (1, leaf("[0.5, 0.0]"), "y = torch.log(x / x.sum())"),  # no softmax
    (2, leaf("[3.0, -2.0]"), "y = torch.log(torch.sum(x.relu() - 4))"),
    (2, leaf("[3.0, -2.0]"), "y = torch.log(torch.prod(x))"),
    (1, leaf("[0.0, 2.0]"), "y = torch.log(torch.prod(x * 0 + x) * 0)"),
    (27, leaf("[1.0, 100.0]"), "y = torch.log(3 - torch.exp(x)).relu()"),
    (53, leaf("[3e38, 3e38]"), "y = torch.log(x.sum())"),  # no exponentials
    (9, leaf("[88.0, 88.5, 88.6]"), "y = torch.log(torch.exp(x).sum(-1))"),
    (
        1,
        f"{leaf('[0.0, 0.0]')}; w = torch.tensor([-1.0, 1.0])",
        "y = torch.log((w * torch.exp(x)).sum())",
    ),  # no mixture
    # quotients
    (32, f"{ZEROS}; a = torch.ones(2)", "y = a / x.abs().sum()"),  # neither a norm nor a count
    (14, "A = torch.zeros(2, 2).requires_grad_(); b = torch.ones(2)", "v = A @ b\ny = v / v.norm()"),  # no cosine
    (32, f"{leaf('[1.0, 2.0]')}; run = torch.zeros(2)", "y = (x - 1) / torch.sqrt(run)"),  # no spread of x
    (32, leaf("[5.0, 3.0]"), "y = x % torch.tensor([0.0, 2.0])"),
    (32, leaf("[2.0, 2.0]"), "y = (x - 1) / x.var()"),  # the variance itself, not its root
    (53, leaf("[1e38, 1e38]"), "y = x / 1e-3"),  # far from zero
    (32, leaf("[1e-30, 1.0]"), "y = 1e10 / x"),
    (5, leaf("[-200.0, -300.0]"), "e = torch.exp(x)\ny = e / e.sum()"),
    # roots and powers
    (22, leaf("[-2.0, 1.0]"), "y = x**2.5"),
    (53, leaf("[-1e20, 1.0]"), "y = x**2"),  # negative, but nothing fractional
    (53, leaf("[-1e20, 1.0]"), "y = x**3.0"),
    (DOMAIN, leaf("[1.0, -1.0]"), "y = torch.sqrt(x.mean() - 1)"),
    (10, f"{leaf('[1.0, 2.0]')}; t = torch.tensor([1.0, 2.0])", "y = torch.sqrt(F.mse_loss(x, t))"),
    (POWERS, leaf("[1e20, 1.0]"), "y = x.var()"),
    (36, f"{leaf('[1e20, 1.0]', name='a')}; {leaf('[1.0, 2.0]', name='b')}", "y = torch.sqrt(a * a + b * b)"),
    (53, f"{leaf('[1e20, 1.0]', name='a')}; {leaf('[1e20, 2.0]', name='b')}", "y = torch.sqrt(a * b)"),
    # masks
    (32, f"{ZERO}; m = torch.tensor([True, True])", "y = torch.where(m, 1 / x, 0.0)"),  # the mask keeps it
    (1, f"{ZERO}; w = torch.tensor([0.0, 2.0])", "y = torch.log(x) * w"),
    (27, leaf("[1.0, 100.0]"), "y = torch.where(x > 0, torch.exp(x), 0.0)"),
    # libraries
    (53, SQUARE, "y = torch.linalg.det(x)"),  # regular; the determinant is 1e40
    (42, leaf("[[1.0, 2.0], [2.0, 4.0]]"), "y = torch.logdet(x)"),
    (
        54,
        f"{leaf('[[1.0, 2.0]]')}; w = torch.tensor([0.0, 1.0])",
        "y = F.cross_entropy(x, torch.tensor([0]), weight=w)",
    ),
    (
        53,
        "x = torch.full((6, 1, 3), -1e30).requires_grad_()",
        "y = F.ctc_loss(x * 1e10, torch.tensor([[1, 2]]), torch.tensor([6]), torch.tensor([2]))",
    ),
    (55, ZERO, "y = torch.lgamma(x)"),
    (53, leaf("[0.5, 1e38]"), "y = torch.lgamma(x)"),
    (53, LARGE, "y = x.round(decimals=20)"),
    (53, LARGE, "y = x.round(decimals=20).sort(descending=True).values[:1]"),
    # normalisation
    (52, "x = torch.full((2, 4), 3e38).requires_grad_()", "y = F.layer_norm(x, (4,))"),
    (53, leaf("[[1e30, 1.0]]"), "y = F.layer_norm(x * 1e30, (2,))"),  # infinite before it is normalised
    # recurrences, and what is written twice
    (
        51,
        "W = torch.full((2, 2), 1e3).requires_grad_(); h = torch.ones(2)",
        "for _ in range(20):\n    h = W @ h\ny = h",
    ),
    (53, "W = torch.full((2, 2), 1e20).requires_grad_(); h = torch.ones(2)", "y = W @ (W @ h)"),
    (53, "W = torch.full((2, 2), 1e30).requires_grad_(); h = torch.full((2,), 1e30)", "y = W @ h"),
    (
        53,
        "W = torch.full((2, 2), 1e20).requires_grad_(); V = torch.full((2, 2), 1e20); h = torch.ones(2)",
        "a = W @ h\ny = V @ a",
    ),
    # half precision
    (27, leaf("[1.0, 20.0]", HALF), "y = torch.exp(x)"),
    (28, leaf("[1e6, 1.0]"), "y = x.half()"),
    (4, leaf("[1.0, 0.0]"), "y = torch.log(x + 0.0).softmax(-1).log()"),  # the second log, not the first
]


@pytest.mark.parametrize(("row", "setup", "code"), NEAR_MISSES, ids=[code for *_, code in NEAR_MISSES])
def test_a_near_miss_has_its_own_cause(row: int | str, setup: str, code: str) -> None:
    event = watched(setup, f"{code}\nloss = y.sum()", steps=False)[0]
    found = diagnose(event)
    assert (found.number or found.title) == row, f"{event}\n{found}"


def test_the_border_of_acosh_is_not_explained_as_that_of_acos() -> None:
    program = f"{leaf('[1.0, 2.0]')}\ntorch.acosh(x).sum().backward()"
    found = diagnose(only_event(run("torch", program)))
    assert "1/sqrt(x^2 - 1)" in found.cause
    assert "atan2" not in found.cause
