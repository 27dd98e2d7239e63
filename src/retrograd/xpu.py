"""What scripts ask ``torch.xpu`` before they choose a device: there are no tensors on Intel's GPUs."""

from __future__ import annotations

from typing import Any

from retrograd.missing_names import missing

__all__ = ["device_count", "is_available"]

__path__: list[str] = []  # a package, so that imports from it get advice


def is_available() -> bool:
    """Whether tensors can be on Intel's GPUs: no.

    Examples
    --------
    >>> "xpu" if rg.xpu.is_available() else "cpu"
    'cpu'
    """
    return False


def device_count() -> int:
    """How many of Intel's GPUs there are for tensors: none."""
    return 0


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
