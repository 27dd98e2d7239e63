"""Zeros and infinities whose cause lies in another line: where they are made, and not where they do harm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import diagnose
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, mended, only_event, run

SINKHORN = """
C, a, b, eps = torch.tensor([[0.0, 3.0], [200.0, 300.0]], requires_grad=True), torch.ones(2) / 2, torch.ones(2) / 2, 1.0
K = torch.exp(-C / eps)
u = torch.ones(2)
for _ in range(3):
    v = b / (K.T @ u)
    u = a / (K @ v)
loss = (u[:, None] * K * v * C).sum()
loss.backward()
"""

REGRESSION = """
x = torch.tensor({x}, requires_grad=True)
at, t = torch.tensor([{at}, {at} + 1]), torch.tensor([-1.0, 2.0])
K = torch.exp(-((x[:, None] - at) ** 2))
y = {above} / K.sum(dim=1)
loss = y.sum()
loss.backward()
"""

CRF = """
e, w = torch.tensor([[1.0, 40.0], [3.0, 40.0], [1.0, 41.0]], requires_grad=True), torch.tensor([[0.1, 0.2], [0.3, 0.4]])
alpha = torch.exp(e[0])
for t in range(1, 3):
    alpha = torch.exp(e[t]) * (alpha @ torch.exp(w))
loss = torch.log(alpha.sum())
loss.backward()
"""


def variables(library: str, text: str) -> dict[str, object]:
    module = rg if library == "retrograd" else torch
    scope: dict[str, object] = {"torch": module, "F": module.nn.functional}
    exec(text, scope)
    return scope


@libraries
def test_a_sinkhorn_iteration_is_moved_to_log_space(library: str) -> None:
    """A small number in the denominator would give a plan without the row that is lost."""
    event = only_event(run(library, SINKHORN))
    assert diagnose(event).title == "division by a sum of exponentials that underflowed"
    assert event.remedy_lineno is None
    name = (event.code_line or "").partition(" ")[0]
    assert (event.remedy or "").startswith(f"log_{name} = ")


@libraries
def test_the_line_of_a_sinkhorn_iteration_in_log_space_has_its_own_names(library: str) -> None:
    """Where nothing underflows, the plan is the same as before; where it does, its rows add up as they should."""
    event = only_event(run(library, SINKHORN))
    assert (event.code_line or "").startswith("u = ")
    well = SINKHORN.replace("K = torch", "C = C / 100\nK = torch")
    before = variables(library, well)
    for text in (SINKHORN, well):
        lines = text.replace("u = torch.ones(2)", "log_u = torch.zeros(2)").splitlines()
        number = next(number for number, each in enumerate(lines) if each.startswith("    v = "))
        lines[number] = "    log_v = torch.log(b) - torch.logsumexp(-C.T / eps + log_u, dim=-1)"
        lines[number + 1] = "    " + (event.remedy or "").replace("rg.", "torch.")
        lines[number + 2] = "P = torch.exp(log_u[:, None] - C / eps + log_v)\nloss = (P * C).sum()"
        after = variables(library, "\n".join(lines))
        np.testing.assert_allclose(np.asarray(after["P"].detach()).sum(1), 0.5, rtol=1e-5)  # type: ignore[attr-defined]
    np.testing.assert_allclose(after["loss"].item(), before["loss"].item(), rtol=1e-5)  # type: ignore[attr-defined]


@libraries
@pytest.mark.parametrize("above", ["(K * t).sum(dim=1)", "K @ t", "torch.sum(t * K, 1)"])
def test_a_weighted_mean_by_exponentials_is_recognised_as_a_softmax(above: str, library: str) -> None:
    text = REGRESSION.format(x="[0.0, 1.0]", at=100.0, above=f"({above})")
    event = only_event(run(library, text))
    assert diagnose(event).title == "softmax written out, without subtracting the largest value"
    assert variables(library, mended(text, event))["x"].grad.isfinite().all()  # type: ignore[attr-defined]
    well = REGRESSION.format(x="[0.3, 1.0]", at=0.5, above=f"({above})")
    instead = well.splitlines()
    number = (event.remedy_lineno or 0) - 1
    instead[number] = mended(text, event).splitlines()[number]
    before, after = variables(library, well)["y"], variables(library, "\n".join(instead))["y"]
    np.testing.assert_allclose(after.detach().numpy(), before.detach().numpy(), rtol=1e-6)  # type: ignore[attr-defined]


@libraries
def test_an_overflowing_forward_algorithm_is_moved_to_log_space(library: str) -> None:
    """Its states are numbers to be added up, and no tanh may be put around them."""
    event = only_event(run(library, CRF))
    assert diagnose(event).title == "log of a likelihood that left its range factor by factor"
    assert "alpha is multiplied in line 5 by a factor above 1" in (event.cause or "")
    instead = CRF.replace("alpha = torch.exp(e[0])", "log_alpha = e[0]").replace(
        "torch.log(alpha.sum())", "torch.logsumexp(log_alpha, 0)"
    )
    instead = instead.replace(
        "alpha = torch.exp(e[t]) * (alpha @ torch.exp(w))", (event.remedy or "").replace("rg.", "torch.")
    )
    found = variables(library, instead)
    exact = variables(
        "torch", CRF.replace("41.0]]", "41.0]], dtype=torch.float64").replace("0.4]])", "0.4]], dtype=torch.float64)")
    )
    for name, of in (("loss", "detach"), ("e", "grad")):
        one, other = (getattr(each[name], of) for each in (found, exact))
        one, other = (each() if of == "detach" else each for each in (one, other))
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


HMM = """
transitions = torch.tensor([[1.0, 0.5], [0.2, -1.0]], requires_grad=True)
emissions = torch.tensor([[0.5, -0.5], [0.3, 0.1]])
alpha = torch.softmax(torch.zeros(2), 0)
for t in range({steps}):
    alpha = (alpha @ torch.softmax(transitions, 1)) * torch.softmax(emissions, 1)[:, t % 2]
