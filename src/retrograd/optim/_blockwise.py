"""Updates that treat every element alike, block by block.

An update such as Adam's is a number of passes over five arrays. Done block by block, with each block's arrays in the
cache, it reads and writes memory once; and threads share the blocks of all parameters of a step. Small parameters are
updated together, as one vector: the calls for each would take longer than the arithmetic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from retrograd.core.blocks import get_num_threads, share_out
from retrograd.core.monitor import silenced

# Elements of one block (measured): smaller ones cost more calls, and threads that wait for the interpreter lock.
BLOCK = 1 << 18
# From so many elements on, threads pay for themselves: sooner than for a single ufunc, as there is more to do.
LARGE = 1 << 17
# Elements up to which parameters are updated together (measured).
SMALL = 1 << 12


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


class _Task:
    """The updates of parameters that have a kernel in common, as one of vectors: their elements in a row.

    Parameters
    ----------
    updates
        One, or several of small parameters of one dtype.
    """

    def __init__(self, updates: Sequence[Update]) -> None:
        self.kernel, self.temporaries = updates[0].kernel, updates[0].temporaries
        self.columns = list(zip(*[(each.param, each.grad, *each.state) for each in updates], strict=True))
        if len(updates) == 1:
            self.vectors = [as_vector(array) for (array,) in self.columns]
        else:
            self.vectors = [np.concatenate([as_vector(array) for array in column]) for column in self.columns]
        self.size = self.vectors[0].size
        self.on_cpu = type(self.vectors[0]) is np.ndarray

    def run(self, low: int, high: int) -> None:
        """Run the kernel on a part of the vectors."""
        parts = [vector[low:high] for vector in self.vectors]
        self.kernel(*parts, *[_temporary(number, parts[0]) for number in range(self.temporaries)])

    def put_back(self) -> None:
        """Write to the arrays what is only in the vectors."""
        for column, vector in zip(self.columns, self.vectors, strict=True):
            if column is self.columns[1] or (len(column) == 1 and column[0].flags.c_contiguous):
                continue  # gradients are not written to
            numbers = vector.view(column[0].dtype) if column[0].dtype.kind == "c" else vector
            end = 0
            for array in column:
                start, end = end, end + array.size
                array[...] = numbers[start:end] if array.ndim == 1 else numbers[start:end].reshape(array.shape)


def _tasks(updates: Sequence[Update]) -> list[_Task]:
    """The tasks of a step, those of small parameters first: a thread that helps needs a moment to wake up."""
    together: dict[Any, list[Update]] = {}
    alone = []
    # one that is on the memory of another is updated after it, not from what was there before
    are_apart = len({_owner(update) for update in updates}) == len(updates)
    for update in updates:
        param = update.param
        if are_apart and param.size <= SMALL and type(param) is np.ndarray:
            together.setdefault((update.kernel, param.dtype), []).append(update)
        else:
            alone.append([update])
    return [_Task(each) for each in (*together.values(), *alone)]


def _owner(update: Update) -> int:
    """Which array's memory the parameter is on."""
    base = getattr(update.param, "base", None)
    return id(update.param if base is None else base)


@silenced
def run_updates(updates: Sequence[Update]) -> None:
    """Run the kernels of a step over their parameters."""
    tasks = _tasks(updates)
    blocks = [
        (task, low, min(low + BLOCK, task.size)) for task in tasks if task.on_cpu for low in range(0, task.size, BLOCK)
    ]
    if get_num_threads() == 1 or sum(task.size for task in tasks if task.on_cpu) < LARGE:
        for block in blocks:
            _Task.run(*block)
    else:
        share_out(_Task.run, blocks)
    for task in tasks:
        if not task.on_cpu:  # blocks are for the cache of a CPU
            task.run(0, task.size)
        task.put_back()


def _temporary(number: int, like: Any) -> Any:
    """One of this thread's temporaries; kept from step to step, as fresh memory costs a page fault every few KB."""
    if type(like) is not np.ndarray:
        return np.empty_like(like)
    key = like.dtype.char, number
    if key not in _scratch.arrays:
        _scratch.arrays[key] = np.empty(BLOCK, like.dtype)
    return _scratch.arrays[key][: like.size]
