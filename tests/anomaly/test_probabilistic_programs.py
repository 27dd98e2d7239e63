"""Births inside of distributions and flows: the remedy cures the program, with either library."""

from __future__ import annotations

import pytest

from tests.anomaly.both import libraries, line, mended, only_event, run, runs

SQUASHED = """
mean = torch.tensor([30.0, -30.0, 0.1], requires_grad=True)
base = torch.distributions.Normal(mean, torch.ones(3))
policy = torch.distributions.TransformedDistribution(base, [torch.distributions.transforms.TanhTransform()])
action = policy.rsample()
logp = policy.log_prob(action).sum(-1)  # born here
logp.backward()
"""


@libraries
@runs
def test_the_log_prob_of_a_squashed_action_is_mended_by_a_cache(library: str, steps: bool) -> None:
    event = only_event(run(library, SQUASHED, steps))
    assert (event.op, event.lineno) == ("atanh", line(SQUASHED))
    assert "cache_size=1" in (event.cause or "")
    assert not run(library, mended(SQUASHED, event), steps).events
    assert not run(library, SQUASHED.replace("TanhTransform()", "TanhTransform(cache_size=1)"), steps).events


COUPLINGS = """
class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(1, 2)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        s = s.abs() * 1000 + 200
        b = b * torch.exp(s) + t  # born here
        return torch.cat([b, a], -1), s.sum(-1)

layers = [Coupling() for _ in range(4)]
z = torch.ones(3, 2)
for layer in layers:
    z, _ = layer(z)
base = torch.distributions.Normal(0.0, 1.0, validate_args=False)
loss = -base.log_prob(z).sum(-1).mean()
loss.backward()
"""


@libraries
@runs
def test_scales_that_multiply_over_layers_are_bounded(library: str, steps: bool) -> None:
    event = only_event(run(library, COUPLINGS, steps))
    assert (event.op, event.lineno) == ("exp", line(COUPLINGS))
    assert "factors multiply" in (event.cause or "")
    assert not run(library, mended(COUPLINGS, event), steps).events


@pytest.mark.parametrize(
    ("text", "op"), [("(x - x) / scale", "div"), ("torch.log(x - 2.0)", "log"), ("torch.sinc(x / scale)", "leaf")]
)
def test_an_argument_without_a_name_is_shown_as_it_is_written(text: str, op: str) -> None:
    program = f"""
net = nn.Linear(2, 1)
x, scale = torch.ones(3, 2), torch.zeros(3, 1)
loss = net({text}).sum()
loss.backward()
"""
    event = only_event(run("torch", program))
    assert (event.op, event.lineno) == (op, 4)
    if op == "leaf":  # what is not computed again
        assert f"({text})" in (event.cause or "")
    else:
        assert (event.code_line or "")[event.col : event.end_col] == text