loss = -torch.log(alpha.sum())
loss.backward()
"""


@libraries
def test_a_forward_algorithm_that_has_nearly_underflowed_is_moved_to_log_space(library: str) -> None:
    """Its likelihood is still above 0, but so small that the derivative of the logarithm overflows."""
    text = HMM.format(steps=126)
    event = only_event(run(library, text))
    assert (event.is_backward, diagnose(event).title) == (
        True,
        "log of a likelihood that left its range factor by factor",
    )
    assert "alpha is multiplied in line 6" in (event.cause or "")
    assert "has nearly underflowed" in (event.cause or "")
    assert "Change the lines that compute alpha as above" in format_event(event)
    instead = text.replace(
        "alpha = torch.softmax(torch.zeros(2), 0)", "log_alpha = torch.log_softmax(torch.zeros(2), 0)"
    )
    instead = instead.replace("torch.log(alpha.sum())", "torch.logsumexp(log_alpha, 0)").splitlines()
    instead[5] = f"    {event.remedy}".replace("rg.", "torch.")
    assert not run(library, "\n".join(instead)).events
    found, exact = variables(library, "\n".join(instead)), variables(library, text)
    np.testing.assert_allclose(found["loss"].item(), exact["loss"].item(), rtol=1e-4)


@libraries
@pytest.mark.parametrize(
    "code",
    [
        "s = F.relu(h)\nloss = ((d / s) ** 2).sum()",
        "s = h.relu()\nloss = (2 * torch.log(s) - s).sum()",
        "s = 0.5 * F.relu(h)\nloss = torch.log(s**2).sum()",
        "loss = torch.rsqrt(torch.relu(h)).sum()",
        "s = F.relu(h)\nloss = torch.log((s / (1 + d)) ** 2).sum()",
        "D = torch.distributions\ns = F.relu(h)\nq = D.Normal(d, s, validate_args=False)\n"
        "loss = D.kl_divergence(q, D.Normal(0.0, 1.0)).sum()",
    ],
)
def test_a_relu_for_a_positive_number_becomes_a_softplus(code: str, library: str) -> None:
    text = f"h, d = torch.tensor([-1.0, 0.5], requires_grad=True), torch.tensor([0.3, 1.0])\n{code}\nloss.backward()"
    event = only_event(run(library, text))
    assert diagnose(event).title == "relu where a number above zero is needed"
    assert "softplus(h) + 1e-6" in (event.remedy or "")
    gradient = variables(library, mended(text, event))["h"].grad  # type: ignore[attr-defined]
    assert gradient.isfinite().all()
    assert gradient[0] != 0


@libraries
@pytest.mark.parametrize("code", ["(x / torch.relu(h).sum()).sum()", "torch.where(h > 0, x / F.relu(h), 0.0).sum()"])
def test_a_relu_that_is_summed_or_masked_does_not_become_a_softplus(code: str, library: str) -> None:
    text = "h, x = torch.tensor([-1.0, -0.5], requires_grad=True), torch.ones(2, requires_grad=True)\n"
    text += f"loss = {code}\nloss.backward()"
    assert "softplus" not in (only_event(run(library, text)).remedy or "")


@libraries
def test_the_correlation_with_a_constant_is_mended(library: str) -> None:
    text = (
        "x = torch.tensor([[1.0, {}, 1.0], [1.0, 2.0, 4.0]], requires_grad=True)\n"
        "loss = torch.corrcoef(x)[0, 1]\nloss.backward()"
    )
    event = only_event(run(library, text.format(1.0)))
    assert diagnose(event).title == "correlation with constant values"
    mend = mended(text.format(1.0), event)
    assert variables(library, mend)["x"].grad.isfinite().all()  # type: ignore[attr-defined]
    before = variables(library, text.format(3.0))
    after = variables(library, mend.replace("[[1.0, 1.0, 1.0]", "[[1.0, 3.0, 1.0]"))
    for name in ("loss", "x"):
        one, other = (each[name] if name == "loss" else each[name].grad for each in (after, before))  # type: ignore[attr-defined]
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)


@libraries
def test_the_note_on_lu_factor_names_the_singular_matrix_and_a_remedy(library: str) -> None:
    text = "A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)\nfactors = torch.linalg.lu_factor(A)"
    with pytest.raises(RuntimeError) as raised:
        run(library, text)
    assert len(raised.value.__notes__) == 1
    assert "The matrix given to lu_factor is singular, or nearly so." in raised.value.__notes__[0]
    assert "factors = torch.linalg.lu_factor(A + 1e-5 * torch.eye(" in raised.value.__notes__[0]


def test_a_nan_is_mentioned_only_if_the_matrix_cannot_be_inspected() -> None:
    """PyTorch says of a NaN what it says of a matrix that is not positive definite; a product has no name."""
    text = "A = torch.tensor([[0.0, 1.0], [1.0, 0.0]])\nL = torch.linalg.cholesky(A / A[0, 0] * 0)"
    with pytest.raises(torch.linalg.LinAlgError) as raised:
        run("torch", text)
    assert "A matrix with a NaN in it gives the same error" in raised.value.__notes__[0]
    with pytest.raises(torch.linalg.LinAlgError) as raised:
        run("torch", "A = torch.tensor([[0.0, 1.0], [1.0, 0.0]])\nL = torch.linalg.cholesky(A)")
    assert "NaN" not in raised.value.__notes__[0]


ADAPTED = """
w = torch.tensor([1.0, -2.0], requires_grad=True)
{rate}
x, t = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 2.0])
fast = w
for _ in range(9):
    inner = ((x @ fast - t) ** 2).mean()
    (g,) = torch.autograd.grad(inner, fast, create_graph=True)
    fast = fast - {name} * g
