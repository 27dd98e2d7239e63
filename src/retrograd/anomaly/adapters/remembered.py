"""What an optimizer remembers when it begins, or has loaded: a bad number in it would spoil a weight in one update."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from retrograd.anomaly.adapters.program.place import place_of
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.libraries import user_frame
from retrograd.anomaly.surroundings import Surroundings


def event_of_remembered(
    optimizer: Any,
    key: str,
    param: str,
    index: tuple[int, ...] | None,
    value: Any,
    context: Mapping[str, Any],
    **fields: Any,
) -> NaNEvent:
    """The event of a number that is not finite in what an optimizer remembers of a parameter.

    Parameters
    ----------
    optimizer
        Whose update was about to begin.
    key, param
        What it calls that, and the parameter's name.
    index, value
        The first bad element.
    context
        What is known of the training beyond operations.
    **fields
        Of the event: the statistics of the elements.
    """
    return NaNEvent(
        kind="leaf",
        op="leaf",
        index=index,
        operands={key: value},
        harmed=f"the update of {param}",
        layer_name=param.rpartition(".")[0] or None,
        cause=(
            f"{type(optimizer).__name__} remembers {key} of {param} since before this update, and it is not finite: "
            "so would be the weight. No operation of this run has made it; it was loaded so, or written. Go back to a "
            "checkpoint from before, or have the optimizer begin anew: call state.clear() on it."
        ),
        surroundings=Surroundings(
            library=type(optimizer).__module__.partition(".")[0],
            context={**context, "leaf": "optimizer state", "name": f"{key} of {param}"},
        ),
        **place_of(user_frame(sys._getframe(1))),
        **fields,
    )
