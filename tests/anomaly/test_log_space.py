"""Logarithms of what has underflowed, overflowed or cancelled, rewritten part by part: cured, and else the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.anomaly.both import executed, libraries, mended, only_event, run


@dataclass(frozen=True)
class Late:
    """A program that computes ``y``, numbers of ``x`` with which it fails, others, and what is written instead."""

    code: str
    bad: str
    well: str
    instead: str
    gradients: bool = True  # that every element of x gets one which is not 0


FOCAL = "torch.where(t == 1, {F}.logsigmoid(x), {F}.logsigmoid(-x))"
MDN = (
    "torch.logsumexp(torch.log_softmax(w, -1) + -0.5 * ((d - x) / s) ** 2 - (h + "
    "math.log(math.sqrt(2 * math.pi))), dim=-1)"
)

LATE = {
    "sum of two": Late("y = torch.log(torch.exp(x) + torch.exp(2 * x))", "[90.0, 1.0]", "[2.0, 1.0]", "logaddexp(x, 2"),
    "soft minimum of three": Late(
        "y = -0.01 * torch.log(torch.exp(-x / 0.01) + torch.exp(-x**2 / 0.01) + torch.exp(-(x + 1) / 0.01))",
        "[1.5, 0.5]",
        "[0.02, 0.03]",
        "torch.logaddexp(torch.logaddexp(-x / 0.01, -x**2 / 0.01), -(x + 1) / 0.01)",
    ),
    "Python's sum": Late(
        "y = torch.log(sum(torch.exp(x[i] * j) for i in range(2) for j in (1, 2)))",
        "[90.0, 1.0]",
        "[2.0, 1.0]",
        "torch.logsumexp(torch.stack([x[i] * j for i in range(2) for j in (1, 2)]), dim=0)",
        gradients=False,
    ),
    "a list": Late(
        "y = torch.log(sum([torch.exp(x), torch.exp(x + 1)]))", "[90.0, 1.0]", "[2.0, 1.0]", "stack([x, x + 1]), dim=0)"
    ),
    "stacked": Late(
        "y = torch.log(torch.stack([torch.exp(x), torch.exp(2 * x)]))", "[90.0, 1.0]", "[2.0, 1.0]", "stack([x, 2 * x])"
    ),
    "sum of what is stacked": Late(
        "y = torch.log(torch.stack([torch.exp(x), torch.exp(x + 1)]).sum(0))",
        "[-200.0, 1.0]",
        "[2.0, 1.0]",
        "torch.logsumexp(torch.stack([x, x + 1]), dim=0)",
    ),
    "sum of what is stacked and has overflowed": Late(
        "y = torch.log(torch.stack([torch.exp(x), torch.exp(x + 1)]).sum(0))",
        "[90.0, 1.0]",
        "[2.0, 1.0]",
        "torch.logsumexp(torch.stack([x, x + 1]), dim=0)",
    ),
    "zero-inflated Poisson": Late(
        "p = torch.sigmoid(x - 300)\ny = torch.log(p + (1 - p) * torch.exp(-2 * x))",
        "[120.0, 1.0]",
        "[300.0, 1.0]",
        "torch.logaddexp({F}.logsigmoid(x - 300), {F}.logsigmoid(-(x - 300)) + -2 * x)",
    ),
    "mixture density network": Late(
        "h, w, d = torch.tensor([-3.0, -2.0]), torch.tensor([0.1, 0.2]), torch.tensor([[50.0], [0.3]])\n"
        "s, pi = torch.exp(h), torch.softmax(w, -1)\n"
        "pdf = torch.exp(-0.5 * ((d - x) / s) ** 2) / (s * math.sqrt(2 * math.pi))\n"
        "y = torch.log((pi * pdf).sum(-1))",
        "[0.0, 1.0]",
        "[50.0, 0.2]",
        MDN,
        gradients=False,
    ),
    "weights in a vector": Late(
        "d, w = torch.tensor([[50.0], [0.3]]), torch.tensor([0.4, 0.6], dtype=x.dtype)\n"
        "y = torch.log(torch.exp(-((d - x) ** 2)) @ w)",
        "[0.0, 1.0]",
        "[49.0, 0.5]",
        "torch.logsumexp(-((d - x) ** 2) + torch.log(w), dim=-1)",
        gradients=False,
    ),
    "focal loss by a condition": Late(
        "t, p = torch.tensor([0.0, 1.0]), torch.sigmoid(x)\npt = torch.where(t == 1, p, 1 - p)\n"
        "y = -((1 - pt) ** 2) * torch.log(pt)",
        "[120.0, 0.0]",
        "[1.0, 0.5]",
        FOCAL,
    ),
    "focal loss by products": Late(
        "t, p = torch.tensor([0.0, 1.0]), torch.sigmoid(x)\npt = p * t + (1 - p) * (1 - t)\n"
        "y = -((1 - pt) ** 2) * torch.log(pt)",
        "[120.0, 0.0]",
        "[1.0, 0.5]",
        "torch.logaddexp({F}.logsigmoid(x) + torch.log(t), {F}.logsigmoid(-x) + torch.log(1 - t))",
    ),
    "probability that is picked": Late(
        "p = torch.softmax(x, -1)\nq = p[torch.tensor([1])]\ny = torch.log(q)",
        "[200.0, 0.0]",
        "[2.0, 0.0]",
        "torch.log_softmax(x, -1)[torch.tensor([1])]",
    ),
    "one less an exponential": Late(
        "y = torch.log(1 - torch.exp(-x))", "[1e-9, 1.0]", "[0.5, 1.0]", "torch.log(-torch.expm1(-x))"
    ),
    "one less an exponential, at 0": Late(
        "y = torch.log(1 - torch.exp(-x))",
        "[0.0, 1.0]",
        "[0.5, 1.0]",
        "torch.log(torch.clamp(-torch.expm1(-x), min=1e-12))",
        gradients=False,
    ),
    "log1p of an exponential": Late(
        "s = torch.exp(-x)\ny = torch.log1p(-s)", "[1e-9, 1.0]", "[0.5, 1.0]", "torch.log(-torch.expm1(-x))"
    ),
    "log1p of a sigmoid": Late(
        "p = torch.sigmoid(x)\ny = torch.log1p(-p)", "[40.0, 1.0]", "[0.5, 1.0]", "{F}.logsigmoid(-x)"
    ),
    "between two exponentials": Late(
        "y = torch.log(torch.exp(-x) - torch.exp(-2 * x))",
        "[200.0, 1.0]",
        "[0.5, 1.0]",
        "-x + torch.log(-torch.expm1(-2 * x - (-x)))",
    ),
    "between two sigmoids": Late(
        "y = torch.log(torch.sigmoid(x + 1) - torch.sigmoid(x - 1))",
        "[90.0, 1.0]",
        "[0.5, 1.0]",
        "{F}.logsigmoid(x + 1) + {F}.logsigmoid(-(x - 1)) + torch.log(-torch.expm1(x - 1 - (x + 1)))",
    ),
    "power of an exponential": Late(
        "a = torch.exp(-x)\ny = torch.log(torch.sqrt(a) * a**2 / 3)",
        "[60.0, 1.0]",
        "[0.5, 1.0]",
        "0.5 * (-x) + 2 * (-x) - 1.0986122886681098",
    ),
    "tail of a normal distribution": Late(
        "y = torch.log(0.5 * torch.erfc(x))",
        "[20.0, 1.0]",
        "[0.5, 1.0]",
        "torch.special.log_ndtr(-1.4142135623730951 * x)",
    ),
    "error function": Late(
        "y = torch.log(0.5 * (1 + torch.erf(x)))",
        "[-20.0, 1.0]",
        "[0.5, 1.0]",
        "torch.special.log_ndtr(1.4142135623730951 * x)",
    ),
    "upper tail of a probit": Late(
        "p = 0.5 * (1 + torch.erf(x))\ny = torch.log(1 - p)",
        "[12.0, 1.0]",
        "[1.0, -0.5]",
        "torch.special.log_ndtr(-1.4142135623730951 * x)",
    ),
    "one label of a sigmoid by tanh": Late(
        "p = (torch.tanh(x) + 1) / 2\ny = 3 * torch.log(1 - p)",
        "[40.0, 1.0]",
        "[1.0, -0.5]",
        "3 * {F}.logsigmoid(-2 * x)",
    ),
    "von Mises": Late(
        "y = torch.log(2 * math.pi * torch.special.i0(x))",
        "[100.0, 1.0]",
        "[0.5, 1.0]",
        "math.log(2 * math.pi) + torch.log(torch.special.i0e(x)) + torch.abs(x)",
    ),
}


def program(code: str, numbers: str, dtype: str) -> str:
    return (
        f"import math\nx = torch.tensor({numbers}, dtype=torch.{dtype}, requires_grad=True)\n{code}\ny.sum().backward()"
    )


def value_and_gradient(library: str, text: str) -> list[np.ndarray]:
    scope = executed(library, text)
    return [np.asarray(scope["y"].detach().numpy()), np.asarray(scope["x"].grad.numpy())]


@libraries
@pytest.mark.parametrize("name", LATE)
def test_a_logarithm_is_rewritten_part_by_part_with_the_same_value_and_gradient(name: str, library: str) -> None:
    late = LATE[name]
    failing = program(late.code, late.bad, "float32")
    event = only_event(run(library, failing, steps=True))
    own = "rg" if library == "retrograd" else "torch"
    remedy = (event.remedy or "").replace(f"{own}.nn.functional", "{F}").replace("torch.nn.functional", "{F}")
    assert late.instead in remedy.replace("rg.", "torch."), event.cause
    assert event.remedy_lineno is not None
    value, gradient = value_and_gradient(library, mended(failing, event))
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    assert not late.gradients or (gradient != 0).all()
    well = program(late.code, late.well, "float64").splitlines()
    instead = list(well)
    number = event.remedy_lineno - 1
    instead[number] = mended(failing, event).splitlines()[number]
    before, after = (value_and_gradient(library, "\n".join(lines)) for lines in (well, instead))
    for one, other in zip(after, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@libraries
@pytest.mark.parametrize(
    "code",
    [
        "y = torch.log(w * torch.sigmoid(x))",  # the weight is what is 0
        "y = torch.log(w * (torch.exp(x) - x))",
        "y = torch.log(-w - torch.exp(x))",  # negative
        "y = torch.log(torch.exp(x).clamp(min=1e-30) * w)",
        "y = torch.log(1 - torch.cos(x * 0))",
    ],
)
def test_a_logarithm_of_zero_for_another_reason_is_not_rewritten(code: str, library: str) -> None:
    text = program(f"w = torch.tensor([0.0, 1.0])\n{code}", "[-200.0, 1.0]", "float32")
    event = only_event(run(library, text, steps=True))
    assert "logsigmoid" not in (event.remedy or "")
    assert "part by part" not in (event.cause or "")


FORWARD = """
s = torch.tensor([[100.0, 1.0], [2.0, 100.0]], requires_grad=True)
t = torch.tensor([[1.0, 0.5], [0.2, 1.0]])
a = torch.exp(s[0])
a = (a @ torch.exp(t)) * torch.exp(s[1])
y = torch.log(a.sum())
y.backward()
"""


@libraries
def test_an_exponential_before_a_logarithm_gets_logsumexp_and_no_bound(library: str) -> None:
    """The loss would be another one, and no gradient would come back."""
    event = only_event(run(library, FORWARD, True))
    assert event.op == "exp"
    assert event.remedy_lineno is None
    assert "logsumexp" in (event.remedy or "")
    assert "before the log in line 6" in (event.cause or "")


@libraries
def test_an_overflow_within_a_condition_keeps_the_value_of_the_where(library: str) -> None:
    text = (
        "x = torch.tensor([2.0, 200.0], requires_grad=True)\n"
        "y = torch.where(torch.exp(x) < 3, 0.0, x / torch.where(x > 300, 1.0, torch.exp(x)))\ny.sum().backward()"
    )
    event = only_event(run(library, text, True))
    value = value_and_gradient(library, mended(text, event))[0]
    np.testing.assert_allclose(value[0], 2 / np.exp(2), rtol=1e-6)


@libraries
@pytest.mark.parametrize("steps", [False, True])
def test_a_birth_before_the_exponential_is_mended_in_its_own_line(library: str, steps: bool) -> None:
    """Of exp(x) it is x, and that is NaN."""
    text = """
