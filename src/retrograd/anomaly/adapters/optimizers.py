"""Optimizers, for the context of an event."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

from retrograd.anomaly.adapters.constructions import Construction, construction_of, rate_given, told
from retrograd.anomaly.adapters.variables import local_variables
from retrograd.anomaly.libraries import outwards


def only_one_held(frame: FrameType | None, kind: type) -> Any:
    """The optimizer of tensors of some kind among the variables of the user's functions, where there is just one.

    Before the first step of the training nothing else tells which it is.
    """
    values = (value for each in outwards(frame) for value in local_variables(each).values())
    found = {id(value): value for value in values if _is_optimizer(value, kind)}
    return next(iter(found.values())) if len(found) == 1 else None


def _is_optimizer(value: Any, kind: type) -> bool:
    groups = getattr(value, "param_groups", None) if hasattr(type(value), "step") else None
    if not isinstance(groups, list) or not groups or not isinstance(groups[0], dict):
        return False
    return any(isinstance(each, kind) for each in groups[0].get("params", ()))


def context_of_optimizer(
    optimizer: Any, options: Mapping[str, Any], frame: FrameType | None, **more: Any
) -> dict[str, dict[str, Any]]:
    """An optimizer in the context of an event: its name, its options, the line that made it and its learning rate's.

    Parameters
    ----------
    optimizer
        Of whatever library.
    options
        One of its groups, rather than its defaults: a schedule changes these.
    frame
        The user's, from which outwards the variable is looked for that holds it.
    **more
        What else is known of it.
    """
    plain = {key: number for key, value in options.items() if (number := _plain(value)) is not None}
    made = None if frame is None else construction_of(frame, optimizer, options)
    place = {} if made is None else made.context()
    written = {} if frame is None else _rate(frame, made, plain)
    rate = {"rate": written} if written else {}
    return {"optimizer": {"name": type(optimizer).__name__, **plain, **place, **rate, **more}}


def _rate(frame: FrameType, made: Construction | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Where the learning rate is written that the optimizer has been given; empty where that is not found."""
    rates = [options[key] for key in ("initial_lr", "lr") if key in options]
    if made is None:
        return next(filter(None, (rate_given(frame, rate) for rate in rates)), {})
    written = made.rate()
    found = {} if written is None else told(made.filename, written)
    return found if found.get("lr") in (None, *rates) else {}


def _plain(value: Any) -> Any:
    """A number, also of a tensor that is one, or a tuple of them; None for what an event cannot hold."""
    if isinstance(value, tuple):
        numbers = tuple(map(_plain, value))
        return None if None in numbers else numbers
    if hasattr(value, "numel") and value.numel() == 1:
        value = value.item()
    return value if isinstance(value, (int, float)) else None
