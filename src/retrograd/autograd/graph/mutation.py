"""Writing to tensors that are saved for backward without invalidating the graph."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

from retrograd.autograd.graph.hooks import saved_tensors_hooks
from retrograd.core import state
from retrograd.core.array_interface import storage_address_of
from retrograd.core.tensor import Tensor, wrap

_OUTSIDE = (
    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally "
    "recorded."
)


class _Kept:
    """A saved array: the tensor's own until its storage is about to be written to, a copy from then on.

    It holds the record of its storage, which therefore lives as long as something of the storage is saved.
    """

    __slots__ = ("__weakref__", "array", "storage")

    def __init__(self, array: Any, storage: _Storage) -> None:
        self.array = array
        self.storage: _Storage | None = storage


class _Storage(weakref.WeakValueDictionary[int, _Kept]):
    """What is saved of one storage, by the identity of the array."""


class MutationContext:
    """What :func:`allow_mutation_on_saved_tensors` keeps.

    Storages are told apart by their addresses: ``x.data`` lies in the storage of ``x``, but counts versions by itself.
    """

    def __init__(self) -> None:
        self._storages: weakref.WeakValueDictionary[int, _Storage] = weakref.WeakValueDictionary()
        self._kept: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def clear(self) -> None:
        """Forget all saved tensors: graphs recorded so far can no longer be differentiated."""
        for kept in self._kept:
            kept.array = kept.storage = None
        self._kept.clear()
        self._storages.clear()

    def _pack(self, tensor: Tensor) -> _Kept:
        array, key = tensor._data, storage_address_of(tensor._data)
        storage = self._storages.get(key)
        if storage is None:
            storage = self._storages[key] = _Storage()
        kept = storage.get(id(array))
        if kept is None:
            kept = storage[id(array)] = _Kept(array, storage)
            self._kept.add(kept)
        return kept

    def _unpack(self, kept: _Kept) -> Tensor:
        if kept.array is None:
            raise AssertionError(_OUTSIDE)
        return wrap(kept.array)

    def _before_write(self, target: Any) -> None:
        storage = self._storages.pop(storage_address_of(target._data), None)
        for kept in [] if storage is None else list(storage.values()):
            kept.array = kept.array.copy()
            kept.storage = None


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[MutationContext]:
    """Inside this block, tensors that are saved for backward may be written to in place.

    Normally such a write makes backward raise. Here what is saved is copied just before the first write to its storage,
    through whichever view, and backward uses the copy. Forward and backward must both run inside the block.

    Yields
    ------
    MutationContext
        ``clear()`` forgets what is saved; leaving the block does so, too.

    Raises
    ------
    RuntimeError
        If blocks are nested.
    AssertionError
        In backward, outside the block in which the graph was recorded, or after ``clear()``.

    Examples
    --------
    >>> with rg.autograd.graph.allow_mutation_on_saved_tensors():
    ...     a = rg.ones(2, 3, requires_grad=True)
    ...     b = a.clone()
    ...     out = (b**2).sum()
    ...     _ = b.sin_()
    ...     out.backward()
    >>> a.grad
    tensor([[2., 2., 2.],
            [2., 2., 2.]])
    """
    local = state.local
    if local.before_write is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = MutationContext()
    with saved_tensors_hooks(context._pack, context._unpack):
        try:
            local.before_write = context._before_write
            state.refresh()
            yield context
        finally:
            local.before_write = None
            state.refresh()
            context.clear()
