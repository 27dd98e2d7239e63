"""Operands that nothing has kept: what is said of them is what can be known, and no more."""

from __future__ import annotations

import pytest

from retrograd.anomaly import diagnose
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, line, only_event, run

LEAF = "x = torch.tensor([1.0, 2.0], requires_grad=True)\n"


def test_a_difference_with_a_bad_operand_only_passes_it_on() -> None:
    """log1p(bad) is computed without a gradient; all that is left is that the sum is NaN and x is not."""
    text = (
        f"{LEAF}def step():\n    bad = torch.tensor([3.0, -2.0])\n"
        "    return ((x * 1 - torch.log1p(bad)) ** 2).sum()  # born here"
    )
    event = only_event(run("torch", text, function=True))
    assert (event.op, event.lineno) == ("sub", line(LEAF + text.removeprefix(LEAF)))
    assert "torch.log1p(bad) was already non-finite: sub only passed it on" in (event.cause or "")
    assert event.remedy is None


@pytest.mark.parametrize("op", ["-", "+"])
def test_a_small_operand_is_not_called_too_large(op: str) -> None:
    """atanh(1) is computed without a gradient; what is left is that the sum is infinite and x is not."""
    text = (
        f"{LEAF}def step():\n    a = torch.tensor([1.0, 0.5])\n"
        f"    return ((torch.atanh(a) {op} x) ** 2).sum()  # born here"
    )
    event = only_event(run("torch", text, function=True))
    assert (event.lineno, event.born) == (line(text), "Inf")
    assert "torch.atanh(a) was already non-finite" in (event.cause or "")
    assert "beyond the largest" not in (event.cause or "")
    assert event.rerun is not None


def test_nothing_is_claimed_of_a_large_operand_beside_an_unknown_one() -> None:
    """The other may have been infinite, or finite and as large."""
    text = (
        "x = torch.tensor([2e38, 2.0], requires_grad=True)\ndef step():\n    a = torch.tensor([1.0, 0.5])\n"
        "    return ((torch.atanh(a) - x) ** 2).sum()  # born here"
    )
    event = only_event(run("torch", text, function=True))
    assert "All numbers were finite" not in (event.cause or "")
    assert "was already non-finite" not in (event.cause or "")


def test_the_first_result_known_to_be_bad_is_named() -> None:
    """Of the sums nothing is kept but that the last one is NaN; the square has kept the difference."""
    text = (
        f"{LEAF}def step():\n    bad = torch.log(torch.tensor([3.0, -2.0]))\n"
        "    gap = (bad * 2 - x) ** 2  # born here\n    return (1 - x + gap + (1 - x)).mean()"
    )
    event = only_event(run("torch", text, function=True))
    assert (event.op, event.lineno) == ("sub", line(text))
    assert "bad * 2 was already non-finite" in (event.cause or "")


def test_a_variable_shows_a_value_that_the_graph_did_not_keep() -> None:
    """Neither the sum nor the difference has saved its result; a variable holds the sum."""
    text = (
        f"{LEAF}def solve(x):\n    last = torch.tensor(0.0).sub_(1).log_()\n"
        "    return x * 2 + 0.0 * last  # born here\n"
        "def step():\n    y = solve(x)\n    loss = ((y - 1.0) ** 2).mean()\n    loss.backward()\nstep()"
    )
    event = only_event(run("torch", text))
    assert (event.op, event.lineno) == ("add", line(text))
    assert "0.0 * last was already non-finite: add only passed it on" in (event.cause or "")
    assert event.remedy is None


def test_a_variable_that_was_written_to_is_not_used() -> None:
    """The write is not recorded: what the variable holds is not what the sum has given."""
    text = (
        f"{LEAF}def step():\n    y = x + 1.0\n    z = torch.log(y - y.detach())  # born here\n"
        "    with torch.no_grad():\n        y.fill_(float('nan'))\n    z.sum().backward()\nstep()"
    )
    event = only_event(run("torch", text))
    assert (event.op, event.lineno) == ("log", line(text))


def test_an_unknown_difference_is_not_called_one_of_infinities() -> None:
    text = (
        f"{LEAF}def step():\n    bad = torch.log(torch.tensor([-1.0, 2.0]))\n"
        "    return (((x * 2).reshape(2) + bad * 0.5) - x.detach() * 2).pow(2).sum()  # born here"
    )
    event = only_event(run("torch", text, function=True))
    assert "Both sides overflowed" not in (event.cause or "")
    assert "was already non-finite" in (event.cause or "")
    assert event.remedy is None


