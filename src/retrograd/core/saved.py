"""Saved tensors that user hooks pack away and bring back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.core.state import local, set_grad_enabled
from retrograd.core.tensor import Tensor


class Packed:
    """What a pack hook returned, and how to get the tensor back."""

    __slots__ = ("__weakref__", "packed", "unpack")

    def __init__(self, packed: Any, unpack: Callable[[Any], Tensor]) -> None:
        self.packed = packed
        self.unpack = unpack

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
