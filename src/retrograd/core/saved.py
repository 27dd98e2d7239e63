"""What nodes keep for backward: how it is saved, checked for writes in between, and brought back.

A tensor is kept as itself while it has no version cell, or else with its version (:class:`Versioned`); a result as its
array, cell and version, because the tensor holds the node; several in a :class:`SavedList`. If the user has set
hooks, what these returned is kept (:class:`Packed`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from retrograd.core.state import local, refresh, set_grad_enabled
from retrograd.core.tensor import Edge, Tensor, cell_of, wrap

if TYPE_CHECKING:
    from retrograd.core.node import OpNode


class Versioned(tuple[Tensor, int]):
    """A tensor saved when its storage had a version cell, with the version then.

    A tensor without a cell is saved as itself: it was at version 0, and a cell that appears later records writes.
    """

    __slots__ = ()


class SavedList(list[Any]):
    """The saved tensors of an argument that is a list of tensors, or of several results."""

    __slots__ = ()


def save_tensor(tensor: Tensor) -> Any:
    """Keep a tensor for backward, to be checked against writes in between."""
    if local.saved_hooks is not None:
        packed = pack(tensor, *local.saved_hooks[-1])
        if local.tangents is not None:
            local.tangents.keep_packed(packed, tensor)
        return packed
    cell = tensor._cell
    return tensor if cell is None else Versioned((tensor, cell[0]))


def save_result(tensor: Tensor) -> Any:
    """Keep a result: its array and version, not the tensor, which holds the node."""
    cell = cell_of(tensor)
    if local.saved_hooks is not None:
        return pack(wrap(tensor._data, None, cell), *local.saved_hooks[-1])
    return tensor._data, cell, cell[0]


# --- bringing it back -------------------------------------------------------------------------------------------------


def saved_value(entry: Any, node: OpNode, slot: int) -> Any:
    """The array or plain value behind a saved entry, if nobody wrote to it since."""
    if isinstance(entry, Tensor) and entry._cell is None:
        return entry._data
    kind = type(entry)
    if kind is SavedList:
        return [saved_value(item, node, slot) for item in entry]
    name = node.op.slots[slot]
    if kind is tuple and name not in node.op.results:
        return entry  # a plain argument
    return _checked(entry, node.name(), name)


def _checked(entry: Any, node: str, slot: str) -> Any:
    if isinstance(entry, Tensor):
        value, current, expected = entry._data, entry._version, 0
    elif type(entry) is Versioned:
        value, current, expected = entry[0]._data, entry[0]._version, entry[1]
    elif type(entry) is Packed:
        return entry.value()
    elif type(entry) is tuple:
        value, current, expected = entry[0], entry[1][0], entry[2]
    else:
        return entry
    if current != expected:
        raise RuntimeError(stale_message(value, current, expected, node, slot))
    return value


def restore(entry: Any, node: str, slot: str, edge: Edge | None) -> Any:
    """A tensor from an entry that :func:`save_tensor` or :func:`save_result` made, in its old place in the graph."""
    if type(entry) is Packed and edge is None and local.tangents is None:
        tensor = entry.tensor()
        return tensor.detach() if tensor.requires_grad else tensor  # as in torch: the same tensor, where it can be
    value = _checked(entry, node, slot)
    if type(entry) is tuple:
        return wrap(value, edge, entry[1])
    return as_variable(entry, value, edge)


def as_variable(entry: Any, value: Any, edge: Edge | None) -> Any:
    """A saved tensor with the history it had, which is normally the tensor itself; plain values as they are."""
    if type(entry) is Packed:
        unpacked = _placed(value, edge, entry.cell)
        if local.tangents is not None:
            local.tangents.restore(entry, 0, unpacked)
        return unpacked
    tensor = entry[0] if type(entry) is Versioned else entry
    if not isinstance(tensor, Tensor):
        return value
    if tensor._data is value:
        if tensor.is_leaf and (edge is None or edge[0].is_leaf):
            return tensor  # as in torch: as it is now, if requires_grad was changed since it was saved
        current = tensor._resolve_edge()
        if current is edge or (current is not None and current == edge):
            return tensor
    twin = _placed(value, edge, tensor._cell)
    if local.tangents is not None:
        local.tangents.move(tensor, twin)
    return twin


def _placed(value: Any, edge: Edge | None, cell: list[int] | None = None) -> Tensor:
    """A tensor at a place in the graph, which may be that of a leaf."""
    if edge is None or not edge[0].is_leaf:
        return wrap(value, edge, cell)
    leaf = wrap(value, None, cell)
    meta = leaf._own_meta()
    meta.requires_grad = True
    meta.accumulator = weakref.ref(edge[0])
    return leaf


def as_given(entry: Any, value: Any) -> Any:
    """The tensor without a history whose array is ``value``; everything else as it is."""
    return value if value is None or isinstance(value, Tensor) else as_variable(entry, value, None)


def stale_message(value: Any, current: int, expected: int, node: str, slot: str) -> str:
    """torch's message for a saved tensor that was written to, with what retrograd knows in addition."""
    kind = f"{value.dtype} {list(value.shape)}" if hasattr(value, "shape") else type(value).__name__
    whole = getattr(value, "base", None)
    hint = (
        "Hint: it is part of a larger tensor, and writes to other parts count as well, as in y[k + 1] = f(y[k]); read "
        "a copy, y[k].clone(), or keep the parts in a list and stack() them."
        if isinstance(whole, np.ndarray) and whole.size > value.size
        else "Hint: write out of place instead, or clone() the tensor before the in-place operation."
    )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind}], saved as '{slot}' of {node}, is at version {current}; expected version {expected} instead. {hint}"
    )


