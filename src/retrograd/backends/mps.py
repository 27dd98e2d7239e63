"""GPUs of Apple's, which retrograd does not use."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Whether tensors can be on such a GPU: no."""
    return False


def is_built() -> bool:
    """Whether such GPUs are supported: no."""
    return False