x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
z = x / x.norm(dim=1, keepdim=True)
e = torch.exp(z @ z.T)
y = -torch.log(torch.diagonal(e) / e.sum(1)).mean()
y.backward()
"""
    event = only_event(run(library, text, steps))
    assert (event.op, event.remedy_lineno) == ("div", 3)
    assert "part by part" not in (event.cause or "")
    assert np.isfinite(value_and_gradient(library, mended(text, event))[0]).all()


@libraries
def test_weights_of_zero_stay_without_effect_after_the_rewriting(library: str) -> None:
    """In a partial likelihood, these are the weights of those who are no longer at risk."""
    text = """
x = torch.tensor([150.0, 0.3], requires_grad=True)
z = torch.tensor([[0.3, 0.1], [1.0, 0.2], [0.5, 0.7]])
at_risk = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
risk = torch.exp(z @ x)
y = torch.log((at_risk * risk[None, :]).sum(1))
y.sum().backward()
"""
    after = value_and_gradient(library, mended(text, only_event(run(library, text))))
    doubled = text.replace("z @ x", "(z @ x).double()")  # in which nothing overflows
    for one, other in zip(after, value_and_gradient(library, doubled), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


NAMED_FACTOR = """
import math
c = 1 / math.sqrt(2 * math.pi)

def step():
    h, pi = torch.tensor([-3.0, -2.0], requires_grad=True), torch.tensor([0.4, 0.6])
    s = torch.exp(h)
    pdf = c * torch.exp(-0.5 * (torch.tensor([[50.0], [0.3]]) / s) ** 2) / s
    return -torch.log((pi * pdf).sum(-1)).sum()
"""


@libraries
def test_the_logarithm_of_a_named_number_is_taken_with_math(library: str) -> None:
    """What torch has kept of the product is a tensor; the name stands for a number even so."""
    event = only_event(run(library, NAMED_FACTOR, function=True))
    assert "math.log(c)" in (event.remedy or "")
    loss = executed(library, mended(NAMED_FACTOR, event))["step"]()
    assert np.isfinite(loss.item())
