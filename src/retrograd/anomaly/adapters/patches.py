"""Temporary replacements of functions and methods of libraries."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Patches:
    """Replaces attributes of modules, classes and other objects until :meth:`undo`.

    A replacement is called with the original and its arguments. If something else has been patched over it in the
    meantime, that stays, and the replacement acts as the original; if that is another ``Patches``, undoing it removes
    this one, too.
    """

    def __init__(self) -> None:
        self._done: list[tuple[Any, str]] = []
        self._on = True

    def wrap(self, owner: Any, name: str, replacement: Callable[..., Any]) -> None:
        """Have ``replacement(original, *args, **kwargs)`` called for an attribute of ``owner``."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs) if self._on else original(*args, **kwargs)

        _replaced[patched] = self, original
        if name not in vars(owner):
            _inherited.add(patched)
        self._done.append((owner, name))  # before setattr: an interrupt may come in between
        setattr(owner, name, patched)

    def undo(self) -> None:
        """Put everything back."""
        self._on = False
        for owner, name in reversed(self._done):
            while (present := vars(owner).get(name)) is not None:
                known = _replaced.get(present)
                if known is None or known[0]._on:
                    break
                if present in _inherited:
                    delattr(owner, name)
                else:
                    setattr(owner, name, known[1])
        self._done = []


@contextmanager
def replaced(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Have ``replacement(original, *args, **kwargs)`` called for a method of an object or a class, in this block."""
    patches = Patches()
    patches.wrap(owner, name, replacement)
    try:
        yield
    finally:
        patches.undo()


def do_nothing(original: Any, *args: Any, **kwargs: Any) -> None:
    """The replacement of a function that must not run: in the second run of a step, what the first has done already."""


# Replacements, with the Patches they belong to and what they replaced.
_replaced: weakref.WeakKeyDictionary[Callable[..., Any], tuple[Patches, Any]] = weakref.WeakKeyDictionary()

# The replacements whose owner had only inherited the original.
_inherited: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()
