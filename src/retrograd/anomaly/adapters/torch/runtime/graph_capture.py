"""Graphs made by running code, CUDA graphs and traces; and modules that have become CUDA graphs."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch

_TRACING = torch._C._TorchDispatchModeKey.PROXY
_graphed: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


def capturing() -> bool:
    """Whether the current stream is being captured, or the code is being traced, as by ``make_fx``, ``func.linearize``.

    Then nothing can be read: waiting for the device would destroy the capture, and traced tensors have no numbers.
    Whatever is launched becomes a part of the graph.
    """
    if torch._C._get_dispatch_mode(_TRACING) is not None:
        return True
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
