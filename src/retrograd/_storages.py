"""Which memory tensors share, as files of ``torch.save`` record it: storages, and where on them tensors lie."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from retrograd.conjugate_views import UnresolvedArray
from retrograd.core.tensor import Tensor

__all__ = ["Place", "lay_out"]

Layout = tuple[int, tuple[int, ...], tuple[int, ...], np.dtype]  # address, shape, strides


class Place(NamedTuple):
    """Where a tensor lies, counted in elements, as in torch."""

    storage: int
    offset: int
    strides: tuple[int, ...]


def _held(tensor: Tensor) -> np.ndarray:
    """What the memory of a tensor holds, on the CPU; of a conjugate view, that is what it is the conjugate of."""
    data: Any = tensor._data
    if type(data) is UnresolvedArray:
        data = data.array
    array: np.ndarray = data if type(data) is np.ndarray else data.get()
    return array


def lay_out(tensors: Iterable[Tensor]) -> tuple[dict[int, Place], list[np.ndarray]]:
    """Return the place of each tensor, by its id, and the elements of each storage.

    Tensors of one dtype whose memory overlaps lie on one storage, which is as long as they need; memory of a larger
    tensor beside them is not part of it. What shares its memory with no other and has gaps is closed up.
    """
    arrays = {id(tensor): _countable(_held(tensor)) for tensor in tensors}
    by_layout: dict[Layout, tuple[np.ndarray, list[int]]] = {}
    for name, array in arrays.items():
        layout = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        by_layout.setdefault(layout, (array, []))[1].append(name)

    storages: list[np.ndarray] = []
    places: dict[int, Place] = {}
    for group in _overlapping(by_layout):
        start, stop = group[0][0], max(_stop(layout) for layout in group)
        first, _ = by_layout[group[0]]
        size = first.itemsize
        if len(group) == 1 and stop - start > first.nbytes:
            elements = np.array(first, order="C").reshape(-1)
            steps = {group[0]: _dense(first.shape)}
        else:
            elements = np.lib.stride_tricks.as_strided(first, ((stop - start) // size,), (size,))
            steps = {layout: _in_elements(layout) for layout in group}
        for layout in group:
            place = Place(len(storages), (layout[0] - start) // size, steps[layout])
            places.update((name, place) for name in by_layout[layout][1])
        storages.append(elements)
    return places, storages


def _in_elements(layout: Layout) -> tuple[int, ...]:
    _, shape, strides, dtype = layout
    return _dense(shape) if 0 in shape else tuple(step // dtype.itemsize for step in strides)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of an array without gaps."""
    return tuple(math.prod(max(n, 1) for n in shape[dim + 1 :]) for dim in range(len(shape)))


def _countable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where its layout is not in whole elements or has a negative stride."""
    if array.size and all(step >= 0 and step % array.itemsize == 0 for step in array.strides):
        return array
    return np.array(array, order="C")


def _stop(layout: Layout) -> int:
    """Where the last element ends."""
    address, shape, strides, dtype = layout
    if 0 in shape:
        return address
    return address + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + dtype.itemsize


def _overlapping(layouts: Iterable[Layout]) -> list[list[Layout]]:
    """The layouts, in groups that overlap, each in the order of its addresses."""
    groups: list[list[Layout]] = []
    kind: tuple[str, int] | None = None
    end = 0
    for layout in sorted(layouts, key=lambda layout: (*_kind(layout), layout[0])):
        if _kind(layout) == kind and layout[0] < end:
            groups[-1].append(layout)
            end = max(end, _stop(layout))
        else:
            groups.append([layout])
            kind, end = _kind(layout), _stop(layout)
    return groups


def _kind(layout: Layout) -> tuple[str, int]:
    """What all elements of a storage have in common: their dtype, and where they begin between its multiples."""
    address, _, _, dtype = layout
    return dtype.str, address % dtype.itemsize
