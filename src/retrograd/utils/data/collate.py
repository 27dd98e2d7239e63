"""Samples put together into a batch."""

from __future__ import annotations

import collections.abc
import copy
from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor
from retrograd.creation import as_tensor, tensor
from retrograd.dtypes import float64
from retrograd.ops.joining import stack

__all__ = ["default_collate", "default_convert"]

_EXPECTED = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}; pass the DataLoader "
    "your own collate_fn for these"
)


def default_convert(data: Any) -> Any:
    """Return a sample with tensors in place of NumPy arrays, in all its dicts, lists and tuples; tuples become lists.

    Examples
    --------
    >>> rg.utils.data.default_convert({"x": np.arange(3), "name": "a"})
    {'x': tensor([0, 1, 2]), 'name': 'a'}
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUOMm" else as_tensor(data)
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if hasattr(data, "__dlpack__"):  # a tensor of another library
        return as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _like(data, [(key, default_convert(value)) for key, value in data.items()])
    if isinstance(data, collections.abc.Sequence):
        items = [default_convert(item) for item in data]
        return _like(data, items)
    return data


def default_collate(batch: Any) -> Any:
    """Return a batch made of a list of samples: tensors are stacked, numbers become tensors.

    Containers stay: a list of dicts becomes a dict of batches, a list of tuples a list of batches (named tuples stay
    named tuples). Strings stay as they are.

    Parameters
    ----------
    batch
        The samples.

    Raises
    ------
    TypeError
        For samples of another type.
    RuntimeError
        If samples have different shapes or lengths.

    Examples
    --------
    >>> rg.utils.data.default_collate([(rg.ones(2), 1), (rg.zeros(2), 0)])
    [tensor([[1., 1.],
            [0., 0.]]), tensor([1, 0])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch)
    if isinstance(first, np.ndarray) and first.dtype.kind in "SUOMm":
        raise TypeError(_EXPECTED.format(f"an array of dtype {first.dtype}"))
    if hasattr(first, "__dlpack__"):  # NumPy's arrays, and other libraries', such as those of torchvision's data sets
        return _stacked([as_tensor(item) for item in batch])
    if isinstance(first, float) and not isinstance(first, np.generic):
        return tensor(batch, dtype=float64)
    if isinstance(first, (str, bytes)):  # those of NumPy's arrays, too
        return batch
    if isinstance(first, np.generic):
        return as_tensor(batch)  # Python's numbers among them do not affect the dtype
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, collections.abc.Mapping):
        return _like(first, [(key, default_collate([sample[key] for sample in batch])) for key in first])
    if isinstance(first, collections.abc.Sequence):
        sizes = {len(sample) for sample in batch}
        if len(sizes) > 1:
            raise RuntimeError(f"each element in list of batch should be of equal size, but their sizes are {sizes}")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return _like(first, columns)
    raise TypeError(_EXPECTED.format(type(first)))


def _stacked(tensors: list[Tensor]) -> Tensor:
    for number, item in enumerate(tensors):
        if not isinstance(item, Tensor):
            raise TypeError(f"expected Tensor as element {number} of a batch of tensors, but got {type(item).__name__}")
    shapes = {tuple(item.shape): number for number, item in reversed(list(enumerate(tensors)))}
    if len(shapes) > 1:
        (a, i), (b, j), *_ = sorted(shapes.items(), key=lambda item: item[1])
        raise RuntimeError(
            f"stack expects each tensor to be equal size, but got {list(a)} at entry {i} and {list(b)} at entry {j}"
        )
    return stack(tensors)


def _like(container: Any, items: list[Any]) -> Any:
    """A container of the same type with other items; a list for a tuple, a list or dict for what cannot hold them."""
    if hasattr(container, "_fields"):
        return type(container)(*items)
    is_mapping = isinstance(container, collections.abc.Mapping)
    plain: Any = dict(items) if is_mapping else items
    if type(container) in (dict, list) or isinstance(container, tuple):
        return plain
    try:
        if isinstance(container, (collections.abc.MutableMapping, collections.abc.MutableSequence)):
            clone = copy.copy(container)  # such as a defaultdict, which has more state than its items
            places = items if is_mapping else list(enumerate(items))
            for place, item in places:
                clone[place] = item
            return clone if all(clone[place] is item for place, item in places) else plain
        return type(container)(plain)
    except (TypeError, ValueError):  # such as an array of Python's, which takes no tensors
        return plain
