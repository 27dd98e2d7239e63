"""Questions about tensors and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor
from retrograd.dtypes import dtype, from_numpy_dtype, result_dtype
from retrograd.ops._checks import check_tensor

__all__ = [
    "is_complex",
    "is_floating_point",
    "is_inference",
    "is_signed",
    "is_tensor",
    "numel",
    "result_type",
    "typename",
]


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Any) -> bool:
    """Whether the dtype of a tensor is a real floating-point one."""
    return check_tensor("is_floating_point", input).is_floating_point()


def is_complex(input: Any) -> bool:
    """Whether the dtype of a tensor is complex."""
    return check_tensor("is_complex", input).is_complex()


def is_signed(input: Any) -> bool:
    """Whether the dtype of a tensor can hold negative numbers."""
    return check_tensor("is_signed", input).is_signed()


def is_inference(input: Any) -> bool:
    """Whether a tensor was made in inference mode."""
    return check_tensor("is_inference", input).is_inference()


def numel(input: Any) -> int:
    """Return the number of elements of a tensor."""
    return check_tensor("numel", input).numel()


def result_type(tensor: Any, other: Any) -> dtype:
    """Return the dtype that an arithmetic operation on two tensors or numbers has.

    Examples
    --------
    >>> rg.result_type(rg.tensor([1, 2]), 1.0)
    retrograd.float32
    """
    return from_numpy_dtype(result_dtype(_operand(tensor), _operand(other)))


def _operand(value: Any) -> Any:
    """The array of a tensor; a Python number for a NumPy scalar."""
    if isinstance(value, Tensor):
        return value._data
    if isinstance(value, (np.number, np.bool_)):
        return value.item()
    if isinstance(value, (int, float, complex)):
        return value
    raise TypeError(f"result_type(): arguments must be Tensor or Number, not {type(value).__name__}")


def typename(obj: Any) -> str:
    """Return the name of the type of an object with its module; that of a tensor names its dtype."""
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "")
    return named.__qualname__ if module in ("", "builtins", None) else f"{module}.{named.__qualname__}"
