"""Handles that take a hook away again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Hooks", "RemovableHandle", "register"]

_next_id = itertools.count().__next__


class RemovableHandle:
    """Returned by every ``register_*hook``; ``remove()`` or leaving its ``with`` block takes the hook away.

    Parameters
    ----------
    hooks_dict
        The dictionary of hooks that the handle belongs to. Only a weak reference is kept.

    Attributes
    ----------
    hooks_dict_ref
        That reference.
    id
        The key in the dictionary.
    """

    __slots__ = ("__weakref__", "hooks_dict_ref", "id")

    def __init__(self, hooks_dict: Any) -> None:
        self.hooks_dict_ref: weakref.ref[Any] = weakref.ref(hooks_dict)
        self.id: int = _next_id()
        while self.id in hooks_dict:  # ids from another process may have come by pickle
            self.id = _next_id()

    def remove(self) -> None:
        """Take the hook away. Calling it again does nothing."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    # the handle of a copy belongs to the hooks of that copy: pickle and deepcopy follow the dictionary, not a reference

    def __getstate__(self) -> tuple[Any, int]:
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state: tuple[Any, int]) -> None:
        hooks, self.id = state
        self.hooks_dict_ref = weakref.ref(Hooks() if hooks is None else hooks)  # hooks that are gone are gone here, too


class Hooks(dict[int, Callable[..., Any]]):
    """Hooks by handle id, in the order in which they were registered."""

    # no __slots__, as pickle's protocols 0 and 1 take no class that has them

    def register(self, hook: Callable[..., Any], *, prepend: bool = False) -> RemovableHandle:
        """Add a hook, at the front if ``prepend``, and return its handle."""
        return register(self, hook, prepend=prepend)

    def move_to_end(self, key: int, last: bool = True) -> None:
        """Move a hook to the end or the front, as programs do with the ``OrderedDict`` that torch has here."""
        hook, others = self.pop(key), dict(self)
        self.clear()
        self.update({**others, key: hook} if last else {key: hook, **others})


def register(hooks: Any, hook: Callable[..., Any], *, prepend: bool = False) -> RemovableHandle:
    """Add a hook to ours, or to the ``OrderedDict`` that a program put in their place to remove them."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
