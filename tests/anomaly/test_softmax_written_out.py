"""Softmax and its logarithm as users write them out: what is picked from the exponentials stays picked."""

from __future__ import annotations

import numpy as np
import pytest

from tests.anomaly.both import executed, libraries, line, mended, only_event, run

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


GROUPS = """
z = torch.tensor([[{}, 1.0], [2.0, 3.0], [0.5, 0.2], [-1.0, 2.0]], requires_grad=True)
weights = torch.tensor([[1.0, 2.0], [3.0, -1.0], [2.0, 0.5], [1.0, 1.0]])
index = torch.tensor([0, 1, 1, 0])
scores = 2 * z
{}
loss = (p * weights).sum()
loss.backward()
"""
OVER_GROUPS = {
    "added by index": ("e = torch.exp(scores)\ntotal = torch.zeros(2, 2).index_add(0, index, e)\np = e / total[index]"),
    "with a small number": (
        "e = scores.exp()\ntotal = torch.zeros(2, 2).index_add(0, index, e)\np = e / (total[index] + 1e-16)"
    ),
    "scattered": (
        "e = torch.exp(scores)\nwhere = index.reshape(-1, 1).expand(4, 2)\n"
        "total = torch.zeros(2, 2).scatter_add(0, where, e)\np = e / total.index_select(0, index)"
    ),
}


@pytest.mark.parametrize("name", OVER_GROUPS)
def test_a_softmax_over_groups_subtracts_the_largest_of_each(name: str) -> None:
    """A bound would make all large scores of a group equal."""
    text = GROUPS.format(200.0, OVER_GROUPS[name])
    event = only_event(run("torch", text))
    assert event.op == "exp"
    cured = mended(text, event)
    assert not run("torch", cured).events
    exact = executed(
        "torch", text.replace("scores = 2 * z", "scores = 2 * z.double()").replace("2, 2)", "2, 2).double()")
    )
    np.testing.assert_allclose(executed("torch", cured)["p"].detach(), exact["p"].detach(), atol=1e-6)
    well = GROUPS.format(2.0, OVER_GROUPS[name])
    instead = well.splitlines()
    number = (event.remedy_lineno or 0) - 1
    instead[number] = cured.splitlines()[number]
    before, after = executed("torch", well), executed("torch", "\n".join(instead))
    for value in ("p", "z"):
        one, other = (each[value].grad if value == "z" else each[value].detach() for each in (before, after))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


CONTRASTS = {
    "diagonals": "pos = torch.cat([e.diagonal(2), e.diagonal(-2)])\nneg = (e * mask).sum(1)",
    "selected": "pos = torch.cat([e[:2, 2:].diagonal(), e[2:, :2].diagonal()])\nneg = e[mask].view(4, 3).sum(1)",
    "filled": "pos = torch.cat([e.diagonal(2), e.diagonal(-2)])\nneg = e.masked_fill(~mask, 0).sum(dim=1)",
}


@pytest.mark.parametrize("name", CONTRASTS)
@libraries
def test_a_contrastive_loss_over_several_lines_is_taken_in_log_space(library: str, name: str) -> None:
    """A bound below the exponential would make all close pairs equal."""
    text = (
        "x = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-0.6, 0.8]], requires_grad=True)\n"
        "mask = torch.eye(4) == 0\ns = x @ x.T / {}\ne = torch.exp(s)\n"
        f"{CONTRASTS[name]}\nloss = -torch.log(pos / neg).mean()\nloss.backward()"
    )
    failing, well = text.format(0.005), text.format(0.5)
    event = only_event(run(library, failing))
    assert not run(library, mended(failing, event)).events
    instead = well.splitlines()
    number = (event.remedy_lineno or 0) - 1
    instead[number] = mended(failing, event).splitlines()[number]
    before, after = executed(library, well), executed(library, "\n".join(instead))
    np.testing.assert_allclose(after["loss"].item(), before["loss"].item(), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(after["x"].grad), np.asarray(before["x"].grad), rtol=1e-4, atol=1e-6)
