"""Scores that a mask has made -inf: what their probabilities, logarithms and sums lead to, and what helps."""

from __future__ import annotations

import math

import pytest

from retrograd.anomaly import diagnose
from tests.anomaly.both import line, mended, only_event, run

RUNS = [("torch", False), ("torch", True), ("retrograd", True)]  # retrograd's graph keeps no mask
seen = pytest.mark.parametrize(("library", "steps"), RUNS)


ENTROPY = """
logits = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, 0.25]], requires_grad=True)
scores = logits.masked_fill(torch.tensor([[False, False, True], [False, False, False]]), FILL)
probs = torch.softmax(scores, dim=-1)
entropy = -(probs * torch.log(probs)).sum(-1)  # born here
entropy.sum().backward()
"""


@seen
@pytest.mark.parametrize("fill", ['float("-inf")', '-float("inf")', "-torch.inf"])
def test_the_remedy_gives_the_entropy_of_a_masked_policy(library: str, steps: bool, fill: str) -> None:
    """log_softmax would be -inf as well."""
    text = ENTROPY.replace("FILL", fill)
    event = only_event(run(library, text, steps))
    assert (event.op, event.lineno, event.index) == ("log", line(text), (0, 2))
    assert diagnose(event).number == 4
    assert "0 * -inf is NaN" in (event.cause or "")
    p = [1 / (1 + math.e), math.e / (1 + math.e)]
    expected = -sum(each * math.log(each) for each in p)
    check = (
        f"\nassert abs(entropy[0].item() - {expected}) < 1e-6"
        "\nassert torch.isfinite(logits.grad).all() and logits.grad[0, 2] == 0"
    )
    assert not run(library, mended(text, event) + check).events


@pytest.mark.parametrize("steps", [False, True])
def test_a_large_negative_score_is_not_taken_for_a_mask(steps: bool) -> None:
    text = ENTROPY.replace("FILL", "-1e9")
    event = only_event(run("torch", text, steps))
    assert "log_softmax(scores, dim=-1)" in (event.remedy or "")


CHOSEN = """
logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
probs = torch.softmax(logits.masked_fill(torch.tensor([[False, False, True]]), float("-inf")), dim=-1)
loss = -torch.log(probs).mean()  # born here
loss.backward()
"""


@seen
def test_the_log_of_a_masked_class_that_counts_is_clamped(library: str, steps: bool) -> None:
    """It must not become the log of 1: its probability is none."""
    event = only_event(run(library, CHOSEN, steps))
    assert (event.lineno, event.index) == (line(CHOSEN), (0, 2))
    assert "clamp(probs, min=1e-12)" in (event.remedy or "")
    assert not run(library, mended(CHOSEN, event)).events


BY_HAND = """
q = torch.tensor([[1.0, 2.0], [0.5, 0.25]], requires_grad=True)
scores = (q * 1.0).masked_fill(torch.tensor([[False, True], [True, True]]), float("-inf"))
scores = scores.exp()
attn = scores / scores.sum(-1, keepdim=True)  # born here
(attn * q).sum().backward()
"""


@seen
def test_a_masked_row_in_a_softmax_written_out_becomes_uniform(library: str, steps: bool) -> None:
    event = only_event(run(library, BY_HAND, steps))
    assert (event.op, event.lineno, event.index) == ("div", line(BY_HAND), (1, 0))
    assert diagnose(event).number == 19
    assert event.remedy_lineno == 4
    check = "\nassert attn.tolist() == [[1.0, 0.0], [0.5, 0.5]]\nassert q.grad[1].tolist() == [0.5, 0.5]"
    assert not run(library, mended(BY_HAND, event) + check).events


def test_exponentials_that_underflow_are_not_taken_for_a_masked_row() -> None:
    text = BY_HAND.replace("True, True]])", "False, True]])").replace("[0.5, 0.25]", "[-200.0, 0.25]")
    event = only_event(run("torch", text, steps=True))
    assert diagnose(event).number == 5


LAYER = """
att = nn.MultiheadAttention(4, 2, batch_first=True)
h = torch.randn(2, 3, 4)
pad = torch.tensor([[False, False, True], [True, True, True]])
a, weights = att(h, h, h, key_padding_mask=pad)  # born here
a.sum().backward()
"""


