"""Types of arguments, for annotations: tensors and arrays, operands, dtypes, indices. Not needed at run time."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from retrograd import dtypes
from retrograd.core.tensor import Tensor
from retrograd.device import device

# beside a tensor, an array counts as one
TensorOrArray: TypeAlias = Tensor | np.ndarray[Any, Any]
Number: TypeAlias = complex | np.number[Any] | np.bool_
Operand: TypeAlias = TensorOrArray | Number

# a bool; any value counts by its truth, as in the functions that torch has written in Python
Truth: TypeAlias = bool

DTypeLike: TypeAlias = (
    dtypes.dtype | np.dtype[Any] | type[int] | type[float] | type[complex] | type[np.generic] | str  # its name
)

DeviceLike: TypeAlias = device | str | int | None

# a list, not any sequence: a str is a sequence of strs
_OneIndex: TypeAlias = SupportsIndex | slice | EllipsisType | TensorOrArray | list[Any] | range | None
Index: TypeAlias = _OneIndex | tuple[_OneIndex, ...]

__all__ = ["DTypeLike", "DeviceLike", "Index", "Number", "Operand", "TensorOrArray", "Truth"]
