"""What is looked at where a training step has its boundaries."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.looking import is_finite
from retrograd.core.node import AccumulateGrad, Node
from retrograd.core.tensor import Edge, Tensor

SMALL = 1 << 12  # elements of a gradient that are looked at in every step
LONG = 1024  # sums of so many products take a hundred times as long as a look at them (measured)


class Marked:
    """Gradients that leaves have, marked for as long as they have them; it keeps none of them alive."""

    def __init__(self) -> None:
        self._grads: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()

    def __bool__(self) -> bool:
        return bool(self._grads)

    def add(self, leaves: Iterable[Tensor]) -> None:
        """Mark the gradients that leaves have now."""
        self._grads.update((id(leaf._grad), leaf._grad) for leaf in leaves if leaf._grad is not None)

    def has(self, leaf: Tensor) -> bool:
        """Whether the gradient that a leaf has is one of them."""
        return leaf._grad is not None and self._grads.get(id(leaf._grad)) is leaf._grad

    def remove(self, leaf: Tensor) -> None:
        """Take the mark from the gradient that a leaf has."""
        self._grads.pop(id(leaf._grad), None)


def may_tell_no_flags(node: Node) -> bool:
    """Whether gradients are worth a look: not after elementwise rules, nor where it takes long beside a product."""
    if node.blocked:
        return False
    if not node.aside or node.outputs != 1 or not node.shape:
        return True
    columns = node.shape[-1]
    return min(columns, math.prod(node.shape[:-1])) >= LONG


@functools.cache
def products_raise_flags() -> bool:
    """Whether NumPy hears of overflows in matrix products. Of those that Apple's Accelerate computes, it does not.

    (On an Apple processor a matrix unit of its own computes them. Where its flags are not to be trusted, NumPy clears
    them.)
    """
    large = np.full((128, 128), 1e38, np.float32)
    try:
        with np.errstate(all="ignore", over="raise"):
            np.matmul(large, large)
    except FloatingPointError:
        return True
    return False


def loss_of(data: Any) -> float | None:
    """The loss as a number; None if it is not a single real one."""
    return data.item() if data.size == 1 and data.dtype.kind == "f" and type(data) is not BatchedArray else None


def seem_finite(leaves: Sequence[Tensor]) -> bool:
    """Whether the small gradient that backward came to last is finite: it has passed through most of the graph."""
    for leaf in reversed(leaves):
        grad = leaf._grad
        if grad is not None and (array := grad._data).size <= SMALL:
            # done in every step, where calls take longer than the sum; vdot() raises no flags, as dot() does
            is_plain = type(array) is np.ndarray and array.ndim == 1 and array.dtype.char in "fd"
            return (is_plain and math.isfinite(np.vdot(array, array))) or is_finite(array)
    return True


def sum_of_squares(array: Any) -> float:
    """The sum of the squares, which is finite only if every element is."""
    if array.dtype.kind not in "fc":
        return 0.0
    flat = array.astype(np.float32) if array.dtype.itemsize == 2 else array
    return float(np.vdot(flat, flat).real)  # raises no flags


def leaves_behind(edges: Sequence[Edge]) -> list[AccumulateGrad]:
    """The leaves behind some edges."""
    found: list[AccumulateGrad] = []
    seen = {edge[0] for edge in edges}
    stack = list(seen)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad):
            found.append(node)
            continue
        for edge in node.next:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return found
