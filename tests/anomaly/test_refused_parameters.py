"""Finite parameters that a distribution refuses: where they were made is named, with either library."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import NaNEvent, Watch, diagnose, watch
from retrograd.anomaly.messages import outcome_of
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, line, mended


@dataclass(frozen=True)
class Found:
    """A program, and what is to be told of it: ``remedy`` is a part of the line to write."""

    verdict: str
    kind: str
    operands: dict[str, float]
    remedy: str
    text: str


SETUP = """\
D = torch.distributions
log_std = torch.tensor([0.0, -200.0], requires_grad=True)
sigma = torch.tensor([1.0, -0.25], requires_grad=True)
raw = torch.tensor([[0.5, -300.0], [0.5, 1.0]], requires_grad=True)
rows = torch.tensor([[1.0, 2.0], [1.0, 2.0]], requires_grad=True)
"""

PROGRAMS = {
    "exp": Found("scale = 0 of Normal, made by exp", "underflow", {"input": -200.0},
        "clamp(min=-20.0).exp()", """\
std = log_std.exp()  # born here
dist = D.Normal(torch.zeros(3, 2), std)
loss = -dist.log_prob(torch.ones(3, 2)).mean()
"""),
    "broadcast": Found("scale = 0 of Normal, made by mul", "error", {"input": 1.0, "other": 0.0},
        "torch.ones(3, 2) * log_std.clamp(min=-20.0).exp()", """\
std = torch.ones(3, 2) * log_std.exp()  # born here
dist = D.Normal(torch.zeros(3, 2), std)
loss = -dist.log_prob(torch.ones(3, 2)).mean()
"""),
    "keyword": Found("rate = 0 of Exponential, made by exp", "underflow", {"input": -300.0},
        "clamp(z, min=-20.0)", """\
_, z = raw.unbind(1)
dist = D.Exponential(rate=torch.exp(z))  # born here
loss = -dist.log_prob(torch.ones(2)).mean()
"""),
    "softplus": Found("scale = 0 of Laplace, made by softplus", "underflow", {"input": -300.0},
        "softplus(raw) + 1e-6", """\
scale = F.softplus(raw)  # born here
loss = -D.Laplace(0.0, scale).log_prob(torch.ones(2, 2)).mean()
"""),
    "relu": Found("concentration = 0 of Gamma, made by relu", "error", {"input": -300.0},
        "softplus(raw) + 1e-6", """\
shape = torch.relu(raw)  # born here
loss = -D.Gamma(shape, 1.0).log_prob(torch.ones(2, 2)).mean()
"""),
    "no sign": Found("scale = -299 of Normal, made by add", "error", {"input": -300.0},
        "softplus(scale) + 1e-6", """\
scale = raw + 1  # born here
loss = -D.Normal(0.0, scale).log_prob(torch.ones(2, 2)).mean()
"""),
    "parameter": Found("scale = -0.25 of Normal, the parameter sigma", "error", {"sigma": -0.25},
        "clamp(sigma, min=1e-6)", """\
dist = D.Normal(torch.zeros(2), sigma)  # born here
loss = -dist.log_prob(torch.ones(2)).mean()
"""),
    "probability": Found("probs = -299.5 of Bernoulli, made by sub", "error", {"input": -300.0},
        "sigmoid(p)", """\
p = raw - -0.5  # born here
loss = -D.Bernoulli(p).log_prob(torch.ones(2, 2)).mean()
"""),
    "probabilities": Found("probs of Categorical, made by div", "error", {},
        "Categorical(torch.softmax(raw, -1))", """\
loss = -D.Categorical(raw).log_prob(torch.tensor([0, 1])).mean()  # born here
"""),
    "rounding": Found("probs = 1.00001 of Bernoulli, made by add", "error", {"input": 0.5},
        "clamp(p, min=0, max=1)", """\
p = raw[:, 0] + 0.50001  # born here
loss = -D.Bernoulli(p).log_prob(torch.ones(2)).mean()
"""),
    "matrix": Found("covariance_matrix of MultivariateNormal, made by matmul", "error", {},
        "cov + 1e-4 * ", """\
cov = rows @ rows.T  # born here
loss = -D.MultivariateNormal(torch.zeros(2), cov).log_prob(torch.ones(2)).mean()
"""),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _arguments_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the checks on, because other libraries turn them off when they are imported."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)


def refused(library: str, text: str) -> tuple[Watch, BaseException | None, Any]:
    """The watch that has seen a program, the error that has ended it, and its loss."""
    module: Any = rg if library == "retrograd" else torch
    filename = f"<refused {hash((library, text))}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    error = None
    w = watch()
    try:
        with w:
            exec(compile(text, filename, "exec"), names)
    except ValueError as raised:
        error = raised
    return w, error, names.get("loss")


@libraries
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_that_made_a_refused_parameter_is_named_and_mended(name: str, library: str) -> None:
    found = PROGRAMS[name]
    text = SETUP + found.text
    w, error, _ = refused(library, text)
    event = w.event
    assert error is not None
    assert event is not None
    assert str(event).startswith(found.verdict)
    assert found.verdict in format_event(event)
    assert (event.kind, event.lineno) == (found.kind, line(text))
    assert {key: event.operands[key] for key in found.operands} == pytest.approx(found.operands)
    assert event.harmed == "an argument of the call that raised ValueError"
    assert outcome_of("", event, "explain") == "the error was passed on"
    assert found.verdict in error.__notes__[0]
    assert found.remedy in (event.remedy or "")
    assert diagnose(event).remedy == event.remedy
    assert NaNEvent.from_json(event.to_json()) == event
    _, again, loss = refused(library, mended(text, event))
    assert again is None
    assert bool(torch.isfinite(torch.as_tensor(loss.item())))


@libraries
def test_a_parameter_without_a_remedy_is_reported_with_its_constraint(library: str) -> None:
    text = SETUP + "low = rows.tril() - 1.5  # born here\ndist = D.MultivariateNormal(torch.zeros(2), scale_tril=low)"
    event = refused(library, text)[0].event
    assert event is not None
    assert (event.kind, event.lineno, event.remedy) == ("error", line(text), None)
    assert event.cause == "scale_tril of MultivariateNormal must satisfy LowerCholesky()."


@libraries
def test_the_element_is_that_of_the_refused_parameter(library: str) -> None:
    w, _, _ = refused(library, SETUP + PROGRAMS["exp"].text)
    assert w.event is not None
    assert w.event.index == (1,)


def test_a_requested_underflow_is_called_underflow() -> None:
    x = rg.tensor([-200.0, 1.0], requires_grad=True)
    with watch(policy={"underflow": "record"}) as w:
        x.exp().sum().backward()
    assert w.event is not None
    assert str(w.event).startswith("underflow in exp")
    assert "rounds it to 0" in (w.event.cause or "")
