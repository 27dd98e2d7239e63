"""Updates that treat every element alike, block by block.

An update such as Adam's is a number of passes over five arrays. Done block by block, with each block's arrays in the
cache, it reads and writes memory once; and threads share the blocks of all parameters of a step. Small parameters are
updated together, as one vector: the calls for each would take longer than the arithmetic.

How the work is laid out depends on the arrays alone, which are the same in every step but for the gradients: so a
:class:`Plan` is kept from step to step. The interpreter's own work counts here, as threads wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import is_, methodcaller
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from retrograd.core.blas import remember
from retrograd.core.blocks import LINE, get_num_threads, share_out
from retrograd.core.monitor import silenced
from retrograd.core.scratch import LONGEST, scratch_vectors
from retrograd.core.tensor import Tensor

# Elements of the largest block (measured): smaller ones are more calls, and threads wait for the interpreter lock.
BLOCK = LONGEST
# The number of elements from which threads pay off: sooner than for a single ufunc, as there is more to do. Kernels
# of few passes need more (measured).
LARGE = 1 << 19
# Elements up to which parameters are updated together (measured).
SMALL = 1 << 12
# Up to so many elements of such, the many short calls for them are made before threads share the rest: they would take
# longer beside other threads, which wait for the interpreter lock and are waited for.
FEW = 1 << 15
# The part of the work that is meant for the thread that shares it out, of two (measured): another one starts later, and
# this one is to do more in that time rather than to wait at the end.
OWN_SHARE = 0.56


# Called with slices of the parameter, of its gradient, of the arrays of its state, and of temporaries, all of one size.
Kernel = Callable[..., None]


class Update(NamedTuple):
    """The update of a parameter in a step.

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


def _joined(arrays: Sequence[Any]) -> Any:
    """The elements of several arrays, one after another, as one vector; on the memory of the only one, if it can be."""
    if len(arrays) == 1:
        return as_vector(arrays[0])
    vector = np.concatenate(arrays, axis=None)
    return vector.view(vector.real.dtype) if vector.dtype.kind == "c" else vector


def _parts(vector: Any, arrays: Sequence[Any]) -> list[Any]:
    """The parts of such a vector, of the arrays' dtype, that have the arrays' shapes."""
    ends = list(accumulate((array.size for array in arrays), initial=0))
    return [vector[low:high].reshape(array.shape) for array, (low, high) in zip(arrays, pairwise(ends), strict=True)]


class _Step:
    """What changes from step to step: the update and the gradient of each parameter that moves."""

    updates: Sequence[Update] = ()
    grads: Sequence[Any] = ()


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
    step
        The step that is made.
    """

    def __init__(self, numbers: Sequence[int], columns: Sequence[tuple[Tensor, ...]], step: _Step) -> None:
        self.numbers = numbers
        self._step = step
        # what is copied before and after: the vector of the parameters, these, and its parts for each
        self._copied: tuple[Any, Sequence[Any], Sequence[Any]] = None, (), ()
        self.vectors = []
        for column in columns:
            arrays = [tensor._data for tensor in column]
            vector = _joined(arrays)
            self.vectors.append(vector)
            if _is_on(arrays):
                continue
            whole = vector.view(arrays[0].dtype)
            parts = _parts(whole, arrays)
            if column is columns[0]:
                self._copied = whole, arrays, parts
            else:
                for tensor, part in zip(column, parts, strict=True):
                    tensor._data = part
        self.size = self.vectors[0].size
        self.on_cpu = type(self.vectors[0]) is np.ndarray
        self.is_in_blocks = False

    def cut(self, borders: Sequence[int]) -> list[_Block]:
        """Cut it into blocks, to be run in any order and by any thread, between :meth:`fill` and :meth:`empty`.

        A single block does these itself. Blocks know their task and not the other way round, so that a plan which
        is no longer needed is freed at once.
        """
        self.is_in_blocks = len(borders) > 2
        kind = _Block if self.is_in_blocks else _Whole
        return [kind(self, low, high) for low, high in pairwise(borders)]

    @property
    def update(self) -> Update:
        """The update of this step."""
        return self._step.updates[self.numbers[0]]

    def fill(self) -> None:
        """Copy to the vectors what is elsewhere."""
        grads = self._step.grads
        self.grad = _joined([grads[number] for number in self.numbers])
        whole, arrays, _ = self._copied
        if arrays:
            np.concatenate(arrays, axis=None, out=whole)

    def empty(self) -> None:
        """Copy to the parameters what is in their vector only, and let the gradient go."""
        _, arrays, parts = self._copied
        for array, part in zip(arrays, parts, strict=True):
            array[...] = part
        del self.grad


def _is_on(arrays: Sequence[Any]) -> bool:
    """Whether the joined vector shares the arrays' memory."""
    return len(arrays) == 1 and bool(arrays[0].flags.c_contiguous)


