"""Rate schedules and weight averages, which must advance only once in a step that is run twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from retrograd.anomaly.adapters.patches import Patches, do_nothing


def freeze_schedules(patches: Patches, schedules: type[Any], average: type[Any]) -> None:
    """Keep all schedules and averages from advancing until the patches are undone.

    Parameters
    ----------
    patches
        The patches with which to replace the methods.
    schedules
        The base class of a library's schedules.
    average
        Its class of models that average the weights of another.
    """
    for schedule in _with_own_step(schedules):
        patches.wrap(schedule, "step", do_nothing)
    patches.wrap(average, "update_parameters", do_nothing)


def _with_own_step(schedule: type[Any]) -> Iterator[type[Any]]:
    """The classes that define ``step`` themselves, among this one and its subclasses."""
    if "step" in vars(schedule):
        yield schedule
    for each in schedule.__subclasses__():
        yield from _with_own_step(each)
