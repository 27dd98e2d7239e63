"""Optimizers, for the context of an event."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

from retrograd.anomaly.adapters.variables import construction_of


def described(optimizer: Any, options: Mapping[str, Any], frame: FrameType | None) -> dict[str, Any]:
    """The name of an optimizer, its options, and the line that made it, if that is found.

    Parameters
    ----------
    optimizer
        Of whatever library.
    options
        One of its groups, rather than its defaults: a schedule changes these.
    frame
        The user's, from which outwards the variable is looked for that holds it.
    """
    plain = {key: value for key, value in options.items() if isinstance(value, (int, float, bool, tuple))}
    made = None if frame is None else construction_of(frame, optimizer)
    place = {} if made is None else {"code_line": made[0], "lineno": made[1]}
    return {"name": type(optimizer).__name__, **plain, **place}