# --- hooks ------------------------------------------------------------------------------------------------------------


class Packed:
    """What a pack hook returned, and how to get the tensor back."""

    __slots__ = ("__weakref__", "cell", "packed", "unpack")

    def __init__(self, packed: Any, unpack: Callable[[Any], Tensor]) -> None:
        self.packed = packed
        self.unpack = unpack
        # the version cell of what was last unpacked: a write to that is a write to the hook's tensor
        self.cell: list[int] | None = None

    def value(self) -> Any:
        """The array of what the unpack hook brings back."""
        return self.tensor()._data

    def tensor(self) -> Tensor:
        """What the unpack hook brings back."""
        tensor = self.unpack(self.packed)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor "
                f"but got result of type {type(tensor).__name__}"
            )
        self.cell = None if tensor.is_inference() else cell_of(tensor)
        return tensor


def pack(tensor: Tensor, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> Packed:
    """Save a tensor through a pair of hooks. Later writes to it are the hooks' affair, as in torch."""
    before = local.saved_hooks, local.grad_enabled, local.mode
    try:
        local.saved_hooks = None  # what the hook computes is not packed in turn
        set_grad_enabled(False)
        version = tensor._version
        packed = pack_hook(tensor)
        if tensor._version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
                "not be modified by in-place operations as this can lead to unexpected side-effects. "
                "Write to a clone() of it instead."
            )
    finally:
        local.saved_hooks, local.grad_enabled, local.mode = before
        refresh()
    return Packed(packed, unpack_hook)


class Saving(Protocol):
    """What :class:`SavedTensor` needs of a node that has saved tensors."""

    def raw_entry(self, slot: int) -> Any:
        """The entry of a slot, unchanged."""

    def raw_value(self, slot: int, entry: Any) -> Any:
        """The array behind what is kept in a slot, if nobody wrote to it since."""

    def keep_packed(self, slot: int, packed: Packed) -> None:
        """Replace the entry of a slot by this."""


class SavedTensor:
    """A tensor that a node saved for backward, as ``node._raw_saved_result`` and the like give it."""

    __slots__ = ("_node", "_slot")

    _node: Saving
    _slot: int

    def __init__(self) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden. Get them from nodes: "
            "grad_fn._raw_saved_self, or grad_fn._raw_saved_tensors of a custom Function."
        )

    @classmethod
    def of(cls, node: Saving, slot: int) -> SavedTensor:
        """What ``node`` saved in ``slot``."""
        saved = cls.__new__(cls)
        saved._node = node
        saved._slot = slot
        return saved

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Keep what ``pack_hook`` makes of the tensor instead, and let ``unpack_hook`` bring it back for backward.

        Raises
        ------
        RuntimeError
            If the tensor was freed, never saved, written to, or has hooks already.
        TypeError
            If a hook is not callable.
        """
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"register_hooks(): {name} must be callable, but got {type(hook).__name__}")
        node, slot = self._node, self._slot
        entry = node.raw_entry(slot)
        if type(entry) is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        value = node.raw_value(slot, entry)
        if not hasattr(value, "dtype"):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        node.keep_packed(slot, pack(wrap(value), pack_hook, unpack_hook))
