"""What an optimizer remembers when it begins, or has loaded, is looked at before the first update that would use it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.leaves import nameless
from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.remembered import event_of_remembered
from retrograd.anomaly.adapters.torch.autopsy.describe import first_of, statistics, value_at
from retrograd.anomaly.adapters.torch.autopsy.names import Names
from retrograd.anomaly.adapters.torch.looks.gradients import kind_of
from retrograd.anomaly.adapters.torch.records.calls import can_be_bad, is_bad
from retrograd.anomaly.adapters.torch.runtime.capturing import capturing
from retrograd.anomaly.adapters.torch.runtime.modes import unseen
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.libraries import user_frame
from retrograd.anomaly.monitor import Watch


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
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def start(self, patches: Patches) -> None:
        self._known.clear()
        patches.wrap(torch.optim.Optimizer, "load_state_dict", self._load)

    def _load(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        self._known.discard(optimizer)
        return original(optimizer, *args, **kwargs)

    def passes(self, optimizer: Any) -> bool:
        """Called before an update; says whether it may use what is remembered."""
        if optimizer in self._known or expected.depth or capturing():
            return True
        self._known.add(optimizer)
        with torch.no_grad(), unseen():
            bad = next(_bad(optimizer), None)
        if bad is None or not self._watch.listens_to(kind_of([bad[2]])):
            return True
        event = self._event(optimizer, *bad)
        withheld = self._watch.found(kind_of([bad[2]]), event, exact=True) == "withhold"
        if withheld:
            self._known.discard(optimizer)
        return not withheld

    def _event(self, optimizer: Any, param: Tensor, key: str, values: Tensor) -> NaNEvent:
        names = Names(self._watch.model, user_frame(sys._getframe(1)))
        name, index = names.tensor(param) or nameless(param), first_of(values)
        value = value_at(values, index, values.shape)
        return event_of_remembered(optimizer, key, name, index, value, self._context(), **statistics(values))


def remembered_of(optimizer: Any, param: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The tensors that an optimizer remembers of a parameter, by name."""
    state = optimizer.state.get(param) or {}
    return ((key, value) for key, value in state.items() if isinstance(value, Tensor) and can_be_bad(value))


def _bad(optimizer: Any) -> Iterator[tuple[Tensor, str, Tensor]]:
    if not optimizer.state:
        return
    for param in (each for group in optimizer.param_groups for each in group["params"]):
        for key, values in remembered_of(optimizer, param):
            if is_bad(values):
                yield param, key, values
