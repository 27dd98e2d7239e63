"""Softmax and its logarithm as users write them out: what is picked from the exponentials stays picked."""

from __future__ import annotations

import pytest

from tests.anomaly.both import libraries, line, mended, only_event, run

SETUP = """
z = torch.tensor([[0.5, 0.25, {}], [1.0, 2.0, 3.0]], requires_grad=True)
y, i = torch.tensor([2, 0]), torch.arange(2)
{}
loss.backward()
"""
LOGARITHMS = {
    "loss = -torch.log(torch.exp(z)[i, y] / torch.exp(z).sum(1)).mean()  # born here": "log_softmax(z, dim=1)[i, y]",
    "loss = -(z.exp()[i, y] / torch.sum(z.exp(), dim=-1)).log().mean()  # born here": "log_softmax(z, dim=-1)[i, y]",
    "loss = -torch.log(z.exp().gather(1, y[:, None]).squeeze(1) / z.exp().sum(1)).sum()  # born here": (
        "log_softmax(z, dim=1).gather(1, y[:, None]).squeeze(1)"
    ),
    "picked = z[i, y]\nloss = -torch.log(torch.exp(picked) / torch.exp(z).sum(1)).mean()  # born here": (
        "-(picked - torch.logsumexp(z, dim=1)).mean()"
    ),
    "loss = -torch.log(torch.exp(z[i, y]) / torch.exp(z).sum(1)).mean()  # born here": (
        "-(z[i, y] - torch.logsumexp(z, dim=1)).mean()"
    ),
    "loss = -torch.log(torch.exp(z) / torch.exp(z).sum())[i, y].mean()  # born here": (
        "-(z - torch.logsumexp(z, dim=(0, 1)))[i, y].mean()"
    ),
}


@pytest.mark.parametrize("logit", [-200.0, 200.0])
@pytest.mark.parametrize("text", LOGARITHMS)
@libraries
def test_the_logarithm_of_a_picked_probability_is_exact(library: str, text: str, logit: float) -> None:
    program = SETUP.format(logit, text)
    event = only_event(run(library, program))
    assert event.lineno == line(program)
    assert LOGARITHMS[text] in (event.remedy or "").replace("rg.", "torch.")
    after = run(library, f"{mended(program, event)}\nassert torch.isfinite(loss) and loss > {logit} - 201")
    assert not after.events


QUOTIENTS = {
    "p = torch.exp(z)[i, y] / torch.exp(z).sum(1)  # born here": "p = torch.softmax(z, dim=1)[i, y]",
    "p = (z.exp() / z.exp().sum(1, keepdim=True))[i, y]  # born here": "p = torch.softmax(z, dim=1)[i, y]",
    "p = torch.exp(z[i])[i, y] / torch.exp(z).sum(1)  # born here": None,
}


@pytest.mark.parametrize("text", QUOTIENTS)
@libraries
def test_a_picked_probability_becomes_a_picked_softmax(library: str, text: str) -> None:
    program = SETUP.format(200.0, f"{text}\nloss = (1 - p).sum()")
    event = only_event(run(library, program))
    remedy = (event.remedy or "").replace("rg.", "torch.")
    if QUOTIENTS[text] is None:  # not known to be of the same logits
        assert "softmax" not in remedy
        return
    assert remedy.partition("  #")[0] == QUOTIENTS[text]
    assert not run(library, f"{mended(program, event)}\nassert p.shape == (2,) and p[0] == 1 and p[1] < 0.5").events


@libraries
def test_a_quotient_written_in_place(library: str) -> None:
    """The exponential stands in another line, and the sum is over all of them."""
    text = """
x = torch.tensor([[250.0, 1.0], [3.0, 2.0]], requires_grad=True)
scores = x.detach()
q = torch.exp(scores / 1.0).t()  # born here
total = torch.sum(q)
q /= total
loss = -(q.t() * torch.log_softmax(x, 1)).sum()
loss.backward()
"""
    event = only_event(run(library, text, True))
    assert (event.op, event.lineno, event.remedy_lineno) == ("exp", line(text), line(text))
    assert not run(library, mended(text, event), True).events
