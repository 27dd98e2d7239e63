"""The switches of cuDNN, which retrograd does not use."""

from __future__ import annotations

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available", "version"]

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether cuDNN is used: no."""
    return False


def version() -> None:
    """Return the version of cuDNN: None."""
