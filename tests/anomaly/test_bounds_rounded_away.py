"""A clamp whose bound is nearer to 1 than the numbers of the type are: ``1 - 1e-8`` is 1 in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import diagnose
from tests.anomaly.both import libraries, line, mended, only_event, run, runs

TITLE = "bound of a clamp that is rounded away"
ENTROPY = """
logits = torch.tensor([30.0, 0.5, -2.0], requires_grad=True)
y = torch.tensor([0.0, 1.0, 0.0])
p = torch.sigmoid(logits)
p = torch.clamp(p, 1e-8, 1 - 1e-8)
hits = y * torch.log(p)
misses = (1 - y) * torch.log(1 - p)  # born here
loss = -(hits + misses).mean()
loss.backward()
"""


@libraries
@runs
def test_a_bound_that_rounds_to_1_in_a_cross_entropy_is_replaced(library: str, steps: bool) -> None:
    event = only_event(run(library, ENTROPY, steps))
    assert (event.op, event.index, event.lineno) == ("log", (0,), line(ENTROPY))
    assert diagnose(event).title == TITLE
    assert (event.remedy or "").replace("rg.", "torch.") == "p = torch.clamp(p, 1e-8, 1 - 1e-6)"
    assert not run(library, mended(ENTROPY, event), steps).events


@libraries
@pytest.mark.parametrize(("x", "low"), [("20.0", ""), ("-20.0", "low")])
def test_a_bound_that_rounds_to_either_end_of_an_interval_is_replaced(library: str, x: str, low: str) -> None:
    text = (
        f"x = torch.tensor([0.5, {x}], requires_grad=True)\nlimit = 1e-9\n"
        "y = torch.atanh(torch.tanh(x).clamp(min=limit - 1, max=1 - limit)).sum()  # born here\ny.backward()"
    )
    event = only_event(run(library, text, True))
    assert (event.op, event.index, diagnose(event).title) == ("atanh", (1,), TITLE)
    assert ("-1 + 1e-6" if low else "1 - 1e-6") in (event.remedy or "")
    assert not run(library, mended(text, event), True).events


def test_a_bound_that_rounds_in_bfloat16_is_applied_in_float32() -> None:
    """A bound that bfloat16 has, 0.996, would change every loss."""
    text = ENTROPY.replace("requires_grad=True)", "requires_grad=True, dtype=torch.bfloat16)").replace("30.0", "9.0")
    event = only_event(run("torch", text.replace("1e-8", "1e-4"), True))
    assert diagnose(event).title == TITLE
    assert event.remedy == "p = torch.clamp(p.float(), 1e-4, 1 - 1e-6)"
    assert not run("torch", mended(text.replace("1e-8", "1e-4"), event), True).events


@libraries
def test_a_bound_that_the_dtype_can_represent_is_not_blamed(library: str) -> None:
    text = ENTROPY.replace("1 - 1e-8)", "1.0)")
    assert diagnose(only_event(run(library, text, True))).title != TITLE
    assert not run(library, ENTROPY.replace("1e-8", "1e-7"), True).events


NAMED = """
class RMSNorm(nn.Module):
    def __init__(self, eps=1e-8):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float16, requires_grad=True)
y = RMSNorm()(x)
(y @ torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float16)).float().square().mean().backward()
"""


@libraries
@pytest.mark.parametrize("eps", ["self.eps", "1e-8"])
def test_a_named_eps_that_rounds_to_0_in_float16_is_enlarged(eps: str, library: str) -> None:
    text = NAMED.replace("+ self.eps)", f"+ {eps})")
    event = run(library, text, True).event
    assert event is not None
    assert "the eps of 1e-08 rounds to 0" in (event.cause or "")
    assert event.remedy_lineno == 8
    scope: dict[str, Any] = {"torch": rg if library == "retrograd" else torch}
    scope["nn"] = scope["torch"].nn
    exec(mended(text, event), scope)
    np.testing.assert_allclose(scope["y"].detach().numpy()[1], [0.6325, 1.265], rtol=2e-3)
    assert np.isfinite(scope["x"].grad.numpy()).all()


NORMALISED = """
x = torch.zeros(2, 4, dtype=torch.float16, requires_grad=True)
mean = x.mean(-1, keepdim=True)
variance = (x - mean).pow(2).mean(-1, keepdim=True)
y = (x - mean) / torch.sqrt(variance + 1e-8)  # born here
(y * torch.arange(4).half()).float().square().mean().backward()
"""


@libraries
def test_an_eps_under_the_root_of_a_variance_is_enlarged_once_and_not_too_much(library: str) -> None:
    """Division and root got the same 0; and the quotient by a root of its own variance stays small."""
    event = only_event(run(library, NORMALISED))
    assert (event.lineno, event.also) == (line(NORMALISED), ())
    assert (event.remedy or "").replace("rg.", "torch.").startswith("y = (x - mean) / torch.sqrt(variance + 1e-3)")
    assert not run(library, mended(NORMALISED, event)).events
