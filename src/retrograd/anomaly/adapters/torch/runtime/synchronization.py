"""Waiting for a device: its earlier failures are raised in whoever waits first, and that may be the watch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from retrograd.anomaly.shell import with_environment

F = TypeVar("F", bound=Callable[..., Any])

_AcceleratorError: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)
_WAITED = (
    "An earlier operation failed on the device; the watch was only the first to wait for it. To find that\n"
    "operation, run: {}"
)


def is_of_device(error: BaseException) -> bool:
    """Whether an error came from a device, from which nothing can be read afterwards."""
    return isinstance(error, _AcceleratorError) and str(error).startswith("CUDA error")


def waits(function: F) -> F:
    """Wrap a function of ours that waits for a device: its error then says that it is not the one that failed."""

    @functools.wraps(function)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if is_of_device(error):
                note = _WAITED.format(with_environment({"CUDA_LAUNCH_BLOCKING": "1"}, sys.orig_argv))
                if note not in getattr(error, "__notes__", ()):  # such functions may be nested
                    error.add_note(note)
            raise

    return waiting  # type: ignore[return-value]
