"""What moves on once in a step, also where that is run twice: schedules of rates, averages of weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from retrograd.anomaly.adapters.patches import Patches


def stand_still(patches: Patches, schedules: type[Any], average: type[Any]) -> None:
    """Have no schedule and no average move on until the patches are undone.

    Parameters
    ----------
    patches
        Which replace the methods.
    schedules
        The class that a library makes its schedules of.
    average
        Its class of models that average the weights of another.
    """
    for schedule in _with_own_step(schedules):
        patches.wrap(schedule, "step", _nothing)
    patches.wrap(average, "update_parameters", _nothing)


def _with_own_step(schedule: type[Any]) -> Iterator[type[Any]]:
    """A class and those made of it, as far as they say for themselves how to move on."""
    if "step" in vars(schedule):
        yield schedule
    for each in schedule.__subclasses__():
        yield from _with_own_step(each)


def _nothing(original: Any, *args: Any, **kwargs: Any) -> None:
    """It has moved on in the first run of the step."""
