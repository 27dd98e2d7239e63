"""Saved tensors that user hooks pack away and bring back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from retrograd.core.state import local, set_grad_enabled
from retrograd.core.tensor import Tensor, cell_of, wrap


class Packed:
    """What a pack hook returned, and how to get the tensor back."""

    __slots__ = ("__weakref__", "cell", "packed", "unpack")

    def __init__(self, packed: Any, unpack: Callable[[Any], Tensor]) -> None:
        self.packed = packed
        self.unpack = unpack
        # the version cell of what was last unpacked: a write to it is one to the tensor that the hook gave
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
    hooks, local.saved_hooks = local.saved_hooks, None  # what the hook computes is not packed in turn
    recording = set_grad_enabled(False)
    try:
        version = tensor._version
        packed = pack_hook(tensor)
        if tensor._version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
                "not be modified by in-place operations as this can lead to unexpected side-effects. "
                "Write to a clone() of it instead."
            )
    finally:
        local.saved_hooks = hooks
        set_grad_enabled(recording)
    return Packed(packed, unpack_hook)


class Saving(Protocol):
    """A node that has saved tensors, as :class:`SavedTensor` needs it."""

    def raw_entry(self, slot: int) -> Any:
        """What is kept in a slot, as it is kept."""

    def raw_value(self, slot: int, entry: Any) -> Any:
        """The array behind what is kept in a slot, if nobody wrote to it since."""

    def keep_packed(self, slot: int, packed: Packed) -> None:
        """Keep this in a slot instead."""


class SavedTensor:
    """A tensor that a node saved for backward, as ``node._raw_saved_result`` and the like give it."""

    __slots__ = ("_node", "_slot")

    _node: Saving
    _slot: int

    def __init__(self) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden. Nodes give them: grad_fn._raw_saved_self, "
            "or grad_fn._raw_saved_tensors of a custom Function."
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
