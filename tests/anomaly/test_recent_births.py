"""How much memory the births that may be to blame keep alive."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.anomaly.adapters.retrograd import recent_births
from retrograd.anomaly.adapters.retrograd.births import Birth, size_of
from retrograd.anomaly.adapters.retrograd.recent_births import RecentBirths

LARGE = np.full(100, np.nan)


def birth(result: np.ndarray | None = None) -> Birth:
    return Birth(["invalid"], "inv", operands=(np.ones(1),), result=result)


@pytest.mark.parametrize("later", [False, True], ids=["known at once", "completed later"])
def test_the_latest_births_are_kept_within_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch, later: bool) -> None:
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
