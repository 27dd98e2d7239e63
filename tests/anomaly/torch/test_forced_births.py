"""Births that one known operand forces, whatever the other ones were, which nothing has kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import retrograd as rg
from retrograd.anomaly.report.contents import verdict
from tests.anomaly.torch.training import line_of


def shifted(score: Tensor) -> Tensor:
    """Finite; the backward of a difference needs none of its operands, so that none is kept."""
    return score - score.max(1, keepdim=True).values.detach()


def quotient(score: Tensor, mask: Tensor) -> Tensor:
    score = shifted(score)
    return ((mask * score).sum(1) / mask.sum(1)).mean()  # quotient


def added(score: Tensor, mask: Tensor) -> Tensor:
    score = shifted(score)
    return torch.addcdiv(score, 2 * score, mask).mean()  # added


def modulo(score: Tensor, mask: Tensor) -> Tensor:
    divisor = mask + 0 * score.sum(1, keepdim=True)
    return (shifted(score) % divisor).mean()  # modulo


def event_of(loss: Any, mask: Tensor, **options: Any) -> Any:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(4, 4))
    with rg.anomaly.watch(policy="record", **options) as w:
        for each in (torch.ones(4, 4), mask):
            loss(weight / 0.07, each).backward()
    return w.event


@pytest.mark.parametrize("loss", [quotient, added, modulo])
def test_a_divisor_of_zero_is_a_certain_birth(loss: Any) -> None:
    mask = torch.ones(4, 4)
    mask[2] = 0
    event = event_of(loss, mask)
    assert event.lineno == line_of(f"# {loss.__name__}", loss)
    assert event.index[0] == 2
    assert 0 in event.operands.values()
    assert "before" not in verdict(event)
    assert event.rerun is None  # nothing more is to be found


def test_an_allowed_division_by_zero_is_not_blamed() -> None:
    assert event_of(quotient, torch.zeros(4, 4), allow=["div"]).op != "div"


def offset(score: Tensor, mask: Tensor) -> Tensor:
    return (shifted(score) + (mask - 0.5).log_().detach() - 1.0).sum()  # offset


def test_an_uncertain_birth_is_called_uncertain() -> None:
    event = event_of(offset, torch.zeros(4, 4))
    assert event.op == "sum"
    assert "NaN born in sum or before it" in verdict(event)
    assert "NaN born in sum or before it at " in str(event)
    exact = event_of(offset, torch.zeros(4, 4), from_step=2)
    assert "NaN born in log," in verdict(exact)
