"""Normalisations whose variance overflows in silence, and running statistics that cannot be."""

from __future__ import annotations

import warnings

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyWarning, diagnose
from tests.anomaly.both import libraries, line, mended, only_event, run, runs
from tests.anomaly.disguises import HERE

SILENT = {
    "layer_norm": "x = torch.full((2, 3), 3e30, requires_grad=True)\nh = x * torch.tensor([1.0, 2.0, 3.0])\n"
    "y = F.layer_norm(h, (3,))",
    "rms_norm": "x = torch.full((2, 3), 3e30, requires_grad=True)\ny = F.rms_norm(x, (3,))",
    "batch_norm": "x = torch.randn(4, 3).mul(1e30).requires_grad_()\ny = nn.BatchNorm1d(3)(x)",
    "group_norm": "x = torch.randn(2, 4, 5).mul(1e30).requires_grad_()\ny = F.group_norm(x, 2)",
    "instance_norm": "x = torch.randn(2, 4, 5).mul(1e30).requires_grad_()\ny = F.instance_norm(x)",
}
LINE = {"layer_norm": 3}


@runs
@pytest.mark.parametrize("name", SILENT)
def test_a_variance_that_overflows_is_an_event_if_the_policy_asks_for_it(name: str, steps: bool) -> None:
    text = f"{SILENT[name]}\nassert not y.detach().any()\ny.square().sum().backward()"
    event = only_event(run("retrograd", text, steps, policy={"overflow": "record"}))
    found = diagnose(event)
    assert (event.kind, event.lineno, event.harmed) == ("overflow", LINE.get(name, 2), None)
    assert event.op == ("batch_norm" if name == "instance_norm" else name)
    assert (found.number, found.title) == (52, "normalisation of numbers whose squares overflow")
    assert "training stalls" in found.cause


@pytest.mark.parametrize("name", SILENT)
def test_a_variance_that_overflows_warns_once_without_a_policy(name: str) -> None:
    text = f"for _ in range(3):\n    {SILENT[name]}\n    y.square().sum().backward()".replace("\n", "\n    ")
    text = text.replace("\n        ", "\n    ")
    with pytest.warns(AnomalyWarning, match="training stalls") as told:
        w = run("retrograd", text, policy="raise")
    assert len(told) == 1
    assert "This warning is shown once" in str(told[0].message)
    assert not w.triggered


BY_HAND = """
x = torch.full((2, 4), 300.0, dtype=torch.float16, requires_grad=True)
for _ in range(3):
    (x * {}).square().sum().backward()
"""


@pytest.mark.parametrize(
    "spread",
    [
        "torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-4)",
        "1 / torch.sqrt(x.pow(2).sum(-1, keepdim=True))",
        "1 / (x.square().mean(-1, keepdim=True).sqrt() + 1e-4)",
    ],
)
def test_a_normalisation_written_out_that_gives_zeros_warns_once(spread: str) -> None:
    with pytest.warns(AnomalyWarning, match="training stalls") as told:
        w = run("retrograd", BY_HAND.format(spread), policy="raise")
    assert len(told) == 1
    assert "float()" in str(told[0].message)
    assert not w.triggered


@pytest.mark.parametrize("bounded", ["1 / (1 + x * x)", "torch.exp(-(x * x).sum())"])
def test_a_bounded_infinity_is_not_taken_for_a_normalisation(bounded: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not run("retrograd", BY_HAND.format(bounded), policy="raise").triggered


def test_no_warning_is_given_if_overflow_is_ignored_or_expected() -> None:
    text = f"{SILENT['layer_norm']}\ny.sum().backward()"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ignored = run("retrograd", text, policy={"overflow": "ignore"})
        with rg.anomaly.expect_nonfinite("the inputs are meant to be that large"):
            expected = run("retrograd", text)
    assert (ignored.step, ignored.events) == (expected.step, expected.events) == (1, ())


def test_other_overflows_without_harm_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = run("retrograd", "x = torch.full((2,), 3e30, requires_grad=True)\n(1 / (x * x)).sum().backward()")
    assert (w.step, w.events) == (1, ())


@libraries
@runs
def test_a_negative_running_variance_is_reset(library: str, steps: bool) -> None:
    text = """
net = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4))
state = net.state_dict()
state["1.running_var"] = state["1.running_var"] - torch.tensor([0.0, 0.5, 3.0, 4.0])
net.load_state_dict(state)
net.eval()
net(torch.randn(2, 1, 4, 4)).sum().backward()
"""
    event = only_event(run(library, text, steps))
    assert (event.op, event.index, event.layer_name) == ("batch_norm", (0, 2, 0, 0), "1")
    assert event.operands.get("running_var", event.operands.get("var")) == -2.0
    assert "running_var[2] is -2" in (event.cause or "")
    assert event.remedy == 'net.get_submodule("1").reset_running_stats()'


@libraries
def test_a_negative_variance_of_the_program_is_named(library: str) -> None:
    text = """
x = torch.randn(2, 3, requires_grad=True)
mean, spread = torch.zeros(3), torch.tensor([1.0, -1.0, 1.0])
F.batch_norm(x, mean, spread).sum().backward()
"""
    event = only_event(run(library, text))
    assert (event.op, event.index, diagnose(event).title) == ("batch_norm", (0, 1), "running variance that is negative")
    assert "spread[1] is -1" in (event.cause or "")
    assert (event.remedy or "").startswith("spread = ")


LOG_OF_SILENCE = f"""
torch.manual_seed(0)
net = nn.Sequential(nn.LayerNorm(4), nn.BatchNorm1d(4), nn.Linear(4, 1))
spectrum = torch.rand(6, 4)
spectrum[1] = 0.0  # the logarithm is -inf there, as a mask is, and the averages of the batch become NaN
heard = torch.log(spectrum)  {HERE}
rows = heard.unsqueeze(1).squeeze(1)
loss = (net(rows) + rows[:, :1]).pow(2).mean()
loss.backward()
"""


@libraries
def test_a_logarithm_of_zero_is_blamed_and_not_the_averages_that_it_spoilt(library: str) -> None:
    event = only_event(run(library, LOG_OF_SILENCE))
    assert (event.op, event.index, event.lineno) == ("log", (1, 0), line(LOG_OF_SILENCE))
    assert not run(library, mended(LOG_OF_SILENCE, event)).events
