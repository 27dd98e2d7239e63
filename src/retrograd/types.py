"""Types for annotations, under torch's names: what functions accept as a number, a device or a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from retrograd import dtypes
from retrograd.core.size import Size
from retrograd.core.tensor import Tensor
from retrograd.creation.storage import UntypedStorage as Storage
from retrograd.device import device

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

# names that torch's own signatures use, and programs that were written after them
_int, _float, _bool = int, float, bool
_complex, _str, _bytes = complex, str, bytes
_dtype, _device = dtypes.dtype, device
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
