"""Arrays of other libraries on the same memory, by their names in ``torch.utils.dlpack``."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import from_dlpack
from retrograd.ops._checks import check_tensors

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule with the memory of a tensor; newer libraries take the tensor itself."""
    check_tensors("to_dlpack", tensor=tensor)
    return tensor.detach().__dlpack__()
