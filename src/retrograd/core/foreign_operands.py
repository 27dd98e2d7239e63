"""Operators between a tensor and objects of other libraries: whose class is asked, and what answers for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.core.conversion_errors import no_operand_of
from retrograd.core.errors import is_torchs, two_libraries
from retrograd.core.tensor import Tensor

# Products of a tensor and a sparse array of SciPy's, by the tensor's method that Python called.
with_sparse: dict[str, Callable[[Tensor, Any], Any]] = {}


def is_foreign(other: Any) -> bool:
    """Whether Python should ask the other operand's class instead."""
    return not isinstance(other, (Tensor, ndarray, np.generic, int, float, complex)) and not hasattr(
        other, "__cuda_array_interface__"
    )


def left_to(other: Any, tensor: Any, method: str) -> Any:
    """``NotImplemented``, so that Python asks the other operand's class, unless that cannot answer.

    Parameters
    ----------
    method
        The tensor's method that Python has called, such as ``"__matmul__"``.
    """
    if is_torchs(other):
        raise two_libraries(other)
    if isinstance(other, MethodType) and isinstance(other.__self__, Tensor):  # as in x.sum() / x.size
        name = other.__name__
        instead = "numel" if name == "size" else name
        raise TypeError(f"x.{name} is a method of tensors, as in torch, not a number: write x.{instead}()")
    if method in with_sparse and is_sparse(other):  # its class would convert the tensor to an array
        return with_sparse[method](tensor, other)
    is_pandas = type(other).__module__.partition(".")[0] == "pandas" and isinstance(tensor, Tensor)
    if is_pandas and getattr(other, "ndim", 1) == 2 and tensor.ndim != 1:  # a table takes a tensor for a row, or a list
        raise no_operand_of("pandas", other)
    return NotImplemented


def is_sparse(value: Any) -> bool:
    """Whether it is a sparse array or matrix of SciPy's."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(value))
