"""What is checked at the boundaries of a training step."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.finite_checks import is_finite
from retrograd.core.node import AccumulateGrad, Node
from retrograd.core.tensor import Edge, Tensor

SMALL = 1 << 12  # most elements of a gradient that is checked in every step
LONG = 1024  # sums of this many products take 100 times as long as a look at the result (measured)


def may_tell_no_flags(node: Node) -> bool:
    """Whether a node's gradients are worth a look: not if its rules are elementwise, nor next to a cheap product."""
    if node.blocked:
        return False
    if not node.aside or node.outputs != 1 or not node.shape:
        return True
    columns = node.shape[-1]
    return min(columns, math.prod(node.shape[:-1])) >= LONG


@functools.cache
def products_raise_flags() -> bool:
    """Whether overflows in matrix products raise flags in NumPy. With Apple's Accelerate they do not.

    (There a separate matrix unit of the processor computes them, and NumPy clears flags that are not to be
    trusted.)
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
    """Whether the last small gradient that backward reached is finite: it has passed through most of the graph."""
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


def among_leaves_behind(leaves: Iterable[Tensor], edges: Sequence[Edge]) -> list[Tensor]:
    """The given leaves that lie behind some edges."""
    behind = {id(node.variable) for node in leaves_behind(edges)}
    return [leaf for leaf in leaves if id(leaf) in behind]
