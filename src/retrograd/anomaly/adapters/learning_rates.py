"""Learning rates that are not finite: they would make every weight non-finite in one update."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from retrograd.anomaly.adapters.program.source_location import place_of
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.stack_frames import user_frame
from retrograd.anomaly.surroundings import Surroundings


def rates_pass(watch: Watch, optimizer: Any, context: Callable[[], Mapping[str, Any]]) -> bool:
    """Check the learning rates of an optimizer that is about to step, and return whether it may.

    Parameters
    ----------
    watch
        The watch whose policies apply and that receives the event.
    optimizer
        The optimizer, with its ``param_groups``.
    context
        Returns an event's context apart from operations.
    """
    rate = next((rate for group in optimizer.param_groups if not _may_be_finite(rate := group.get("lr"))), None)
    if rate is None:
        return True
    rate = float(rate)
    kind = "nan" if math.isnan(rate) else "inf"
    if expected.depth or not watch.listens_to(kind):
        return True
    event = NaNEvent(
        kind="leaf",
        op="leaf",
        operands={"lr": rate},
        nan_count=int(math.isnan(rate)),
        posinf_count=int(rate == math.inf),
        neginf_count=int(rate == -math.inf),
        size=1,
        harmed="the update of every weight",
        surroundings=Surroundings(
            library=type(optimizer).__module__.partition(".")[0],
            context={**context(), "leaf": "setting", "name": "lr"},
        ),
        **place_of(user_frame(sys._getframe(1))),
    )
    return watch.found(kind, event, exact=True) != "withhold"


def _may_be_finite(rate: Any) -> bool:
    """Whether a learning rate is finite, or something else than a number at hand.

    A schedule that computes with NumPy gives NumPy's numbers. A rate may also be a tensor; one on a device is not
    waited for.
    """
    if type(rate) is float:
        return rate - rate == 0.0
    if isinstance(rate, (float, np.floating)):
        return math.isfinite(rate)
    is_at_hand = getattr(getattr(rate, "device", None), "type", None) == "cpu" and rate.numel() == 1
    return not is_at_hand or math.isfinite(rate.item())
