"""Bound methods stored in something that their object holds, where a plain one would make a reference cycle."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weak(method: Callable[..., Any]) -> Callable[..., Any]:
    """A bound method that does not keep its object alive; once that is gone, a call does nothing and returns None.

    So the last reference to a finished watch frees it and its model, without the cyclic garbage collector.
    """
    told = weakref.WeakMethod(method)

    def call(*args: Any, **kwargs: Any) -> Any:
        found = told()
        return None if found is None else found(*args, **kwargs)

    return call
