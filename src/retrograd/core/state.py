"""Thread-local modes, read once per operation.

``local.mode`` is the only thing the hot path looks at:

* ``RECORD``: gradients are recorded and nobody watches. The usual case.
* ``NO_GRAD``: nothing is recorded and nobody watches.
* ``WATCHED``: something else is going on (inference mode, saved-tensor hooks, an observer); the general path asks what.

The other fields say what that is. Whoever changes one calls :func:`refresh`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

RECORD = 0
NO_GRAD = 1
WATCHED = 2


class _Local(threading.local):
    """What a new thread starts with; torch's threads start the same way."""

    mode: int = RECORD
    grad_enabled: bool = True
    inference: bool = False
    # the stack of (pack, unpack) pairs set by saved_tensors_hooks; None while it is empty
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] | None = None
    saved_hooks_disabled: str | None = None
    # inside a dual level, what gives the results of an operation their tangents
    tangents: Any = None
    duals: Any = ()  # weak references to the tensors that have one
    # the profiler and the detector share this one slot
    observer: Any = None


local = _Local()

# A new number per recorded operation, over all threads: a consumer always has a larger one than its producers.
next_sequence_nr = itertools.count().__next__


def refresh() -> None:
    """Recompute ``local.mode`` after one of the other fields has changed."""
    watched = local.saved_hooks is not None or local.tangents is not None or local.observer is not None
    if local.inference or watched:
        local.mode = WATCHED
    else:
        local.mode = RECORD if local.grad_enabled else NO_GRAD


def set_grad_enabled(mode: bool) -> bool:
    """Switch recording on or off in this thread and return what it was before."""
    previous = local.grad_enabled
    local.grad_enabled = mode
    refresh()
    return previous
