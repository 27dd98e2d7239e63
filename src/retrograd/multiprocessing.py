"""The part of ``torch.multiprocessing`` that training scripts call without starting processes themselves.

Tensors are not shared between processes, so nothing here starts one: a model trained by several would stay as it was,
without an error. ``DataLoader(num_workers=...)`` has processes of its own.
"""

from __future__ import annotations

from multiprocessing import cpu_count, freeze_support, get_all_start_methods, get_start_method, set_start_method
from typing import Any

from retrograd.missing_names import missing

__all__ = [
    "cpu_count",
    "freeze_support",
    "get_all_sharing_strategies",
    "get_all_start_methods",
    "get_sharing_strategy",
    "get_start_method",
    "set_sharing_strategy",
    "set_start_method",
]

__path__: list[str] = []  # a package, so that imports from it get advice

_STRATEGIES = ("file_descriptor", "file_system")
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the names that :func:`set_sharing_strategy` takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Return the strategy set by :func:`set_sharing_strategy`."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Take note of how tensors should be handed from process to process; they are always copied."""
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise ValueError(f"set_sharing_strategy: {new_strategy!r} is not one of {', '.join(map(repr, _STRATEGIES))}")
    _strategy = new_strategy


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
