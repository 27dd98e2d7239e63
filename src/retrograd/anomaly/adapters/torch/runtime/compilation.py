"""Programs that use ``torch.compile``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

from retrograd.anomaly.adapters.torch.runtime.graph_capture import ungraphed


def in_use() -> bool:
    """Whether the program has asked for anything to be compiled."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return dynamo is not None and any(each is not None for each in dynamo.cached_backends.values())


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """A context in which compiled functions, and modules that replay a graph, run as they were written."""
    with ungraphed(), torch.compiler.set_stance("force_eager") if in_use() else contextlib.nullcontext():
        yield
