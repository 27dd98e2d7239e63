"""Arguments that are one number for all spatial dimensions, or one for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def ntuple(value: Any, n: int) -> tuple[Any, ...]:
    """``n`` times the number, or the numbers given."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n
