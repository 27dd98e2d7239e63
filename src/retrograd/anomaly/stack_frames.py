"""Whose code a frame runs: the user's, or a library's that stands between the user and us.

A report names a line of the user's, so all code that called on its behalf is skipped, for PyTorch's tensors and
retrograd's alike. The site that the engine notes for every operation does not skip NumPy and SciPy: they reach it
through NumPy's dispatch, seldom by frames of their own; see :mod:`retrograd.core.sites`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import takewhile
from types import CodeType, FrameType, TracebackType

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_BETWEEN = (OURS, "<frozen ", contextlib.__file__, functools.__file__)
_PACKAGES_BETWEEN = ("torch", "numpy", "scipy")
_between: dict[str, bool] = {}  # by file

_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = re.compile(r".*[\\/](?:site|dist)-packages[\\/]([^\\/]+)")


@lru_cache(maxsize=4096)
def _within(filename: str, package: str) -> bool:
    module = sys.modules.get(package)
    path = None if module is None else module.__file__
    return path is not None and filename.startswith(os.path.dirname(path) + os.sep)


def is_library(filename: str, *packages: str) -> bool:
    """Whether a source file belongs to one of these packages, as far as they have been imported."""
    return any(package in sys.modules and _within(filename, package) for package in packages)


def is_between(code: CodeType) -> bool:
    """Whether code calls on the user's behalf: that of this package, torch, NumPy, SciPy or Python itself."""
    known = _between.get(code.co_filename)
    return _is_between_file(code.co_filename) if known is None else known


def _is_between_file(filename: str) -> bool:
    known = _between.get(filename)
    if known is None:
        known = _between[filename] = filename.startswith(_BETWEEN) or is_library(filename, *_PACKAGES_BETWEEN)
    return known


@lru_cache(maxsize=4096)
def package_of(filename: str) -> str | None:
    """The installed package that a source file is a part of, such as ``"transformers"``; None for a program's own."""
    found = _INSTALLED.match(filename)
    return None if found is None else found[1].removesuffix(".py")


def is_own(code: CodeType) -> bool:
    """Whether it is the program's own code: what its author can change."""
    return is_own_file(code.co_filename)


def is_own_file(filename: str) -> bool:
    """Whether a file is the program's own."""
    known = _own.get(filename)
    if known is None:
        known = _own[filename] = _is_written_by_user(filename)
    return known


_own: dict[str, bool] = {}  # by file


def _is_written_by_user(filename: str) -> bool:
    if _is_between_file(filename) or package_of(filename) is not None or filename.startswith(_STANDARD):
        return False
    return not _is_generated(filename)


@lru_cache(maxsize=4096)
def _is_generated(filename: str) -> bool:
    """Whether a library generated a file, as PyG does for every class of layers: it lies among the temporary files.

    A program may lie there as well; then its modules are imported from there.
    """
    folder = os.path.dirname(filename)
    started = getattr(sys.modules.get("__main__"), "__file__", None)
    is_temporary = folder == tempfile.gettempdir() and filename != started
    return is_temporary and folder not in map(os.path.abspath, sys.path)


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those around it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def frames_between(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames from ``frame`` outwards, up to but not including the user's innermost one."""
    return takewhile(lambda each: is_between(each.f_code), outwards(frame))


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The user's innermost frame, from ``frame`` outwards."""
    while frame is not None and is_between(frame.f_code):
        frame = frame.f_back
    return frame


def user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """All frames of the user's, from ``frame`` outwards."""
    return (each for each in outwards(frame) if not is_between(each.f_code))


Position = tuple[CodeType, int]  # an instruction of a function

_MOST_CALLERS = 8


def position_of(frame: FrameType) -> Position:
    """The instruction that a frame is at."""
    return frame.f_code, frame.f_lasti


def callers_of(
    frame: FrameType | None, position: Callable[[FrameType], Position] = position_of
) -> tuple[Position, ...]:
    """The program's own instructions that led to a frame, the innermost first, with no library in between.

    If the frame is not the program's own, the first one may have called a library. ``position`` gives the position of
    a frame.
    """
    each = frame
    while each is not None and not is_own_file(each.f_code.co_filename):
        each = each.f_back
    if each is frame and each is not None:
        each = each.f_back
    found: list[Position] = []
    while each is not None and is_own_file(each.f_code.co_filename) and len(found) < _MOST_CALLERS:
        found.append(position(each))
        each = each.f_back
    return tuple(found)


def depth_of_user() -> int:
    """The number of frames from the caller's to the user's innermost one, both included; for ``stacklevel``."""
    return 1 + sum(1 for _ in frames_between(sys._getframe(1)))


def cut_below_user(error: BaseException) -> None:
    """Cut a traceback at the user's innermost frame: it ends with the line that called a library, not inside it."""
    last = None
    for each in trace_of(error):
        if not is_between(each.tb_frame.f_code):
            last = each
    if last is not None:
        last.tb_next = None


def trace_of(error: BaseException, caught: BaseException | None = None) -> Iterator[TracebackType]:
    """The traceback of an error, from the frame that caught it to the one that raised it.

    If it was raised again with another message, the finally ``caught`` one travelled further: its frames come first.
    """
    trace = error.__traceback__
    if caught is not None and trace is not None:
        way = list(trace_of(caught))
        frames = [each.tb_frame for each in way]
        if caught is not error and trace.tb_frame in frames:
            yield from way[: frames.index(trace.tb_frame)]
    while trace is not None:
        yield trace
        trace = trace.tb_next


def with_causes(error: BaseException) -> list[BaseException]:
    """An error and those from which it was raised again with another message, the original first."""
    errors = [error]
    while (cause := errors[0].__cause__) is not None and cause not in errors:
        errors.insert(0, cause)
    return errors


def rendered_for_notebooks(error: BaseException) -> list[str]:
    """What IPython is to show for an error: its usual traceback, down to the user's line. IPython calls this."""
    cut_below_user(error)
    shell = sys.modules["IPython"].get_ipython()
    return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)


def is_in_backward(error: BaseException) -> bool:
    """Whether an error was raised within a backward pass."""
    return any(each.tb_frame.f_code.co_name == "backward" for each in trace_of(error))
