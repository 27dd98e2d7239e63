"""The dispatch modes that are in force, the program's and ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)


def unseen() -> contextlib.AbstractContextManager[Any]:
    """A context for our own work, of which no mode is told."""
    return _disable_current_modes()


@contextlib.contextmanager
def above(mode: Any = None) -> Iterator[None]:
    """A context without the modes that lie above one on the stack, or without any."""
    taken = []
    while (stack := _get_current_dispatch_mode_stack()) and stack[-1] is not mode:
        taken.append(_pop_mode())
    try:
        yield
    finally:
        for each in reversed(taken):
            _push_mode(each)
