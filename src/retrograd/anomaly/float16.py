"""The short range of float16."""

from __future__ import annotations

ROUNDS_TO_ZERO = 2.0**-25  # this and what is smaller


def vanishes(eps: float, half: bool) -> bool:
    """Whether a number added to a denominator has no effect: it is 0, or rounds to 0 in float16."""
    return eps == 0 or (half and abs(eps) <= ROUNDS_TO_ZERO)
