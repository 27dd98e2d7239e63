"""Warnings from torch while our functions stand between it and the user: which are shown, and where they point."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from retrograd.anomaly.adapters import patches as _patches
from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.stack_frames import OURS
from retrograd.anomaly.warning_filters import Filter

_DISPATCH = torch.overrides.__file__
_SHOWING = (__file__, _patches.__file__, warnings.__file__)
# Warnings that name one of our lines are intercepted; the ones for the user's line are given afterwards.
_HEARD_OF = ("always", _patches.__package__ + ".")


def point_at_callers(patches: Patches, handles: list[Any], heard: Callable[[Any], None]) -> None:
    """Have warnings name the line that they would name without us, and appear as often.

    This lasts until the patches are undone and the added handles are removed. ``heard`` is called with each message
    that is shown.

    ``warnings.warn(..., stacklevel=2)`` in a torch function that we call for the user would point at us.
    """
    if not hasattr(warnings, "_showwarnmsg"):  # called for every warning that is not filtered out
        return
    patches.wrap(warnings, "_showwarnmsg", functools.partial(_show, heard))
    heard_of = Filter(*_HEARD_OF)
    handles.append(heard_of)
    heard_of.put()


def _show(heard: Callable[[Any], None], original: Any, message: Any) -> Any:
    frames = _meant(message)
    if frames is None:
        heard(message)
        return original(message)
    return _give_again(message, *frames)


def _give_again(message: Any, named: FrameType, meant: FrameType) -> None:
    """Repeat a warning for the intended line, whose module has its own filters and registry of given warnings.

    The registry of the module named by mistake must not keep it.
    """
    known = named.f_globals.get("__warningregistry__", {})
    text = str(message.message)
    for last in ((message.lineno,), (0,), ()):  # under the actions "default", "module" and "once"
        known.pop((text, message.category, *last), None)
    warnings.warn_explicit(
        message.message,
        message.category,
        meant.f_code.co_filename,
        meant.f_lineno,
        meant.f_globals.get("__name__"),
        meant.f_globals.setdefault("__warningregistry__", {}),
        source=message.source,
    )


def _meant(message: Any) -> tuple[FrameType, FrameType] | None:
    """The frame a warning names, and the one it would name without us; None if they are the same."""
    giver: FrameType | None = sys._getframe(1)
    while giver is not None and giver.f_code.co_filename in _SHOWING:
        if giver.f_code is _give_again.__code__:
            return None
        giver = giver.f_back
    named, level = giver, 0
    while named is not None and (named.f_code.co_filename, named.f_lineno) != (message.filename, message.lineno):
        named, level = named.f_back, level + 1
    if giver is None or named is None or (_is_ours(giver) and named is not giver):  # a warning of our own
        return None
    frames = _without_us(giver)
    meant = next((frame for number, frame in enumerate(frames) if number == level), None)
    return None if meant is None or meant is named else (named, meant)


def _without_us(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames from one outwards, as they would be without us."""
    inner = None
    while frame is not None:
        if not _is_ours(frame):
            yield frame
            inner = frame.f_code
        elif (caller := frame.f_back) is not None and caller.f_code.co_filename == _DISPATCH:
            # torch calls a function mode from the same function that the mode then calls
            frame = caller
            if frame.f_back is not None and frame.f_back.f_code is inner:
                frame = frame.f_back
        frame = frame.f_back


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(OURS)
