"""Where warnings point that torch gives while our functions stand between it and the user."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch

from retrograd.anomaly.adapters.torch.patches import Patches
from retrograd.anomaly.libraries import OURS


def point_at_callers(patches: Patches) -> None:
    """Have warnings name the line that they would name without us.

    ``warnings.warn(..., stacklevel=2)`` in a function of torch that we have called for the user points at us.
    """
    if hasattr(warnings, "_showwarnmsg"):  # what every warning that is not filtered out goes through
        patches.wrap(warnings, "_showwarnmsg", _show)


def _show(original: Any, message: Any) -> Any:
    if message.filename.startswith(OURS):
        _move(message)
    return original(message)


def _move(message: Any) -> None:
    """Move a warning from our line to that of our caller."""
    inner, frame = None, sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != (message.filename, message.lineno):
        inner, frame = frame, frame.f_back  # type: ignore[assignment]
    while frame is not None and inner is not None:
        code = frame.f_code
        # torch calls a function mode from the function that the mode calls then
        if code is not inner.f_code and code.co_filename != _DISPATCH and not code.co_filename.startswith(OURS):
            message.filename, message.lineno = code.co_filename, frame.f_lineno
            return
        frame = frame.f_back  # type: ignore[assignment]


_DISPATCH = torch.overrides.__file__
