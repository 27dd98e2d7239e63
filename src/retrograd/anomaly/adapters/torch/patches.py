"""Functions of torch replaced for a time, and put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """Replaces attributes of modules and classes until :meth:`undo`.

    A replacement is called with the original and its arguments. Where somebody else has put something over it in the
    meantime, that stays, and the replacement goes on as the original.
    """

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []
        self._on = True

    def wrap(self, owner: Any, name: str, replacement: Callable[..., Any]) -> None:
        """Have ``replacement(original, *args, **kwargs)`` called for an attribute of ``owner``."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs) if self._on else original(*args, **kwargs)

        setattr(owner, name, patched)
        self._done.append((owner, name, patched, original))

    def undo(self) -> None:
        """Put everything back."""
        self._on = False
        for owner, name, patched, original in reversed(self._done):
            if vars(owner).get(name) is patched:
                setattr(owner, name, original)
        self._done = []
