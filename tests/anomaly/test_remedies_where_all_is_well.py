"""A pasted remedy changes nothing where all is well, and where the fault was it has the limit of the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.anomaly.both import executed, libraries, mended, run, runs


def program(code: str, numbers: str, mask: str = "[0.0, 0.0]") -> str:
    """A program that computes ``y`` of ``x`` and a mask ``m``."""
    return f"x = torch.tensor({numbers}, requires_grad=True)\nm = torch.tensor({mask})\n{code}\ny.sum().backward()"


def computed(text: str, library: str) -> tuple[np.ndarray, np.ndarray]:
    """The value and the gradient that a program computes."""
    scope = executed(library, text)
    return scope["y"].detach().numpy(), scope["x"].grad.numpy()


HARMONIC = "y = 2 / (1 / x).sum()"
PARALLEL = "y = 1.0 / (1.0 / x[0] + 1.0 / x[1])"
DENSITY = "y = torch.exp(-torch.ones(2) ** 2 / (2 * x ** 2)) / x"
MASKED = "y = (x * m).sum() * (1 / m.sum())"
MASKED_POWER = "y = (x * m).sum() * m.sum() ** -1"
HEALTHY = ["[1.0, -1.0]", "[2.0, 2.0]", "[0.0, 0.0]", "[0.0, 1.0]", "[0.25, -3.0]"]


def event_of(text: str, library: str, steps: bool) -> Any:
    event = run(library, text, steps).event
    assert event is not None
    assert event.remedy is not None, event.cause
    return event


@runs
@libraries
@pytest.mark.parametrize("code", [MASKED, MASKED_POWER])
def test_the_remedy_of_a_zero_sum_of_a_mask_keeps_other_zero_sums(code: str, library: str, steps: bool) -> None:
    event = event_of(program(code, "[1.0, 2.0]"), library, steps)
    value, gradient = computed(mended(program(code, "[1.0, 2.0]"), event), library)
    np.testing.assert_array_equal([value, *gradient], 0)
    for numbers in HEALTHY:
        text = program(code, numbers, "[1.0, 1.0]")
        for one, other in zip(computed(mended(text, event), library), computed(text, library), strict=True):
            np.testing.assert_allclose(one, other)


LIMITS = {
    "harmonic mean": (HARMONIC, "[0.0, 2.0]", 0.0, [2.0, 0.0]),
    "parallel resistors": (PARALLEL, "[0.0, 4.0]", 0.0, [1.0, 0.0]),
    "density": (DENSITY, "[0.0, 1.0]", [0.0, np.exp(-0.5)], [0.0, 0.0]),
}


@runs
@libraries
@pytest.mark.parametrize("name", LIMITS)
def test_a_formula_with_a_finite_limit_keeps_it(name: str, library: str, steps: bool) -> None:
    code, numbers, value, gradient = LIMITS[name]
    text = program(code, numbers)
    event = event_of(text, library, steps)
    found = computed(mended(text, event), library)
    np.testing.assert_allclose(found[0], value, atol=1e-6)
    np.testing.assert_allclose(found[1], gradient, atol=1e-6)
    for healthy in ("[1.0, -2.0]", "[2.0, 2.0]", "[0.25, 0.5]"):
        text = program(code, healthy)
        for one, other in zip(computed(mended(text, event), library), computed(text, library), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


DISTANCES = """
c = torch.tensor([[0.0, 1.0], [2.0, 0.5], [1.0, 1.5]])
pos = c * x.detach() + 0.1 * x
d = pos[None] - pos[:, None]
r = torch.sqrt((d ** 2).sum(-1))
inv = 1.0 / r ** 3 * (1 - torch.eye(3))
y = d * inv[..., None]
"""


@runs
@libraries
def test_the_power_of_a_zero_distance_is_mended_under_the_root(library: str, steps: bool) -> None:
    """A number in the place of the power would leave the root its infinite derivative."""
    text = program(DISTANCES, "[1.0, 2.0]")
    event = event_of(text, library, steps)
    assert event.remedy_lineno == 7
    value, gradient = computed(mended(text, event), library)
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    off = computed(mended(text, event).replace("y.sum()", "y[0, 1].sum()"), library)[1]
    alone = text.replace("(1 - torch.eye(3))", "1").replace(".sum(-1))", ".sum(-1) + torch.eye(3))")
    np.testing.assert_allclose(off, computed(alone.replace("y.sum()", "y[0, 1].sum()"), library)[1], rtol=1e-4)


LARGE = {
    "pseudo-Huber": ("y = torch.sqrt(1 + x ** 2) - 1", "[1e20, 0.5]", [1e20, np.hypot(1, 0.5) - 1]),
    "root with a number": ("y = (x * x + 3).sqrt()", "[1e20, 1.0]", [1e20, 2.0]),
    "norm of a high order": ("y = (x ** 30).sum() ** (1 / 30)", "[20.0, 50.0]", 50.0),
    "norm of the third order": ("y = 2 * (x.abs() ** 3).sum() ** (1 / 3)", "[-3e13, 4e13]", 2 * 91 ** (1 / 3) * 1e13),
}


@runs
@libraries
@pytest.mark.parametrize("name", LARGE)
def test_a_root_whose_square_overflows_is_computed_in_range(name: str, library: str, steps: bool) -> None:
    code, numbers, value = LARGE[name]
    text = program(code, numbers)
    event = event_of(text, library, steps)
    found = computed(mended(text, event), library)
    np.testing.assert_allclose(found[0], value, rtol=1e-5)
    assert np.isfinite(found[1]).all()
    for healthy in ("[1.0, -2.0]", "[2.0, 2.0]", "[0.0, 0.5]"):
        text = program(code, healthy)
        for one, other in zip(computed(mended(text, event), library), computed(text, library), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
