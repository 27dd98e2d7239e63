"""Large elementwise work: in blocks that stay in the cache, on several threads.

NumPy's loops are single-threaded but release the interpreter lock. An elementwise function (an operation, or one of its
rules) gives the same result slice by slice, so slices go to a small pool of threads. A function made of several ufuncs
also gains on one thread: its temporaries, one block long, stay in the cache instead of travelling through memory.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from retrograd.core import state
from retrograd.core.blas import on_one_thread, use_threads
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from queue import SimpleQueue

F = TypeVar("F", bound=Callable[..., Any])

# From this many elements on, slices pay for themselves; below, waking a thread costs more than it saves (measured).
LARGE = 3 << 19
# The same for functions that take several nanoseconds per element, such as activations (measured).
HEAVY = 1 << 19
# Elements of one block (measured): its temporaries stay in the caches, and calls are so few that threads seldom wait
# for the interpreter lock.
BLOCK = 1 << 18
# The largest part of the work that one thread does before threads share the rest: its result gives the dtype. (With a
# smaller one for large arrays, the C library gives freed memory back to the system more often; measured.)
FIRST = 1 / 8

# How often a waiting thread checks whether the other is done before it sleeps, and what it computes in between, for
# some microseconds each (measured): a sleeping thread wakes up some 40 microseconds late. Checking all the time would
# keep the interpreter lock from the other thread.
_LOOKS = 20
_AWAKE: Any = np.ones(1 << 12)

# Elements of one block on a GPU, whatever the operation: it is best at large work, and every call costs the CPU the
# same time; the only limit is memory for the results of a block.
ON_GPU = 1 << 26

# Work is cut at multiples of this many elements, so that no two threads write to the same cache line.
LINE = 64

_lock = threading.RLock()  # a signal's handler may compute while its thread holds it
_pool: SimpleQueue[Callable[[], None] | None] | None = None  # the jobs for its threads
_threads = 0  # 0: not determined yet


def block_size(on_cpu: int, like: Any) -> int:
    """The number of elements per block for an array: ``on_cpu``, which suits the caches, if it is on the CPU."""
    return ON_GPU if type(like) is DeviceArray else on_cpu


def threads_for(like: Any) -> int:
    """How many threads share the work on an array: just this one unless it is on the CPU."""
    return get_num_threads() if type(like) is np.ndarray else 1


class _Thread(threading.local):
    """The state of a thread."""

    is_sharing = False  # whether it is doing shared work, which is not shared again


_thread = _Thread()


def get_num_threads() -> int:
    """Return how many threads share the work on a large tensor.

    The number of processors this process may use, unless :func:`set_num_threads` or an environment variable says
    otherwise: ``RETROGRAD_NUM_THREADS``, or else ``OMP_NUM_THREADS``.
    """
    global _threads
    if _threads == 0:
        said = os.environ.get("RETROGRAD_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        _threads = int(said) if said.isdigit() and int(said) > 0 else available
    return _threads


def set_num_threads(n: int) -> None:
    """Set how many threads share the work on a large tensor.

    Matrix products, NumPy's own among them, are computed on as many threads as well where NumPy's BLAS is OpenBLAS, as
    in its wheels but for macOS. Other libraries are told by the package threadpoolctl.

    Parameters
    ----------
    n
        At least 1.

    Raises
    ------
    TypeError
        If ``n`` is no int.
    RuntimeError
        If ``n`` is not positive.
    """
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, but got {n}")
    resize_pool(n)
    use_threads(n)


def resize_pool(n: int) -> None:
    """Have ``n`` threads share work here, and leave BLAS alone.

    OpenBLAS makes all the threads that it may have when it is told to use one, in a process that was forked.
    """
    global _threads, _pool
    with _lock:
        pool = _pool
        _threads, _pool = n, None  # before its threads end, so that no more jobs are handed to them
        if pool is not None:
            pool.put(None)


@functools.cache
def _queue_type() -> type[SimpleQueue[Any]]:
    """A queue in C; imported late, as many programs need no threads."""
    from queue import SimpleQueue

    return SimpleQueue


def _hand_out(job: Callable[[], None], times: int) -> int:
    """Have threads of the pool call ``job`` that many times, and return how often it will be called.

    The pool is a queue in C: the futures of an executor would take as long as the work on a block.
    """
    global _pool
    with _lock:
        pool = _pool
        if pool is None:
            pool = _pool = _new_pool()
        if pool is None:
            return 0
        for _ in range(times):
            pool.put(job)
    return times


def _new_pool() -> SimpleQueue[Callable[[], None] | None] | None:
    """A pool with its threads; None if the system grants none. With fewer than wanted, jobs run one after another."""
    pool = _queue_type()()
    for number in range(max(get_num_threads() - 1, 1)):  # not 0: whoever asked before would wait for ever
        thread = threading.Thread(target=_serve, args=(pool,), name=f"retrograd_{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return pool if number > 0 else None
    return pool


def _serve(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    """What a thread of the pool does, until it is given None, which it hands on to the others."""
    while (job := jobs.get()) is not None:
        job()
        del job  # it would keep arrays alive until the next one
    jobs.put(None)


def _after_fork() -> None:
    """A forked child has none of its parent's threads."""
    global _lock, _pool
    _lock, _pool = threading.RLock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Cutting(NamedTuple):
    """How operands that are broadcast together are cut into slices.

    Attributes
    ----------
    operands
        The arrays to be cut, and numbers.
    whole
        The shape of the result.
    shape
        The shape of the result in the form in which it is cut.
    axis
        The axis along which to cut, counted from the end, so that it is the same for all operands.
    """

    operands: Sequence[Any]
    whole: tuple[int, ...]
    shape: tuple[int, ...]
    axis: int

    def part(self, operand: Any, low: int, high: int) -> Any:
        """What an operand contributes to a part of the result."""
        if not isinstance(operand, np.ndarray) or operand.ndim < -self.axis or operand.shape[self.axis] == 1:
            return operand
        index: Any = (..., slice(low, high), *[slice(None)] * (-self.axis - 1))
        return operand[index]


