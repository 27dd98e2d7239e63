"""Handles that take a hook away again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Hooks", "RemovableHandle"]

_next_id = itertools.count().__next__


class RemovableHandle:
    """Returned by every ``register_*hook``; ``remove()`` or leaving its ``with`` block takes the hook away.

    Parameters
    ----------
    hooks
        The dictionary of hooks that the handle belongs to. Only a weak reference is kept.
    """

    __slots__ = ("__weakref__", "_hooks", "id")

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = weakref.ref(hooks)
        self.id = _next_id()
        while self.id in hooks:  # numbers of another process, which have come by pickle
            self.id = _next_id()

    def remove(self) -> None:
        """Take the hook away. Calling it again does nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks(dict[int, Callable[..., Any]]):
    """Hooks by handle id, in the order in which they were registered."""

    # no __slots__, as pickle's protocols 0 and 1 take no class that has them

    def register(self, hook: Callable[..., Any], *, prepend: bool = False) -> RemovableHandle:
        """Add a hook, at the front if ``prepend``, and return its handle."""
        handle = RemovableHandle(self)
        if prepend:
            others = dict(self)
            self.clear()
            self[handle.id] = hook
            self.update(others)
        else:
            self[handle.id] = hook
        return handle
