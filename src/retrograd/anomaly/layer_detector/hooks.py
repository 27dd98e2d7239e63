"""Hooks on the layers of a model that are not copied with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """A function with its first arguments. Copying or pickling a model does not take the detector along."""

    def __init__(self, function: Callable[..., None], *first: Any) -> None:
        self._function = function
        self._first = first

    def __call__(self, *args: Any) -> None:
        self._function(*self._first, *args)

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()


def _nothing() -> Callable[..., None]:
    """The hook of a copied model."""
    return _ignore


def _ignore(*args: Any) -> None:
    """Do nothing."""
