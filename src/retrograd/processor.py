"""Whether there are floating-point flags on this processor. In WebAssembly, as Pyodide has it, there are none."""

from __future__ import annotations

import functools

import numpy as np


@functools.cache
def keeps_flags() -> bool:
    """Whether NumPy detects a division by zero; determined once."""
    heard: list[str] = []
    with np.errstate(all="ignore", divide="call", call=lambda error, flag: heard.append(error)):
        np.divide(np.ones(1), np.zeros(1))
    return bool(heard)