class _Block:
    """A part of the vectors of a task."""

    def __init__(self, task: _Task, low: int, high: int) -> None:
        self._task, self._low, self._high = task, low, high
        self._param, *self._state = [vector[low:high] for vector in task.vectors]
        for part in (self._param, *self._state):
            remember(part)

    def run(self) -> None:
        """Run the kernel on it."""
        task = self._task
        kernel, _, temporaries = task.update
        grad = task.grad[self._low : self._high] if task.is_in_blocks else task.grad
        kernel(self._param, grad, *self._state, *scratch_vectors(temporaries, self._param))


class _Whole(_Block):
    """The only block of a task."""

    def run(self) -> None:
        """Do the whole of the task."""
        self._task.fill()
        _Block.run(self)
        self._task.empty()


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
        arrays = [param._data for param, *_ in rows]
        are_apart = _are_apart(arrays)
        # a parameter that shares another's memory is updated after it, from the new values
        groups = _joined_if_small(updates, arrays) if are_apart else [[number] for number in range(len(rows))]
        self._step = _Step()
        tasks = [
            _Task(group, list(zip(*[rows[number] for number in group], strict=True)), self._step) for group in groups
        ]
        leaders = {number: group[0] for group in groups for number in group}
        self._leaders = [leaders[number] for number in range(len(rows))]
        self._arrays = [tensor._data for tensor in tensors]
        self._threads = get_num_threads()
        on_cpu = all(task.on_cpu for task in tasks)
        are_shared = are_apart and on_cpu and self._threads > 1 and sum(task.size for task in tasks) >= large
        alone = [task for task in tasks if not are_shared or (len(task.numbers) > 1 and task.size <= FEW)]
        shared = [task for task in tasks if task not in alone]
        if on_cpu:
            self._alone = _cut(alone, 1)
            self._shared = [(block,) for block in _cut(shared, self._threads)]
        else:
            self._alone = [block for task in tasks for block in task.cut([0, task.size])]
            self._shared = []
        self._in_blocks = [task for task in tasks if task.is_in_blocks]

    def fits(self, updates: Sequence[Update], tensors: Sequence[Tensor]) -> bool:
        """Whether it is a plan for such updates and tensors."""
        arrays = [tensor._data for tensor in tensors]
        return (
            self._threads == get_num_threads()
            and len(arrays) == len(self._arrays)
            and all(map(is_, arrays, self._arrays))
            and all(map(is_, updates, map(updates.__getitem__, self._leaders)))
        )

    @silenced
    def run(self, updates: Sequence[Update], grads: Sequence[Any]) -> None:
        """Do a step."""
        self._step.updates, self._step.grads = updates, grads
        for task in self._in_blocks:
            task.fill()
        for block in self._alone:
            block.run()
        if self._shared:
            share_out(_run, self._shared)
        for task in self._in_blocks:
            task.empty()
        self._step.updates = self._step.grads = ()


def _joined_if_small(updates: Sequence[Update], arrays: Sequence[Any]) -> list[list[int]]:
    """The numbers of parameters that are updated together: small ones on the CPU, of one dtype and one update."""
    groups: dict[Any, list[int]] = {}
    for number, (update, array) in enumerate(zip(updates, arrays, strict=True)):
        is_small = array.size <= SMALL and type(array) is np.ndarray
        groups.setdefault((update, array.dtype) if is_small else number, []).append(number)
    return list(groups.values())


def _cut(tasks: Sequence[_Task], threads: int) -> list[_Block]:
    """The blocks of tasks, none of which is of two threads' shares; the first is for the thread that waits."""
    whole = sum(task.size for task in tasks)
    own = whole if threads == 1 else whole * OWN_SHARE * 2 / threads
    # where all but the last of them end
    shares = [own + (whole - own) * number / (threads - 1) for number in range(threads - 1)]
    start = 0
    blocks = []
    for task in tasks:
        ends = {round((share - start) / LINE) * LINE for share in shares}
        parts = [0, *sorted(end for end in ends if 0 < end < task.size), task.size]
        blocks += task.cut([0, *(border for low, high in pairwise(parts) for border in _even_borders(low, high))])
        start += task.size
    return blocks


def _even_borders(low: int, high: int) -> Iterator[int]:
    """The ends of blocks of even size that make up ``low`` to ``high``."""
    count = max(-(-(high - low) // (BLOCK - LINE)), 1)  # a border may be moved by a line
    for number in range(1, count):
        yield low + (high - low) * number // count // LINE * LINE
    yield high


_run = methodcaller("run")


def _are_apart(arrays: Sequence[Any]) -> bool:
    """Whether no two of the arrays on the CPU share memory."""
    bounds = sorted(byte_bounds(array) for array in arrays if type(array) is np.ndarray)
    return all(end <= start for (_, end), (start, _) in pairwise(bounds))
