"""Logarithms of what functions of the program's own return: their formulas are taken into the line, where they may."""

from __future__ import annotations

import numpy as np
import pytest

from tests.anomaly.both import executed, libraries, mended, only_event, run

NORMAL = "def normal(x, m, s=1.0):\n    {}return torch.exp(-0.5 * {} ** 2) / (s * 2.5066283)\n"
IN_ONE_LINE = NORMAL.format("", "((x - m) / s)")
IN_TWO_LINES = NORMAL.format('"""The density."""\n    z = (x - m) / s\n    ', "z")
LAMBDA = "normal = lambda x, m, s=1.0: torch.exp(-0.5 * ((x - m) / s) ** 2) / (s * 2.5066283)\n"
LEAVES = "x = torch.tensor([60.0, 1.0], dtype=torch.float32, requires_grad=True)\n"
SPREAD = LEAVES + "spread = torch.tensor(0.5, dtype=torch.float32, requires_grad=True)\n"
BACKWARD = "\ny.sum().backward()"


def value_and_gradients(library: str, text: str, dtype: str) -> list[np.ndarray]:
    scope = executed(library, text.replace("float32", dtype))
    leaves = [scope[name] for name in ("x", "spread") if name in scope]
    return [np.asarray(each.detach().numpy()) for each in (scope["y"], *(leaf.grad for leaf in leaves))]


MENDED = {
    "of one line": IN_ONE_LINE + LEAVES + "p = 0.3 * normal(x, 0.0) + 0.7 * normal(x, 2.0, 0.5)\ny = -torch.log(p)",
    "of two lines": IN_TWO_LINES + LEAVES + "y = -torch.log(0.3 * normal(x, 0.0) + 0.7 * normal(x, 2.0, s=2.0))",
    "a lambda": LAMBDA + LEAVES + "y = torch.log(normal(x, m=3.0))",
    "with a parameter": IN_TWO_LINES
    + SPREAD
    + "p = 0.3 * normal(x, 0.0) + 0.7 * normal(x, 2.0, spread)\ny = -torch.log(p)",
    "called by another one": IN_ONE_LINE
    + "def mixture(x):\n    return 0.3 * normal(x, 0.0) + 0.7 * normal(x, 2.0)\n"
    + LEAVES
    + "y = torch.log(mixture(x / 2))",
}


@libraries
@pytest.mark.parametrize("name", MENDED)
def test_the_logarithm_of_a_returned_density_is_exact(name: str, library: str) -> None:
    text = MENDED[name] + BACKWARD
    event = only_event(run(library, text, steps=True))
    instead = mended(text, event)
    exact = instead.replace("60.0, 1.0", "2.5, 1.0")
    for one, other in zip(
        value_and_gradients(library, exact, "float64"),
        value_and_gradients(library, text.replace("60.0, 1.0", "2.5, 1.0"), "float64"),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    for one, other in zip(
        value_and_gradients(library, instead, "float32"), value_and_gradients(library, instead, "float64"), strict=True
    ):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=1e-5)


@libraries
@pytest.mark.parametrize(
    "text",
    [
        # a name that means another number where the function is called
        "c = 2.0\ndef density(x):\n    return torch.exp(-c * x**2)\n"
        + LEAVES
        + "y = [torch.log(density(x)) for c in [1]][0]",
        # a layer would be called twice
        "def density(x):\n    return torch.exp(-x * x)\n"
        + LEAVES
        + "layer = torch.nn.Identity()\ny = torch.log(density(layer(x)))",
        # more than one formula
        "def density(x):\n    if x.sum() > 0:\n        return torch.exp(-(x**2))\n    return x\n"
        + LEAVES
        + "y = torch.log(density(x))",
        "def density(*x):\n    return torch.exp(-x[0] ** 2)\n" + LEAVES + "y = torch.log(density(x))",
    ],
)
def test_a_function_that_may_not_be_inlined_is_not_inlined(text: str, library: str) -> None:
    event = only_event(run(library, text + BACKWARD, steps=True))
    assert "-x" not in (event.remedy or "") or event.remedy_lineno is None
    assert "**" not in (event.remedy or "") or event.remedy_lineno is None


FORWARD = """def forward(e, t):
    a = torch.exp(e[0])
    for i in range(1, len(e)):
        a = {step} * torch.exp(e[i])
    return torch.log(a.sum())
x = torch.full((40, 3), {size}, dtype=torch.float32, requires_grad=True)
spread = torch.linspace(-1.0, 1.0, 9, dtype=torch.float32).reshape(3, 3).requires_grad_()
y = forward(x, spread)"""


@libraries
@pytest.mark.parametrize("size", [5.0, -5.0])
@pytest.mark.parametrize("step", ["(a.unsqueeze(1) * torch.exp(t)).sum(0)", "(a @ torch.exp(t))"])
def test_the_remedy_of_a_forward_algorithm_in_a_function_is_exact(step: str, size: float, library: str) -> None:
    """The line is that of the step; what goes in and comes out is to be taken the logarithm of as well."""
    text = FORWARD.format(step=step, size=size) + BACKWARD
    event = only_event(run(library, text, steps=True))
    assert event.remedy_lineno is None
    remedy = (event.remedy or "").replace("rg.", "torch.")
    instead = text.replace(f"a = {step} * torch.exp(e[i])", remedy).replace("a = torch.exp(e[0])", "log_a = e[0]")
    instead = instead.replace("torch.log(a.sum())", "torch.logsumexp(log_a, 0)")
    for one, other in zip(
        value_and_gradients(library, instead, "float32"), value_and_gradients("torch", text, "float64"), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@libraries
def test_densities_summed_in_a_loop_get_logaddexp_and_no_bound(library: str) -> None:
    """A bound would leave no gradient."""
    text = (
        LEAVES + "p = torch.zeros_like(x)\nfor k in range(2):\n    p = p + 0.5 * torch.exp(-0.5 * (x - k) ** 2)\n"
        "y = torch.log(p)"
    )
    event = only_event(run(library, text + BACKWARD, steps=True))
    assert event.remedy_lineno is None
    assert "logaddexp" in (event.remedy or "")