def test_an_unknown_mean_is_not_called_empty() -> None:
    text = f"{LEAF}def step():\n    p = torch.tensor([1.0, 0.0])\n    return (p * (p.log() - x)).mean()  # born here"
    event = only_event(run("torch", text, function=True))
    assert "Nothing was selected" not in (event.cause or "")
    assert "retrograd.anomaly.current().steps(loader)" in (event.note or "")


@libraries
def test_an_empty_mean_is_called_empty(library: str) -> None:
    event = only_event(run(library, f"{LEAF}loss = x[x > 9].mean()  # born here\nloss.backward()"))
    assert diagnose(event).number == 18


def test_a_softmax_that_is_all_nan_mentions_zero_times_infinity() -> None:
    text = (
        "x = torch.tensor([[1.0, 2.0]], requires_grad=True)\n"
        "def step():\n    keep = torch.tensor([[1.0, 0.0]])\n"
        "    return torch.softmax(x + (1 - keep) * float('-inf'), -1)[0, 0]  # born here"
    )
    event = only_event(run("torch", text, function=True))
    assert "0 * inf" in (event.cause or "")


@libraries
@pytest.mark.parametrize("steps", [False, True])
def test_zero_times_the_infinity_of_a_mask_becomes_a_where(library: str, steps: bool) -> None:
    text = (
        "x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)\nkeep = torch.tensor([1.0, 1.0, 0.0])\n"
        'bias = (1 - keep) * float("-inf")  # born here\nloss = torch.softmax(x + bias, -1)[0]\nloss.backward()'
    )
    event = only_event(run(library, text, steps))
    assert (event.op, event.index, event.lineno) == ("mul", (0,), 3)
    assert (event.remedy or "").endswith('.where((1 - keep) != 0, float("-inf"), 0.0)  # born here')


def test_zero_times_an_infinite_class_weight_is_explained() -> None:
    text = (
        "x = torch.tensor([1.0, 2.0], requires_grad=True)\nweights = torch.tensor([0.5, float('inf')])\n"
        "hot = torch.tensor([1.0, 0.0])\nloss = (x * (hot * weights)).sum()\nloss.backward()"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.index, event.operands) == ("mul", (1,), {"input": 0.0, "other": float("inf")})
    assert "hot is 0 at this element and weights is inf" in (event.cause or "")


def test_a_general_remedy_is_to_be_written_with_the_users_names() -> None:
    text = (
        "x = torch.tensor([-200.0], requires_grad=True)\n"
        "def squash(v):\n    return torch.sigmoid(v)\np = squash(x)\n(-torch.log(p)).sum().backward()"
    )
    event = only_event(run("retrograd", text))
    assert "logsigmoid" in (event.remedy or "")
    assert "with your own names" in format_event(event).replace("\n          ", " ")


def test_a_quotient_by_zero_is_infinite_if_no_nan_came_of_it() -> None:
    """Neither the numerator nor the quotient is kept, but the square has kept the difference, which is infinite."""
    text = (
        f"{LEAF}def step():\n    t = torch.tensor([0.5, 1.0])\n    x1 = torch.tensor([0.5, 0.25])\n"
        "    return (((x * 1 - x1) / (1 - t) - x1) ** 2).mean()  # born here"
    )
    event = only_event(run("torch", text, function=True))
    assert (event.op, event.lineno, event.born, event.kind) == ("div", line(text), "Inf", "divide")
    assert "is infinite" in (event.cause or "")
    assert "0 / 0" not in (event.cause or "")


def test_a_quotient_by_zero_is_nan_if_that_is_what_came_of_it() -> None:
    text = (
        f"{LEAF}def step():\n    t = torch.tensor([0.5, 1.0])\n    x1 = torch.tensor([0.5, 2.0])\n"
        "    return (((x * 1 - x1) / (1 - t) - x1) ** 2).mean()  # born here"
    )
    event = only_event(run("torch", text, function=True))
    assert (event.op, event.lineno, event.born) == ("div", line(text), "NaN")


def test_an_exponential_that_overflowed_comes_before_the_product_that_made_it_nan() -> None:
    """The exponent is not kept, and neither is what it was made from; the exponential is, and is no mask."""
    text = (
        "x = torch.tensor([1.0, 2.0], requires_grad=True)\ndef step():\n"
        "    old, mask = torch.tensor([0.5, -1e4]), torch.tensor([1.0, 0.0])\n"
        "    ratio = torch.exp(torch.log_softmax(x, 0) - old)  # born here\n"
        "    return (torch.max(-ratio, -ratio.clamp(0.8, 1.2)) * mask).sum() / mask.sum()"
    )
    event = only_event(run("torch", text, function=True))
    assert (event.op, event.lineno, event.born) == ("exp", line(text), "Inf")
