"""Where in an array its bad elements lie: in one sample, in one channel, in all samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray


def extent(bad: ndarray) -> dict[str, Any]:
    """What the indices of bad elements have in common, for the context of an event.

    Parameters
    ----------
    bad
        True where an element is bad.

    Returns
    -------
    dict
        ``"slice"``: the indices that all bad elements share, as ``"[:, 2]"``, if they are several and share one;
        ``"every"``: True if each sample, along the first dimension, has one.
    """
    places = np.argwhere(bad)
    found: dict[str, Any] = {}
    if len(places) < 2:
        return found
    shared = [
        str(places[0, dim]) if size > 1 and (places[:, dim] == places[0, dim]).all() else ":"
        for dim, size in enumerate(bad.shape)
    ]
    while shared and shared[-1] == ":":
        shared.pop()
    if shared:
        found["slice"] = f"[{', '.join(shared)}]"
    if bad.shape[0] > 1 and len(np.unique(places[:, 0])) == bad.shape[0]:
        found["every"] = True
    return found
