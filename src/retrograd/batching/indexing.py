"""Indexing batched arrays with NumPy's rules for indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.batching.array import BatchedArray, Levels, levels_of, lift, union, with_levels
from retrograd.batching.per_sample import change_samples, depends_on_data
from retrograd.batching.ufuncs import check_target

_ALL = slice(None)


def _as_index(item: Any) -> Any:
    """An item of an index, with arrays for lists."""
    return np.asarray(item) if isinstance(item, list) else item


def _is_array(item: Any) -> bool:
    return isinstance(item, (np.ndarray, BatchedArray)) or hasattr(item, "__cuda_array_interface__")


def _is_mask(item: Any) -> bool:
    return _is_array(item) and item.dtype.kind == "b"


def _picks(item: Any) -> bool:
    """Whether an item picks elements: an array does, and so does an integer once the index holds an array."""
    return _is_array(item) or isinstance(item, (int, np.integer))


def _is_separated(index: tuple[Any, ...]) -> bool:
    """Whether the picking items are not adjacent, in which case the picked dimensions come first."""
    places = [k for k, item in enumerate(index) if _picks(item)]
    return bool(places) and places[-1] - places[0] >= len(places)


def get(x: BatchedArray, index: Any) -> BatchedArray:
    """``x[index]``."""
    index = tuple(map(_as_index, index)) if isinstance(index, tuple) else (_as_index(index),)
    batched = [item for item in index if type(item) is BatchedArray]
    if batched:
        return _pick(x, index, batched)
    k = len(x.levels)
    array = x.array[(_ALL,) * k + index]
    if any(map(_is_array, index)) and _is_separated(index):
        width = np.broadcast(*_integers(index)).ndim
        array = np.moveaxis(array, range(width, width + k), range(k))
    return BatchedArray(array, x.levels)


def _integers(index: tuple[Any, ...]) -> list[Any]:
    """The arrays of integers that pick elements; a mask stands for those of its true elements."""
    found: list[Any] = []
    for item in index:
        if _is_array(item):
            found += item.nonzero() if _is_mask(item) else [item]
        elif isinstance(item, (int, np.integer)):
            found.append(np.asarray(item))
    return found


def _complete(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """The index with slices for the Ellipsis and for what is not mentioned."""
    used = sum(item.ndim if _is_mask(item) else item is not None for item in index)
    used -= any(item is Ellipsis for item in index)
    fill = (_ALL,) * (ndim - used)
    for k, item in enumerate(index):
        if item is Ellipsis:
            return (*index[:k], *fill, *index[k + 1 :])
    return (*index, *fill)


def _pick(x: BatchedArray, index: tuple[Any, ...], batched: list[Any]) -> BatchedArray:
    """Elements at indices that differ from sample to sample: an index for each hidden axis, too."""
    if any(map(_is_mask, batched)):
        raise depends_on_data("indexing with a mask")
    levels = union(x.levels, levels_of(batched))
    physical, before, width = _physical_index(index, x.ndim, levels, lift(x, levels).hidden)
    array = lift(x, levels).array[physical]
    if before and not _is_separated(_complete(index, x.ndim)):
        k = len(levels)
        array = np.moveaxis(array, range(k, k + width), range(k + before, k + before + width))
    return BatchedArray(array, levels)


def _physical_index(
    index: tuple[Any, ...], ndim: int, levels: Levels, hidden: tuple[int, ...]
) -> tuple[tuple[Any, ...], int, int]:
    """The index of the plain array, how many dimensions stand before the picked ones, and how many those are."""
    index = _complete(index, ndim)
    width = max(np.ndim(item) for item in _integers(index))
    k = len(levels)
    samples = [np.arange(n).reshape((*(1,) * axis, n, *(1,) * (k - 1 - axis + width))) for axis, n in enumerate(hidden)]
    items: list[Any] = []
    before = -1
    for item in index:
        if before < 0 and _picks(item):
            before = len(items)
        if _is_mask(item):
            items += item.nonzero()
        else:
            items.append(with_levels(item, levels, width) if type(item) is BatchedArray else item)
    return (*samples, *items), before, width


def put(x: BatchedArray, index: Any, value: Any) -> None:
    """``x[index] = value``."""
    index = tuple(map(_as_index, index)) if isinstance(index, tuple) else (_as_index(index),)
    check_target(x, (value, *index))
    arrays = [item for item in index if _is_array(item)]
    k = len(x.levels)
    if not arrays:
        target = x.array[(*(_ALL,) * k, *index, *(() if any(item is Ellipsis for item in index) else (...,)))]
        target[...] = _fitted(value, x.levels, target.ndim - k)
    elif len(index) == 1 and arrays[0].dtype.kind == "b" and not np.ndim(value):
        mask = with_levels(arrays[0], x.levels)
        mask = mask.reshape(mask.shape + (1,) * (x.array.ndim - mask.ndim))
        np.copyto(x.array, _fitted(value, x.levels, x.ndim), where=mask, casting="unsafe")
    elif all(item.dtype.kind != "b" for item in arrays) and _is_array(index[0]) and not _is_separated(index):
        physical, _, width = _physical_index(index, x.ndim, x.levels, x.hidden)
        rest = x.ndim - sum(map(_picks, index))
        x.array[physical] = _fitted(value, x.levels, width + rest)
    else:
        change_samples(_assign, (x, index, value))


def _assign(target: Any, index: Any, value: Any) -> None:
    target[index] = value


def _fitted(value: Any, levels: Levels, ndim: int) -> Any:
    """The plain array of a value, shaped so that it broadcasts to samples of ``ndim`` dimensions."""
    if type(value) is not BatchedArray:
        return value
    extra = value.ndim - ndim
    if extra > 0 and math.prod(value.shape[:extra]) == 1:
        value = value.reshape(value.shape[extra:])
    return with_levels(value, levels, ndim)
