"""A remedy pasted over the line at fault runs, cures the very step, and leaves what was healthy in it as it was."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyWarning, NaNEvent
from tests.anomaly.both import libraries, mended, run
from tests.anomaly.programs import leaf

BACKWARD = "y.sum().backward()"


@dataclass(frozen=True)
class Fault:
    """A program that defines ``y``, and what makes its leaves."""

    setup: str
    code: str

    def __str__(self) -> str:
        return f"{self.setup}: {self.code}"


def faults(setup: str, *codes: str) -> list[Fault]:
    return [Fault(setup, code) for code in codes]


def results_of(library: str, setup: str, code: str) -> list[np.ndarray]:
    """The values of ``y`` and the gradients of the leaves."""
    module: Any = rg if library == "retrograd" else torch
    scope: dict[str, Any] = {"torch": module, "F": module.nn.functional, "nn": module.nn}
    exec(setup, scope)
    leaves = [each for each in scope.values() if isinstance(each, module.Tensor) and each.requires_grad]
    exec(code, scope)
    exec(BACKWARD, scope)
    found = [scope["y"].detach(), *(each.grad for each in leaves if each.is_leaf)]
    return [np.asarray(each.to(module.complex128 if each.is_complex() else module.float64)) for each in found]


def first_event(library: str, fault: Fault) -> NaNEvent:
    w = run(library, f"{fault.setup}\n{fault.code}\n{BACKWARD}", steps=True)
    assert w.event is not None
    return w.event


def assert_held(library: str, fault: Fault) -> NaNEvent:
    """The event of a program whose remedy cures it, and moves nothing that was healthy."""
    event = first_event(library, fault)
    assert event.remedy is not None, event.cause
    instead = mended(f"{fault.setup}\n{fault.code}", event).splitlines()
    lines = fault.setup.count("\n") + 1
    code = "\n".join(instead[lines:])
    before = results_of(library, fault.setup, fault.code)
    after = results_of(library, fault.setup, code)
    for one, other in zip(after, before, strict=True):
        assert np.isfinite(one).all(), f"{code}: {one}"
        well = np.isfinite(other)
        np.testing.assert_allclose(one[well], other[well], rtol=2e-3, atol=1e-4, err_msg=code)
    return event


COMPLEX = leaf("[1 + 1j, 0j]", "complex64")
ONE_AND_ZERO = leaf("[1.0, 0.0]")

HELD = [
    # Complex numbers, which have no order: nothing is clamped
    *faults(
        COMPLEX,
        "y = torch.log(x).abs()",
        "z = x.log()\ny = z.real**2 + z.imag**2",
        "y = torch.sqrt(x).abs()",
        "y = (x**0.5).abs()",
        "y = (1 / x).abs()",
    ),
    *faults(leaf("[1 + 1j, 100 + 1j]", "complex64"), "y = torch.exp(x).real", "y = (x * 1).exp().abs()"),
    # One expression that meets its fault in several places of the line
    *faults(
        ONE_AND_ZERO,
        "y = torch.log(x) / x",
        "y = x.log() / x",
        "y = torch.log(x) / torch.sqrt(x)",
        "y = torch.log(x) + torch.sqrt(x)",
        "y = torch.sqrt(x) * x.log()",
        "y = 1 / x - 1 / x**2",
        "y = 4 * ((1 / x) ** 12 - (1 / x) ** 6)",
        "y = 4 * (1 / x**12 - 1 / x**6)",
        "y = 1 / x + torch.rsqrt(x)",
    ),
    *faults(
        f"{leaf('[1.0, 0.0, 0.5]', name='p')}; t = torch.tensor([1.0, 0.0, 1.0])",
        "y = -(t * torch.log(p) + (1 - t) * torch.log(1 - p))",
        "y = -(p * torch.log(p) + (1 - p) * torch.log(1 - p))",
        "y = -(p * p.log() + (1.0 - p) * (1.0 - p).log()).mean()",
        "y = torch.log(p) - torch.log(1 - p)",
    ),
    # Several faults in one line, which are mended at once
    *faults(
        f"{leaf('[0.0, 2.0]', name='mu')}; {leaf('[0.0, 1.5]', name='r')}; k = torch.tensor([0.0, 3.0])",
        "y = torch.lgamma(k + r) - torch.lgamma(r) + r * torch.log(r / (r + mu)) + k * torch.log(mu / (r + mu))",
        "y = torch.lgamma(r) + torch.log(mu) - 1 / mu",
        "y = 25.7 * (torch.log(mu) - torch.log(r))",
        "y = (mu / r).clamp(max=1e3) + r.log()",
    ),
    *faults(
        f"{leaf('[0.0, 2.0]', name='nu')}; {leaf('[0.0, 2.0]', name='s')}; x = torch.tensor([1.0, 0.5])",
        "y = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * torch.log(nu) - torch.log(s) "
        "- (nu + 1) / 2 * torch.log1p((x / s) ** 2 / nu)",
    ),
    *faults(f"{leaf('[0.0, 2.0]')}; {leaf('[0.7, 0.7]', name='n')}", "y = x**n / (1.0 + x**n)"),
    *faults(
        leaf("[0.0, 0.5]"),
        "y = torch.sin(torch.sqrt(x) * 2) / torch.sqrt(x)",
        "y = 1 / torch.tanh(x) - 1 / x",
        "y = torch.log(2 * x) + torch.log(4 * torch.sinh(x))",
    ),
    # Factors that are negative, of which no logarithm is taken
    *faults(leaf("[1e-30, 1.0]"), "y = torch.log((torch.exp(-x) - 1) * (torch.exp(-2 * x) - 1))"),
    # An angle that is 0, whose derivative is infinite as well
    *faults(
        "R = torch.eye(3).requires_grad_()",
        "theta = torch.acos((torch.trace(R) - 1) / 2)\ny = theta / (2 * torch.sin(theta)) * (R[2, 1] - R[1, 2])",
        "c = (torch.trace(R) - 1) / 2\ny = torch.acos(c) / torch.sin(torch.acos(c)) * (R[2, 1] - R[1, 2])",
    ),
    *faults(
        f"{leaf('[[1.0, 0.0], [0.6, 0.8]]')}; b = torch.tensor([1.0, 0.0])",
        "w = torch.acos(x @ b)\ny = torch.sin(0.3 * w) / torch.sin(w) + torch.sin(0.7 * w) / torch.sin(w)",
    ),
    # What a mask discards is made safe there, and nowhere else
    *faults(
        f"{leaf('[1.0, 0.0, 2.0]')}; m = torch.tensor([1.0, 0.0, 0.0])",
        "y = torch.log(x) * m + 1 / (x + 1)",
        "y = torch.where(x > 0, torch.sqrt(x) * x.log(), 0.0)",
        "y = (m * torch.log(x)).sum() + torch.sqrt(x + 1).sum()",
    ),
    *faults(
        f"{leaf('[1.0, 4.0, 2.0]')}; m = torch.tensor([1.0, 0.0, 0.0])",
        "z = x - 4 * (1 - m) * (x > 3)\ny = torch.log(z) * m + 1 / (z + 1)",
        "z = x - 4 * (1 - m) * (x > 3)\ny = torch.where(m > 0, torch.log(z), 0.0) + torch.sqrt(z + 1)",
    ),
    # Infinities that a mask writes, by what becomes of them
    *(
        Fault(f"{leaf('[[1.0, 2.0], [3.0, 4.0]]', dtype)}; m = torch.tensor([[True, False], [True, True]])", code)
        for dtype in ("float32", "float16", "float64")
        for code in (
            "y = x.masked_fill(m, float('inf')) * 2",
            "y = x.masked_fill(m, -torch.inf).sum()",
            "d = x.masked_fill(m, float('inf'))\ny = (d**2).mean()",
            "y = x.masked_fill(m, float('inf')).amin(-1)",
            "y = (x.masked_fill(m, float('inf')).amin(-1) ** 2).sum()",
            "y = x.masked_fill(m, -float('inf')).max(dim=1).values * 3",
            "y = torch.where(m, float('inf'), x) * 3",
            "y = torch.where(~m, x, -float('inf')).logsumexp(-1)",
            "s = x * 1\ns.masked_fill_(m, float('inf'))\ny = s * 3",
        )
    ),
    # Products of float16, whatever they are written as
    *faults(
        f"{leaf('[[300.0, 1.0], [1.0, 300.0]]', 'float16', 'a')}; {leaf('[[300.0, 2.0], [1.0, 1.0]]', 'float16', 'b')}",
        "y = torch.einsum('ij,jk->ik', a, b)",
        "y = torch.einsum('ij,jk->ik', [a, b]) * 0.5",
        "y = F.linear(a, b)",
        "y = torch.matmul(input=a, other=b)",
        "y = torch.mm(a, b)",
        "y = torch.addmm(b, a, b)",
        "y = torch.inner(a, b)",
    ),
    # Normalisation without an eps
    *faults(
        leaf("[[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 5.0]]"),
        "y = F.layer_norm(x, (4,), eps=0)[..., 0]",
        "y = F.layer_norm(x, (4,), None, None, 0.0)[..., 0]",
        "y = F.group_norm(x, 2, eps=0)[..., 0]",
        "layer = nn.LayerNorm(4, eps=0)\ny = layer(x)[..., 0]",
    ),
    *faults(
        leaf("[[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]"),
        "y = F.rms_norm(x, (3,), eps=0)[..., 0]",
        "layer = nn.RMSNorm(3, eps=0.0)\ny = layer(x)[..., 0]",
    ),
    # Eigenvectors of one matrix among others
    *faults(
        "a = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 5.0]]], requires_grad=True)",
        "w, v = torch.linalg.eigh(a)\ny = (v[..., 0] ** 2 * w).sum(-1)",
        "w, v = torch.linalg.eigh(a * 1.0)\ny = w.sum(-1) + (v**2)[..., 0, 0]",
    ),
    # Two divergences in a line; cosines of several vectors with one
    *faults(
        f"{leaf('[0.5, 0.5, 0.0]', name='p')}; {leaf('[1.0, 0.0, 0.0]', name='q')}",
        "m = (p + q) / 2\ny = p * torch.log(p / m) + q * torch.log(q / m)",
    ),
    *faults(
        f"{leaf('[[0.0, 0.0], [1.0, 1.0]]')}; v = torch.tensor([1.0, 0.0])",
        "y = (x @ v) / (x.norm(dim=-1) * v.norm())",
    ),
    # Exponentials, by what becomes of them
    *(
        Fault(setup, code)
        for setup in (leaf("[1.0, 100.0]"), leaf("[1.0, 12.0]", "float16"), leaf("[1.0, 800.0]", "float64"))
        for code in (
            "y = torch.exp(x).sum()",
            "y = torch.exp(x) ** 2",
            "e = torch.exp(x)\ny = e * e",
            "y = torch.exp(x) * torch.exp(x)",
            "e = torch.exp(x)\nz = e * 5\ny = z**3",
            "y = (x.exp() - 1).pow(2).mean()",
            "y = torch.exp(x) - torch.exp(x - 20)",
            "y = torch.exp(x) - torch.exp(x + 1)",
            "w = torch.full_like(x, 5.0)\ne = torch.exp(x)\ny = (e * w).sum()",
        )
    ),
    *faults(leaf("[1.0, 88.0]"), "y = torch.exp(x) - torch.exp(x + 1)"),
]


@libraries
@pytest.mark.parametrize("fault", HELD, ids=str)
def test_the_remedy_cures_the_step_and_keeps_healthy_elements(fault: Fault, library: str) -> None:
    assert_held(library, fault)


@libraries
def test_an_exponential_gets_no_bound_that_makes_it_useless(library: str) -> None:
    event = first_event(library, Fault(leaf("[1.0, 12.0]", "float16"), "z = torch.exp(x) * 100\ny = z**3"))
    assert event.op == "exp"
    assert event.remedy is None
    assert "wider type" in (event.cause or "")


@libraries
@pytest.mark.parametrize(
    "code", ["y = x.masked_fill(m, float('inf')) * 2", "y = x * 1\ny.masked_fill_(m, float('inf'))"]
)
def test_a_filled_infinity_is_shown_with_the_value_that_it_replaced(code: str, library: str) -> None:
    event = first_event(library, Fault(f"{leaf('[1.0, 2.0]')}; m = torch.tensor([True, False])", code))
    assert event.op == "masked_fill"
    assert (event.operands["input"], event.operands["value"]) == (1.0, float("inf"))


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("library", ["retrograd", "torch"])
@pytest.mark.parametrize(
    "size",
    [
        "x.norm(dim=-1)",
        "x.norm(2, 1)",
        "torch.linalg.vector_norm(x, dim=1, keepdim=True)",
        "torch.norm(x, p=2, dim=-1)",
        "torch.sqrt((x**2).sum(-1))",
    ],
)
def test_the_second_derivative_of_a_norm_at_zero_is_mended(size: str, library: str, steps: bool) -> None:
    setup = leaf("[[0.0, 0.0], [3.0, 4.0]]")
    code = f"d = {size}\n(g,) = torch.autograd.grad((d**2 + d).sum(), x, create_graph=True)\ny = (g**2).sum(-1)"
    w = run(library, f"{setup}\n{code}\n{BACKWARD}", steps=steps)
    if library == "retrograd" and "norm" in size:
        assert not w.events, "its second derivative at 0 is 0 there"
        return
    event = w.event
    assert event is not None
    if event.remedy is None:
        assert not steps
        assert "A small number" in (event.cause or "")
        return
    instead = mended(f"{setup}\n{code}", event).splitlines()
    before, after = (results_of(library, setup, each) for each in (code, "\n".join(instead[1:])))
    for one, other in zip(after, before, strict=True):
        assert np.isfinite(one).all(), event.remedy
        np.testing.assert_allclose(one[1:], other[1:], rtol=1e-4)


HOOKED = "x = torch.tensor([2.0, 1.0], requires_grad=True)\n{}\n(h**2).sum().backward()"


@pytest.mark.parametrize("number", ["float('inf')", "float('nan')"])
@pytest.mark.parametrize("taken", ["h = x * 3\nh", "h = x\nx"])
def test_a_hook_with_a_factor_that_is_not_finite_is_named(taken: str, number: str) -> None:
    text = HOOKED.format(f"{taken}.register_hook(lambda g: g * {number})")
    event = run("retrograd", text, steps=True).event
    assert event is not None
    assert (event.op, event.lineno, event.function) == ("mul", 3, "<lambda>")
    assert "in a hook" in (event.note or "")
    unseen = run("retrograd", text, steps=False).event
    assert unseen is not None
    assert "<lambda> (line 3)" in f"{unseen.note} {unseen.function} (line {unseen.lineno})"


@pytest.mark.parametrize("steps", [True, False])
@libraries
def test_a_constant_factor_is_not_taken_for_a_mask(library: str, steps: bool) -> None:
    setup, code = leaf("[1.0, 0.0]"), "y = 4 * ((1 / x) ** 12 - (1 / x) ** 6)"
    event = run(library, f"{setup}\n{code}\n{BACKWARD}", steps=steps).event
    assert event is not None
    instead = mended(f"{setup}\n{code}", event).splitlines()[1]
    assert all(np.isfinite(each).all() for each in results_of(library, setup, instead)), instead


def test_a_nan_of_an_unknown_origin_is_called_unknown() -> None:
    setup = leaf("[2.0, 1.0]")
    event = run("torch", f"{setup}\ny = (x * torch.tensor(0.0).log_().mul(0)).sum()\n{BACKWARD}").event
    assert event is not None
    assert "no operation of this step made it" not in (event.cause or "")
    assert "is not known" in (event.cause or "")


@libraries
def test_a_single_number_gets_no_remedy_that_drops_samples(library: str) -> None:
    text = f"{leaf('[2.0, 1.0]')}\nd = {{'s': torch.tensor(float('nan'))}}\ny = (x * d['s']).sum()\n{BACKWARD}"
    event = run(library, text).event
    assert event is not None
    assert "isfinite" not in (event.remedy or "")


@libraries
def test_the_bounds_of_a_complex_dtype_are_those_of_its_parts(library: str) -> None:
    single = first_event(library, Fault(leaf("[100 + 0j]", "complex64"), "y = torch.exp(x).abs()"))
    assert "exp overflows above x = 88.7)" in str(single.cause)
    double = assert_held(library, Fault(leaf("[1 + 1j, 800 + 0j]", "complex128"), "y = torch.exp(x).abs()"))
    assert "exp overflows above x = 709.8)" in str(double.cause)
    assert "max=700.0" in str(double.remedy)
    product = first_event(library, Fault(leaf("[1e308 + 0j]", "complex128"), "y = (x * 1e10).abs()"))
    assert "the largest complex128, 1.8e+308: x is 1e+308" in str(product.cause)


def test_squares_that_overflow_in_float64_are_explained() -> None:
    fault = Fault(leaf("[[1e200, 2.0, 3.0]]", "float64"), "y = F.layer_norm(x, (3,))")
    assert "the square is beyond float64" in str(first_event("torch", fault).cause)
    with pytest.warns(AnomalyWarning, match="the square is beyond float64"):
        run("retrograd", f"{fault.setup}\n{fault.code}\n{BACKWARD}")


@libraries
@pytest.mark.parametrize(
    "code",
    [
        "a = torch.tanh(x + torch.randn_like(x))\ny = torch.log(1 - a ** 2)",
        "y = torch.log(1 - torch.tanh(x + torch.randn_like(x)) ** 2)",
        "y = 1 / (0 * x * torch.rand(2))",
    ],
)
def test_the_remedy_does_not_draw_random_numbers_again(library: str, code: str) -> None:
    """Other numbers would change the function, so the remedy has its general form."""
    event = first_event(library, Fault(leaf("[30.0, -30.0]"), code))
    assert event.remedy is not None
    assert "rand" not in event.remedy
    assert event.remedy_lineno is None


@pytest.mark.parametrize("change", ["w.data.log()", "w.data / 0.0"])
def test_the_remedy_assigns_to_no_call(change: str) -> None:
    """The weight is infinite when the step is run again, so that the subtraction itself makes a NaN."""
    text = f"w.data -= {change}\n(w * 2).sum().backward()"
    linecache.cache["<change>"] = (len(text), None, text.splitlines(keepends=True), "<change>")
    w = rg.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as watch:
        for _ in watch.steps([0]):
            exec(compile(text, "<change>", "exec"), {"w": w})
    assert "sub" in {event.op for event in watch.events}
    for event in watch.events:
        compile(event.remedy or "pass", "<remedy>", "exec")
