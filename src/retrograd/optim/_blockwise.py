"""Updates that treat every element alike, block by block.

An update such as Adam's is a dozen passes over five arrays. Done block by block, with each block's arrays in the
cache, it reads and writes memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.core.blocks import get_num_threads, share

# Elements of one block (measured): smaller ones cost more calls, and threads that wait for the interpreter lock.
BLOCK = 1 << 16
# From this many elements on, threads pay for themselves: sooner than for a single ufunc, as there is more to do.
LARGE = 1 << 17

# Called with slices of the parameter, of its gradient, of the arrays of its state, and of temporaries, all of one size.
Kernel = Callable[..., None]


def as_vector(array: Any) -> Any:
    """The elements of an array in C order, complex ones as pairs; on the memory of the array if it is contiguous."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def update_blockwise(kernel: Kernel, param: Any, grad: Any, state: Sequence[Any], temporaries: int) -> None:
    """Run a kernel over a parameter and its state, both of which it writes to, and its gradient, which it may not."""
    written = [param, *state]
    vectors = [as_vector(array) for array in written]
    arrays = [vectors[0], as_vector(grad), *vectors[1:]]
    size = arrays[0].size

    def work(start: int, stop: int) -> None:
        buffers = [np.empty_like(arrays[0], shape=min(stop - start, BLOCK)) for _ in range(temporaries)]
        for low in range(start, stop, BLOCK):
            high = min(low + BLOCK, stop)
            kernel(*[array[low:high] for array in arrays], *[buffer[: high - low] for buffer in buffers])

    if size <= BLOCK or not isinstance(param, np.ndarray):
        kernel(*arrays, *[np.empty_like(arrays[0]) for _ in range(temporaries)])
    elif size < LARGE or get_num_threads() == 1:
        work(0, size)
    else:
        share(work, 0, size)
    for array, vector in zip(written, vectors, strict=True):
        if not array.flags.c_contiguous:
            array[...] = (vector.view(array.dtype) if array.dtype.kind == "c" else vector).reshape(array.shape)
