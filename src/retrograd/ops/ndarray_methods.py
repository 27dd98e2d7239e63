"""Methods of ndarray that torch's tensors do not have."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.registry import method
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops import sorting


@method
def argpartition(self: Tensor, kth: Any, axis: int | None = -1) -> Tensor:
    """Return the indices that would put the elements on the right side of the ``kth`` in order along ``axis``."""
    return np.argpartition(self, kth, axis)  # type: ignore[return-value]


@method
def choose(self: Tensor, choices: Any, mode: str = "raise") -> Tensor:
    """Return at every index the element of the one of ``choices`` that this tensor of integers selects there."""
    return np.choose(self, choices, mode=mode)  # type: ignore[call-overload]


@method
def compress(self: Tensor, condition: Any, axis: int | None = None) -> Tensor:
    """Return the slices along ``axis`` for which ``condition`` is true."""
    return np.compress(condition, self, axis)  # type: ignore[return-value]


@method
def fill(self: Tensor, value: Any) -> None:
    """Write ``value`` everywhere, in place; NumPy's name for :meth:`fill_`."""
    self.fill_(value)


@method
def searchsorted(self: Tensor, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """Return where the values ``v`` would have to be inserted into this sorted vector to keep it sorted."""
    values = v if isinstance(v, Tensor) else wrap(np.asarray(v, self._data.dtype))
    return sorting.searchsorted(self, values, side=side, sorter=sorter)
