"""Updates that treat every element alike, block by block.

An update such as Adam's is a number of passes over five arrays. Done block by block, with each block's arrays in the
cache, it reads and writes memory once; and threads share the blocks of all parameters of a step. Small parameters are
updated together, as one vector: the calls for each would take longer than the arithmetic.

How the work is laid out depends on the arrays alone, which are the same in every step but for the gradients: so a
:class:`Plan` is kept from step to step. The interpreter's own work counts here, as threads wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from retrograd.core.blocks import get_num_threads, share_out
from retrograd.core.monitor import silenced
from retrograd.core.tensor import Tensor

# Elements of one block (measured): smaller ones cost more calls, and threads that wait for the interpreter lock.
BLOCK = 1 << 18
# From so many elements on, threads pay for themselves: sooner than for a single ufunc, as there is more to do. Kernels
# of few passes need more (measured).
LARGE = 1 << 19
# Elements up to which parameters are updated together (measured).
SMALL = 1 << 12


# Called with slices of the parameter, of its gradient, of the arrays of its state, and of temporaries, all of one size.
Kernel = Callable[..., None]


class Update(NamedTuple):
    """What a step does to parameters.

    Parameters
    ----------
    kernel
        The function to run; writes to the parameter and its state, not to the gradient.
    state
        The names of the tensors of the state that it works on.
    temporaries
        How many arrays it needs besides.
    """

    kernel: Kernel
    state: tuple[str, ...]
    temporaries: int


def as_vector(array: Any) -> Any:
    """The elements of an array in C order, complex ones as pairs; on the memory of the array if it is contiguous."""
    if array.ndim == 1 and array.flags.c_contiguous and array.dtype.kind != "c":
        return array
    flat = (array if array.flags.c_contiguous else array.copy()).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _joined(arrays: Sequence[Any], out: Any = None) -> Any:
    """The elements of several arrays, one after another, as one vector; on the memory of the only one, if it can be."""
    if len(arrays) > 1:
        return np.concatenate([as_vector(array) for array in arrays], out=out)
    if out is None:
        return as_vector(arrays[0])
    out[...] = as_vector(arrays[0])
    return out


def _parted(vector: Any, arrays: Sequence[Any]) -> Iterator[Any]:
    """The parts of such a vector, shaped like the arrays."""
    numbers = vector.view(arrays[0].dtype) if arrays[0].dtype.kind == "c" else vector
    end = 0
    for array in arrays:
        start, end = end, end + array.size
        yield numbers[start:end] if array.ndim == 1 else numbers[start:end].reshape(array.shape)


class _Task:
    """The updates of parameters that have a kernel in common, as one of vectors: their elements in a row.

    What is remembered of them is moved there once and for all; the parameters stay where they are, as others may know
    their memory, and are copied before and after.

    Parameters
    ----------
    numbers
        Which parameters they are, of all that move: one, or several small ones of one dtype.
    columns
        Those parameters, then each part of their states.
    """

    def __init__(self, numbers: Sequence[int], columns: Sequence[tuple[Tensor, ...]]) -> None:
        self.numbers = numbers
        self.vectors = []
        for column in columns:
            arrays = [tensor._data for tensor in column]
            self.vectors.append(_joined(arrays))
            if column is columns[0]:
                self._params = arrays
            elif not _is_on(arrays):
                for tensor, part in zip(column, _parted(self.vectors[-1], arrays), strict=True):
                    tensor._data = part
        self._copies = not _is_on(self._params)
        self.size = self.vectors[0].size
        self.on_cpu = type(self.vectors[0]) is np.ndarray
        length = BLOCK if self.on_cpu else max(self.size, 1)  # blocks are for the cache of a CPU
        starts = range(0, max(self.size, 1), length)
        self.blocks = [_Block(self, low, min(low + length, self.size)) for low in starts]

    def start(self, updates: Sequence[Update], grads: Sequence[Any]) -> None:
        """Set what changes from step to step."""
        self.kernel, _, self.temporaries = updates[self.numbers[0]]
        self._grads = [grads[number] for number in self.numbers]
        if len(self.blocks) > 1:
            self._fill()

    def jobs(self) -> list[Callable[[], None]]:
        """What is to be called between the start and the end, in any order and by any thread."""
        return [self._run] if len(self.blocks) == 1 else [block.run for block in self.blocks]

    def _run(self) -> None:
        """Do the whole of it, which is one block."""
        self._fill()
        self.blocks[0].run()
        self._empty()

    def end(self) -> None:
        """Let go of what was set."""
        if len(self.blocks) > 1:
            self._empty()
        del self.kernel, self.grad, self._grads

    def _fill(self) -> None:
        """Copy to the vectors what is elsewhere."""
        self.grad = _joined(self._grads)
        if self._copies:
            _joined(self._params, self.vectors[0])

    def _empty(self) -> None:
        """Copy to the parameters what is in their vector only."""
        if self._copies:
            for param, part in zip(self._params, _parted(self.vectors[0], self._params), strict=True):
                param[...] = part


def _is_on(arrays: Sequence[Any]) -> bool:
    """Whether the vector of such arrays is on their memory."""
    return len(arrays) == 1 and bool(arrays[0].flags.c_contiguous)


class _Block:
    """A part of the vectors of a task."""

    def __init__(self, task: _Task, low: int, high: int) -> None:
        self._task, self._low, self._high = task, low, high
        self._param, *self._state = [vector[low:high] for vector in task.vectors]

    def run(self) -> None:
        """Run the kernel on it."""
        task = self._task
        grad = task.grad[self._low : self._high]
        task.kernel(self._param, grad, *self._state, *_temporaries(task.temporaries, self._param))


class Plan:
    """The work of the steps of an optimizer: which parameters are updated together, and in which blocks.

    Parameters
    ----------
    updates
        What is done to each parameter that moves.
    tensors
        Each parameter, followed by those tensors of its state that its update names.
    large
        From how many elements on threads share the work.
    """

    def __init__(self, updates: Sequence[Update], tensors: Sequence[Tensor], large: int) -> None:
        rows, start = [], 0
        for update in updates:
            rows.append(tensors[start : (start := start + 1 + len(update.state))])
        together: dict[Any, list[int]] = {}
        # one that is on the memory of another is updated after it, not from what was there before
        are_apart = _are_apart([param._data for param, *_ in rows])
        for number, (update, (param, *_)) in enumerate(zip(updates, rows, strict=True)):
            array = param._data
            is_small = are_apart and array.size <= SMALL and type(array) is np.ndarray
            together.setdefault((update, array.dtype) if is_small else number, []).append(number)
        self._tasks = [
            _Task(group, list(zip(*[rows[number] for number in group], strict=True))) for group in together.values()
        ]
        leaders = {number: group[0] for group in together.values() for number in group}
        self._leaders = [leaders[number] for number in range(len(rows))]
        self._arrays = [tensor._data for tensor in tensors]
        long = [job for task in self._tasks if len(task.numbers) == 1 for job in task.jobs()]
        short = [job for task in self._tasks if len(task.numbers) > 1 for job in task.jobs()]
        # the many calls for small parameters are not for the moment in which a thread that helps wakes up
        self._jobs = [*long[:1], *short, *long[1:]]
        size = sum(task.size for task in self._tasks)
        self._are_shared = are_apart and size >= large and all(task.on_cpu for task in self._tasks)

    def fits(self, updates: Sequence[Update], tensors: Sequence[Tensor]) -> bool:
        """Whether it is a plan for such updates and tensors."""
        arrays = [tensor._data for tensor in tensors]
        return (
            len(arrays) == len(self._arrays)
            and all(map(is_, arrays, self._arrays))
            and all(map(is_, updates, map(updates.__getitem__, self._leaders)))
        )

    @silenced
    def run(self, updates: Sequence[Update], grads: Sequence[Any]) -> None:
        """Do a step."""
        for task in self._tasks:
            task.start(updates, grads)
        if self._are_shared and get_num_threads() > 1:
            share_out(_call, [(job,) for job in self._jobs])
        else:
            for job in self._jobs:
                job()
        for task in self._tasks:
            task.end()


def _call(job: Callable[[], None]) -> None:
    job()


def _are_apart(arrays: Sequence[Any]) -> bool:
    """Whether no two of the arrays on the CPU reach into each other's memory."""
    bounds = sorted(byte_bounds(array) for array in arrays if type(array) is np.ndarray)
    return all(end <= start for (_, end), (start, _) in pairwise(bounds))


class _Scratch(threading.local):
    """The temporaries of a thread, by dtype, and their parts, by number and size."""

    def __init__(self) -> None:
        self.arrays: dict[str, list[Any]] = {}
        self.parts: dict[tuple[str, int, int], list[Any]] = {}


_scratch = _Scratch()


def _temporaries(count: int, like: Any) -> list[Any]:
    """Temporaries of this thread; kept from step to step, as fresh memory costs a page fault every few KB."""
    if type(like) is not np.ndarray:
        return [np.empty_like(like) for _ in range(count)]
    key = char, _, size = like.dtype.char, count, like.size
    if key not in _scratch.parts:
        arrays = _scratch.arrays.setdefault(char, [])
        arrays += [np.empty(BLOCK, like.dtype) for _ in range(count - len(arrays))]
        _scratch.parts[key] = [array[:size] for array in arrays[:count]]
    return _scratch.parts[key]
