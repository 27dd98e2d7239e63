"""Arguments that are one number, or one for each spatial dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.core.size import as_int


def per_dimension(name: str, parameter: str, value: Any, n: int) -> tuple[int, ...]:
    """The argument as ``n`` integers.

    Raises
    ------
    RuntimeError
        If it is a sequence of another length.
    TypeError
        If it is neither an integer nor a sequence of integers.
    """
    if type(value) is int:
        return (value,) * n
    given = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    try:
        numbers = tuple(as_int(name, parameter, item) for item in given)
    except TypeError:
        raise TypeError(
            f"{name}(): {parameter} must be an int or a tuple of {n} ints, but got {parameter}={value!r}"
        ) from None
    if len(numbers) not in (1, n):
        raise RuntimeError(
            f"{name}(): expected {parameter} to be a single integer value or a list of {n} values to match the "
            f"spatial dimensions, but got {parameter}={list(numbers)}"
        )
    return numbers * n if len(numbers) == 1 else numbers


def times(numbers: Sequence[int]) -> str:
    """Sizes as in "5 x 5"."""
    return " x ".join(map(str, numbers))
