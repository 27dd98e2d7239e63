"""What the callbacks for other people's training loops have in common: one step under the watch, and clean logs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from retrograd.anomaly.monitor import Watch

R = TypeVar("R")


def watched_step(watch: Watch, batch_idx: int, step: Callable[[bool], R]) -> R:
    """Do one step of a training loop, and the same once more if it trips, with every operation recorded.

    Parameters
    ----------
    watch
        That has been started.
    batch_idx
        The number of the batch, for events.
    step
        The step; its argument says whether it is the second run. It ends with a backward or with an update.

    Returns
    -------
    R
        What the last run returned.

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
    """Of several processes, only the main one warns and writes; the others do what they do without a word."""
    if not is_main:
        watch.policies = {kind: "record" if action == "warn" else action for kind, action in watch.policies.items()}
        watch.recorder = None


class CleanLogs:
    """Hands metrics on to a writer: the number of events is added, and what is not finite is left out.

    Writers of logs draw nothing for a NaN, refuse it, or write a file that is no JSON.

    Parameters
    ----------
    watch
        Whose events are counted.
    name
        Under which the number is written.
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
    """Whether it is anything but a number that is not finite."""
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return True  # no number: a text, a picture, a tensor of several elements