# A shorter dimension is not cut.
_SHORTEST = 16


def _cutting(operands: Sequence[Any]) -> _Cutting | None:
    """How to cut operands, if one of them has the shape of the result and lies in C order; as vectors, if all do."""
    whole = max((x for x in operands if isinstance(x, np.ndarray)), key=_extent, default=None)
    if whole is None or not whole.flags.c_contiguous:
        return None
    shape = whole.shape
    flat: list[Any] = []
    for x in operands:
        if not isinstance(x, np.ndarray):
            if not isinstance(x, (int, float, complex, str, np.generic, NoneType)):
                return None
            flat.append(x)
        elif x.shape == shape and x.flags.c_contiguous:
            flat.append(x.reshape(-1))
        elif x.ndim > len(shape) or any(n not in (1, m) for n, m in zip(x.shape[::-1], shape[::-1], strict=False)):
            return None
        elif x.size == 1 or not any(x.strides):  # one number, possibly expanded, like the gradient of a sum
            flat.append(x[(slice(1),) * x.ndim].reshape(()))
    if len(flat) == len(operands):
        return _Cutting(flat, shape, (whole.size,), -1)
    axis = next((axis for axis, n in enumerate(shape) if n >= _SHORTEST), None)
    return None if axis is None else _Cutting(operands, shape, shape, axis - len(shape))


def _extent(array: Any) -> tuple[int, int, bool]:
    """Sort key to find the array that has the shape of the result, one in C order if possible."""
    return array.size, array.ndim, array.flags.c_contiguous


def in_blocks(function: F, large: int) -> F:
    """Make an elementwise function run in blocks and threads if its first operand has at least ``large`` elements."""

    @functools.wraps(function)
    def call(*operands: Any) -> Any:
        first = operands[0]
        if type(first) is not np.ndarray or first.size < large or _thread.is_sharing:
            return function(*operands)
        return run_blocked(function, *operands)

    return call  # type: ignore[return-value]


