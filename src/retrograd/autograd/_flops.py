"""Estimates of floating-point operations from the shapes of an operation's operands, as torch's profiler makes them."""

from __future__ import annotations

from math import prod


def flops_of(name: str, shapes: list[list[int]]) -> int:
    """Return the estimate; 0 for operations of which none is known.

    A product of matrices counts a multiplication and an addition for each of its terms, elementwise arithmetic one
    operation for each element of the result.
    """
    if name in _MATRIX_OPERANDS:
        first, second = (shapes[position] for position in _MATRIX_OPERANDS[name])
        if not first or not second:
            return 0
        columns = second[-1] if len(second) > 1 else 1
        rows = first[-2] if len(first) > 1 else 1
        return 2 * _batch(first[:-2], second[:-2]) * rows * first[-1] * columns
    if name.removesuffix("_") in _ELEMENTWISE:
        return max((prod(shape) for shape in shapes[:2]), default=0)
    return 0


def _batch(first: list[int], second: list[int]) -> int:
    return max(prod(first), prod(second))


# which two arguments are multiplied
_MATRIX_OPERANDS = {
    "matmul": (0, 1),
    "mm": (0, 1),
    "bmm": (0, 1),
    "mv": (0, 1),
    "addmm": (1, 2),
    "addmv": (1, 2),
    "baddbmm": (1, 2),
}
_ELEMENTWISE = frozenset(("add", "sub", "mul", "div"))
