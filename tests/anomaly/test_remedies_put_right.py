"""Programs as users write them that an earlier version mended wrongly or not at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import diagnose
from tests.anomaly.both import executed, libraries, line, mended, only_event, run, runs

MIXTURE = """
x = torch.full((4, 1), 60.0)
mu = torch.zeros(3, requires_grad=True)
sigma = torch.ones(3, requires_grad=True)
weights = torch.softmax(torch.zeros(3, requires_grad=True), -1)
density = torch.exp(-0.5 * ((x - mu) / sigma) ** 2) / (sigma * 2.5066)
loss = -torch.log((weights * density).sum(-1)).mean()  # born here
loss.backward()
"""


@libraries
def test_a_mixture_whose_densities_underflow_gets_a_logsumexp(library: str) -> None:
    """A clamp of the sum would give a loss without a gradient."""
    event = only_event(run(library, MIXTURE, True))
    assert (event.op, event.lineno) == ("log", line(MIXTURE))
    assert diagnose(event).title == "log of a density that underflowed"
    assert "Every density in the sum underflows" in (event.cause or "")
    assert "torch.logsumexp(torch.log_softmax(torch.zeros(3" in (event.remedy or "").replace("rg.", "torch.")
    namespace = executed(library, mended(MIXTURE, event))
    assert (namespace["mu"].grad < 0).all()


@libraries
def test_the_bound_of_an_exponential_leaves_room_for_a_later_square(library: str) -> None:
    text = (
        "x = torch.tensor([1.0, 100.0], requires_grad=True)\nscale = torch.exp(x)  # born here\n"
        "loss = (scale * 3 - 1).pow(2).mean()\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert "leaves room for what follows" in (event.cause or "")
    assert not run(library, mended(text, event)).events


def test_an_infinite_quotient_under_tanh_is_blamed_for_its_nan_gradient() -> None:
    """The tanh of infinity is 1, and its gradient is 0: the loss is finite."""
    text = (
        "c = torch.tensor([2.0, 1.0])\nt = torch.tensor([1.0, 0.0], requires_grad=True)\n"
        "h = torch.tanh(c / t)  # born here\nh.sum().backward()"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.index, event.born) == ("DivBackward0", (1,), "NaN")
    assert "1 / 0 is infinite, and its derivative is NaN here" in (event.cause or "")
    assert event.remedy == "h = torch.tanh(c / (t + 1e-12))  # born here"


@runs
def test_infinite_noise_is_found_behind_a_sum_and_a_quotient(steps: bool) -> None:
    """The sum and the quotient keep no operand. Softmax turns the infinity into NaN."""
    text = (
        "logits = torch.zeros(2, 3, requires_grad=True)\n"
        "u = torch.tensor([[0.5, 1.0, 0.25], [0.1, 0.9, 0.3]])\ng = -torch.log(-torch.log(u))  # born here\n"
        "y = ((logits + g) / 0.5).softmax(-1)\ny.pow(2).sum().backward()"
    )
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.index, event.lineno) == ("log", (0, 1), line(text))


def test_a_leaf_that_became_infinite_after_returned_gradients_is_not_initial() -> None:
    """Returned gradients are no updates, but the leaf has changed since training began."""
    q = rg.tensor([1.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        for k in range(3):
            rg.autograd.grad((q**2).sum(), q)
            if k == 1:
                q = rg.tensor([rg.inf], requires_grad=True)
    assert w.event is not None
    assert "after gradients were returned twice" in (w.event.cause or "")


@libraries
@pytest.mark.parametrize(
    ("method", "mended_method"),
    [
        (".log()", ".clamp(min=1e-12).log()"),
        (".sqrt()", ".add(1e-12).sqrt()"),
        (".div(x)", ".div(torch.where(x == 0, 1.0, x))"),
    ],
)
def test_one_method_of_a_chain_over_several_lines_is_mended(library: str, method: str, mended_method: str) -> None:
    """The receiver of the method stands in the lines above, and the remedy does not repeat it."""
    text = (
        "x = torch.tensor([1.0, 0.0], requires_grad=True)\nloss = (\n    x\n    .mul(2)\n"
        f"    {method}  # born here\n    .sum()\n)\nloss.backward()"
    )
    event = only_event(run(library, text, True))
    assert event.lineno == line(text)
    assert (event.remedy or "").replace("rg.", "torch.").removesuffix("  # born here") == mended_method
    assert not run(library, mended(text, event), True).events


@pytest.mark.parametrize("head", ["else", "try", "case 1", "elif x.ndim"])
def test_the_remedy_keeps_the_head_that_stands_before_the_statement(head: str) -> None:
    before = {"else": "if x.ndim > 1: y = x\n", "case 1": "match x.ndim:\n ", "elif x.ndim": "if x.ndim > 1: y = x\n"}
    after = {"try": "finally: pass\n"}
    text = (
        "x = torch.tensor([1.0, 0.0], requires_grad=True)\n"
        f"{before.get(head, '')}{head}: y = torch.log(x)  # born here\n{after.get(head, '')}y.sum().backward()"
    )
    event = only_event(run("retrograd", text))
    assert event.remedy == f"{head}: y = torch.log(torch.clamp(x, min=1e-12))  # born here"
    assert not run("retrograd", mended(text, event)).events


@libraries
def test_the_logarithm_of_a_running_product_becomes_a_running_sum_of_logarithms(library: str) -> None:
    text = (
        "p = torch.full((60,), 0.1, requires_grad=True)\nlogs = torch.log(torch.cumprod(p, 0))  # born here\n"
        "logs.mean().backward()"
    )
    event = only_event(run(library, text, True))
    assert (event.lineno, diagnose(event).number) == (2, 38)
    assert ".cumsum(dim=0)" in (event.remedy or "")
    assert not run(library, mended(text, event), True).events


def test_clipping_is_inserted_before_the_step_in_the_same_line() -> None:
    text = (
        "model = nn.Linear(1, 1, bias=False)\nmodel.weight.data.fill_(1.0)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e25)\nloss = (model(torch.ones(1, 1)) * 1e20).sum()\n"
        "loss.backward(); optimizer.step()"
    )
    event = only_event(run("retrograd", text))
    clipping = "rg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert event.remedy == f"loss.backward(); {clipping}; optimizer.step()"


@pytest.mark.parametrize("option", ["", "ignore_index=0"])
def test_a_loss_layer_is_replaced_by_its_function(option: str) -> None:
    ignored = 0 if option else -100
    text = (
        f"criterion = nn.CrossEntropyLoss({option})\n"
        f"scores, labels = torch.randn(2, 3, 4, requires_grad=True), torch.full((2, 3), {ignored})\n"
        "loss = criterion(scores.view(-1, 4), labels.view(-1))  # born here\nloss.backward()"
    )
    event = only_event(run("torch", text))
    assert event.lineno == line(text)
    assert "cross_entropy(scores.view(-1, 4), labels.view(-1), reduction=" in (event.remedy or "")
    assert not run("torch", mended(text, event)).events
    some = text.replace(f"torch.full((2, 3), {ignored})", f"torch.tensor([[1, {ignored}, 3], [2, {ignored}, 1]])")
    seed = "torch.manual_seed(0)\n"
    before, after = executed("torch", seed + some), executed("torch", seed + mended(some, event))
    assert torch.isclose(before["loss"], after["loss"])


def test_a_loss_layer_with_class_weights_is_left_as_it_is() -> None:
    text = (
        "criterion = nn.CrossEntropyLoss(weight=torch.ones(4))\n"
        "scores, labels = torch.randn(3, 4, requires_grad=True), torch.full((3,), -100)\n"
        "loss = criterion(scores, labels)\nloss.backward()"
    )
    event = only_event(run("torch", text))
    assert "criterion" not in (event.remedy or "")
    assert "scores" not in (event.remedy or "")


@libraries
def test_a_matrix_that_is_perturbed_is_computed_only_once(library: str) -> None:
    text = (
        "calls = []\ndef stiffness(k):\n    calls.append(k)\n    return torch.diag(k)\n"
        "k = torch.ones(3, dtype=torch.float64, requires_grad=True)\n"
        "values, modes = torch.linalg.eigh(stiffness(k))\nloss = (modes[0] ** 2 * values.detach()).sum()\n"
        "loss.backward()\ntorch.optim.SGD([k], lr=0.0).step()"
    )
    better = mended(text, only_event(run(library, text)))
    found = executed(library, better)
    assert len(found["calls"]) == 1
    assert found["k"].grad.isfinite().all()


@pytest.mark.parametrize(("dtype", "step"), [("float32", 3.5e-4), ("float64", 1.5e-8)])
def test_the_coarseness_of_an_angle_is_that_of_its_dtype(dtype: str, step: float) -> None:
    text = (
        f"p = torch.tensor([0.8, 0.2], dtype=torch.{dtype}, requires_grad=True)\nq = p.detach().clone()\n"
        "loss = torch.acos(torch.sin(p[0]) * torch.sin(q[0])"
        " + torch.cos(p[0]) * torch.cos(q[0]) * torch.cos(p[1] - q[1]))\nloss.backward()"
    )
    cause = only_event(run("retrograd", text)).cause or ""
    told = float(cause.partition("moves in steps of ")[2].partition(" ")[0])
    assert dtype in cause
    assert told == pytest.approx(step, rel=0.5)


BOUNDED = {
    "d = (s + s.T - 2 * x @ x.T).clamp(min=0).sqrt()": "the bound itself",
    "d = torch.sqrt(torch.clamp(s + s.T - 2 * x @ x.T, 0))": "given by position",
    "q = torch.clamp(s + s.T - 2 * x @ x.T, min=0)\nd = q.sqrt()": "in another line",
}


@pytest.mark.parametrize("code", BOUNDED)
@libraries
def test_a_bound_of_zero_under_a_root_is_raised(library: str, code: str) -> None:
    """The distances keep their gradients; those of a point to itself get none, as with cdist."""
    text = (
        "x = torch.tensor([[0.3, 1.7, 2.2], [1.1, 2.3, 0.4], [0.7, 0.1, 1.9]], requires_grad=True)\n"
        f"s = x.pow(2).sum(1, keepdim=True)\n{code}\nloss = d.sum()\nloss.backward()"
    )
    cured = executed(library, mended(text, only_event(run(library, text))))
    points = torch.tensor(np.asarray(cured["x"].detach()), requires_grad=True)
    torch.cdist(points, points).sum().backward()
    np.testing.assert_allclose(np.asarray(cured["x"].grad), points.grad, rtol=1e-4, atol=1e-4)


QUANTISED = """
x = torch.tensor([{0}, {0}], requires_grad=True)
def quantised(x):
    low, high = x.min(), x.max()
    scale = (high - low) / 255
    zero = torch.round(-low / scale)
    q = torch.round(x / scale) + zero
    return (q - zero) * scale
