"""Batches made in other processes.

The main process sends every worker numbered tasks through a pipe; the results come back through one queue as bytes,
pickled by the worker itself so that whatever cannot be pickled is reported like any other mistake in its batch.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import queue
import random
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from retrograd.core.blocks import resize_pool
from retrograd.core.tensor import Tensor
from retrograd.random import manual_seed
from retrograd.utils.data._fetch import END, Plan, fetcher

_NEW_EPOCH, _STOP = -1, -2  # in place of the number of a task
_PATIENCE = 2.0  # seconds between looks whether the workers, or the main process, still live

_worker_info: WorkerInfo | None = None


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker process knows about itself.

    Attributes
    ----------
    id
        Its number, from 0.
    num_workers
        How many there are.
    seed
        What its random numbers were seeded with.
    dataset
        Its copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """Return what this worker process knows about itself; None in the main process.

    Examples
    --------
    >>> print(rg.utils.data.get_worker_info())
    None
    """
    return _worker_info


# --- in the worker ----------------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Pickles only the elements of a view, not all of the memory behind it."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj._data.base is not None:
            return _itself, (obj.detach().clone().requires_grad_(obj.requires_grad),)
        return NotImplemented


def _itself(value: Any) -> Any:
    return value


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


class _Failure:
    """An exception raised in a worker, with its traceback."""

    def __init__(self, error: Exception, worker: int) -> None:
        self.where = f"Caught {type(error).__name__} in DataLoader worker process {worker}."
        self.traceback = "".join(traceback.format_exception(error)).rstrip()
        self.error: Exception | None = error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            self.error = None

    def reraise(self) -> None:
        error = RuntimeError(self.where) if self.error is None else self.error
        error.add_note(f"{self.where} There:\n{self.traceback}")
        raise error


Init = Callable[[int], None]


def _work(plan: Plan, init: Init | None, number: int, num_workers: int, tasks: Any, results: Any) -> None:
    """The main function of a worker."""
    try:
        _make_batches(plan, init, number, num_workers, tasks, results)
    except KeyboardInterrupt:
        pass  # the main process has been interrupted, too, and says so
    finally:
        results.cancel_join_thread()  # the remaining results are no longer read


def _make_batches(plan: Plan, init: Init | None, number: int, num_workers: int, tasks: Any, results: Any) -> None:
    """Process tasks as long as there are any."""
    global _worker_info
    resize_pool(1)  # the processes already share the processors
    fetch: Any = None
    problem: _Failure | None = None
    epoch = 0
    for task in _received(tasks):
        if task[0] == _NEW_EPOCH:
            _, epoch, seed = task
            try:
                if _worker_info is None:
                    _seed_all(seed + number)
                    _worker_info = WorkerInfo(number, num_workers, seed + number, plan.dataset)
                    if init is not None:
                        init(number)
                fetch = fetcher(plan)
            except Exception as error:
                problem = _Failure(error, number)
            continue
        try:
            batch = END if problem is not None else fetch(task[1])
            sent = _pickled((problem, None if batch is END else (batch,)))
        except Exception as error:
            sent = _pickled((_Failure(error, number), None))
        results.put((epoch, task[0], number, sent))


def _received(tasks: Any) -> Iterator[Any]:
    """The tasks that arrive, until the main process says that there are no more, or has ended."""
    main, parent = multiprocessing.parent_process(), os.getppid()
    while True:
        while not tasks.poll(_PATIENCE):
            # a killed process leaves copies of the pipe's other end in workers that were forked later
            if os.getppid() != parent or main is None or not main.is_alive():
                return
        task = tasks.recv()
        if task[0] == _STOP:
            return
        yield task


def _seed_all(seed: int) -> None:
    import numpy as np

    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


# --- in the main process ----------------------------------------------------------------------------------------------


class Workers:
    """Processes that make batches, epoch after epoch."""

    def __init__(
        self,
        plan: Plan,
        init: Init | None,
        count: int,
        context: Any,
        prefetch: int,
        timeout: float,
        in_order: bool,
    ) -> None:
        self.count, self.in_order, self.most_under_way = count, in_order, prefetch * count
        self._timeout = timeout
        self._epoch = 0
        self._results = context.Queue()
        # where tasks are read and where they are sent; the former stay open here, too: that a worker has died is found
        # out where its results are missing
        self._tasks = [context.Pipe(duplex=False) for _ in range(count)]
        self._processes: list[Any] = []
        self._finalizer = weakref.finalize(self, _stop, os.getpid(), self._processes, self._tasks, self._results)
        self._method = context.get_start_method()
        for number, (tasks, _) in enumerate(self._tasks):
            process = context.Process(target=_work, args=(plan, init, number, count, tasks, self._results), daemon=True)
            with warnings.catch_warnings():
                # Python 3.12 warns of threads in a process that forks; ours hold no locks then (see core.blocks)
                warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                try:
                    process.start()
                except BaseException as error:
                    self.stop()  # the workers that have been started
                    if self._method != "fork" and isinstance(error, (pickle.PicklingError, AttributeError, TypeError)):
                        error.add_note(_cannot_be_sent(plan, init, self._method))
                    raise
            self._processes.append(process)

    def stop(self) -> None:
        """End the processes."""
        self._finalizer()

    def begin(self, seed: int) -> None:
        """Begin a new epoch; remaining tasks of the last one are dropped."""
        self._epoch += 1
        for _, tasks in self._tasks:
            tasks.send((_NEW_EPOCH, self._epoch, seed))

    def send(self, worker: int, number: int, index: Any) -> None:
        """Give a worker a task."""
        self._tasks[worker][1].send((number, index))

    def next_result(self) -> tuple[int, int, bytes]:
        """Wait for a result of this epoch: the number of the task, the worker, and the result."""
        deadline = time.monotonic() + self._timeout
        while True:
            patience = min(_PATIENCE, self._timeout) if self._timeout > 0 else _PATIENCE
            try:
                epoch, number, worker, result = self._results.get(timeout=patience)
            except queue.Empty:
                dead = [process for process in self._processes if not process.is_alive()]
                if dead:
                    codes = ", ".join(f"pid {process.pid} with exit code {process.exitcode}" for process in dead)
                    is_new = self._method != "fork" and any(process.exitcode == 1 for process in dead)
                    raise RuntimeError(
                        f"DataLoader worker exited unexpectedly ({codes}). "
                        + (_NOT_BEGUN.format(self._method) if is_new else "It may have run out of memory or crashed; ")
                        + "num_workers=0 shows errors in this process"
                    ) from None
                if self._timeout > 0 and time.monotonic() > deadline:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
                continue
            if epoch == self._epoch:
                return number, worker, result


# The error for a process that ended before it began to work; its own traceback has been printed.
_NOT_BEGUN = (
    "Workers started by {!r} import the program first: put its top-level work under `if __name__ == '__main__':`, and "
    "classes and functions from a notebook in a module; "
)


def _cannot_be_sent(plan: Plan, init: Init | None, method: str) -> str:
    """What is wrong with the arguments of a loader whose workers start with nothing but what they are sent."""
    wanting = "dataset"
    for name, function in (("collate_fn", plan.collate_fn), ("worker_init_fn", init)):
        try:
            pickle.dumps(function)
        except Exception:
            wanting = name
    fork = "; or give multiprocessing_context='fork'" if "fork" in multiprocessing.get_all_start_methods() else ""
    return (
        f"The loader's {wanting} cannot be sent to its workers, which are started by {method!r}: define its classes "
        f"and functions at the top level of a module, not inside a function or as a lambda{fork}"
    )


class Batches(Iterator[Any]):
    """The batches of an epoch that workers have begun.

    Parameters
    ----------
    workers
        The workers that make them.
    indices
        The samples of each batch.
    stop
        Whether the workers end with the epoch.
    """

    def __init__(self, workers: Workers, indices: Iterator[Any], stop: bool) -> None:
        self._workers, self._indices, self._stop = workers, indices, stop
        self._active = list(range(workers.count))  # the workers that have something left
        self._sent = self._wanted = 0  # numbers of the next task to send, and of the next result to give
        self._under_way = 0
        self._waiting: dict[int, tuple[int, bytes]] = {}  # results, with their workers, that arrived before their turn
        self._send()

    def _send(self) -> None:
        """Send the workers as many tasks as they may have in advance."""
        active, workers = self._active, self._workers
        while active and self._under_way + len(self._waiting) < workers.most_under_way:
            try:
                index = next(self._indices)
            except StopIteration:
                active.clear()
                return
            workers.send(active[self._sent % len(active)], self._sent, index)
            self._sent += 1
            self._under_way += 1

    def __next__(self) -> Any:
        while True:
            self._send()
            if not self._under_way and not self._waiting:
                if self._stop:
                    self._workers.stop()
                raise StopIteration
            while self._wanted not in self._waiting:
                number, worker, result = self._workers.next_result()
                self._under_way -= 1
                self._waiting[number if self._workers.in_order else self._wanted] = worker, result
            worker, result = self._waiting.pop(self._wanted)
            problem, batch = pickle.loads(result)
            self._wanted += 1
            if problem is not None:
                problem.reraise()
            if batch is not None:
                return batch[0]
            if worker in self._active:
                self._active.remove(worker)


def _stop(owner: int, processes: list[Any], tasks: list[Any], results: Any) -> None:
    if os.getpid() != owner:  # a copy in a process that was forked, such as a worker of another loader
        return
    for _, sender in tasks:
        with contextlib.suppress(OSError, ValueError):
            sender.send((_STOP,))
    # a worker that still has results to send waits for a reader
    results.cancel_join_thread()
    results.close()
    for process in processes:
        process.join(0.5)
        if process.is_alive():
            process.terminate()
            process.join()
