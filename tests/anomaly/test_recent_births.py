"""How much memory the births that may be to blame keep alive."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly.adapters.retrograd import recent_births
from retrograd.anomaly.adapters.retrograd.births import Birth, size_of
from retrograd.anomaly.adapters.retrograd.recent_births import RecentBirths

LARGE = np.full(100, np.nan)


def birth(result: np.ndarray | None = None) -> Birth:
    return Birth(["invalid"], "inv", operands=(np.ones(1),), result=result)


@pytest.mark.parametrize("later", [False, True], ids=["known at once", "completed later"])
def test_first_and_latest_births_are_kept_within_a_limit_of_memory(
    monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    monkeypatch.setattr(recent_births, "MOST_BYTES", 3 * size_of(birth(LARGE)))
    found = RecentBirths()
    for _ in range(10):
        if later:
            found.add(birth())
            assert found.complete(birth(LARGE))
        else:
            found.add(birth(LARGE))
    assert len(found.births) == 3
    assert all(each.result is LARGE for each in found.births)
    found.end_step()
    assert not found.births


def test_first_and_latest_births_are_kept_within_their_number() -> None:
    found = RecentBirths()
    births = [Birth(["invalid"], "inv", operands=(np.ones(1),), result=np.full(1, np.nan)) for _ in range(200)]
    for each in births:
        each.node = rg.ones(1, requires_grad=True).exp().grad_fn  # what a graph has kept is not dropped first
        found.add(each)
    assert len(found.births) == recent_births.MOST_BIRTHS
    assert found.births[0] is births[0]
    assert found.births[-2:] == births[-2:]


def test_the_birth_in_backward_that_causes_a_hundred_others_is_found() -> None:
    """Each softmax of a recurrence turns the infinite gradient into NaN once more."""
    x = rg.tensor([0.5, 1.0], requires_grad=True)
    y = rg.ones(2)
    for _ in range(100):
        y = y @ rg.softmax(x.unsqueeze(0).expand(2, 2), 1)
    with rg.anomaly.watch(policy="record") as w:
        rg.log(y.sum() * 1e-40).backward()
    assert w.event is not None
    assert (w.event.op, w.event.is_backward) == ("LogBackward0", True)
