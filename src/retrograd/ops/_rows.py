"""Work on the rows of a matrix: a few at a time, so that they stay in the cache from the first pass to the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

# Elements that are worked on at a time.
BLOCK = 1 << 17


def blocks(count: int, length: int) -> Iterator[slice]:
    """Slices of ``count`` rows of a length, each about a block long."""
    step = max(BLOCK // max(length, 1), 1)
    for start in range(0, count, step):
        yield slice(start, start + step)


def row_sums(rows: Any) -> Any:
    """The sums of rows, as a column: a product with ones takes a quarter of the time."""
    return rows @ np.ones((rows.shape[1], 1), rows.dtype)


def as_rows(x: Any, dim: int) -> Any:
    """An array as a matrix whose rows run along ``dim``; None if that is not the last one, or for few elements."""
    if type(x) is not np.ndarray or x.size < _LARGE or dim not in (-1, x.ndim - 1):
        return None
    return x.reshape(-1, x.shape[-1]) if x.flags.c_contiguous and x.dtype.char in "fd" else None


_LARGE = 1 << 12


# --- softmax ----------------------------------------------------------------------------------------------------------


def softmax_rows(x: Any, largest: Any) -> Any:
    """``exp(x - largest)``, divided by its sums."""
    result = np.empty_like(x)
    for part in blocks(*x.shape):
        out = result[part]
        np.subtract(x[part], largest[part], out=out)
        np.exp(out, out=out)
        out /= row_sums(out)
    return result


def softmax_rows_derivative(g: Any, result: Any) -> Any:
    """The gradient of what :func:`softmax_rows` made ``result`` of.

    Its sums are no products with ones: these may run in threads, which tell no floating-point flags.
    """
    gradient = np.empty_like(result)
    for part in blocks(*result.shape):
        out = gradient[part]
        np.multiply(g[part], result[part], out=out)
        np.subtract(g[part], np.add.reduce(out, 1, keepdims=True), out=out)
        out *= result[part]
    return gradient


def log_softmax_rows(x: Any, largest: Any) -> Any:
    """The logarithm of what :func:`softmax_rows` returns."""
    result = np.empty_like(x)
    for part in blocks(*x.shape):
        out = result[part]
        np.subtract(x[part], largest[part], out=out)
        out -= np.log(row_sums(np.exp(out)))
    return result


def log_softmax_rows_derivative(g: Any, result: Any) -> Any:
    """The gradient of what :func:`log_softmax_rows` made ``result`` of."""
    gradient = np.empty_like(result)
    for part in blocks(*result.shape):
        out = gradient[part]
        np.exp(result[part], out=out)
        out *= np.add.reduce(g[part], 1, keepdims=True)
        np.subtract(g[part], out, out=out)
    return gradient
