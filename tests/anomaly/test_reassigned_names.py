"""A remedy repeats what an earlier line has written only where its names still mean the same."""

from __future__ import annotations

import pytest

from retrograd.anomaly import diagnose
from tests.anomaly.both import libraries, only_event, run

LEAF = "h = torch.tensor([-200.0, 0.0, 200.0], requires_grad=True)\nx = h * 1.0\n"
BACKWARD = "\nloss.backward()"


@libraries
@pytest.mark.parametrize(
    ("code", "number", "general"),
    [
        ("x = torch.softmax(x, -1)\nloss = -torch.log(x).sum()", 4, "log_softmax(logits, dim=-1)"),
        ("x = torch.sigmoid(x)\nloss = -torch.log(x)[0]", 7, "logsigmoid(logits)"),
        ("x = x.sigmoid()\nloss = -torch.log(1 - x).sum()", 8, "logsigmoid(-logits)"),
        ("x = torch.exp(x)\ns = x.sum()\nloss = torch.log(s)", 9, "logsumexp(x, dim=-1)"),
        ("x = torch.exp(x)\nloss = torch.log(1 + x).sum()", 6, "softplus(x)"),
        ("p = torch.sigmoid(x)\nx = x * 2\nloss = -torch.log(p)[0] + x.sum()", 7, "logsigmoid(x)"),
        ("p = torch.sigmoid(x)\nx[1] += 2\nloss = -torch.log(p)[0] + x.sum()", 7, "logsigmoid(x)"),
        ("p = torch.sigmoid(x * 1)\nx.mul_(2)\nloss = -torch.log(p)[0] + x.sum()", 7, "logsigmoid(logits)"),
        ("p = torch.sigmoid(x)\nfor x in [h]:\n    loss = -torch.log(p)[0] + x.sum()", 7, "logsigmoid(x)"),
        (
            "def probability(x):\n    p = torch.sigmoid(x)\n    return p\n"
            "p = probability(2 * x)\nloss = -torch.log(p)[0]",
            7,
            "logsigmoid(p_logits)",
        ),
    ],
)
def test_a_line_is_not_rewritten_if_a_name_was_reassigned(code: str, number: int, general: str, library: str) -> None:
    event = only_event(run(library, LEAF + code + BACKWARD))
    found = diagnose(event)
    assert (found.number, found.lineno) == (number, None), found
    assert general in (found.remedy or "")


@libraries
@pytest.mark.parametrize(
    "code",
    [
        "p = torch.sigmoid(x)\nz = x * 2\nloss = -torch.log(p)[0] + z.sum()",
        "for i in range(2):\n    p = torch.sigmoid(x)\n    loss = -torch.log(p)[0]\n    x = x * 2",
        "p = torch.sigmoid(x)\nx = (\n    -torch.log(p)[0]\n)\nloss = x",
    ],
)
def test_reassignments_of_other_names_or_later_do_not_count(code: str, library: str) -> None:
    event = only_event(run(library, LEAF + code + BACKWARD))
    assert "logsigmoid(x)[0]" in (event.remedy or ""), event.cause
    assert event.remedy_lineno is not None


@libraries
def test_a_difference_of_sigmoids_is_not_taken_for_a_complement(library: str) -> None:
    """The first is 1 at the element where the logarithm is of 0, and elsewhere it is another number."""
    code = "p = torch.sigmoid(x + 300) - torch.sigmoid(x + 250)\nloss = -torch.log(p).sum()"
    event = only_event(run(library, LEAF + code + BACKWARD))
    assert diagnose(event).number != 8
