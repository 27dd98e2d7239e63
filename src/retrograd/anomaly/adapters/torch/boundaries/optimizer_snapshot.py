"""The whole memory of an optimizer: its tensors, and the numbers and containers around them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.runtime.frames import has_own_step

_GONE = object()
_HOOKS = "_hooks"  # torch's own tables of what is called around a step


class OptimizerSnapshot:
    """The content of an optimizer, wherever it keeps it: in its state, its groups or attributes of its own.

    Optimizers that it wraps are searched, too, and objects of its module's classes. Tensors are noted, not copied.

    Attributes
    ----------
    tensors
        The parameters, and every tensor beside them.
    """

    def __init__(self, optimizer: Any) -> None:
        self.tensors: list[Tensor] = []
        self._containers: list[tuple[Any, Any]] = []  # dictionaries and lists, each with a copy of what was in it
        self._after: list[Any] = []
        self._seen: dict[int, Any] = {}
        self._package = _package_of(optimizer)
        if has_own_step(optimizer) or _holds_containers(optimizer):
            self._look_into(optimizer)
        else:
            self._note(optimizer)

    def _note(self, optimizer: Any) -> None:
        """Note the state and the groups, all that torch's own optimizers have; fast, as it may run in every step."""
        parts = [optimizer.state, *optimizer.state.values(), *optimizer.param_groups]
        self._containers = [(part, dict(part)) for part in parts]
        self.tensors = [each for group in optimizer.param_groups for each in group["params"]]
        states = optimizer.state.values()
        self.tensors += [value for state in states for value in state.values() if isinstance(value, Tensor)]

    def _look_into(self, optimizer: Any) -> None:
        rest = [optimizer]
        while rest:
            each = rest.pop()
            if id(each) in self._seen:
                continue
            self._seen[id(each)] = each  # keeping it alive keeps its id unique
            if isinstance(each, Tensor):
                self.tensors.append(each)
            elif isinstance(each, (dict, list, deque)):
                self._containers.append((each, _copied(each)))
                rest += [value for key, value in _entries(each) if not (isinstance(key, str) and key.endswith(_HOOKS))]
            elif isinstance(each, (tuple, set, frozenset)):
                rest += each
            elif self._belongs(each):
                rest.append(vars(each))

    def _belongs(self, thing: Any) -> bool:
        if callable(thing) or not hasattr(thing, "__dict__"):
            return False
        return isinstance(thing, torch.optim.Optimizer) or _package_of(thing) == self._package

    def updated(self) -> None:
        """Note the content after an update, so that changes made by others later are not undone."""
        self._after = [_copied(container) for container, _ in self._containers]

    def put_back(self) -> None:
        """Restore numbers and containers that the update has changed."""
        for (container, before), after in zip(self._containers, self._after, strict=True):
            if isinstance(container, dict):
                _put_entries_back(container, before, after)
            elif not _are_same(before, after) and _are_same(container, after):
                container.clear()
                container.extend(before)


def _holds_containers(optimizer: Any) -> bool:
    """Whether the state has more than tensors and numbers, as LBFGS's has; it is alike for all parameters."""
    first = next(iter(optimizer.state.values()), None) or {}
    return any(isinstance(value, (dict, list, deque, tuple, set)) for value in first.values())


def _package_of(thing: Any) -> str:
    return type(thing).__module__.partition(".")[0]


def _copied(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _entries(container: Any) -> Iterable[tuple[Any, Any]]:
    return container.items() if isinstance(container, dict) else enumerate(container)


def _are_same(some: Collection[Any], others: Collection[Any]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _put_entries_back(part: dict[Any, Any], before: dict[Any, Any], after: dict[Any, Any]) -> None:
    for key in [*after, *(key for key in before if key not in after)]:
        old, new = before.get(key, _GONE), after.get(key, _GONE)
        if old is new or part.get(key, _GONE) is not new:
            continue  # unchanged, or set since by others, such as a scheduler
        if old is _GONE:
            del part[key]
        else:
            part[key] = old