loss = ((x @ fast - t) ** 2).mean()
{after}loss.backward()
"""


@libraries
@pytest.mark.parametrize("optimizer", ["", "optimizer = torch.optim.Adam([w], lr=1e-3)\n"])
def test_the_inner_learning_rate_of_a_runaway_within_the_graph_is_lowered(optimizer: str, library: str) -> None:
    """Meta-learning does this. The learning rate of the optimizer is another one."""
    text = ADAPTED.format(rate="inner_lr = 1e4", name="inner_lr", after=optimizer)
    event = only_event(run(library, text, True))
    assert diagnose(event).title == "gradient descent within the graph that runs away"
    assert "Line 9 descends a gradient, step after step" in (event.cause or "")
    assert event.remedy == "inner_lr = 0.01"
    assert variables(library, mended(text, event))["w"].grad.isfinite().all()  # type: ignore[attr-defined]


@libraries
def test_a_recurrence_without_a_gradient_is_no_descent(library: str) -> None:
    text = (
        "x = torch.tensor([1.0, -2.0], requires_grad=True)\nh = x\n"
        "for _ in range(30):\n    h = h - 1e4 * h\nh.sum().backward()"
    )
    assert diagnose(run(library, text).events[0]).title != "gradient descent within the graph that runs away"


@libraries
def test_layers_with_too_large_weights_are_told_to_initialise_smaller_ones(library: str) -> None:
    """No tanh is put into a network, which would be another one."""
    text = (
        "layers = [(10 * torch.randn(64, 64)).requires_grad_() for _ in range(30)]\nh = torch.randn(4, 64)\n"
        "for w in layers:\n    h = torch.relu(h @ w)\nloss = (h**2).mean()\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert diagnose(event).number == 51
    for kind in ("overflow", "invalid"):  # which of them depends on the order of the sums
        assert diagnose(replace(event, kind=kind)).number == 51
    assert "Every layer has its own weights" in (event.cause or "")
    assert event.remedy_lineno is None
    assert "kaiming_normal_" in (event.remedy or "")


@libraries
def test_the_box_cox_transformation_has_its_limit_at_zero(library: str) -> None:
    text = (
        "p, x = torch.tensor({}, requires_grad=True), torch.tensor([1.5, 2.0])\n"
        "loss = ((x ** p - 1) / p).sum()\nloss.backward()"
    )
    event = only_event(run(library, text.format(0.0)))
    assert diagnose(event).title == "expression with a limit where it divides by zero"
    found = variables(library, mended(text.format(0.0), event))
    logarithms = np.log([1.5, 2.0])
    np.testing.assert_allclose(found["loss"].item(), logarithms.sum(), rtol=1e-2)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found["p"].grad.item(), (logarithms**2 / 2).sum(), rtol=2e-2)  # type: ignore[attr-defined]
    before = variables(library, text.format(0.7))
    after = variables(library, mended(text.format(0.0), event).replace("tensor(0.0", "tensor(0.7"))
    assert before["loss"].item() == after["loss"].item()  # type: ignore[attr-defined]
    assert before["p"].grad.item() == after["p"].grad.item()  # type: ignore[attr-defined]


@libraries
def test_bessel_functions_out_of_range_are_scaled(library: str) -> None:
    text = "x = torch.tensor([100.0, 2.0], requires_grad=True)\n"
    text += "loss = (torch.special.i1(x) / torch.special.i0(x)).sum()\nloss.backward()"
    event = only_event(run(library, text))
    assert diagnose(event).title == "Bessel function out of range"
    after = variables(library, mended(text, event))["x"].grad  # type: ignore[attr-defined]
    before = variables(library, text.replace("100.0", "1.0"))["x"].grad  # type: ignore[attr-defined]
    assert after.isfinite().all()
    np.testing.assert_allclose(after[1].item(), before[1].item(), rtol=1e-5)


@libraries
def test_the_derivative_of_acosh_at_1_is_explained(library: str) -> None:
    text = "x = torch.tensor([1.0, 2.0], requires_grad=True)\nloss = torch.acosh(x).sum()\nloss.backward()"
    assert "1/sqrt(x^2 - 1)" in (only_event(run(library, text)).cause or "")


NAN_TO_NUM = {
    "torch.nan_to_num(torch.log(x), neginf=-5.0)": "torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), -5.0)",
    "torch.nan_to_num(torch.sqrt(x - 1))": (
        "torch.where((x - 1) > 0, torch.sqrt(torch.where((x - 1) > 0, x - 1, 1.0)), 0.0)"
    ),
    "(x - 1).sqrt().nan_to_num(3.0)": "torch.where((x - 1) > 0, torch.where((x - 1) > 0, x - 1, 1.0).sqrt(), 3.0)",
    "torch.nan_to_num(x / abs(x))": "torch.where(abs(x) != 0, x / torch.where(abs(x) != 0, abs(x), 1.0), 0.0)",
    "torch.nan_to_num(1 / x, posinf=7.0)": "torch.where(x != 0, 1 / torch.where(x != 0, x, 1.0), 7.0)",
}


@libraries
@pytest.mark.parametrize("call", NAN_TO_NUM)
def test_nan_to_num_becomes_a_where_with_a_finite_gradient(call: str, library: str) -> None:
    text = f"x = torch.tensor([0.0, 2.0], requires_grad=True)\nloss = ({call}).sum()\nloss.backward()"
    event = only_event(run(library, text, True))
    assert diagnose(event).title == "nan_to_num around a function outside its safe domain"
    remedy = (event.remedy or "").replace("rg.", "torch.")
    assert NAN_TO_NUM[call] in remedy
    before, after = variables(library, text), variables(library, mended(text, event))
    assert before["loss"].item() == after["loss"].item()  # type: ignore[attr-defined]
    assert after["x"].grad.isfinite().all()  # type: ignore[attr-defined]


@libraries
def test_a_product_of_zero_spreads_gets_an_eps(library: str) -> None:
    text = (
        "a, b = torch.tensor([1.0, {}, 1.0], requires_grad=True), torch.tensor([1.0, 2.0, 4.0])\n"
        "cov = ((a - a.mean()) * (b - b.mean())).mean()\nloss = cov / (a.std() * b.std())\nloss.backward()"
    )
    event = only_event(run(library, text.format(1.0), True))
    assert diagnose(event).number == 16
    assert "b.std()" in (event.remedy or "")
    after = variables(library, mended(text.format(1.0), event))["a"].grad  # type: ignore[attr-defined]
    assert after.isfinite().all()
    well = variables(library, mended(text.format(1.0), event).replace("1.0, 1.0, 1.0", "1.0, 3.0, 1.0"))["loss"]
    np.testing.assert_allclose(well.item(), variables(library, text.format(3.0))["loss"].item(), rtol=1e-4)  # type: ignore[attr-defined]


@libraries
@pytest.mark.parametrize(
    ("probability", "remedy"),
    [
        ("N.cdf(x + 1) - N.cdf(x)", "log_ndtr(-a) + "),
        ("torch.erf(x + 1) - torch.erf(x)", "log_ndtr(-a) + "),
        ("N.cdf(-3 * x)", "log_ndtr((x - mean) / std)"),
    ],
)
def test_the_logarithm_of_a_cumulative_probability_uses_log_ndtr(probability: str, remedy: str, library: str) -> None:
    text = "x = torch.tensor([10.0, 0.5], requires_grad=True)\nN = torch.distributions.Normal(0.0, 1.0)\n"
    event = only_event(run(library, f"{text}loss = -torch.log({probability}).sum()\nloss.backward()", True))
    assert diagnose(event).title == "log of a normal distribution's cumulative probability"
    assert remedy in (event.remedy or "")
    assert event.remedy_lineno is None


@libraries
def test_the_general_form_for_a_difference_of_probabilities_is_exact(library: str) -> None:
    """The general form is right: checked where the difference can be computed, and it is finite where not."""
    text = (
        "x = torch.tensor([10.0], requires_grad=True)\n"
        "loss = -torch.log(torch.erf(x + 1) - torch.erf(x)).sum()\nloss.backward()"
    )
    event = only_event(run(library, text))
    scope = variables(library, "a = torch.tensor([0.5, 20.0], dtype=torch.float64)\nb = a + 1.0")
    scope["rg"] = rg
    exec(event.remedy or "", scope)
    normal = torch.distributions.Normal(torch.tensor(0.0, dtype=torch.float64), 1.0)
    edges = torch.tensor([0.5, 1.5], dtype=torch.float64)
    expected = torch.log(normal.cdf(edges).diff())
    found = scope["log_p"].numpy()  # type: ignore[attr-defined]
    np.testing.assert_allclose(found[0], expected.item(), rtol=1e-6)
    assert np.isfinite(found).all()


SCAN = """
x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
steps = torch.tensor([-10.0, -20.0, -20.0])
a = (x * 0 + steps).cumsum(0)
decay = torch.exp(a)
h = torch.cumsum(x / decay, 0) * decay
loss = h.sum()
loss.backward()
"""


@libraries
def test_a_division_by_a_small_exponential_becomes_a_product(library: str) -> None:
    """The quotient is in range, the square of the divisor is not; another divisor would change the sum."""
    event = only_event(run(library, SCAN))
    assert diagnose(event).title == "derivative of a division by a small exponential"
    assert event.remedy == "h = torch.cumsum(x * torch.exp(-a), 0) * decay"
    scope = variables(library, mended(SCAN, event))
    assert np.allclose(scope["x"].grad.tolist(), [1.0, 1.0, 1.0], rtol=1e-5)  # type: ignore[attr-defined]
    assert np.isclose(scope["loss"].item(), 3.5, rtol=1e-5)  # type: ignore[attr-defined]


@libraries
def test_running_sums_in_exponents_are_to_be_subtracted_first(library: str) -> None:
    """A bound for the sum would change the result, and is not proposed."""
    text = SCAN.replace("x / decay", "x * torch.exp(-a)").replace("-20.0", "-50.0")
    event = only_event(run(library, text))
    assert (event.op, event.lineno) == ("exp", 6)
    assert "exp(a_i) / exp(a_j) is exp(a_i - a_j)" in (event.cause or "")
    assert event.remedy_lineno is None
    mended_text = text.replace(text.splitlines()[5], (event.remedy or "").replace("rg.", "torch."))
    scope = variables(library, mended_text)
    assert np.allclose(scope["h"].tolist(), [0.5, 1.0, 2.0], rtol=1e-5)  # type: ignore[attr-defined]
    assert np.allclose(scope["x"].grad.tolist(), [1.0, 1.0, 1.0], rtol=1e-5)  # type: ignore[attr-defined]


COUPLING = """
def coupled(x, scale):
    s = scale * x
    y = x * torch.exp(s)
    return y, s.sum()


