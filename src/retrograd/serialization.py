"""Copies of tensors that leave the process or the object: pickle, copy.copy and copy.deepcopy.

As in torch, tensors on one storage still share it after a deepcopy; here, after a round trip through one pickle, too.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.conjugate_views import UnresolvedArray
from retrograd.core.registry import method
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap
from retrograd.device import device as _device
from retrograd.dtypes import from_numpy_dtype

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

# what load() takes as ``map_location``, for annotations
MAP_LOCATION = Callable[[Tensor, str], Tensor] | _device | str | dict[str, str] | None

_noted: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Take note of classes and functions that a file may name; :func:`retrograd.load` calls nothing all the same.

    What it reads are tensors, numbers, strings, containers of these and the like. That needs no permission.
    """
    _noted.extend(item for item in safe_globals if item not in _noted)


def get_safe_globals() -> list[Any]:
    """Return what was passed to :func:`add_safe_globals`."""
    return list(_noted)


def clear_safe_globals() -> None:
    """Forget what was passed to :func:`add_safe_globals`."""
    _noted.clear()


class safe_globals:  # noqa: N801 (torch's name)
    """A block in which :func:`add_safe_globals` applies to the arguments."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self._given = safe_globals
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before = get_safe_globals()
        add_safe_globals(self._given)

    def __exit__(self, *error: object) -> None:
        _noted[:] = self._before


def __getattr__(name: str) -> Any:
    if name in ("load", "save"):  # also in torch's module of this name
        return getattr(importlib.import_module("retrograd.files"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# An array as (array,), or a part of one as (array, shape, dtype, offset in bytes, strides); an unresolved one with its
# ufunc at the end
Storage = tuple[Any, ...]


def _storage_of(data: Any) -> Storage:
    """The array that owns the memory, and where in it ``data`` lies; ``data`` itself where that cannot be said."""
    if type(data) is UnresolvedArray:
        return (*_storage_of(data.array), data.ufunc)
    if type(data) is not np.ndarray:
        return (data,)
    owner = data
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner is data or type(owner) is not np.ndarray or not owner.flags.forc:
        return (data,)
    offset = data.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return owner, data.shape, data.dtype.str, offset, data.strides


def _array_on(storage: Storage) -> Any:
    """The array that :func:`_storage_of` described."""
    if isinstance(storage[-1], np.ufunc):
        return UnresolvedArray(_array_on(storage[:-1]), storage[-1])
    if len(storage) == 1:
        data = storage[0]
    else:
        owner, shape, dtype, offset, strides = storage
        data = np.ndarray(shape, dtype, owner if owner.flags.c_contiguous else owner.T, offset, strides)
        if 0 in strides and data.size > 1:  # the memory of an expanded tensor, which is not written to
            data.flags.writeable = False
    # unpickled arrays have dtype objects of their own, but operations compare by identity
    wanted = from_numpy_dtype(data.dtype).numpy
    return data if data.dtype is wanted else data.view(wanted)


def _rebuild(kind: type[Tensor], storage: Storage, requires_grad: bool) -> Tensor:
    """A leaf on an array, of the class ``kind``, whose own constructor is not called."""
    tensor = Tensor.__new__(kind)
    Tensor.__init__(tensor, wrap(_array_on(storage)))
    return tensor.requires_grad_() if requires_grad else tensor


def _attributes_of(tensor: Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the user attached to a tensor: the attributes in its ``__dict__``, and those in slots of a subclass."""
    state: Any = object.__getstate__(tensor)
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    return attributes or {}, {name: value for name, value in slots.items() if name not in Tensor.__slots__}


def _attach(tensor: Tensor, attributes: tuple[dict[str, Any], dict[str, Any]]) -> Tensor:
    by_dict, by_slots = attributes
    tensor.__dict__.update(by_dict)
    for name, value in by_slots.items():
        setattr(tensor, name, value)
    return tensor


@method
def __reduce_ex__(self: Tensor, protocol: Any) -> tuple[Any, ...]:  # noqa: N807
    """How to rebuild it: as a leaf, without ``.grad`` and hooks, but with the attributes attached to it."""
    if self._backward_hooks:
        warn_user(f"backward hooks on a tensor of shape {list(self.shape)} will not be serialized; register them again")
    custom = type(self).__getstate__ is not object.__getstate__
    state = self.__getstate__() if custom else _attributes_of(self)
    if state == ({}, {}):
        state = None
    return _rebuild, (type(self), _storage_of(self._data), self.requires_grad), state


@method
def __copy__(self: Tensor) -> Tensor:  # noqa: N807
    """Return a leaf on the same memory, without ``.grad`` and hooks, but with the attributes attached to this one."""
    return _attach(_rebuild(type(self), (self._data,), self.requires_grad), _attributes_of(self))


@method
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:  # noqa: N807
    """Return a copy of a leaf and of everything that belongs to it: ``.grad``, and the attributes attached to it.

    A parameter is copied without these, as torch does: its copy is for another model, which has no gradients yet.

    Raises
    ------
    RuntimeError
        If it was computed, since the graph behind it cannot be copied.
    """
    if id(self) in memo:
        return memo[id(self)]
    node = self.grad_fn
    if node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            f"This one, of shape {list(self.shape)}, was computed by {node.name()}; copy tensor.detach() instead."
        )
    owner, *place = _storage_of(self._data)
    out = _rebuild(type(self), (copy.deepcopy(owner, memo), *place), self.requires_grad)
    memo[id(self)] = out
    kind = type(self)
    if "_is_param" in self.__dict__ and (kind is Tensor or getattr(kind, "_mark", "") == "_is_param"):
        out._is_param = True  # type: ignore[attr-defined]
        return out
    out._grad = copy.deepcopy(self._grad, memo)
    return _attach(out, copy.deepcopy(_attributes_of(self), memo))
