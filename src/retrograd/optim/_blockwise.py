"""Updates that treat every element alike, block by block.

An update such as Adam's is a number of passes over five arrays. Done block by block, with each block's arrays in the
cache, it reads and writes memory once; and threads share the blocks of all parameters of a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from retrograd.core.blocks import get_num_threads, share_out
from retrograd.core.monitor import silenced

# Elements of one block (measured): smaller ones cost more calls, and threads that wait for the interpreter lock.
BLOCK = 1 << 18
# From so many elements on, threads pay for themselves: sooner than for a single ufunc, as there is more to do.
LARGE = 1 << 17


class _Scratch(threading.local):
    """The temporaries of a thread, by dtype and number."""

    def __init__(self) -> None:
        self.arrays: dict[tuple[str, int], Any] = {}


_scratch = _Scratch()

# Called with slices of the parameter, of its gradient, of the arrays of its state, and of temporaries, all of one size.
Kernel = Callable[..., None]


class Update(NamedTuple):
    """What a step does to one parameter.

    Parameters
    ----------
    kernel
        The function to run.
    param
        The parameter's array, which is written to.
    grad
        The gradient, which is not.
    state
        The arrays of its state, which are written to.
    temporaries
        How many arrays the kernel needs besides.
    """

    kernel: Kernel
    param: Any
    grad: Any
    state: Sequence[Any]
    temporaries: int


def as_vector(array: Any) -> Any:
    """The elements of an array in C order, complex ones as pairs; on the memory of the array if it is contiguous."""
    if array.ndim == 1 and array.flags.c_contiguous and array.dtype.kind != "c":
        return array
    flat = (array if array.flags.c_contiguous else array.copy()).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


@silenced
def run_updates(updates: Sequence[Update]) -> None:
    """Run the kernels of a step over their parameters."""
    vectors = [[as_vector(array) for array in (update.param, update.grad, *update.state)] for update in updates]

    def work(number: int, low: int, high: int) -> None:
        update, arrays = updates[number], vectors[number]
        blocks = [array[low:high] for array in arrays]
        update.kernel(*blocks, *[_temporary(number, blocks[0]) for number in range(update.temporaries)])

    sizes = [arrays[0].size if type(arrays[0]) is np.ndarray else 0 for arrays in vectors]
    total, threads = sum(sizes), get_num_threads()
    if threads == 1 or total < LARGE:
        for block in _blocks(sizes, BLOCK):
            work(*block)
    else:
        share_out(work, _blocks(sizes, BLOCK))
    for number, (param, *_) in enumerate(vectors):
        if type(param) is not np.ndarray:  # blocks are for the cache of a CPU
            work(number, 0, param.size)
    for update, (param, _, *state) in zip(updates, vectors, strict=True):
        for array, vector in zip((update.param, *update.state), (param, *state), strict=True):
            if not array.flags.c_contiguous:
                array[...] = (vector.view(array.dtype) if array.dtype.kind == "c" else vector).reshape(array.shape)


def _temporary(number: int, like: Any) -> Any:
    """One of this thread's temporaries; kept from step to step, as fresh memory costs a page fault every few KB."""
    if type(like) is not np.ndarray:
        return np.empty_like(like)
    key = like.dtype.char, number
    if key not in _scratch.arrays:
        _scratch.arrays[key] = np.empty(BLOCK, like.dtype)
    return _scratch.arrays[key][: like.size]


def _blocks(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int, int]]:
    """Blocks of at most so many elements: the number of the vector, begin and end."""
    for number, size in enumerate(sizes):
        for low in range(0, size, most):
            yield number, low, min(low + most, size)
