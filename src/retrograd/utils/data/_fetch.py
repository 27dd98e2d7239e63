"""Fetching a batch from a data set, in this process or in a worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from retrograd.utils.data.dataset import IterableDataset

END: Any = object()  # what a fetcher of an iterable data set returns when there is nothing left


@dataclass(frozen=True)
class Plan:
    """How batches are made, and from what.

    Attributes
    ----------
    dataset
        The source of the samples.
    collate_fn
        Makes a batch from a list of samples, or a tensor from a single one.
    is_batched
        Whether an index is a list of the indices of a batch.
    batch_size
        For iterable data sets, which are not asked by index: how many samples go into a batch; None for single ones.
    drop_last
        Leave out a last batch that is not full.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    is_batched: bool
    batch_size: int | None
    drop_last: bool


def fetcher(plan: Plan) -> Callable[[Any], Any]:
    """A function of an index, or of the indices of a batch, that returns a sample or a batch; ``END`` at the end."""
    dataset, collate_fn, batch_size = plan.dataset, plan.collate_fn, plan.batch_size
    if not isinstance(dataset, IterableDataset):
        whole = getattr(dataset, "__getitems__", None)

        def by_index(index: Any) -> Any:
            if not plan.is_batched:
                return collate_fn(dataset[index])
            return collate_fn([dataset[i] for i in index] if whole is None else whole(index))

        return by_index

    samples = iter(dataset)

    def next_ones(index: Any) -> Any:
        batch = list(itertools.islice(samples, 1 if batch_size is None else batch_size))
        if not batch or (batch_size is not None and plan.drop_last and len(batch) < batch_size):
            return END
        return collate_fn(batch[0] if batch_size is None else batch)

    return next_ones


class Fetching(Iterator[Any]):
    """The batches of an epoch, each made when it is asked for.

    Parameters
    ----------
    plan
        How they are made.
    indices
        The samples of each batch.
    """

    def __init__(self, plan: Plan, indices: Iterator[Any]) -> None:
        self._fetch = fetcher(plan)
        self._indices = indices

    def __next__(self) -> Any:
        batch = self._fetch(next(self._indices))
        if batch is END:
            raise StopIteration
        return batch
