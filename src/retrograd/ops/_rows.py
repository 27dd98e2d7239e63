"""Work on the rows of a matrix: a few at a time, so that they stay in the cache from the first pass to the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from retrograd.core import blocks as sharing
from retrograd.core.reductions import LONG, LONGEST, ones, reduce
from retrograd.gpu import DeviceArray

T = TypeVar("T")

# Elements that are worked on at a time: by one thread alone, and by one of several, which wait for the interpreter lock
# between calls (measured).
BLOCK, SHARED_BLOCK = 1 << 17, 1 << 18


def over_blocks(work: Callable[[slice], T], like: Any) -> list[T]:
    """What ``work`` returns for slices of the first dimension of an array, in order.

    Each slice is about a block long. Threads share the work on a large array.
    """
    count = len(like)
    block = sharing.block_size(BLOCK, like)
    if like.size <= block and count:
        return [work(slice(0, count))]
    length = math.prod(like.shape[1:])
    threads = sharing.threads_for(like) if like.size >= sharing.HEAVY else 1
    if threads == 1:
        return [work(part) for part in parts(count, block // max(length, 1))]
    wanted = threads * -(-like.size // (threads * SHARED_BLOCK))  # as many for each thread
    slices = list(parts(count, -(-count // wanted)))
    found: list[Any] = [None] * len(slices)

    def fill(place: int, part: slice) -> None:
        found[place] = work(part)

    sharing.share_out(fill, enumerate(slices), products=True)
    return found


def parts(count: int, step: int) -> Iterator[slice]:
    """Consecutive slices of this many elements that cover everything."""
    step = max(step, 1)
    for start in range(0, count, step):
        yield slice(start, start + step)


def summed_over_blocks(work: Callable[[slice], Any], like: Any, shape: tuple[int, ...]) -> Any:
    """The sum of what ``work`` returns for slices of the first dimension of an array, of which there may be none."""
    parts = over_blocks(work, like)
    return sum(parts[1:], parts[0]) if parts else np.zeros(shape, like.dtype, like=like)


def row_sums(rows: Any) -> Any:
    """The sums of rows, as columns: on the CPU a product with ones takes a quarter of the time."""
    if type(rows) is DeviceArray:
        return np.add.reduce(rows, -1, keepdims=True)
    return rows @ ones(rows.shape[-1], rows.dtype)[:, None]


def as_rows(x: Any, dim: int) -> Any:
    """An array as a matrix whose rows run along ``dim``; None if that is not the last one, or for few elements."""
    if type(x) is not np.ndarray or x.size < _LARGE or dim not in (-1, x.ndim - 1):
        return None
    return x.reshape(-1, x.shape[-1]) if x.flags.c_contiguous and x.dtype.char in "fd" else None


_LARGE = 1 << 12


# --- softmax ----------------------------------------------------------------------------------------------------------


def softmax_rows(x: Any) -> Any:
    """``exp(x)``, divided by its sums."""
    result = np.empty_like(x)

    def work(part: slice) -> None:
        out = result[part]
        np.subtract(x[part], largest(x[part], 1), out=out)
        np.exp(out, out=out)
        out /= row_sums(out)

    over_blocks(work, x)
    return result


def softmax_rows_derivative(g: Any, result: Any) -> Any:
    """The gradient of what :func:`softmax_rows` made ``result`` of.

    Its sums are not matrix products: these may run in threads, whose floating-point flags are lost.
    """
    gradient = np.empty_like(result)
    are_short = result.shape[1] <= LONGEST

    def work(part: slice) -> None:
        out = gradient[part]
        if are_short:
            slopes = np.vecdot(g[part], result[part])[:, None]
        else:
            slopes = np.add.reduce(np.multiply(g[part], result[part], out=out), 1, keepdims=True)
        np.subtract(g[part], slopes, out=out)
        out *= result[part]

    over_blocks(work, result)
    return gradient


def log_softmax_rows(x: Any) -> Any:
    """The logarithm of what :func:`softmax_rows` returns."""
    result = np.empty_like(x)

    def work(part: slice) -> None:
        out = result[part]
        np.subtract(x[part], largest(x[part], 1), out=out)
        out -= np.log(row_sums(np.exp(out)))

    over_blocks(work, x)
    return result


def log_softmax_rows_derivative(g: Any, result: Any) -> Any:
    """The gradient of what :func:`log_softmax_rows` made ``result`` of."""
    gradient = np.empty_like(result)

    def work(part: slice) -> None:
        out = gradient[part]
        np.exp(result[part], out=out)
        out *= reduce(np.add, g[part], 1, True)
        np.subtract(g[part], out, out=out)

    over_blocks(work, result)
    return gradient


def largest(x: Any, dim: Any) -> Any:
    """The maximum along a dimension, or several, which are kept; minus infinity if there are no elements."""
    if type(dim) is int and x.ndim > 1 and -x.ndim <= dim < x.ndim and x.size and x.shape[dim] <= LONG:
        return reduce(np.maximum, x, dim, True)
    return np.maximum.reduce(x, axis=dim, keepdims=True, initial=-np.inf)
