"""The loader: batches of a data set, in an order, made here or by workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Generic, Protocol, TypeVar

from retrograd.core.sites import warn_user
from retrograd.creation import empty
from retrograd.dtypes import int64
from retrograd.random import Generator
from retrograd.utils.data._fetch import Fetching, Plan
from retrograd.utils.data._workers import Batches, Workers
from retrograd.utils.data.collate import default_collate, default_convert
from retrograd.utils.data.dataset import IterableDataset
from retrograd.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader"]

T_co = TypeVar("T_co", covariant=True)

# What the loader was made of.
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Samples(Protocol[T_co]):
    """The type of data sets with indices: a :class:`Dataset`, a list, or anything else with an index."""

    def __getitem__(self, index: Any, /) -> T_co: ...


class DataLoader(Generic[T_co]):
    """Batches of a data set.

    Parameters
    ----------
    dataset
        Anything with ``__getitem__`` and ``__len__``, or an :class:`IterableDataset`.
    batch_size
        The number of samples in a batch; None for single samples.
    shuffle
        Take the samples in a new random order each time.
    sampler
        The order of the samples, instead of ``shuffle``.
    batch_sampler
        Lists of indices, a batch each; instead of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
    num_workers
        The number of processes that make batches; 0 to make them in this one.
    collate_fn
        What makes a batch of a list of samples; by default :func:`default_collate`.
    pin_memory, pin_memory_device
        Accepted for compatibility.
    drop_last
        Leave out a last batch that is not full.
    timeout
        Seconds to wait for a batch from a worker; 0 to wait forever.
    worker_init_fn
        Called with the number of the worker in each worker, after its random numbers were seeded.
    multiprocessing_context
        How workers are started: ``"fork"``, ``"spawn"``, ``"forkserver"``, or a context of :mod:`multiprocessing`.
    generator
        Where the random order and the seeds of the workers come from.
    prefetch_factor
        The number of batches that each worker makes in advance; 2 by default.
    persistent_workers
        Keep the workers from one epoch to the next.
    in_order
        Give the batches in order; otherwise each as soon as it is there.

    Raises
    ------
    ValueError
        If arguments contradict each other.
    TypeError
        If ``dataset`` is none, or ``multiprocessing_context`` is neither a name nor a context.

    Examples
    --------
    >>> data = rg.utils.data.TensorDataset(rg.arange(5), rg.arange(5) ** 2)
    >>> for x, y in rg.utils.data.DataLoader(data, batch_size=2):
    ...     print(x.tolist(), y.tolist())
    [0, 1] [0, 1]
    [2, 3] [4, 9]
    [4] [16]
    """

    def __init__(
        self,
        dataset: _Samples[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if isinstance(dataset, IterableDataset):
            _check_iterable(shuffle, sampler, batch_sampler)
        elif not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__getitems__"):
            raise _no_dataset(dataset)
        _check_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None and isinstance(dataset, IterableDataset):
            sampler = _InfiniteConstantSampler()
        elif sampler is None:
            sized: Any = dataset  # a sampler asks for the length, and raises if there is none
            sampler = RandomSampler(sized, generator=generator) if shuffle else SequentialSampler(sized)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None and batch_size is None else default_collate

        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._promised: int | None = None  # what an iterable data set said its length was, when it was asked
        self._iterator: _Epoch | None = None  # the only one with persistent workers
        self._workers: Workers | None = None

    _DataLoader__initialized = True  # subclasses that repeat a sampler for ever set it to False meanwhile

    def __setattr__(self, name: str, value: Any) -> None:
        # the attribute _workers is set last
        if name in _FIXED and "_workers" in self.__dict__ and self._DataLoader__initialized:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized; create a new one"
            )
        super().__setattr__(name, value)

    def __len__(self) -> int:
        """Return the number of batches."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        if not isinstance(self.dataset, Sized):
            raise TypeError(f"object of type '{type(self.dataset).__name__}' has no len()")
        count = self._promised = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started: a context of :mod:`multiprocessing`, or None for the one that Python uses."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        self._multiprocessing_context = None if value is None else _context(value, self.num_workers)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the batches of one epoch.

        A batch that fails does not end it: the exception can be caught, and the next call gives the next batch. With
        ``persistent_workers`` there is one iterator, as there is one set of workers: it begins anew.
        """
        if not self.persistent_workers:
            return _Epoch(self)
        if self._iterator is None:
            self._iterator = _Epoch(self)
        else:
            self._iterator.begin(self)
        return self._iterator

    def _batches(self, order: Iterable[Any]) -> Iterator[Any]:
        indices = iter(order)
        seed = int(empty((), dtype=int64).random_(generator=self.generator))  # drawn without workers, too: one order
        if self.num_workers == 0:
            return Fetching(self._plan(), indices)
        workers = self._workers
        if workers is None:
            workers = self._start_workers()
            if self.persistent_workers:
                self._workers = workers
        workers.begin(seed)
        return Batches(workers, indices, stop=not self.persistent_workers)

    def _start_workers(self) -> Workers:
        import multiprocessing  # imported late: most loaders need none

        context = self.multiprocessing_context or multiprocessing.get_context()
        prefetch = self.prefetch_factor or 2
        try:
            return Workers(
                self._plan(), self.worker_init_fn, self.num_workers, context, prefetch, self.timeout, self.in_order
            )
        except ModuleNotFoundError as error:
            if error.name not in ("_multiprocessing", "_posixsubprocess", "_posixshmem"):
                raise
            raise RuntimeError(
                f"DataLoader: this platform cannot start processes for num_workers={self.num_workers} (no module "
                f"{error.name}); use num_workers=0"
            ) from None

    def _plan(self) -> Plan:
        return Plan(self.dataset, self.collate_fn, self.batch_sampler is not None, self.batch_size, self.drop_last)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None, "_workers": None}  # processes stay where they are


class _Epoch(Iterator[Any]):
    """The batches of an epoch.

    No generator, which would end with the first exception. It does not hold the loader, or workers that go on would not
    end with that.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.begin(loader)

    def begin(self, loader: DataLoader[Any]) -> None:
        """Restart with the first batch of a new epoch."""
        self._order: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        self._promised, self._num_workers = loader._promised, loader.num_workers
        self._dataset = type(loader.dataset).__name__
        self._given = 0
        self._batches = loader._batches(self._order)

    def __next__(self) -> Any:
        batch = next(self._batches)
        if self._given == self._promised:
            self._tell_of_more()
        self._given += 1
        return batch

    def __len__(self) -> int:
        return len(self._order)

    def _tell_of_more(self) -> None:
        advice = "; every worker has its own copy, and should use get_worker_info() to yield only its share"
        warn_user(
            f"Length of IterableDataset {self._dataset} was reported to be {self._promised} (when accessing "
            f"len(dataloader)), but there are more batches{advice if self._num_workers > 1 else ''}"
        )


