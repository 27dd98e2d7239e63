"""What an optimizer remembers when it begins, or has loaded, is looked at before the first update that would use it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from numpy import ndarray

from retrograd.anomaly.adapters.leaves import nameless
from retrograd.anomaly.adapters.remembered import event_of_remembered
from retrograd.anomaly.adapters.retrograd.elements import first_not_finite, harm_of, is_bad, statistics
from retrograd.anomaly.adapters.retrograd.variables import Names
from retrograd.anomaly.expected import expected
from retrograd.anomaly.libraries import user_frame
from retrograd.anomaly.monitor import Watch
from retrograd.core.tensor import Tensor


class Remembered:
    """Looks once at what each optimizer remembers; after that its own updates change it, of finite gradients.

    Parameters
    ----------
    watch
        Whose policies hold, and who is told.
    context
        Gives what is known of the training beyond operations.
    """

    def __init__(self, watch: Watch, context: Callable[[], Mapping[str, Any]]) -> None:
        self._watch = watch
        self._context = context
        # what was looked at: an optimizer that loads something has it in a new dictionary
        self._known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def passes(self, optimizer: Any) -> bool:
        """Called before an update; says whether it may use what is remembered."""
        state = optimizer.state
        if self._known.get(optimizer) is state or expected.depth:
            return True
        self._known[optimizer] = state
        bad = next(_bad(optimizer), None) if state else None
        kind = "" if bad is None else harm_of([bad[2]])
        if bad is None or not self._watch.listens_to(kind):
            return True
        param, key, array = bad
        name = Names(self._watch.model, user_frame(sys._getframe(1))).array(param._data) or nameless(param)
        index = first_not_finite(array)
        event = event_of_remembered(
            optimizer, key, name, index, array[index].item(), self._context(), **statistics(array)
        )
        withheld = self._watch.found(kind, event, exact=True) == "withhold"
        if withheld:
            del self._known[optimizer]
        return not withheld


def _bad(optimizer: Any) -> Iterator[tuple[Tensor, str, ndarray]]:
    for param in (each for group in optimizer.param_groups for each in group["params"]):
        for key, array in arrays_remembered(optimizer.state.get(param, {})):
            if is_bad(array):
                yield param, key, array


def arrays_remembered(state: Any) -> Iterator[tuple[str, ndarray]]:
    """The floating-point arrays among what is remembered of a parameter, which an optimizer of the user's may keep."""
    for key, value in state.items() if isinstance(state, Mapping) else [("state", state)]:
        if isinstance(value, Tensor) and isinstance(value._data, ndarray) and value._data.dtype.kind in "fc":
            yield key, value._data
