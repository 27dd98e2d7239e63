"""What is computed on the CPU for arrays on a GPU: what CuPy lacks, and loops over single rows and elements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.gpu.array import DeviceArray
from retrograd.gpu.cupy_calls import leaves


def on_cpu(value: Any) -> Any:
    """The value with our arrays replaced by NumPy's, also inside lists."""
    if type(value) is DeviceArray:
        return value.get()
    if isinstance(value, (list, tuple)):
        return type(value)([on_cpu(item) for item in value])
    return value


def computed_on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of arrays work on copies in the computer's memory; its results go back to its operands' GPU."""

    @functools.wraps(function)
    def compute(*args: Any, **kwargs: Any) -> Any:
        beside = next((value for value in leaves([*args, *kwargs.values()]) if type(value) is DeviceArray), None)
        if beside is None:
            return function(*args, **kwargs)
        made = function(*map(on_cpu, args), **{key: on_cpu(value) for key, value in kwargs.items()})
        return back(made, beside)

    return compute


def back(made: Any, beside: DeviceArray) -> Any:
    """Move a result that was computed on the CPU to the GPU of ``beside``."""
    if isinstance(made, (tuple, list)):
        parts = [back(part, beside) for part in made]
        return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
    return np.asarray(made, like=beside) if isinstance(made, (np.ndarray, np.generic)) else made
