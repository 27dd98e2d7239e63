"""Distances between all rows of two matrices, and between all pairs of rows of one.

They are computed column by column: no array holds the differences of all pairs in all columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.op import op
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._fused import gradient_of, sample_by_sample, samples_in_front
from retrograd.ops._rows import parts
from retrograd.ops.reductions import vector_norm
from retrograd.ops.selecting import index_select

_BLOCK = 1 << 15  # pairs: their distances and differences stay in the cache


def composed_distances(x1: Any, x2: Any, p: float) -> Any:
    """The distances, computed from the differences of all pairs."""
    return norms(x1[..., :, None, :] - x2[..., None, :, :], p)


def norms(differences: Any, p: float) -> Any:
    """The ``p``-norms over the last dimension; for order 0 the number of nonzero elements, whose derivative is zero."""
    if p == 0 or not differences.shape[-1]:
        return np.sum(np.abs(np.sign(differences)), axis=-1)
    return vector_norm(differences, p, -1, False, None)


def goes_by_column(x: Tensor, p: float) -> bool:
    """Whether the operations of this module apply to such a tensor."""
    return type(x._data) is np.ndarray and x._data.dtype.char in "fd" and p >= 1 and x._data.shape[-1] > 1


def _blocks(count: int, n: int, m: int) -> Iterator[tuple[slice, slice]]:
    """Samples, and rows of each, whose pairs make up a block."""
    for samples in parts(count, _BLOCK // max(n * m, 1)):
        for rows in parts(n, _BLOCK // max(m, 1)):
            yield samples, rows


def _columns(x: Any) -> Any:
    return np.ascontiguousarray(x.transpose(2, 0, 1))


def _flattened(x: Any, front: tuple[int, ...]) -> Any:
    """Matrices with their leading dimensions broadcast to ``front`` and flattened into one."""
    if x.shape[:-2] != front:
        x = np.broadcast_to(x, (*front, *x.shape[-2:]))
    return x.reshape(math.prod(front), *x.shape[-2:])


def _together(x1: Any, x2: Any) -> tuple[tuple[int, ...], Any, Any]:
    """The leading dimensions, broadcast together, and both operands with these flattened into one."""
    front = x1.shape[:-2] if x1.ndim == x2.ndim == 2 else np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return front, _flattened(x1, front), _flattened(x2, front)


def _distances(x1: Any, x2: Any, p: float) -> Any:
    front, x1, x2 = _together(x1, x2)
    count, n, m = len(x1), x1.shape[1], x2.shape[1]
    result = np.zeros((count, n, m), x1.dtype)
    first, second = _columns(x1), _columns(x2)
    for samples, rows in _blocks(count, n, m):
        total = result[samples, rows]
        difference = np.empty_like(total)
        for here, there in zip(first[:, samples, rows, None], second[:, samples, None], strict=True):
            np.subtract(here, there, out=difference)
            if p == 2:
                difference *= difference
            else:
                np.abs(difference, out=difference)
            if p == math.inf:
                np.maximum(total, difference, out=total)
            else:
                total += difference if p in (1, 2) else difference**p
        if p == 2:
            np.sqrt(total, out=total)
        elif p not in (1, math.inf):
            total **= 1 / p
    return result.reshape(*front, n, m)


@samples_in_front
def _pull(g: Any, x1: Any, x2: Any, distance: Any, p: float) -> Any:
    """The gradient of ``x1``: of each row, the sum over all pairs that it is in."""
    front, x1, x2 = _together(x1, x2)
    count, n, m = len(x1), x1.shape[1], x2.shape[1]
    g, distance = _flattened(g, front), _flattened(distance, front)
    gradient = np.empty((x1.shape[-1], count, n), x1.dtype)
    first, second = _columns(x1), _columns(x2)
    for samples, rows in _blocks(count, n, m):
        here, there = first[:, samples, rows, None], second[:, samples, None]
        far = distance[samples, rows]
        weights = _weights(g[samples, rows], far, here, there, p)
        for column in range(len(gradient)):
            a, b = here[column], there[column]
            pull: Any = a - b if p > 1 else None
            if p == math.inf:
                pull = _signs(a, b) * (np.abs(pull) == far)
            elif p != 2:
                pull = _signs(a, b) if p == 1 else _signs(a, b) * np.abs(pull) ** (p - 1)
            np.vecdot(pull, weights, out=gradient[column, samples, rows])
    return row_major(gradient.transpose(1, 2, 0)).reshape(*front, n, len(gradient))


def _signs(a: Any, b: Any) -> Any:
    """The signs of ``a - b``: -1, 0 or 1, and 0 for NaN, as in torch."""
    signs = (a > b).view(np.int8)  # bytes are subtracted in a fraction of the time
    signs -= (a < b).view(np.int8)
    return signs.astype(a.dtype)


def _weights(g: Any, distance: Any, here: Any, there: Any, p: float) -> Any:
    """The gradient of a distance over the divisor of its derivative; zero for points that coincide."""
    if p == 1:
        return g
    if p == math.inf:  # columns that tie share it
        return g / np.maximum(sum(np.abs(a - b) == distance for a, b in zip(here, there, strict=True)), 1)
    far = np.where(distance == 0, np.inf, distance)
    return g / (far if p == 2 else far ** (p - 1))


def _distances_x1(g, x1, x2, result, p):
    if isinstance(g, Tensor) or isinstance(x1, Tensor):
        return gradient_of(composed_distances, g, [x1, x2, p], 0)
    return _pull(g, x1, x2, result, p)


def _distances_x2(g, x1, x2, result, p):
    if isinstance(g, Tensor) or isinstance(x2, Tensor):
        return gradient_of(composed_distances, g, [x1, x2, p], 1)
    return _pull(np.swapaxes(g, -1, -2), x2, x1, np.swapaxes(result, -1, -2), p)


@op(public=False, method=False, node_name="CdistBackward0", x1=_distances_x1, x2=_distances_x2)
def distances_by_column(x1, x2, p: float):
    """The distances of all rows of ``x1`` and ``x2``; ``p`` is at least 1."""
    return _distances(x1, x2, p)


def composed_pairs(input: Any, p: float) -> Any:
    """The distances of the pairs of rows, computed from all of their differences."""
    indices = np.triu_indices(input.shape[0], 1)
    first, second = (wrap(np.asarray(index, np.int64, like=input._data)) for index in indices)
    return norms(index_select(input, 0, first) - index_select(input, 0, second), p)


def _in_matrix(pairs: Any, count: int) -> Any:
    """Values of the pairs of rows, arranged in a symmetric matrix whose diagonal is 0."""
    matrix = np.zeros((count, count), pairs.dtype)
    matrix[np.triu(np.ones((count, count), bool), 1)] = pairs
    return matrix + matrix.T


def _pairs_rule(g, input, result, p):
    if isinstance(g, Tensor) or isinstance(input, Tensor):
        return gradient_of(composed_pairs, g, [input, p], 0)
    return _pairs_gradient(g, input, result, p)


@sample_by_sample
def _pairs_gradient(g: Any, input: Any, distance: Any, p: float) -> Any:
    count = len(input)
    return _pull(_in_matrix(g, count), input, input, _in_matrix(distance, count), p)


@op(public=False, method=False, node_name="PdistBackward0", input=_pairs_rule)
def distances_of_pairs(input, p: float):
    """The distances of the first row to all others, of the second to all that follow, and so on."""
    count = len(input)
    result = np.empty(count * (count - 1) // 2, input.dtype)
    end = 0
    for rows in parts(count, max(_BLOCK // max(count, 1), 1)):
        block = _distances(input[rows], input[rows.start + 1 :], p)
        for row in range(len(block)):
            start, end = end, end + count - 1 - rows.start - row
            result[start:end] = block[row, row:]
    return result
