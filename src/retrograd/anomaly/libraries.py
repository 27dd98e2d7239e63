"""Whose code a frame runs: the user's, or a library's that the user called."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from traceback import walk_tb
from types import FrameType, TracebackType

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@lru_cache(maxsize=4096)
def _within(filename: str, package: str) -> bool:
    module = sys.modules.get(package)
    path = None if module is None else module.__file__
    return path is not None and filename.startswith(os.path.dirname(path) + os.sep)


def is_library(filename: str, *packages: str) -> bool:
    """Whether a source file belongs to one of these packages, as far as they have been imported."""
    return any(package in sys.modules and _within(filename, package) for package in packages)


def depth_of_user(frame: FrameType | None) -> int:
    """How many frames lie between ``frame`` and the user's innermost one, both included; for ``stacklevel``."""
    depth = 1
    while frame is not None and _is_between(frame):
        frame = frame.f_back
        depth += 1
    return depth


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The user's innermost frame, from ``frame`` outwards."""
    while frame is not None and _is_between(frame):
        frame = frame.f_back
    return frame


def _is_between(frame: FrameType) -> bool:
    """Whether it runs code of a library that stands between the user and us."""
    filename = frame.f_code.co_filename
    return filename.startswith(OURS) or is_library(filename, "torch", "numpy", "scipy")


def cut_below_user(trace: TracebackType | None) -> None:
    """Let a traceback end at the user's innermost frame: with the line that called a library, not with the library."""
    last = None
    for each in _links(trace):
        if not _is_between(each.tb_frame):
            last = each
    if last is not None:
        last.tb_next = None


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def rendered_for_notebooks(error: BaseException) -> list[str]:
    """What IPython is to show of an error: its usual traceback, down to the user's line. It calls this itself."""
    cut_below_user(error.__traceback__)
    shell = sys.modules["IPython"].get_ipython()
    return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)


def is_in_backward(error: BaseException) -> bool:
    """Whether an error was raised within a backward pass."""
    return any(frame.f_code.co_name == "backward" for frame, _ in walk_tb(error.__traceback__))
