"""Worker processes make the same batches, and their errors are raised in the program."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from multiprocessing import forkserver
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info
from tests.parity import parity


class Squares(Dataset[Any]):
    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> Any:
        return {"x": rg.tensor([float(index)]), "y": index**2}


class Touchy(Squares):
    """A data set that fails at one index, in one of several ways."""

    def __init__(self, how: Any) -> None:
        self.how = how

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            self.how()
        return index


class Shards(IterableDataset[int]):
    """An iterable data set shared out among the workers; the first one gives the most."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None and info.num_workers == 2 and isinstance(info.dataset, Shards)
        return iter(range(7) if info.id == 0 else range(7, 10))


class Chance(Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return rg.rand(()).item(), random.random(), np.random.random(), get_worker_info().id  # type: ignore[union-attr]


class Threads(Dataset[int]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return rg.get_num_threads()


def use_three_threads(worker: int) -> None:
    rg.set_num_threads(3)


@pytest.mark.parametrize(("init", "threads"), [(None, 1), (use_three_threads, 3)])
def test_workers_use_one_thread_by_default(init: Any, threads: int) -> None:
    before = rg.get_num_threads()
    rg.set_num_threads(2)
    try:
        assert list(DataLoader(Threads(), batch_size=None, num_workers=1, worker_init_fn=init)) == [threads]
        assert rg.get_num_threads() == 2
    finally:
        rg.set_num_threads(before)


def plain(batches: Any) -> list[Any]:
    return [{name: tensor.tolist() for name, tensor in batch.items()} for batch in batches]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_make_the_same_batches(context: str) -> None:
    here = plain(DataLoader(Squares(), batch_size=3))
    loader = DataLoader(Squares(), batch_size=3, num_workers=2, multiprocessing_context=context)
    assert plain(loader) == here
    assert len(loader) == len(here) == 4


def test_persistent_workers_survive_the_epoch() -> None:
    class Pids(Squares):
        def __getitem__(self, index: int) -> int:
            return os.getpid()

    loader = DataLoader(Pids(), batch_size=1, num_workers=2, persistent_workers=True, multiprocessing_context="fork")
    first = {batch.item() for batch in loader}
    next(iter(loader))  # abandoning an epoch does not disturb the next
    assert {batch.item() for batch in loader} == first and len(first) == 2
    assert sum(1 for _ in loader) == 11
    assert loader._workers is not None
    processes = loader._workers._processes
    next(iter(loader))
    del loader
    assert not any(process.is_alive() for process in processes)


@parity
def test_persistent_workers_reuse_one_iterator(lib: Any) -> Any:
    loader = lib.utils.data.DataLoader(
        range(8), batch_size=2, num_workers=2, persistent_workers=True, timeout=30, multiprocessing_context="fork"
    )
    report = [[(a.tolist(), b.tolist()) for a, b in zip(loader, loader, strict=False)]]
    early = iter(loader)
    report.append([next(early).tolist(), next(early).tolist()])
    late = iter(loader)  # starts again
    report += [next(late).tolist(), [batch.tolist() for batch in early], [batch.tolist() for batch in late]]
    return report


def test_ordinary_workers_end_with_their_epoch() -> None:
    before = set(multiprocessing.active_children())
    iterator = iter(DataLoader(Squares(), num_workers=2, multiprocessing_context="fork"))
    next(iterator)
    assert len(set(multiprocessing.active_children()) - before) == 2
    del iterator
    assert set(multiprocessing.active_children()) == before


def test_iterable_datasets_are_shared_among_workers() -> None:
    loader = DataLoader(Shards(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    batches = [batch.tolist() for batch in loader]
    assert sorted(i for batch in batches for i in batch) == list(range(10))
    assert all(len(batch) <= 2 for batch in batches)
    dropped = DataLoader(Shards(), batch_size=2, num_workers=2, drop_last=True, multiprocessing_context="fork")
    assert sum(1 for _ in dropped) == 4


def test_in_order_false_yields_batches_as_they_finish() -> None:
    class Slow(Squares):
        def __getitem__(self, index: int) -> int:
            time.sleep(0.5 if index == 0 else 0.0)
            return index

    loader = DataLoader(Slow(), batch_size=1, num_workers=2, in_order=False, multiprocessing_context="fork")
    order = [batch.item() for batch in loader]
    assert sorted(order) == list(range(11)) and order[0] != 0


def test_every_worker_draws_its_own_random_numbers() -> None:
    def drawn(seed: int) -> list[Any]:
        generator = rg.Generator().manual_seed(seed)
        loader = DataLoader(
            Chance(), batch_size=None, num_workers=2, generator=generator, multiprocessing_context="fork"
        )
        return [tuple(numbers) for numbers in loader]

    first = drawn(0)
    assert len({numbers[:3] for numbers in first}) == 8
    assert len({number for numbers in first for number in numbers[:3]}) == 24
    assert first == drawn(0) != drawn(1)


@parity
def test_workers_do_not_change_the_random_order(t: Any) -> Any:
    def orders(num_workers: int, generator: Any) -> Any:
        loader = t.utils.data.DataLoader(range(20), 5, shuffle=True, num_workers=num_workers, generator=generator)
        return [[batch.tolist() for batch in loader] for _ in range(2)]

    results = []
    for own in (False, True):
        several = []
        for num_workers in (0, 2):
            t.manual_seed(0)
            several.append(orders(num_workers, t.Generator().manual_seed(1) if own else None))
            several[-1].append(t.rand(3).tolist())  # numbers drawn afterwards
        results.append(several[0] == several[1])
    return results


def test_worker_init_fn() -> None:
    class Marked(Squares):
        mark = 0

        def __getitem__(self, index: int) -> int:
            return self.mark

    def init(number: int) -> None:
        info = get_worker_info()
        assert info is not None and info.id == number
        info.dataset.mark = number + 10

    loader = DataLoader(Marked(), num_workers=2, worker_init_fn=init, multiprocessing_context="fork")
    assert {batch.item() for batch in loader} == {10, 11}
    assert get_worker_info() is None


def fail_with_a_message() -> None:
    raise KeyError("no such sample")


class UnpicklableError(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("two arguments")


def fail_oddly() -> None:
    raise UnpicklableError(1, 2)


def fail_hard() -> None:
    os._exit(3)


def hang() -> None:
    time.sleep(60)


def of(how: Any, **options: Any) -> Any:
    return DataLoader(Touchy(how), batch_size=2, num_workers=2, multiprocessing_context="fork", **options)


def test_exception_of_a_worker_is_raised_with_its_traceback() -> None:
    with pytest.raises(KeyError, match="no such sample") as caught:
        list(of(fail_with_a_message))
    note = caught.value.__notes__[0]
    assert note.startswith("Caught KeyError in DataLoader worker process 0. There:")
    assert "fail_with_a_message" in note


def test_worker_exception_that_cannot_be_pickled() -> None:
    with pytest.raises(RuntimeError, match="Caught UnpicklableError in DataLoader worker process 0") as caught:
        list(of(fail_oddly))
    assert "fail_oddly" in caught.value.__notes__[0]


def test_worker_batch_that_cannot_be_pickled() -> None:
    with pytest.raises(Exception, match=r"pickle|local object") as caught:
        list(of(lambda: None, collate_fn=lambda batch: lambda: batch))
    assert "in DataLoader worker process 0" in caught.value.__notes__[-1]  # since 3.14, pickle adds notes of its own


@pytest.mark.parametrize("workers", [0, 2])
def test_iteration_can_continue_after_a_failed_batch(workers: int) -> None:
    def taken(lib: Any) -> list[Any]:
        class Holes(lib.utils.data.Dataset):  # type: ignore[misc]
            def __len__(self) -> int:
                return 9

            def __getitem__(self, index: int) -> int:
                if index in (2, 7):
                    raise LookupError(f"no sample {index}")
                return index

        context = "fork" if workers else None
        loader = lib.utils.data.DataLoader(Holes(), 2, num_workers=workers, multiprocessing_context=context)
        iterator = iter(loader)
        seen: list[Any] = [len(iterator)]
        while len(seen) < 20:
            try:
                seen.append(next(iterator).tolist())
            except LookupError:
                seen.append("failed")
            except StopIteration:
                return seen
        raise AssertionError(f"no end: {seen}")

    assert taken(rg) == taken(torch) == [5, [0, 1], "failed", [4, 5], "failed", [8]]


class Stream(IterableDataset[int]):
    """An iterable data set that fails at its third sample."""

    def __init__(self) -> None:
        self.last = -1

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.last += 1
        if self.last == 2:
            raise LookupError("no sample 2")
        if self.last > 5:
            raise StopIteration
        return self.last


@pytest.mark.parametrize("workers", [0, 1])
def test_iterable_dataset_continues_after_a_failure(workers: int) -> None:
    iterator = iter(DataLoader(Stream(), num_workers=workers, batch_size=None))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(LookupError, match="no sample 2"):
        next(iterator)
    assert list(iterator) == [3, 4, 5]


def test_copied_iterator_in_a_forked_process_stops_no_workers() -> None:
    held = [iter(DataLoader(Squares(), batch_size=1, num_workers=1, multiprocessing_context="fork"))]
    next(held[0])

    class Forgetful(Squares):
        def __getitem__(self, index: int) -> Any:
            held.clear()  # in the worker, which was forked with everything here
            return super().__getitem__(index)

    assert len(list(DataLoader(Forgetful(), num_workers=1, multiprocessing_context="fork"))) == 11
    assert len(list(held[0])) == 10


def test_workers_start_when_iteration_starts() -> None:
    class Told(Squares):
        def __init__(self) -> None:
            self.asked = multiprocessing.get_context("fork").Event()

        def __getitem__(self, index: int) -> Any:
            self.asked.set()
            return index

    data = Told()
    iterator = iter(DataLoader(data, num_workers=1, multiprocessing_context="fork"))
    assert data.asked.wait(timeout=30)
    assert len(list(iterator)) == 11


def test_worker_init_fn_that_fails() -> None:
    def init(number: int) -> None:
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        list(of(lambda: None, worker_init_fn=init))


def test_worker_that_dies_is_reported() -> None:
    with pytest.raises(RuntimeError, match=r"exited unexpectedly \(pid \d+ with exit code 3\)"):
        list(of(fail_hard))


def test_worker_that_hangs_is_reported_after_the_timeout() -> None:
    with pytest.raises(RuntimeError, match=r"timed out after 0\.2 seconds"):
        list(of(hang, timeout=0.2))


class NoModule(Squares):
    """Cannot be unpickled in another process, like a class defined in a notebook."""

    def __reduce__(self) -> Any:
        return getattr, (NoModule, "of_the_notebook")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_error_of_a_worker_that_cannot_start_says_why(method: str, capfd: pytest.CaptureFixture[str]) -> None:
    forkserver._forkserver._stop()  # one that another test has started prints where that test's errors went
    told = rf"exit code 1\). Workers started by '{method}' import the program first: .* a notebook in"
    with pytest.raises(RuntimeError, match=told):
        list(DataLoader(NoModule(), num_workers=1, multiprocessing_context=method))
    assert "no attribute 'of_the_notebook'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("collate_fn", {"collate_fn": lambda batch: batch}),
        ("worker_init_fn", {"worker_init_fn": lambda number: None}),
        ("dataset", {"dataset": Touchy(lambda: None)}),
    ],
)
def test_error_names_what_cannot_be_sent_to_workers(name: str, options: dict[str, Any]) -> None:
    loader = DataLoader(**{"dataset": Squares(), "num_workers": 2, "multiprocessing_context": "spawn", **options})
    with pytest.raises(Exception, match=r"pickle") as caught:
        iter(loader)
    note = caught.value.__notes__[-1]
    assert note.startswith(f"The loader's {name} cannot be sent to its workers, which are started by 'spawn'")
    assert "multiprocessing_context='fork'" in note


class Once:
    """Can be pickled only once."""

    def __init__(self) -> None:
        self.left = 1

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return index

    def __reduce__(self) -> Any:
        self.left -= 1
        if self.left < 0:
            raise TypeError("cannot pickle it twice")
        return Once, ()


def test_started_workers_end_when_another_cannot_start() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(TypeError, match="twice") as caught:
        iter(DataLoader(Once(), num_workers=2, multiprocessing_context="spawn"))
    assert "The loader's dataset" in caught.value.__notes__[-1]
    assert set(multiprocessing.active_children()) <= before


PROGRAM = """
import multiprocessing, signal, time
from retrograd.utils.data import DataLoader, _workers

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
_workers._PATIENCE = 0.1
batches = iter(DataLoader(range(100), num_workers=2, multiprocessing_context="fork"))
next(batches), next(batches)  # one of each worker, so that both have begun
print(*[process.pid for process in multiprocessing.active_children()], flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
@pytest.mark.parametrize("is_killed", [False, True])
def test_workers_end_when_the_program_is_interrupted_or_killed(is_killed: bool) -> None:
    """Ctrl-C reaches every process, and workers print no traceback; if the program is killed, the workers end too."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], start_new_session=True, **pipes) as program:
        workers = [int(pid) for pid in program.stdout.readline().split()]
        if is_killed:
            program.kill()
        else:
            os.killpg(program.pid, signal.SIGINT)
        _, said = program.communicate(timeout=30)  # until no process has the stream open
    assert len(workers) == 2
    assert said.count("Traceback") == (0 if is_killed else 1)


def test_only_the_elements_of_a_view_are_sent() -> None:
    from retrograd.utils.data._workers import _pickled

    large = rg.zeros(100_000)
    assert len(_pickled(large[:3])) < 2_000
    data = TensorDataset(rg.arange(1000).reshape(10, 100))
    loader = DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context="fork")
    assert [row.tolist() for (row,) in loader] == rg.arange(1000).reshape(10, 100).tolist()


class Promise(IterableDataset):
    """Understates its length, like a stream of which every worker has a copy."""

    def __iter__(self) -> Any:
        return iter(range(4))

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_dataset_longer_than_its_length_warns(workers: int) -> None:
    loader = DataLoader(Promise(), batch_size=None, num_workers=workers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 4 * max(workers, 1)  # the length has not been read yet
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="Length of IterableDataset Promise was reported to be 3") as said:
        list(loader)
    assert len(said) == 1
    assert ("get_worker_info" in str(said[0].message)) == (workers > 1)
