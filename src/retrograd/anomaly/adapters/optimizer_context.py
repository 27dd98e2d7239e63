"""Optimizers, for the context of an event."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import FrameType
from typing import Any

from retrograd.anomaly.adapters.program.optimizer_construction import (
    Construction,
    construction_of,
    rate_given,
    rate_set,
    told,
)
from retrograd.anomaly.adapters.program.variables import local_variables
from retrograd.anomaly.stack_frames import outwards


def only_one_held(frame: FrameType | None, kind: type) -> Any:
    """The only optimizer of tensors of this type among the variables of the user's functions; None without just one.

    Before the first training step nothing else tells which it is.
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
    """An optimizer in the context of an event: its name, options, and the lines that made it and set its learning rate.

    Parameters
    ----------
    optimizer
        An optimizer of any library.
    options
        The options of one of its groups rather than its defaults: a schedule changes the groups.
    frame
        The user's frame from which the search for the variable that holds it goes outwards.
    **more
        Further entries.
    """
    plain = {key: number for key, value in options.items() if (number := _plain(value)) is not None}
    defaults = getattr(optimizer, "defaults", None)
    default = _plain(defaults.get("lr")) if isinstance(defaults, Mapping) else None
    written = {} if frame is None else _text_of(optimizer, plain, frame).context(plain, default, frame)
    return {"optimizer": {"name": type(optimizer).__name__, **plain, **written, **more}}


_RATES = 8  # limit on rates that are searched for: a schedule changes them in every step


class _Text:
    """What the program's source tells about an optimizer; it does not change, so the files are read once."""

    def __init__(self, made: Construction | None) -> None:
        self._made = {} if made is None else made.context()
        given = None if made is None else made.rate()
        self._rate = {} if made is None or given is None else told(made.filename, given)
        self._elsewhere: dict[float, dict[str, Any]] = {}  # by the rate
        self._set: dict[str, Any] | None = None  # where the program assigns the rate in the groups

    def context(self, options: Mapping[str, Any], default: Any, frame: FrameType) -> dict[str, Any]:
        """The line that makes it, and the one that writes the current or initial learning rate of one of its groups.

        Parameters
        ----------
        options
            The group's options.
        default
            The learning rate of groups that are given none.
        frame
            The user's frame.
        """
        rates = [options[key] for key in ("initial_lr", "lr") if key in options]
        if default is not None and default not in rates and "initial_lr" not in options and self._set is None:
            self._set = rate_set(frame)
        if self._set and default not in rates:
            return self._made | {"rate": {**self._set, "is_set": True}}
        rate = self._rate if self._rate.get("lr", default) in (None, *rates) else {}
        highest = [options["max_lr"]] if "max_lr" in options else []  # of a schedule that derives the first rate
        for each in () if rate else highest if self._made else (*highest, *rates):
            if each not in self._elsewhere and len(self._elsewhere) < _RATES:
                self._elsewhere[each] = rate_given(frame, each)
            rate = rate or self._elsewhere.get(each, {})
        return self._made | ({"rate": rate} if rate else {})


_texts: weakref.WeakKeyDictionary[Any, _Text] = weakref.WeakKeyDictionary()


def _text_of(optimizer: Any, options: Mapping[str, Any], frame: FrameType) -> _Text:
    try:
        found = _texts.get(optimizer)
        if found is None:
            found = _texts[optimizer] = _Text(construction_of(frame, optimizer, options))
    except TypeError:  # it has no hash
        return _Text(construction_of(frame, optimizer, options))
    return found


def _plain(value: Any) -> Any:
    """The number in a value or a one-element tensor, or a tuple of them; None for what an event cannot hold."""
    if isinstance(value, tuple):
        numbers = tuple(map(_plain, value))
        return None if None in numbers else numbers
    if hasattr(value, "numel") and value.numel() == 1:
        value = value.item()
    return value if isinstance(value, (int, float)) else None
