"""What scripts ask ``torch.distributed`` before they use it: there is one process.

torch built without support for several processes answers in the same way.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_available", "is_initialized", "is_torchelastic_launched"]


def is_available() -> bool:
    """Whether several processes can train together: no.

    Examples
    --------
    >>> import retrograd.distributed as dist
    >>> dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
    0
    """
    return False


def is_initialized() -> bool:
    """Whether this process belongs to a group: no."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether this process was started together with others: no."""
    return False


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'retrograd.distributed' has no attribute {name!r}: training runs in one process; use this only where "
        "is_available() is True"
    )
