"""Data sets: by index, or one sample after the other."""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.random import Generator, randperm

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index. A subclass defines ``__getitem__``, and as a rule ``__len__``.

    It may define ``__getitems__(indices)``, too, which returns the samples of a whole batch as a list.

    Examples
    --------
    >>> class Squares(rg.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> list(rg.utils.data.DataLoader(Squares(), batch_size=2))
    [tensor([0, 1]), tensor([4, 9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples that come one after the other, such as from a stream. A subclass defines ``__iter__``.

    With several workers each has a copy of the data set and gives all of it; :func:`get_worker_info` says which part
    is wanted from this one.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors whose first dimension counts samples; a sample is a tuple with an item of each.

    Parameters
    ----------
    *tensors
        Tensors with the same first dimension.

    Raises
    ------
    TypeError
        If something else is among them.
    AssertionError
        If their first dimensions differ.

    Examples
    --------
    >>> data = rg.utils.data.TensorDataset(rg.arange(6).reshape(3, 2), rg.tensor([0, 1, 0]))
    >>> data[1]
    (tensor([2, 3]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        for number, tensor in enumerate(tensors):
            if not hasattr(tensor, "shape"):
                raise TypeError(
                    f"TensorDataset takes tensors, but argument {number} is a {type(tensor).__name__}: convert it to a "
                    "tensor, or combine data sets of any kind with StackDataset"
                )
        sizes = [len(tensor) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"Size mismatch between tensors: their first dimensions are {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, ...]]:
        try:  # as numbers: a list of tensors would count as an index of several dimensions
            indices = [operator.index(index) for index in indices]
        except TypeError:  # such as slices
            return [self[index] for index in indices]
        # index each tensor once, not once per sample
        return list(zip(*(tensor[indices] for tensor in self.tensors), strict=True))

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Several data sets side by side; a sample is a tuple, or a dict, with one of each.

    Parameters
    ----------
    *args
        Data sets of one length, for samples that are tuples.
    **kwargs
        The same by name, for samples that are dicts.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "Supported either tuple-like (via args) or dict-like (via kwargs) input, "
                f"but got {len(args)} positional and {len(kwargs)} named data sets"
            )
        sizes = [len(dataset) for dataset in (args or kwargs.values())]
        if len(set(sizes)) > 1:
            raise ValueError(f"Size mismatch between datasets: {sizes}")
        self._length = sizes[0]
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return the samples at several places; data sets that have ``__getitems__`` are asked for all at once."""
        if isinstance(self.datasets, dict):
            columns = [_items_of(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(_items_of(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def _items_of(dataset: Any, indices: list[Any]) -> list[Any]:
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)} from "
            f"{type(dataset).__name__}.__getitems__"
        )
    return items


class ConcatDataset(Dataset[T_co]):
    """Data sets one after the other.

    Parameters
    ----------
    datasets
        Data sets that know their length.

    Examples
    --------
    >>> both = rg.utils.data.ConcatDataset([range(3), range(10, 12)])
    >>> len(both), both[3], both[-1]
    (5, 10, 11)
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(f"absolute value of index should not exceed dataset length: {index} of {len(self)}")
            index += len(self)
        number = bisect.bisect_right(self.cumulative_sizes, index)
        if number == len(self.datasets):
            raise IndexError(f"index {index} is out of range for {len(self)} samples")
        return self.datasets[number][index - (self.cumulative_sizes[number - 1] if number else 0)]


class ChainDataset(IterableDataset[Any]):
    """Iterable data sets one after the other.

    Parameters
    ----------
    datasets
        The data sets.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(f"ChainDataset only supports IterableDataset, but got {type(dataset).__name__}")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """Some samples of a data set.

    Parameters
    ----------
    dataset
        The data set.
    indices
        Which samples, in this order.

    Examples
    --------
    >>> list(rg.utils.data.Subset("abcdef", [4, 0]))
    ['e', 'a']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        chosen = [self.indices[i] for i in indices]
        whole = getattr(self.dataset, "__getitems__", None)
        return [self.dataset[i] for i in chosen] if whole is None else whole(chosen)

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset[Any]]:
    """Split a data set by chance into parts that have no sample in common.

    Parameters
    ----------
    dataset
        What is split.
    lengths
        The number of samples of each part; or fractions that sum to 1, of which the first parts get the samples that
        are left over.
    generator
        Where the chance comes from.

    Raises
    ------
    ValueError
        If the lengths are neither all the samples nor fractions of the whole.

    Examples
    --------
    >>> train, test = rg.utils.data.random_split(range(10), [0.8, 0.2])
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    total = len(dataset)
    counts: list[Any] = list(lengths)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for number, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {number} is not between 0 and 1: it is {fraction}")
        counts = [math.floor(total * fraction) for fraction in lengths]
        for number in range(total - sum(counts)):
            counts[number % len(counts)] += 1
        for number, count in enumerate(counts):
            if count == 0:
                warn_user(f"Length of split at index {number} is 0. This might result in an empty dataset.")
    if sum(counts) != total:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"The lengths {list(lengths)} sum to {sum(counts)}, and there are {total} samples"
        )
    order = randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)]
