"""Arithmetic that is one kernel on a GPU, where NumPy needs a ufunc, and a pass over memory, for each step."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from retrograd.gpu.array import DeviceArray
from retrograd.gpu.cupy_calls import call

F = TypeVar("F", bound=Callable[..., Any])


def fused(name: str, inputs: str, outputs: str, operation: str) -> Callable[..., Any]:
    """A function of numbers, and of arrays of one dtype on a GPU, which are broadcast.

    Parameters
    ----------
    name
        Its name.
    inputs
        The names of what it reads, the arrays and the numbers.
    outputs
        The names of the arrays that it writes to, and may read. They come behind the inputs.
    operation
        What it does to each element, in C: assignments.
    """
    read, written = (", ".join(f"T {each}" for each in names.split()) for names in (inputs, outputs))

    def run(*operands: Any) -> Any:
        return call(_kernel(read, written, operation, name), operands, {})

    return run


@functools.cache
def _kernel(inputs: str, outputs: str, operation: str, name: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(inputs, outputs, operation, name)


def one_kernel(operation: str) -> Callable[[F], F]:
    """Run a function that writes to its last parameter as one kernel where its first one is an array on a GPU.

    Parameters
    ----------
    operation
        In C, what is written there.
    """

    def decorate(function: F) -> F:
        *inputs, output = inspect.signature(function).parameters
        on_gpu = fused(function.__name__.strip("_"), " ".join(inputs), output, f"{output} = {operation}")

        @functools.wraps(function)
        def run(*operands: Any) -> Any:
            return (on_gpu if type(operands[0]) is DeviceArray else function)(*operands)

        return run  # type: ignore[return-value]

    return decorate
