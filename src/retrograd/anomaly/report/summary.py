"""Many events, few births."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from retrograd.anomaly.event import GradEvent, NaNEvent


@dataclass
class Group:
    """The events of one birthplace: the first, the last, and how many there were."""

    first: NaNEvent | GradEvent
    last: NaNEvent | GradEvent
    count: int = 1


def group(events: Iterable[NaNEvent | GradEvent]) -> list[Group]:
    """Put the events of one birthplace (or the gradients of one parameter) together, the earliest first."""
    groups: dict[Hashable, Group] = {}
    for event in events:
        place = birthplace(event)
        if place in groups:
            groups[place].last = event
            groups[place].count += 1
        else:
            groups[place] = Group(event, event)
    return list(groups.values())


def birthplace(event: NaNEvent | GradEvent) -> Hashable:
    """The key by which events are counted together: operation and line, or the parameter of a gradient."""
    if isinstance(event, GradEvent):
        return event.layer_name, event.param_name
    return event.kind, event.op, event.is_backward, event.filename, event.lineno, event.layer_name


def step_of(event: NaNEvent | GradEvent) -> int | None:
    """The step of an event, or the batch if steps were not counted."""
    return event.batch_idx if isinstance(event, GradEvent) or event.step is None else event.step
