"""Functions of several tensors, in which one without dimensions counts for the dtype as much as any other.

As an operand of retrograd's and torch's, it does not: there ``float32[3] + float64[]`` is float32, as if it were a
number. The standard promotes by dtypes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.array_api._dtypes import result_type
from retrograd.core.tensor import Tensor

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "clip",
    "copysign",
    "divide",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "less",
    "less_equal",
    "logaddexp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "not_equal",
    "pow",
    "promoted",
    "remainder",
    "subtract",
    "where",
]


def promoted(operands: Sequence[Any]) -> Sequence[Any]:
    """The operands, in their common dtype where retrograd's own rule would make another one of theirs."""
    tensors = [each for each in operands if isinstance(each, Tensor)]
    if len({each.dtype for each in tensors}) < 2 or len({each.ndim == 0 for each in tensors}) < 2:
        return operands
    common = result_type(*tensors)
    return [each.to(common) if isinstance(each, Tensor) else each for each in operands]


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    def binary(x1: Any, x2: Any, /) -> Any:
        return function(*promoted((x1, x2)))

    binary.__name__ = binary.__qualname__ = function.__name__
    binary.__doc__ = f"``numpy.{function.__name__}`` of tensors and numbers, in the dtype that they promote to."
    return binary


add = _binary(np.add)
atan2 = _binary(np.arctan2)
bitwise_and = _binary(np.bitwise_and)
bitwise_left_shift = _binary(np.left_shift)
bitwise_or = _binary(np.bitwise_or)
bitwise_right_shift = _binary(np.right_shift)
bitwise_xor = _binary(np.bitwise_xor)
copysign = _binary(np.copysign)
divide = _binary(np.divide)
equal = _binary(np.equal)
floor_divide = _binary(np.floor_divide)
greater = _binary(np.greater)
greater_equal = _binary(np.greater_equal)
hypot = _binary(np.hypot)
less = _binary(np.less)
less_equal = _binary(np.less_equal)
logaddexp = _binary(np.logaddexp)
logical_and = _binary(np.logical_and)
logical_or = _binary(np.logical_or)
logical_xor = _binary(np.logical_xor)
matmul = _binary(np.matmul)
maximum = _binary(np.maximum)
minimum = _binary(np.minimum)
multiply = _binary(np.multiply)
nextafter = _binary(np.nextafter)
not_equal = _binary(np.not_equal)
pow = _binary(np.power)
remainder = _binary(np.remainder)
subtract = _binary(np.subtract)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Any:
    """Return elements of ``x1`` where ``condition`` holds, and of ``x2`` elsewhere."""
    return np.where(condition, *promoted((x1, x2)))


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Return ``x`` with every element below ``min`` or above ``max`` replaced by it; the dtype stays."""
    if min is None and max is None:
        return x.clone()
    return x.clamp(*(each.to(x.dtype) if isinstance(each, Tensor) else each for each in (min, max))).to(x.dtype)
