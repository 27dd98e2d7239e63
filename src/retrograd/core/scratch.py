"""Arrays for intermediate results, kept by every thread: fresh memory costs a page fault every few KB."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from retrograd.core.blas import remember

# Elements of the largest vector that is kept; longer ones are made anew each time.
LONGEST = 5 << 16

# Slices that are cached; a program that makes model after model has blocks of ever new lengths.
MOST = 1 << 12

# Bytes of a cache line.
_LINE = 64


class _Scratch(threading.local):
    """The vectors of a thread, by dtype, and their initial slices, by number and length."""

    def __init__(self) -> None:
        self.vectors: dict[str, list[Any]] = {}
        self.beginnings: dict[tuple[str, int, int], list[Any]] = {}


_scratch = _Scratch()


def _aligned_empty(size: int, dtype: np.dtype[Any]) -> Any:
    """An uninitialised vector that begins at the start of a cache line.

    NumPy's arrays begin at any multiple of 16 bytes, and reading or writing 64 bytes at once may then touch two lines.
    """
    memory: Any = np.empty(size * dtype.itemsize + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size * dtype.itemsize].view(dtype)


def _vectors(count: int, dtype: np.dtype[Any]) -> list[Any]:
    vectors = _scratch.vectors.setdefault(dtype.char, [])
    vectors += [_aligned_empty(LONGEST, dtype) for _ in range(count - len(vectors))]
    return vectors


def scratch_vectors(count: int, like: Any) -> list[Any]:
    """``count`` uninitialised vectors like ``like``, which this thread may use until it asks again.

    For lengths that recur: the slices are cached.
    """
    char, size = like.dtype.char, like.size
    if type(like) is not np.ndarray or size > LONGEST:
        return [np.empty_like(like) for _ in range(count)]
    beginnings = _scratch.beginnings
    key = char, count, size
    found = beginnings.get(key)
    if found is None:
        if len(beginnings) >= MOST:
            beginnings.clear()
        found = beginnings[key] = [vector[:size] for vector in _vectors(count, like.dtype)[:count]]
        for vector in found:
            remember(vector)
    return found


def scratch_like(x: Any) -> Any:
    """One uninitialised array like ``x``, of any shape and dtype, which this thread may use until it asks again."""
    if type(x) is not np.ndarray or x.size > LONGEST:
        return np.empty_like(x)
    return _vectors(1, x.dtype)[0][: x.size].reshape(x.shape)
