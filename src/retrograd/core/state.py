"""Thread-local modes, read once per operation.

``local.mode`` is the only thing the hot path looks at:

* ``RECORD``: gradients are recorded and nothing observes. The usual case.
* ``NO_GRAD``: nothing is recorded and nothing observes.
* ``WATCHED``: something else is active (inference mode, saved-tensor hooks, an observer, a monitor that checks each
  result because there are no floating-point flags); the general path finds out what.
* ``SITES``: as ``RECORD``, and every node notes where it was called, because of anomaly mode or a monitor.

The other fields say what that is. Code that changes one must call :func:`refresh`.

An interrupt (Ctrl-C) arrives where something is called, never between two stores. So code that restores modes in a
``finally`` stores all of them first, including ``mode``, and calls something only then.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

RECORD = 0
NO_GRAD = 1
WATCHED = 2
SITES = 3

# The monitor of all threads, or None; see retrograd.anomaly. The engine notifies it of every backward.
monitor: Any = None


class _Local(threading.local):
    """What a new thread starts with; torch's threads start the same way."""

    mode: int = RECORD
    grad_enabled: bool = True
    inference: bool = False
    # whether inference tensors may be saved: a transform is running whose results nothing outside differentiates
    untracked: bool = False
    transforms: int = 0  # how many functions transformed by retrograd.func are running, nested in one another
    # the stack of (pack, unpack) pairs set by saved_tensors_hooks; None while it is empty
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] | None = None
    saved_hooks_disabled: str | None = None
    # notified of a tensor before an in-place operation writes to it; see allow_mutation_on_saved_tensors
    before_write: Callable[[Any], None] | None = None
    # the backward that this thread is in the middle of, for the hooks that run in it; an engine.GraphTask
    graph_task: Any = None
    multithreading: bool = True  # a setting without effect; see set_multithreading_enabled
    dual_level: Any = None  # the innermost forward_mode.Level
    forward_enabled: bool = True
    # what gives the results of an operation their tangents: the dual level, unless forward mode is off
    tangents: Any = None
    # the active calls of vmap, outermost first, and the function that lifts operands shared by all their samples
    vmaps: tuple[Any, ...] = ()
    lift: Any = None
    observer: Any = None  # what is notified of every operation, see observer.py: one, or one that stands for several
    grad_layout: bool = True  # whether a gradient that may be taken over must lie in memory as its leaf does
    anomaly: Any = None  # anomaly mode's settings
    evaluating: Any = None  # the node that the engine is at, in anomaly mode and where gradients are Tensors
    within: Any = None  # the innermost call of an nn.Module under way, while a monitor is on; a sites.Within
    outside: Any = None  # the stack seen last, see sites._stack
    reached: Any = None  # the leaves that the backward under way has reached, in the monitor's list
    listens: bool = False  # whether the monitor is notified of flags raised in this thread

    def __init__(self) -> None:
        """Run once in every thread, when it first reads a mode."""
        if monitor is not None:
            monitor.enter_thread()


local = _Local()

# A new number per recorded operation, over all threads: a consumer always has a larger one than its producers.
next_sequence_nr = itertools.count().__next__


def refresh() -> None:
    """Recompute ``local.mode`` after one of the other fields has changed."""
    local.mode = _mode(local.grad_enabled)


def _mode(grad_enabled: bool) -> int:
    """The mode that follows from the other fields; the level whose tangents are kept is recomputed first."""
    if local.dual_level is not None:
        local.tangents = local.dual_level if local.forward_enabled and not local.inference else None
    watched = local.saved_hooks is not None or local.tangents is not None or local.observer is not None
    if (
        local.inference
        or watched
        or local.before_write is not None
        or local.lift is not None
        or (monitor is not None and monitor.looks)
    ):
        return WATCHED
    if not grad_enabled:
        return NO_GRAD
    return RECORD if monitor is None and local.anomaly is None else SITES


def set_monitor(new: Any) -> Any:
    """Let ``new`` observe all threads (None: no monitor) and return the previous monitor.

    Threads that have not changed a mode yet follow at once, others at their next change, such as a backward.
    """
    global monitor
    previous, monitor = monitor, new
    _Local.mode = RECORD if new is None else WATCHED if new.looks else SITES
    refresh()
    return previous


def set_grad_enabled(mode: bool) -> bool:
    """Switch recording on or off in this thread and return what it was before; inference mode keeps it off."""
    previous = local.grad_enabled
    enabled = mode and not local.inference
    # both last, as an interrupt can only arrive where something is called
    local.mode, local.grad_enabled = _mode(enabled), enabled
    return previous


def set_dual_level(level: Any) -> Any:
    """Let tensors of this thread have tangents in ``level`` (None: not at all) and return what it was before."""
    previous = local.dual_level
    local.dual_level = local.tangents = level
    refresh()
    return previous
