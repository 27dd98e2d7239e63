"""CUDA graphs: whether one is being captured, and the modules that have become some."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch

_graphed: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


def capturing() -> bool:
    """Whether the current stream is being captured.

    Then nothing can be read: to wait for the device would destroy the capture. What is launched becomes a part of it.
    """
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


@contextlib.contextmanager
def noting_graphed(callables: Any) -> Iterator[None]:
    """A context in which torch gives modules a ``forward`` of their own, which replays a graph."""
    several = callables if isinstance(callables, tuple) else (callables,)
    modules = [each for each in several if isinstance(each, torch.nn.Module) and "forward" not in vars(each)]
    yield
    _graphed.update(modules)


@contextlib.contextmanager
def ungraphed() -> Iterator[None]:
    """A context in which these modules run as they were written."""
    taken = [(vars(each), vars(each).pop("forward")) for each in list(_graphed) if "forward" in vars(each)]
    try:
        yield
    finally:
        for variables, forward in taken:
            variables["forward"] = forward
