"""Matrix products of batched arrays, with as few and as large calls of BLAS as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from retrograd.batching.array import BatchedArray, Levels, levels_of, with_levels


def matmul(a: Any, b: Any) -> Any:
    """``a @ b``, where a vector on the left is a row and one on the right a column."""
    levels = levels_of((a, b))
    a_ndim, b_ndim = np.ndim(a), np.ndim(b)
    _check(a, b)
    if a_ndim == 2 and b_ndim == 1 and not _varies(a):
        # one product for all vectors, instead of one for each
        matrix = _same_for_all(a)
        return BatchedArray(np.matmul(with_levels(b, levels), np.swapaxes(matrix, 0, 1)), levels)
    left = a[..., None, :] if a_ndim == 1 else a
    right = b[..., None] if b_ndim == 1 else b
    result = _matrices(left, right, levels)
    if b_ndim == 1:
        result = result[..., 0]
    if a_ndim == 1:
        result = result[..., 0] if b_ndim == 1 else result[..., 0, :]
    return BatchedArray(result, levels)


def _check(a: Any, b: Any) -> None:
    """Raise as NumPy does where the shapes of samples do not fit; hidden axes must not hide that."""
    shape_a, shape_b = np.shape(a), np.shape(b)
    if not shape_a or not shape_b:
        raise ValueError("matmul: operands need at least one dimension")
    if shape_a[-1] != shape_b[-2:][0]:
        raise ValueError(f"matmul: shapes {shape_a} and {shape_b} do not match")
    np.broadcast_shapes(shape_a[:-2], shape_b[:-2])


def _varies(x: Any) -> bool:
    """Whether samples may differ."""
    return type(x) is BatchedArray and math.prod(x.hidden) != 1


def _same_for_all(x: Any) -> Any:
    """The value of every sample."""
    return x.array.reshape(x.shape) if type(x) is BatchedArray else np.asanyarray(x)


def _matrices(a: Any, b: Any, levels: Levels) -> Any:
    loops = max(np.ndim(a), np.ndim(b)) - 2
    if np.ndim(b) == 2 and not _varies(b):
        # every matrix of every sample meets the same b: one product of all rows
        rows, matrix = with_levels(a, levels), _same_for_all(b)
        product = rows.reshape((math.prod(rows.shape[:-1]), rows.shape[-1])) @ matrix
        return product.reshape((*rows.shape[:-1], matrix.shape[-1]))
    if np.ndim(a) == 2 and np.ndim(b) == 2 and not _varies(a):
        # the same a meets every b: one product of all columns
        columns, matrix = with_levels(b, levels), _same_for_all(a)
        product = np.tensordot(columns, matrix, ((columns.ndim - 2,), (1,)))
        return np.swapaxes(product, -1, -2)
    return np.matmul(with_levels(a, levels, loops + 2), with_levels(b, levels, loops + 2))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """``np.tensordot``, as one matrix product."""
    if isinstance(axes, int):
        axes = (tuple(range(np.ndim(a) - axes, np.ndim(a))), tuple(range(axes)))
    over_a = normalize_axis_tuple(axes[0], np.ndim(a))
    over_b = normalize_axis_tuple(axes[1], np.ndim(b))
    shape_a, shape_b = np.shape(a), np.shape(b)
    if [shape_a[k] for k in over_a] != [shape_b[k] for k in over_b]:
        raise ValueError(f"tensordot: shapes {shape_a} and {shape_b} do not match along axes {over_a} and {over_b}")
    free_a = [k for k in range(len(shape_a)) if k not in over_a]
    free_b = [k for k in range(len(shape_b)) if k not in over_b]
    inner = math.prod(shape_a[k] for k in over_a)
    outer_a, outer_b = [shape_a[k] for k in free_a], [shape_b[k] for k in free_b]
    left = np.transpose(a, (*free_a, *over_a)).reshape((math.prod(outer_a), inner))
    right = np.transpose(b, (*over_b, *free_b)).reshape((inner, math.prod(outer_b)))
    return np.matmul(left, right).reshape((*outer_a, *outer_b))


def einsum(subscripts: Any, *operands: Any, optimize: Any = False, **kwargs: Any) -> Any:
    """``np.einsum`` with a letter for every hidden axis."""
    if not isinstance(subscripts, str) or kwargs:
        return NotImplemented
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    if "->" not in subscripts:
        letters = inputs.replace(",", "").replace(".", "")
        output = "..." * ("..." in inputs) + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    levels = levels_of(operands)
    names = _unused_letters(subscripts, len(levels))
    terms, arrays = [], []
    for term, operand in zip(inputs.split(","), operands, strict=True):
        if type(operand) is BatchedArray:
            # an axis of length 1 is the same for all samples, and is not passed to einsum
            own = [level for level, n in zip(operand.levels, operand.hidden, strict=True) if n == level.size]
            term = "".join(names[levels.index(level)] for level in own) + term
            operand = operand.array.reshape((*(level.size for level in own), *operand.shape))
        terms.append(term)
        arrays.append(operand)
    hidden = [letter for letter in names if any(letter in term for term in terms)]
    result = np.einsum(f"{','.join(terms)}->{''.join(hidden)}{output}", *arrays, optimize=optimize)
    lengths = tuple(level.size if name in hidden else 1 for name, level in zip(names, levels, strict=True))
    return BatchedArray(result.reshape(lengths + result.shape[len(hidden) :]), levels)


def _unused_letters(subscripts: str, count: int) -> list[str]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    return [letter for letter in letters if letter not in subscripts][:count]


def dot(a: Any, b: Any) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b)
    return tensordot(a, b, ((np.ndim(a) - 1,), (max(np.ndim(b) - 2, 0),)))


def vdot(a: Any, b: Any) -> Any:
    return np.matmul(np.conj(np.reshape(a, (-1,))), np.reshape(b, (-1,)))


def inner(a: Any, b: Any) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b)
    return tensordot(a, b, ((np.ndim(a) - 1,), (np.ndim(b) - 1,)))


def outer(a: Any, b: Any) -> Any:
    return np.multiply(np.reshape(a, (-1, 1)), np.reshape(b, (1, -1)))


def kron(a: Any, b: Any) -> Any:
    ndim = max(np.ndim(a), np.ndim(b))
    left: Sequence[int] = (1,) * (ndim - np.ndim(a)) + np.shape(a)
    right: Sequence[int] = (1,) * (ndim - np.ndim(b)) + np.shape(b)
    coarse = np.reshape(a, tuple(n for length in left for n in (length, 1)))
    fine = np.reshape(b, tuple(n for length in right for n in (1, length)))
    return np.multiply(coarse, fine).reshape(tuple(n * m for n, m in zip(left, right, strict=True)))
