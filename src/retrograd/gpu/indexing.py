"""Indices into arrays on a GPU, which must be in bounds: CuPy's kernels silently wrap indices that are not."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from retrograd.gpu.array import DeviceArray
from retrograd.gpu.cupy_calls import call

_BASIC = frozenset({int, slice, NoneType, EllipsisType})


def get(x: DeviceArray, index: Any) -> DeviceArray:
    if type(index) in _BASIC or (type(index) is tuple and _BASIC.issuperset(map(type, index))):  # a view
        return DeviceArray(x.array[index])
    return call(_read, (x, in_bounds(x, index)), {})


def put(x: DeviceArray, index: Any, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
    call(_write, (x, in_bounds(x, index), value), {})


def _write(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def in_bounds(x: DeviceArray, index: Any) -> Any:
    """The index, with lists in it converted to arrays; it is checked.

    Raises
    ------
    IndexError
        If an array of integers in it points beyond its dimension.
    """
    if not isinstance(index, tuple):
        return _checked(x, (index,))[0] if _is_array(index) else index
    return _checked(x, index) if any(map(_is_array, index)) else index


def check(positions: Any, length: int, dim: int) -> None:
    """Raise unless all positions lie within a dimension of the given length."""
    if positions.size and not _are_within(positions, length):
        low, high = int(positions.min()), int(positions.max())
        raise IndexError(f"index {low if low < -length else high} is out of bounds for axis {dim} with size {length}")


def _are_within(positions: Any, length: int) -> bool:
    """Whether all positions are at least -length and below length; waits for the GPU to return one number."""
    if positions.dtype.kind == "u":
        return int(positions.max()) < length
    # negative numbers are too large as unsigned ones
    return int((positions.astype(np.int64) + length).view(np.uint64).max()) < 2 * length


def take_within(x: Any, positions: Any) -> Any:
    """``x.take(positions, 0)``, where all positions are known to be within bounds: on a GPU they are not checked."""
    if type(x) is DeviceArray:
        return call(_read, (x, positions), {})
    return x.take(positions, 0)


def put_within(x: Any, positions: Any, values: Any) -> None:
    """``x[positions] = values``, where all positions are known to be within bounds."""
    if type(x) is DeviceArray:
        call(_write, (x, positions, values), {})
    else:
        x[positions] = values


def _read(array: Any, index: Any) -> Any:
    return array[index]


def _is_array(part: Any) -> bool:
    return isinstance(part, (DeviceArray, np.ndarray, list, range))


def _checked(x: DeviceArray, index: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = [np.asarray(part) if isinstance(part, (list, range)) else part for part in index]
    parts = [part.astype(np.int64) if isinstance(part, np.ndarray) and part.size == 0 and part.dtype != bool else part
             for part in parts]  # fmt: skip
    rest = x.ndim - sum(_consumed(part) for part in parts)
    dim = 0
    for part in parts:
        if part is Ellipsis:
            dim += rest
            continue
        if isinstance(part, (DeviceArray, np.ndarray)) and part.dtype != bool and dim < x.ndim:
            check(part, x.shape[dim], dim)
        dim += _consumed(part)
    return tuple(parts)


def _consumed(part: Any) -> int:
    """How many dimensions of an array one part of an index consumes."""
    if part is None or part is Ellipsis or isinstance(part, (bool, np.bool_)):
        return 0
    return part.ndim if isinstance(part, (DeviceArray, np.ndarray)) and part.dtype == bool else 1
