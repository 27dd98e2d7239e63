"""Programs that use ``torch.compile``."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch


def in_use() -> bool:
    """Whether the program has asked for anything to be compiled."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return dynamo is not None and any(each is not None for each in dynamo.cached_backends.values())


def uncompiled() -> contextlib.AbstractContextManager[Any]:
    """A context in which compiled functions run as they were written."""
    return torch.compiler.set_stance("force_eager") if in_use() else contextlib.nullcontext()
