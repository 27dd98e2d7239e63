"""Numbers before the tensors that they multiply, as in ``x.add_(-rate, grad)`` and ``x.addcmul_(0.1, g, g)``.

torch deprecates this order, but takes it, and many optimizers are written so.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from retrograd.array_methods import ArrayMethods
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor

__all__ = ["alpha_first", "numbers_last"]


def numbers_last(function: str, args: tuple[Any, ...], numbers: Sequence[str]) -> tuple[Any, ...]:
    """Positional arguments with the tensors first.

    Parameters
    ----------
    function
        What was called.
    args
        Its arguments: all operands, and some numbers.
    numbers
        The names of the parameters for numbers, which follow the operands.
    """
    operands: list[Any] = []
    others: list[Any] = []
    for value in args:
        (operands if isinstance(value, Tensor | np.ndarray | ArrayMethods) else others).append(value)
    ordered = (*operands, *others)
    if len(others) > len(numbers) or all(map(is_, ordered, args)):
        return args
    _warn(function, " and ".join(f"{name}=" for name in numbers[: len(others)]))
    return ordered


def alpha_first(function: str, alpha: Any, scaled: tuple[Any, ...], default: Any) -> tuple[Any, Any]:
    """The factor and the operand of ``add(input, alpha, other)``.

    Raises
    ------
    TypeError
        If there are more arguments, no factor, or two.
    """
    if len(scaled) > 1:
        raise TypeError(f"{function}() takes 2 operands, but {2 + len(scaled)} were given")
    number = alpha.item() if isinstance(alpha, Tensor) and not alpha.ndim and not alpha.requires_grad else alpha
    is_number = isinstance(number, int | float | complex | np.number | np.bool_)
    if not is_number or type(default) is not int or default != 1:
        raise TypeError(f"{function}() takes 2 operands, but 3 were given; a factor goes by keyword: alpha=0.1")
    _warn(function, "alpha=")
    return number, scaled[0]


def _warn(function: str, keywords: str) -> None:
    # without the numbers, which change from step to step: Python shows a warning again if its text differs
    warn_user(
        f"{function}(): a number before the tensors that it multiplies is deprecated; give it after them, as {keywords}"
    )
