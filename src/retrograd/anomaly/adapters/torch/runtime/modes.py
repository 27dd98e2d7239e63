"""The active modes: dispatch modes, the program's and ours, and autocast."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)


def unseen() -> contextlib.AbstractContextManager[Any]:
    """A context for our own work, hidden from all modes."""
    return _disable_current_modes()


def back_on_after_interrupt(were_on: bool) -> None:
    """Turn gradients on again if they ``were_on`` and an interrupt is handled now.

    torch switches them in Python: an interrupt that comes within the switch, or within a mode that is told of it,
    leaves them off for good.
    """
    if were_on and isinstance(sys.exc_info()[1], KeyboardInterrupt):
        torch.set_grad_enabled(True)


@contextlib.contextmanager
def above(mode: Any = None) -> Iterator[None]:
    """A context without the modes above a given one on the stack, or without any."""
    taken = []
    while (stack := _get_current_dispatch_mode_stack()) and stack[-1] is not mode:
        taken.append(_pop_mode())
    try:
        yield
    finally:
        for each in reversed(taken):
            _push_mode(each)


def autocasts() -> list[tuple[str, torch.dtype]]:
    """The device types for which autocast is on, with its dtypes."""
    if not torch._C._is_any_autocast_enabled():
        return []
    return [(kind, torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]


def autocast_as(states: list[tuple[str, torch.dtype]]) -> contextlib.ExitStack:
    """A context with autocast as it was when the model was called."""
    stack = contextlib.ExitStack()
    for kind, dtype in states:
        stack.enter_context(torch.autocast(kind, dtype=dtype))
    return stack
