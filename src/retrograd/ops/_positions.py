"""Positions of elements: index tensors as positions in the flattened array, and writing and adding at these.

NumPy's ``ufunc.at`` is fast for one flat index of a flat array, and slow for everything else.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.core import state
from retrograd.core.half import HALF, single
from retrograd.core.views import shares_memory
from retrograd.ops._scipy import installed

ALL = slice(None)


def along(dim: int, index: Any) -> tuple[Any, ...]:
    """The index of an element, or of a slice, along ``dim``. The Ellipsis keeps a 0-d result an array."""
    return (*(ALL,) * dim, index, ...)


def _strides(shape: Sequence[int]) -> list[int]:
    """How far apart neighbours along each dimension are in the flattened array."""
    return [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]


def _on_axis(values: Any, axis: int, ndim: int) -> Any:
    return values.reshape(*(1,) * axis, -1, *(1,) * (ndim - 1 - axis))


def _ramp(length: int, step: int, axis: int, ndim: int) -> Any:
    """Multiples of ``step`` along ``axis``."""
    return _on_axis(np.arange(length) * step, axis, ndim)


_kept_ramp = functools.lru_cache(maxsize=64)(_ramp)
_SHORT = 4096


def along_dim(index: Any, shape: Sequence[int], dim: int) -> Any:
    """The positions of the elements ``x[i, index[i, j]]``, for ``dim`` 1 of ``x`` of ``shape``, as in gather."""
    if len(shape) < 2 or not index.size:  # the index of a 0-d tensor may be a vector, and that of a vector 0-d
        return index
    steps = _strides(shape)
    step = steps[dim]
    positions = index.astype(np.intp, copy=False) if step == 1 else index.astype(np.intp, copy=False) * step
    for axis, (length, step) in enumerate(zip(index.shape, steps, strict=True)):
        if axis != dim and length > 1:
            ramp = _kept_ramp if length <= _SHORT else _ramp
            positions = positions + ramp(length, step, axis, index.ndim)
    return positions


def of_index(indices: Sequence[Any], shape: Sequence[int]) -> Any:
    """The positions of the elements ``x[indices]`` of ``x`` of ``shape``.

    Each of ``indices`` is an array of integers, a mask, or the slice of everything.
    """
    each: list[Any] = list(
        itertools.chain.from_iterable(
            (index,) if isinstance(index, slice) or index.dtype.kind != "b" else index.nonzero() for index in indices
        )
    )
    each += [ALL] * (len(shape) - len(each))
    steps = _strides(shape)
    picking = [dim for dim, index in enumerate(each) if not isinstance(index, slice)]
    rest = [dim for dim in range(len(shape)) if dim not in picking]
    positions: Any = np.intp(0)
    for dim in picking:
        index = each[dim].astype(np.intp, copy=False)
        positions = positions + np.where(index < 0, index + shape[dim], index) * steps[dim]
    # the dimensions of the index replace the picked ones, if those are neighbours, and come first otherwise
    before = picking[0] if picking and picking[-1] - picking[0] == len(picking) - 1 else 0
    width = positions.ndim
    positions = np.reshape(positions, (*positions.shape, *(1,) * (len(rest) - before)))
    for k, dim in enumerate(rest):
        axis = k if k < before else k + width
        positions = positions + _on_axis(np.arange(shape[dim]) * steps[dim], axis, width + len(rest))
    return positions


def write_flat(target: Any, change: Callable[[Any], None]) -> None:
    """Let ``change`` write to the flattened ``target``."""
    flat = target.reshape(-1)
    change(flat)
    if not shares_memory(flat, target):
        target[...] = flat.reshape(target.shape)


def apart(values: Any, target: Any) -> Any:
    """``values``, copied if writing to ``target`` might overwrite some of them before they have been read."""
    return values.copy() if shares_memory(values, target) else values


def combine_at(ufunc: np.ufunc, target: Any, positions: Any, values: Any) -> None:
    """Combine ``values`` into ``target`` at ``positions``, one after the other, in place; float16 via float32."""
    if target.dtype == HALF:
        combined = single(target)
        combine_at(ufunc, combined, positions, single(values))
        target[...] = combined
        return
    if not isinstance(values, (bool, int, float, complex)):
        values = (values if values.shape == positions.shape else np.broadcast_to(values, positions.shape)).reshape(-1)
    write_flat(target, lambda flat: ufunc.at(flat, positions.reshape(-1), values))


# Up to how many values NumPy's own way of finding places in several dimensions takes less time (measured).
_SEVERAL = 512


def add_along(target: Any, index: Any, dim: int, values: Any) -> None:
    """Add ``values[i, j]`` to ``target[i, index[i, j]]``, for ``dim`` 1, also where an index is repeated, in place."""
    rows = index_of_rows(index, target.shape, dim)
    if rows is None:
        combine_at(np.add, target, along_dim(index, target.shape, dim), values)
    else:
        add_picked(target, (rows,), values)


def index_of_rows(index: Any, shape: Sequence[int], dim: int) -> Any:
    """The vector from which an index was expanded that has one entry for each row; None if it was not."""
    if dim != 0 or type(index) is not np.ndarray or index.ndim < 2 or any(index.strides[1:]) or not index.size:
        return None
    first: Any = (ALL, *(0,) * (index.ndim - 1))
    return index[first] if index.shape[1:] == tuple(shape[1:]) else None


def add_picked(target: Any, indices: Sequence[Any], values: Any) -> None:
    """Add ``values`` to ``target`` at ``indices``, as :func:`of_index` has them, also repeated ones, in place."""
    plain = type(target) is type(values) is np.ndarray and target.dtype != HALF
    if plain and (values.size <= _SEVERAL or target.ndim == 1) and all(map(_is_plain, indices)):
        np.add.at(target, tuple(indices), values)
    elif not (len(indices) == 1 and add_rows(target, indices[0], values)):
        combine_at(np.add, target, of_index(indices, target.shape), values)


def _is_plain(index: Any) -> bool:
    return type(index) is np.ndarray or isinstance(index, slice)


# Elements of a row, and of all rows, from which on rows are added whole; and for how few numbers that are left all
# further rows of each are summed up at once (measured).
_WIDE, _MANY, _FEW = 96, 1 << 16, 32
_GATHERED = 48  # elements of a row, if that is to be gathered


def add_rows(target: Any, index: Any, rows: Any, source: Any = None) -> bool:
    """Add ``rows[k]``, or ``rows[source[k]]``, to ``target[index[k]]`` for every ``k``, in place.

    Adds one row for every index, then a second one for indices that occur twice, and so on. Returns whether this
    was done: for few or short rows, :func:`combine_at` takes less time.
    """
    if not type(target) is type(index) is type(rows) is np.ndarray or not target.flags.c_contiguous:
        return False
    if index.dtype.kind not in "iu" or (source is None and rows.shape != (*index.shape, *target.shape[1:])):
        return False
    count, length = index.size, math.prod(target.shape[1:])
    if min(length, count) < _NARROW or count * length < _SOME:
        return False
    if target.dtype == HALF:
        combined = single(target)
        done = add_rows(combined, index, single(rows), source)
        target[...] = combined
        return done
    wide, flat = rows.reshape(-1, length), target.reshape(len(target), length)
    numbers = np.where(index < 0, index + len(target), index).reshape(-1)
    if source is None and rows.dtype == target.dtype:
        sums = _sums_of_rows(len(target), numbers, wide)
        if sums is not None:
            flat += sums
            return True
    if length < (_WIDE if source is None else _GATHERED) or count * length < _MANY:
        return False
    order = numbers.astype(np.min_scalar_type(len(target)), copy=False).argsort(
        kind="stable"
    )  # faster if they are short
    numbers = numbers[order]
    order = order if source is None else source[order]
    starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    ends = np.append(starts[1:], count)
    while len(starts) > _FEW:
        flat[numbers[starts]] += wide[order[starts]]
        starts += 1
        left = starts < ends
        starts, ends = starts[left], ends[left]
    for start, end in zip(starts, ends, strict=True):
        flat[numbers[start]] += np.add.reduce(wide[order[start:end]], 0)
    return True


# The same for rows that a sparse matrix adds, and how many times as many sums as rows there may be (measured).
_NARROW, _SOME, _SPREAD = 4, 1 << 13, 4


def _sums_of_rows(count: int, numbers: Any, rows: Any) -> Any:
    """The sums of the rows of each number below a count, as the product with a sparse matrix of ones.

    None if that would take longer than it saves, or SciPy is not installed.
    """
    if rows.dtype.char not in "fdFD" or count > _SPREAD * len(rows) or (sparse := installed("scipy.sparse")) is None:
        return None
    if not 0 <= numbers.min() <= numbers.max() < count:  # SciPy would write there; NumPy says so
        return None
    ones, ends = np.ones(len(rows), rows.dtype), np.arange(len(rows) + 1)
    sums = sparse.csc_array((ones, numbers, ends), shape=(count, len(rows))) @ rows
    # a monitor observes the floating-point flags of NumPy's sums
    return None if state.monitor is not None and not np.isfinite(sums).all() else sums
