"""The shape of a tensor, and which of its dimensions is meant."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

from retrograd.core.errors import wrong_kind

_item = tuple.__getitem__


class Size(tuple[int, ...]):
    """A shape: a tuple of ints with ``numel()``; its parts and sums are shapes, too.

    >>> rg.zeros(2, 3, 4).shape[1:].numel()
    12
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        return tuple.__new__(cls, [_length(k, size) for k, size in enumerate(sizes)])

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        return math.prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: Any) -> Any:
        item = _item(self, index)
        return item if type(item) is int else shape_of(item)

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to retrograd.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(other) + self if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Size:
        return shape_of(tuple.__mul__(self, times))

    def __rmul__(self, times: Any) -> Size:
        return self * times

    def __repr__(self) -> str:
        return f"retrograd.Size({list(self)})"


def _length(position: int, size: Any) -> int:
    try:
        return operator.index(size)
    except TypeError:
        raise TypeError(
            f"Size() takes an iterable of ints, but item {position} is {size!r}, of type {type(size).__name__}"
        ) from None


def as_int(name: str, argument: str, value: Any) -> int:
    """An int; neither a bool nor a float."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise wrong_kind(name, f"argument '{argument}'", "int", value)


def checked_dim(name: str, dim: Any, ndim: int) -> int:
    """A dimension of a tensor, counted from the front.

    Raises
    ------
    TypeError
        If it is not an int.
    IndexError
        If there is no such dimension.
    """
    index = as_int(name, "dim", dim)
    if not -ndim <= index < ndim:
        bounds = f"[{-ndim}, {ndim - 1}]" if ndim else "a tensor with dimensions"
        raise IndexError(f"{name}(): Dimension out of range (expected to be in range of {bounds}, but got {index})")
    return index % ndim


def shape_of(sizes: tuple[int, ...]) -> Size:
    """The Size of what is known to consist of ints, such as the shape of an array."""
    return tuple.__new__(Size, sizes)