@pytest.mark.parametrize("library", ["torch", "retrograd"])
@pytest.mark.parametrize("steps", [False, True])
def test_the_padding_mask_of_a_layer_is_mended_in_its_call(library: str, steps: bool) -> None:
    """The scores are the layer's, and nothing of the user's can be written about them."""
    event = only_event(run(library, LAYER, steps))
    assert (event.op, event.lineno, diagnose(event).number) == ("softmax", line(LAYER), 19)
    assert "att(h, h, h, key_padding_mask=pad & ~pad.all(-1, keepdim=True))" in (event.remedy or "")
    check = "\nassert weights[0, :, 2].tolist() == [0.0] * 3\nassert torch.isfinite(a).all()"
    assert not run(library, mended(LAYER, event) + check).events


PADDED = """
h = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
padded = torch.full((3, 2), float("-inf"))
padded[:2] = h
loss = (padded @ torch.tensor([[1.0], [-1.0]])).sum()  # born here
loss.backward()
"""


def test_minus_infinity_as_padding_in_a_product_is_explained() -> None:
    event = only_event(run("torch", PADDED, steps=True))
    assert (event.op, event.lineno) == ("matmul", line(PADDED))
    assert "holds -inf" in (event.cause or "") and "inf - inf is NaN" in (event.cause or "")


DETERMINANT = """
K = torch.diag(torch.tensor([1e-30] * 11 + [-1e-30])).requires_grad_()
loss = torch.logdet(K)  # born here
loss.backward()
"""


def test_a_negative_determinant_that_underflows_gets_slogdet() -> None:
    event = only_event(run("torch", DETERMINANT))
    assert (event.op, event.operands) == ("logdet", {"det": 0.0})
    assert diagnose(event).title == "logarithm of a negative determinant"
    check = f"\nassert abs(loss.item() - {12 * math.log(1e-30)}) < 1e-2"
    assert not run("torch", mended(DETERMINANT, event) + check).events


MASKED_POLICY = """
logits = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, 0.25]], requires_grad=True)
mask = torch.tensor([[False, False, True], [False, False, False]])
scores = logits.masked_fill(mask, float("-inf"))
logp = scores.log_softmax(-1)
p = PROBABILITY
PRODUCT  # born here
"""


@pytest.mark.parametrize("library", ["retrograd", "torch"])
@pytest.mark.parametrize("probability", ["logp.exp()", "scores.softmax(-1)"])
@pytest.mark.parametrize(
    "product",
    [
        "(p * logp).sum().backward()",
        "loss = torch.where(mask, 0.0, p * logp).sum(); loss.backward()",
        "loss = (p * logp).nansum(); loss.backward()",
    ],
)
def test_p_log_p_of_a_masked_action_becomes_zero(library: str, probability: str, product: str) -> None:
    """The ``where`` chooses between logarithms and not between products: 0 * -inf would give NaN in the gradient."""
    text = MASKED_POLICY.replace("PROBABILITY", probability).replace("PRODUCT", product)
    event = only_event(run(library, text, True))
    assert (event.lineno, event.index, event.born) == (line(text), (0, 2), "NaN")
    assert "p * log(p) is 0 in the limit" in (event.cause or "")
    assert "p * torch.where(p != 0, logp, 0.0)" in (event.remedy or "").replace("rg.", "torch.")
    assert not run(library, mended(text, event), True).events


def test_an_infinite_factor_in_a_discarded_branch_is_blamed_for_the_gradient() -> None:
    text = (
        "x = torch.tensor([1.0, 2.0], requires_grad=True)\nbound = torch.tensor([3.0, float('inf')])\n"
        "y = (x * 2) * bound  # born here\ntorch.where(bound.isinf(), 0.0, y).sum().backward()"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.index, event.lineno) == ("MulBackward0", (1,), line(text))
    assert "bound is inf" in (event.cause or "")
    assert not run("retrograd", mended(text, event)).events


IN_PLACE = """
logits = torch.tensor([[1.0, 2.0], [0.5, 0.0]], requires_grad=True)
scores = logits.masked_fill(torch.tensor([[True, True], [False, True]]), float("-inf"))
scores -= scores.max(-1, keepdim=True)[0]  # born here
loss = (scores.exp() / scores.exp().sum(-1, keepdim=True))[:, 0].sum()
loss.backward()
"""


@pytest.mark.parametrize("library", ["torch", "retrograd"])
def test_a_largest_score_of_minus_infinity_subtracted_in_place_is_mended(library: str) -> None:
    event = only_event(run(library, IN_PLACE, steps=True))
    assert (event.op, event.lineno, event.index) == ("sub", line(IN_PLACE), (0, 0))
    assert not run(library, mended(IN_PLACE, event) + "\nassert loss.item() == 1.5").events
