"""Vectors whose squares underflow, quantiles at 0 and 1, an eps in a lambda, and what is written to parts."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import NaNEvent, diagnose
from retrograd.anomaly.report import format_event
from tests.anomaly.both import executed, libraries, mended, only_event, run

BACKWARD = "\ny.sum().backward()"


def leaf(numbers: str, name: str = "x") -> str:
    return f"{name} = torch.tensor({numbers}, dtype=torch.float32, requires_grad=True)\n"


def results(library: str, text: str, dtype: str = "float32") -> list[np.ndarray]:
    scope = executed(library, text.replace("float32", dtype))
    leaves = [scope[name] for name in ("x", "z") if name in scope and scope[name].requires_grad]
    return [np.asarray(each.detach().numpy()) for each in (scope["y"], *(leaf.grad for leaf in leaves if leaf.is_leaf))]


def event_of(library: str, text: str) -> NaNEvent:
    return only_event(run(library, text + BACKWARD, steps=True))


TINY = leaf("[[1e-25, 2e-25], [1.0, 2.0]]")
OTHER = leaf("[[1e-25, 1e-25], [1.0, 1.0]]", "z")


@libraries
@pytest.mark.parametrize(
    "text",
    [
        TINY + "y = x / torch.sqrt((x ** 2).sum(-1, keepdim=True))",
        TINY + "y = x / (x * x).sum(-1, keepdim=True).sqrt()",
        TINY + "n = (x ** 2).sum(-1, keepdim=True) ** 0.5\ny = x / n",
        TINY + "y = x / x.norm(dim=-1, keepdim=True)",
        TINY + "y = x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)",
        TINY + "y = torch.sqrt((x ** 2).sum(-1))",
        TINY + OTHER + "y = (x * z).sum(-1) / torch.sqrt((x ** 2).sum(-1) * (z ** 2).sum(-1))",
        TINY + OTHER + "y = (x * z).sum(-1) / (torch.sqrt((x ** 2).sum(-1)) * torch.sqrt((z ** 2).sum(-1)))",
        TINY + OTHER + "y = (x * z).sum(-1) / (x.norm(dim=-1) * z.norm(dim=-1))",
    ],
)
def test_the_remedy_for_tiny_vectors_is_exact(text: str, library: str) -> None:
    """Such vectors are not zero: they have a direction and a length."""
    event = event_of(library, text)
    assert "1e-25 underflow to 0 in float32" in (event.cause or "")
    for one, other in zip(
        results(library, mended(text + BACKWARD, event)), results("torch", text + BACKWARD, "float64"), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@libraries
def test_a_vector_of_zeros_gets_no_remedy_in_float64(library: str) -> None:
    event = event_of(library, leaf("[[0.0, 0.0], [1.0, 2.0]]") + "y = x / x.norm(dim=-1, keepdim=True)")
    assert "all zeros" in (event.cause or "")
    assert "double" not in (event.remedy or "")


@libraries
@pytest.mark.parametrize("numbers", ["[0.0, 0.5]", "[1.0, 0.5]", "[-1e-4, 0.5]"])
def test_a_quantile_at_0_or_1_is_clamped(numbers: str, library: str) -> None:
    text = leaf(numbers) + "y = torch.special.ndtri(x)"
    event = event_of(library, text)
    assert "not in the catalogue" not in (event.cause or "")
    value, gradient = results(library, mended(text + BACKWARD, event))
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose((value[1], gradient[1]), (0.0, 2.5066283), atol=1e-6)


@libraries
@pytest.mark.parametrize("formula", ["1 / (x + eps)", "torch.log(x + eps)", "torch.rsqrt(eps + x)"])
@pytest.mark.parametrize("parameters", ["x, eps=0.0", "x, *, eps=0"])
def test_the_default_eps_of_a_lambda_is_changed(parameters: str, formula: str, library: str) -> None:
    """A statement before the line would set another variable."""
    text = leaf("[0.0, 2.0]") + f"f = lambda {parameters}: {formula}\ny = f(x)"
    event = event_of(library, text)
    assert event.remedy == f"f = lambda {parameters.rpartition('=')[0]}=1e-5: {formula}"
    assert all(np.isfinite(each).all() for each in results(library, mended(text + BACKWARD, event)))


@libraries
def test_an_eps_that_a_lambda_is_given_is_changed_in_general_form(library: str) -> None:
    event = event_of(library, leaf("[0.0, 2.0]") + "f = lambda x, eps: 1 / (x + eps)\ny = f(x, 0.0)")
    assert (event.remedy, event.remedy_lineno) == ("eps = 1e-5", None)


@libraries
def test_an_infinity_written_after_a_condition_is_named(library: str) -> None:
    text = leaf("[1.0, 2.0]") + "m = x > 1.5\nh = x * 2\nif True: h[m] = float('inf')\ny = h * 3"
    event = event_of(library, text)
    assert "This line itself writes Inf (float('inf'))" in (event.cause or "")


@libraries
@pytest.mark.parametrize("place", ["h[0:2]", "h[[0, 1]]"])
def test_data_written_to_a_part_gets_no_remedy_that_drops_samples(place: str, library: str) -> None:
    text = (
        leaf("[1.0, 2.0, 3.0]") + f"d = torch.tensor([1.0, float('nan')])\nh = torch.zeros(3)\n{place} = d\ny = x * h"
    )
    event = event_of(library, text)
    assert diagnose(event).number == 48
    assert event.remedy is None
    assert "d is written to a part of another tensor" in (event.cause or "")


STATEMENT = """p = torch.softmax(
    torch.stack([x * 300, x]),  # "scores" # of two
    dim=0,
)
y = torch.log(
    # of the probability
    p,
)  # the end
"""


@libraries
def test_a_statement_of_several_lines_is_replaced_as_a_whole(library: str) -> None:
    event = event_of(library, leaf("[0.0, 2.0]") + STATEMENT)
    assert "Change lines 6 to 9 as above" in " ".join(format_event(event).split())
    lines = (leaf("[0.0, 2.0]") + STATEMENT).splitlines()
    lines[5:9] = [(event.remedy or "").replace("rg.", "torch.")]
    assert all(np.isfinite(each).all() for each in results(library, "\n".join(lines) + BACKWARD))


@libraries
def test_a_statement_with_a_chain_of_calls_is_replaced_as_a_whole(library: str) -> None:
    text = (
        leaf("[[0.0, 0.0], [1.0, 2.0]]")
        + "n = torch.sqrt(\n    (x ** 2)  # a square\n    .sum(-1, keepdim=True)\n)\ny = x / n"
    )
    event = event_of(library, text)
    assert event.remedy_lineno == 2
    assert "Change lines 2 to 5 as above" in " ".join(format_event(event).split())
    lines = text.splitlines()
    lines[1:5] = [(event.remedy or "").replace("rg.", "torch.")]
    assert all(np.isfinite(each).all() for each in results(library, "\n".join(lines) + BACKWARD))


@pytest.mark.parametrize("change", ["w.data.log()", "w.data / 0.0", "torch.log(w.data)"])
def test_an_infinite_weight_minus_infinity_is_explained(change: str) -> None:
    """It is so when the step is run again; no bound on what is subtracted makes sense of that."""
    text = f"w.data -= {change}\n(w * 2).sum().backward()"
    linecache.cache["<infinite>"] = (len(text), None, text.splitlines(keepends=True), "<infinite>")
    w = rg.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as watch:
        for _ in watch.steps([0]):
            exec(compile(text, "<infinite>", "exec"), {"w": w, "torch": rg})
    found = next(event for event in watch.events if event.op == "sub")
    assert found.remedy is None
    assert "w.data is infinite at this element before the line changes it" in (found.cause or "")
