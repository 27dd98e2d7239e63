"""Shared by the callbacks for frameworks' training loops: one step under the watch, and clean logs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from retrograd.anomaly.monitor import Watch

R = TypeVar("R")


def watched_step(watch: Watch, batch_idx: int, step: Callable[[bool], R]) -> R:
    """Run one step of a training loop; if it trips, rerun it with every operation recorded.

    Parameters
    ----------
    watch
        A started watch.
    batch_idx
        The index of the batch, for events.
    step
        The step; its argument tells whether it is the second run. It ends with a backward or an update.

    Returns
    -------
    R
        The return value of the last run.

    Raises
    ------
    AnomalyError
        If the step tripped and the policy is "raise".
    """
    again = False
    for _ in watch.steps([None]):
        watch.set_batch(batch_idx)
        result = step(again)
        again = True
    return result


def speak_once(watch: Watch, is_main: bool) -> None:
    """Let only the main one of several processes warn and write; the others apply their policies silently."""
    if not is_main:
        watch.policies = {kind: "record" if action == "warn" else action for kind, action in watch.policies.items()}
        watch.recorder = None


class CleanLogs:
    """Cleans metrics for a log writer: adds the number of events, and leaves out non-finite values.

    Log writers plot nothing for a NaN, refuse it, or write invalid JSON.

    Parameters
    ----------
    watch
        The watch whose events are counted.
    name
        The key under which the number is written.
    """

    def __init__(self, watch: Watch, name: str) -> None:
        self.count = 0
        self._name = name
        watch.listeners.append(self._heard)

    def _heard(self, event: Any) -> None:
        self.count += 1

    def __call__(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics to be written."""
        return {key: value for key, value in metrics.items() if _is_clean(value)} | {self._name: float(self.count)}


def _is_clean(value: Any) -> bool:
    """Whether it is anything but a non-finite number."""
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return True  # not a number: a text, an image, a tensor of several elements
