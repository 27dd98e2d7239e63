"""float16 is computed in float32 and rounded once, as torch does.

A single NumPy ufunc does so by itself. But a Python number combined with a float16 array becomes float16 first, and
infinite beyond 65504; and a function of several ufuncs rounds, and may overflow, after each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.layout import dense_copy

if TYPE_CHECKING:
    from retrograd.core.op import Op

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)

# the integers up to here are exact in float16
_EXACT = 2048


def computes_in_single(op: Op, operands: Iterable[Any]) -> bool:
    """Whether an elementwise operation with a float16 result leaves float16 for its computation."""
    if not op.opmath:
        return False
    return op.ufunc is None or any(getattr(operand, "dtype", None) is not HALF for operand in operands)


def rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which is called with float32, with a float16 result."""
    return partial(_round, function)


def _round(function: Callable[..., Any], *operands: Any) -> Any:
    result = function(*operands)
    return result.astype(HALF) if result.dtype == SINGLE else result


def in_single(rule: Callable[..., Any]) -> Callable[..., Any]:
    """``rule``, which is called with float16, computed in float32; ``fit`` later rounds its gradient."""

    def rule_in_single(g: Any, *values: Any) -> Any:
        return rule(single(g), *map(single, values))

    return rule_in_single


def single(value: Any) -> Any:
    """A float16 array or Tensor in float32; anything else as it is."""
    return dense_copy(value, SINGLE) if getattr(value, "dtype", None) == HALF else value


def exact_numbers(bound: list[Any]) -> list[Any]:
    """Arguments for rules: numbers that float16 cannot hold become float32, which makes the gradient float32, too."""
    return [
        np.float32(value) if type(value) is float or (type(value) is int and not -_EXACT <= value <= _EXACT) else value
        for value in bound
    ]
