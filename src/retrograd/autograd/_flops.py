"""Estimates of floating-point operations from the shapes of an operation's operands, as torch's profiler makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any


def flops_of(name: str, shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """Return the estimate; 0 for operations without one.

    Products of matrices, convolutions among them, count a multiplication and an addition for each of their terms,
    elementwise arithmetic one operation for each element of the result.

    Parameters
    ----------
    name
        The operation.
    shapes, values
        Of each argument its shape, if it is a tensor, or the list of those of a list of tensors; and what it is
        otherwise.
    """
    estimate = _ESTIMATES.get(name.removesuffix("_"))
    return 0 if estimate is None else estimate(shapes, values)


def _of_matrices(first: Sequence[int], second: Sequence[int]) -> int:
    """Operations in ``first @ second``."""
    if not first or not second:
        return 0
    columns = second[-1] if len(second) > 1 else 1
    rows = first[-2] if len(first) > 1 else 1
    return 2 * max(prod(first[:-2]), prod(second[:-2])) * rows * first[-1] * columns


def _product(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    return _of_matrices(*shapes[:2])


def _added_product(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    return _of_matrices(*shapes[1:3])


def _linear(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    rows, weight = shapes[:2]
    return 2 * prod(rows) * prod(weight[:-1])


def _contraction(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    left, right, out = values[2:5]
    lengths = dict(zip(left + right, (*shapes[0], *shapes[1]), strict=True))
    return prod(lengths.values()) * (1 if lengths.keys() == set(out) else 2)


def _convolution(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """Operations of a convolution: the whole weight is applied at each position of the result."""
    (samples, *_), weight, size = shapes[0], shapes[1], values[3]
    return 2 * samples * prod(size) * prod(weight)


def _transposed_convolution(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """Operations of a transposed convolution: the whole weight is applied at each position of the input."""
    (samples, _, *places), weight = shapes[:2]
    return 2 * samples * prod(places) * prod(weight)


def _attention(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """Operations of attention: queries times keys, and attention weights times values."""
    query, key, value = shapes[0][:3]
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _elementwise(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    return max((prod(shape) for shape in shapes[:2]), default=0)


_ESTIMATES: dict[str, Callable[[Sequence[Any], Sequence[Any]], int]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv"), _product),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _added_product),
    **dict.fromkeys(("add", "sub", "mul", "div"), _elementwise),
    "linear": _linear,
    "contract": _contraction,
    "convolution": _convolution,
    "convolution_input": _transposed_convolution,
    "scaled_dot_product_attention": _attention,
}