y = quantised(x.detach()) + x
y.sum().backward()
"""


@pytest.mark.parametrize("number", [0.0, 3.0, -0.5])
def test_a_divisor_of_several_lines_is_mended_where_it_is_made(number: float) -> None:
    """Then they agree, and a constant stays what it is."""
    text = QUANTISED.format(number)
    event = only_event(run("torch", text))
    assert event.remedy_lineno == 5
    assert not event.also
    cured = mended(text, event)
    assert not run("torch", cured).events
    np.testing.assert_allclose(executed("torch", cured)["y"].detach(), [2 * number] * 2, rtol=1e-6)


@pytest.mark.parametrize("code", [-999.0, -9999.0, -99.0])
@libraries
@pytest.mark.parametrize("op", ["log1p", "log"])
def test_the_code_of_a_missing_value_is_taken_for_one(library: str, code: float, op: str) -> None:
    """It is replaced, and the other values stay as they are."""
    text = (
        f"x = torch.tensor([[1.0, 2.0], [3.0, {code}]])\nw = torch.ones(2, requires_grad=True)\n"
        f"z = torch.{op}(x) * w\nz.sum().backward()"
    )
    event = only_event(run(library, text))
    assert "missing" in (event.cause or "")
    cured = executed(library, mended(text, event))["z"].detach()
    np.testing.assert_allclose(
        np.asarray(cured), getattr(np, op)([[1.0, 2.0], [3.0, 0.0 if op == "log1p" else 1.0]]), rtol=1e-6
    )


@libraries
def test_another_negative_number_is_no_code(library: str) -> None:
    text = "x = torch.tensor([1.0, -37.5])\nw = torch.ones(2, requires_grad=True)\n(torch.log(x) * w).sum().backward()"
    event = only_event(run(library, text))
    assert "missing" not in (event.cause or "")
    assert event.remedy is None


KEPT = {
    "a weighted variance": (
        "y = torch.sqrt((p * x**2).sum(1) - (p * x).sum(1) ** 2)",
        "p = torch.tensor([1.0, 0.0, 0.0])",
        "p = torch.tensor([0.5, 0.25, 0.25])",
    ),
    "a weighted variance below 0 by rounding": (
        "z = x * s + 0.7\np = torch.tensor([0.2, 0.3, 0.5])\ny = torch.sqrt((p * z**2).sum(1) - (p * z).sum(1) ** 2)",
        "s = torch.tensor([[0.0], [1.0], [1.0], [1.0]])",
        "s = 1.0",
    ),
    "a quantity below its bound over itself": (
        "y = x.sum() * (torch.minimum(s, torch.full_like(s, 5.0)) / s)",
        "s = torch.tensor([0.0, 10.0])",
        "s = torch.tensor([0.5, 10.0])",
    ),
    "the inverse of a softplus": (
        "v = torch.nn.functional.softplus(s * x)\ny = x * torch.log(3 / v) + v",
        "s = -200.0",
        "s = 0.5",
    ),
    "the logarithm of a softplus": (
        "v = torch.nn.functional.softplus(s * x)\ny = x * torch.log(v) + 1 / (1 + v)",
        "s = -200.0",
        "s = 0.5",
    ),
    "whitening": (
        "a = (x - x.mean(0)) * s\ncov = a.T @ a\nvals, vecs = torch.linalg.eigh(cov)\ny = torch.rsqrt(vals)",
        "s = torch.tensor([1.0, 1.0, 0.0])",
        "s = torch.tensor([1.0, 20.0, 300.0])",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_remedy_holds_and_keeps_healthy_values(name: str) -> None:
    code, bad, good = KEPT[name]
    start = "x = torch.tensor([[1.5, 2.5, 3.0], [2.0, 7.0, 1.0], [3.0, 9.0, 8.0], [5.0, 1.0, 2.0]], requires_grad=True)"
    failing, well = (f"{start}\n{setting}\n{code}\ny.sum().backward()" for setting in (bad, good))
    event = only_event(run("torch", failing))
    assert event.remedy_lineno is not None
    assert not run("torch", mended(failing, event)).events
    instead = well.splitlines()
    instead[event.remedy_lineno - 1] = mended(failing, event).splitlines()[event.remedy_lineno - 1]
    before, after = executed("torch", well), executed("torch", "\n".join(instead))
    np.testing.assert_allclose(after["y"].detach(), before["y"].detach(), rtol=1e-4)
    np.testing.assert_allclose(after["x"].grad, before["x"].grad, rtol=1e-3, atol=1e-5)


def test_a_share_below_its_bound_is_one_where_it_is_zero() -> None:
    code, bad, _ = KEPT["a quantity below its bound over itself"]
    text = f"x = torch.ones(2, requires_grad=True)\n{bad}\n{code}\ny.sum().backward()"
    cured = executed("torch", mended(text, only_event(run("torch", text))))
    np.testing.assert_allclose(cured["y"].detach(), [2.0, 1.0])


def test_the_eps_of_a_norm_in_float16_stays_small() -> None:
    text = (
        "x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)\nh = x.half()\n"
        "y = h / (h.norm(dim=-1, keepdim=True) + 1e-8)\n((y @ y.T) ** 2).sum().backward()"
    )
    cured = executed("torch", mended(text, only_event(run("torch", text))))
    np.testing.assert_allclose(cured["y"].detach()[1], [0.6, 0.8], rtol=2e-3)
