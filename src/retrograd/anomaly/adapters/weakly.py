"""Methods given to what their object itself holds, which with a plain method would be a cycle."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """A bound method that does not keep its object alive; nothing is called, and None the answer, once that is gone.

    So a watch that has ended goes with the last name for it, and its model with it, without the collector of cycles.
    """
    told = weakref.WeakMethod(method)

    def call(*args: Any, **kwargs: Any) -> Any:
        found = told()
        return None if found is None else found(*args, **kwargs)

    return call
