"""The classes of several results under names, such as those of ``max(dim)`` and ``linalg.qr``.

>>> isinstance(rg.ones(2, 3).max(dim=1), rg.return_types.max)
True
"""

from __future__ import annotations

from typing import Any

from retrograd.core.named_results import kinds


def __getattr__(name: str) -> Any:
    try:
        return kinds[name].type
    except KeyError:
        raise AttributeError(f"module 'retrograd.return_types' has no attribute {name!r}") from None
