"""An optimizer's initial or loaded state: a bad number in it would make a weight non-finite in one update."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.adapters.program.source_location import place_of
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.stack_frames import user_frame
from retrograd.anomaly.surroundings import Surroundings


class BadState(NamedTuple):
    """A non-finite number in the state that an optimizer keeps for a parameter.

    Attributes
    ----------
    kind
        ``"nan"`` or ``"inf"``.
    key, param
        The key of the state, and the parameter's name.
    element, value
        The first bad element.
    statistics
        The fields of an event that describe the elements.
    """

    kind: str
    key: str
    param: str
    element: tuple[int, ...] | None
    value: Any
    statistics: dict[str, Any]


# Checks an optimizer's state, given the model and the user's frame for names.
Find = Callable[[Any, Any, FrameType | None], BadState | None]


def named_state(state: Any) -> Iterable[tuple[str, Any]]:
    """What an optimizer keeps for a parameter, by name; one written by the user may keep just one thing."""
    return state.items() if isinstance(state, Mapping) else [("state", state)]


_NEVER = object()


class OptimizerStateCheck:
    """Checks each optimizer's state once; after that only updates with finite gradients change it.

    Parameters
    ----------
    watch
        The watch whose policies apply and that receives the event.
    context
        Returns an event's context apart from operations.
    find
        Finds the first bad number.
    """

    def __init__(self, watch: Watch, context: Callable[[], Mapping[str, Any]], find: Find) -> None:
        self._watch = watch
        self._context = context
        self._find = find
        # the state that was checked: loading gives an optimizer a new dictionary
        self._known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def passes(self, optimizer: Any) -> bool:
        """Whether an update that is about to run may use the optimizer's state."""
        state = vars(optimizer).get("state")  # None if it delegates to another optimizer, which is checked itself
        if self._known.get(optimizer, _NEVER) is state or expected.depth:
            return True
        self._known[optimizer] = state
        frame = user_frame(sys._getframe(1)) if state else None
        found = self._find(optimizer, self._watch.model, frame) if state else None
        if found is None or not self._watch.listens_to(found.kind):
            return True
        withheld = self._watch.found(found.kind, self._event(optimizer, found, frame), exact=True) == "withhold"
        if withheld:
            del self._known[optimizer]
        return not withheld

    def _event(self, optimizer: Any, found: BadState, frame: FrameType | None) -> NaNEvent:
        what = f"{found.key} of {found.param}"
        return NaNEvent(
            kind="leaf",
            op="leaf",
            index=found.element,
            operands={found.key: found.value},
            harmed=f"the update of {found.param}",
            layer_name=found.param.rpartition(".")[0] or None,
            cause=(
                f"The {type(optimizer).__name__}'s {what} was not finite before this update, which would carry it into "
                "the weight. No operation of this run produced it: it was loaded or written that way. Go back to an "
                "earlier checkpoint, or reset the optimizer: call state.clear() on it."
            ),
            surroundings=Surroundings(
                library=type(optimizer).__module__.partition(".")[0],
                context={**self._context(), "leaf": "optimizer state", "name": what},
            ),
            **place_of(frame),
            **found.statistics,
        )
