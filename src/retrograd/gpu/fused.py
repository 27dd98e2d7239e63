"""Arithmetic that is one kernel on a GPU, where NumPy needs a ufunc, and a pass over memory, for each step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from retrograd.gpu.handing import call


def fused(name: str, inputs: str, outputs: str, operation: str) -> Callable[..., None]:
    """A function of numbers and of arrays of one dtype, some of which it writes to.

    Parameters
    ----------
    name
        Its name.
    inputs
        The names of what it reads.
    outputs
        The names of arrays that it writes to, and may read; given behind the inputs.
    operation
        What it does to each element, in C: assignments.
    """
    read, written = (", ".join(f"T {each}" for each in names.split()) for names in (inputs, outputs))

    def run(*operands: Any) -> None:
        call(_kernel(read, written, operation, name), operands, {})

    return run


@functools.cache
def _kernel(inputs: str, outputs: str, operation: str, name: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(inputs, outputs, operation, name, no_return=True)