def _are_apart(out: Any, operands: Sequence[Any]) -> bool:
    """Whether ``out`` has the largest shape, and writing to a part of it does not change what another part needs."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    return isinstance(out, np.ndarray) and all(
        x is out or (x.size <= out.size and not np.may_share_memory(x, out)) for x in arrays
    )


def run_blocked(function: Callable[..., Any], *operands: Any, out: Any = None) -> Any:
    """``function(*operands)`` for an elementwise function; in slices if the operands allow it.

    ``out``, for a ufunc, receives the result; it may be an operand.
    """
    is_ufunc = isinstance(function, np.ufunc)
    cutting = None
    if out is None and not (is_ufunc and get_num_threads() == 1):
        cutting = _cutting(operands)
    elif out is not None and get_num_threads() > 1 and _are_apart(out, operands):
        cutting = _cutting((*operands, out))
    if cutting is None:
        return function(*operands) if out is None else function(*operands, out=out)
    cut, whole, shape, axis = cutting
    length = shape[axis]
    each = math.prod(shape) // length  # elements of a slice
    multiple = max(LINE // each, 1)
    start = 0
    if out is None:
        start = max(min(BLOCK, round(FIRST * length * each)) // each, 1)
        start = min(-(-start // multiple) * multiple, length)
        first = function(*(cutting.part(x, 0, start) for x in cut))
        expected = (*shape[:axis], start, *shape[axis:][1:])
        if not isinstance(first, np.ndarray) or first.shape != expected or not first.flags.c_contiguous:
            return function(*operands)  # not elementwise after all (a constant, or nothing)
        out = np.empty(whole, first.dtype)
        result = out.reshape(shape)
        cutting.part(result, 0, start)[...] = first
    else:
        *cut, result = cut

    complaints: list[Exception] = []

    def work(low: int, high: int) -> None:
        if is_ufunc:
            try:
                function(*(cutting.part(x, low, high) for x in cut), out=cutting.part(result, low, high))
            except (RuntimeWarning, FloatingPointError) as complaint:  # about numbers, once all are written
                complaints.append(complaint)
            return
        for begin, end in _even_parts(low, high, max(BLOCK // each, 1)):
            cutting.part(result, begin, end)[...] = function(*(cutting.part(x, begin, end) for x in cut))

    share(work, start, length, multiple)
    if complaints:
        raise complaints[0]
    return out


def _even_parts(start: int, stop: int, longest: int) -> Iterator[tuple[int, int]]:
    """Parts of even size, none longer than ``longest``."""
    count = -(-(stop - start) // longest)
    for number in range(count):
        yield start + (stop - start) * number // count, start + (stop - start) * (number + 1) // count


def share(work: Callable[[int, int], None], start: int, stop: int, multiple: int = LINE) -> None:
    """Call ``work(low, high)`` in all threads at once, on slices that make up ``start`` to ``stop``.

    They begin at multiples of ``multiple``, counted from ``start``, so that no two threads write to one cache line.
    """
    step = -(-(stop - start) // get_num_threads() // multiple) * multiple or multiple
    share_out(work, [(low, min(low + step, stop)) for low in range(start, stop, step)])


def share_out(work: Callable[..., None], tasks: Iterable[tuple[Any, ...]], products: bool = False) -> None:
    """Call ``work(*task)`` for all tasks, in all threads at once; each takes the next task when it is done with one.

    This thread takes the first remaining task, the others take the last. If the tasks compute matrix ``products``,
    each thread computes its own.
    """
    waiting = deque(tasks)
    alone = _thread.is_sharing or sys.is_finalizing()  # when the interpreter ends, the threads of the pool have stopped
    helpers = 0 if alone else min(get_num_threads(), len(waiting)) - 1
    if helpers < 1:
        for task in waiting:
            work(*task)
        return

    def take(pop: Callable[[], Any] = waiting.pop) -> None:  # a monitor recognises helper threads by this name
        _thread.is_sharing = True
        try:
            while True:
                try:
                    task = pop()
                except IndexError:
                    return
                work(*task)
        finally:
            _thread.is_sharing = False

    ended: SimpleQueue[BaseException | None] = _queue_type()()

    def assist() -> None:
        try:
            contexts.pop().run(take)
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    contexts = [contextvars.copy_context() for _ in range(helpers)]
    with on_one_thread() if products else contextlib.nullcontext():
        helpers = _hand_out(assist, helpers)
        try:
            take(waiting.popleft)
        finally:
            waiting.clear()  # if this thread failed, the others only finish their current tasks
            errors = [_soon(ended) for _ in range(helpers)]
    if state.monitor is not None:
        state.monitor.collect()
    error = next(filter(None, errors), None)
    if error is not None:
        try:
            raise error
        finally:
            del error, errors  # they refer to this frame


def _soon(ended: SimpleQueue[BaseException | None]) -> BaseException | None:
    """What a thread that is about to end puts into the queue."""
    for _ in range(_LOOKS):
        if not ended.empty():
            break
        np.sqrt(_AWAKE)  # without the lock
    return ended.get()
