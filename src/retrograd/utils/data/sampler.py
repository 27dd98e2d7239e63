"""The order in which samples are taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from retrograd.creation import as_tensor
from retrograd.dtypes import float64
from retrograd.random import Generator, multinomial, randint, randperm

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)

_DRAWN_AT_ONCE = 1000  # there may be as many indices as a program will ever ask for: num_samples=10**10


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Sampler(Generic[T_co]):
    """The base of all samplers: an iterable of indices. A subclass defines ``__iter__``, and as a rule ``__len__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__()")


class SequentialSampler(Sampler[int]):
    """Indices in order.

    Parameters
    ----------
    data_source
        The data set.
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Parameters
    ----------
    data_source
        The data set.
    replacement
        Draw every index from all indices.
    num_samples
        How many; by default as many as there are samples. Without replacement, more than that means one order after
        the other.
    generator
        The source of random numbers.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not _is_count(self.num_samples):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many indices there are in all."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        total, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:  # so that numbers drawn by the program in between do not change the order
            generator = Generator().manual_seed(int(randint(2**63 - 1, ()).item()))
        if self.replacement:
            for begin in range(0, wanted, _DRAWN_AT_ONCE):
                yield from randint(total, (min(_DRAWN_AT_ONCE, wanted - begin),), generator=generator).tolist()
            return
        while wanted > 0 and total > 0:
            yield from randperm(total, generator=generator).tolist()[:wanted]
            wanted -= total

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices, in random order.

    Parameters
    ----------
    indices
        The indices.
    generator
        The source of random numbers.
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices with given probabilities.

    Parameters
    ----------
    weights
        A weight for each index; they need not sum to one.
    num_samples
        How many indices to draw.
    replacement
        Whether an index may come more than once.
    generator
        The source of random numbers.

    Examples
    --------
    >>> list(rg.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not _is_count(num_samples):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Indices in batches.

    Parameters
    ----------
    sampler
        Where they come from.
    batch_size
        How many go into a batch.
    drop_last
        Leave out a last batch that is not full.

    Examples
    --------
    >>> list(rg.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not _is_count(batch_size):
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The share of one process in the indices, where several work on one data set.

    Nothing here starts such processes; without ``num_replicas`` and ``rank`` there is one, which gets all indices.

    Parameters
    ----------
    dataset
        The data set.
    num_replicas
        How many processes there are.
    rank
        The number of this one, from 0.
    shuffle
        Take the indices in random order, another one after each :meth:`set_epoch`.
    seed
        The source of random numbers. It must be the same in all processes.
    drop_last
        Leave out what does not divide by the number of processes; otherwise some indices come twice.

    Examples
    --------
    >>> list(rg.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = 1 if num_replicas is None else num_replicas
        self.rank = 0 if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        count = len(dataset)
        self.num_samples = count // self.num_replicas if drop_last else -(-count // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch, on which the random order depends."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        generator = Generator().manual_seed(self.seed + self.epoch)
        order = randperm(count, generator=generator).tolist() if self.shuffle else range(count)
        shares = itertools.islice(itertools.cycle(order), self.total_size)
        return itertools.islice(shares, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples
