"""The shape of a tensor."""

from __future__ import annotations

import math


class Size(tuple[int, ...]):
    """A shape: a tuple of ints with ``numel()``."""

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"retrograd.Size({list(self)})"
