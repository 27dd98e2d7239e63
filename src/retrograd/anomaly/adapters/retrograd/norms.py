"""The norms of gradients and updates, for the guards."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.elements import reals
from retrograd.core.tensor import Tensor


def norm(array: ndarray) -> float:
    """The Euclidean norm, correct even if squares overflow or underflow; NaN or infinite only if an element is."""
    array = reals(array)
    flat = array.reshape(-1)
    if array.dtype.itemsize >= 4:
        square = float(np.vdot(flat, flat))  # raises no flags
        if _SMALLEST < square < math.inf:
            return math.sqrt(square)
    largest = float(np.abs(flat).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = flat.astype(np.float64) / largest
    return largest * math.sqrt(float(np.vdot(scaled, scaled)))


def leaf_norms(leaves: Iterable[Tensor]) -> list[float]:
    """The norms of leaves."""
    return [norm(leaf._data) for leaf in leaves]


_SMALLEST = 1e-30  # below this, float32 may lose squares


class Growth:
    """Measures how much an optimizer has changed the weights, by copies of their previous values."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[weakref.ref[Tensor], ndarray]] = {}

    def ratio(self, leaves: Iterable[Tensor]) -> float | None:
        """The norm of the change since the last call, relative to that of the weights; None if nothing changed."""
        changes, sizes = [], []
        for leaf in leaves:
            reference, before = self._before.get(id(leaf), (None, None))
            if before is not None and reference is not None and reference() is leaf and before.shape == leaf.shape:
                with np.errstate(all="ignore"):
                    changes.append(norm(leaf._data - before))
                sizes.append(norm(before))
            self._before[id(leaf)] = weakref.ref(leaf), leaf._data.copy()
        self._before = {key: each for key, each in self._before.items() if each[0]() is not None}
        change, size = math.hypot(*changes), math.hypot(*sizes)
        return change / size if change > 0.0 and size > 0.0 else None