class _InfiniteConstantSampler(Sampler[Any]):
    """Stands for the sampler where the data set itself decides what comes next."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(None)


def _context(value: Any, num_workers: int) -> Any:
    """A context of ``multiprocessing``; it may be given by name."""
    import multiprocessing  # imported late: most loaders need none
    from multiprocessing.context import BaseContext

    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            "num_workers=0"
        )
    if isinstance(value, str):
        methods = multiprocessing.get_all_start_methods()
        if value not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods}, but got {value!r}"
            )
        return multiprocessing.get_context(value)
    if not isinstance(value, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got {value!r}"
        )
    return value


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing, "
            f"but got {num_workers}"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, but got {timeout}")
    if num_workers > 0:
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"prefetch_factor option should be positive, but got {prefetch_factor}")
        return
    if prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. "
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _no_dataset(given: Any) -> TypeError:
    """The error for a data set without samples; torch's comes with the first batch."""
    can_iterate = hasattr(given, "__iter__")
    advice = (
        "; to take samples as they come, define an IterableDataset whose __iter__ yields them" if can_iterate else ""
    )
    return TypeError(
        f"DataLoader(): dataset must be indexable by sample number, like a Dataset or a list, but got {given!r}{advice}"
    )


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle:
        raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got {shuffle=}")
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_batches(batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
