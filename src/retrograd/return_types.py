"""The classes of several results under names, such as those of ``max(dim)`` and ``linalg.qr``.

>>> isinstance(rg.ones(2, 3).max(dim=1), rg.return_types.max)
True
"""

from __future__ import annotations

from typing import Any

from retrograd.core.named_results import kinds, with_named_results


def __getattr__(name: str) -> Any:
    for op in with_named_results if name not in kinds else ():
        if op.label == name:
            op.output_type  # noqa: B018  # makes the class
            break
    try:
        return kinds[name]
    except KeyError:
        raise AttributeError(f"module 'retrograd.return_types' has no attribute {name!r}") from None