x, scale = torch.tensor([1.0, 2.0]), torch.tensor(60.0, requires_grad=True)
y, log_det = coupled(x, scale)
loss = (y ** 2).mean() - log_det
loss.backward()
"""


@libraries
def test_an_exponent_that_is_used_elsewhere_is_bounded_where_it_is_made(library: str) -> None:
    event = only_event(run(library, COUPLING))
    assert (event.op, event.lineno, event.remedy_lineno) == ("exp", 4, 3)
    assert (event.remedy or "").startswith("s = ")
    assert "which line 5 uses as well" in (event.cause or "")
    scope = variables(library, mended(COUPLING, event))
    assert np.isfinite(scope["scale"].grad.item())  # type: ignore[attr-defined]
    assert scope["log_det"].item() <= 2 * 80  # type: ignore[attr-defined]


@libraries
@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("    s = scale * x", "    s = scale * x\n    s = s + 1"),  # made twice
        ("s.sum()", "x.sum()"),  # used once
    ],
)
def test_an_exponent_made_twice_or_used_once_is_bounded_in_the_exponential(
    library: str, written: str, instead: str
) -> None:
    text = COUPLING.replace(written, instead)
    event = only_event(run(library, text))
    assert (event.op, event.remedy_lineno) == ("exp", event.lineno)
    assert "y = x * " in (event.remedy or "")
