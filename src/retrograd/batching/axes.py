"""Rules for what works along axes, and for linear algebra on the last two."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.batching.array import BatchedArray, batched, with_levels
from retrograd.batching.rules import RULES, rule
from retrograd.batching.ufuncs import aligned, from_the_end

_function: Any

# --- along axes -------------------------------------------------------------------------------------------------------


def _reducing(function: Any) -> None:
    """Register a reduction whose ``axis`` is one, several, or None for all."""

    def answer(a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        if type(a) is not BatchedArray or kwargs.get("out") is not None or kwargs.get("where", True) is not True:
            return NotImplemented
        return BatchedArray(function(a.array, from_the_end(axis, a.ndim), *args, **kwargs), a.levels)

    RULES[function] = answer


for _function in (
    np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.amax, np.amin, np.any, np.all, np.ptp, np.median,
    np.count_nonzero, np.nansum, np.nanprod, np.nanmean, np.nanstd, np.nanvar, np.nanmax, np.nanmin, np.nanmedian,
):  # fmt: skip
    _reducing(_function)


def _along(function: Any, default: int | None) -> None:
    """Register a function of an array and one axis, which is ``default`` if it is not given."""

    def answer(a: Any, axis: Any = default, *args: Any, **kwargs: Any) -> Any:
        if type(a) is not BatchedArray or kwargs.get("out") is not None:
            return NotImplemented
        if axis is None:
            kept = kwargs.pop("keepdims", False)
            result = BatchedArray(function(a.reshape((-1,)).array, -1, *args, **kwargs), a.levels)
            return result.reshape((1,) * a.ndim) if kept else result
        return BatchedArray(function(a.array, from_the_end(axis, a.ndim)[0], *args, **kwargs), a.levels)

    RULES[function] = answer


for _function in (
    np.argmax, np.argmin, np.nanargmax, np.nanargmin, np.cumsum, np.cumprod, np.nancumsum, np.nancumprod,
):  # fmt: skip
    _along(_function, None)
for _function in (np.sort, np.argsort):
    _along(_function, -1)


def _partitioning(function: Any) -> None:
    def answer(a: Any, kth: Any, axis: int = -1, *args: Any) -> Any:
        if axis is None or type(kth) is BatchedArray:
            return NotImplemented
        return BatchedArray(function(a.array, kth, from_the_end(axis, a.ndim)[0], *args), a.levels)

    RULES[function] = answer


_partitioning(np.partition)
_partitioning(np.argpartition)


@rule(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, **kwargs: Any) -> Any:
    axes = from_the_end(axis, x.ndim) if axis is None or isinstance(axis, int) else tuple(k - x.ndim for k in axis)
    return BatchedArray(np.lib.stride_tricks.sliding_window_view(x.array, window_shape, axes, **kwargs), x.levels)


@rule(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, **joined: Any) -> Any:
    if joined:
        return NotImplemented
    return BatchedArray(np.diff(a.array, n, from_the_end(axis, a.ndim)[0]), a.levels)


# --- Fourier transforms -----------------------------------------------------------------------------------------------


def _transforming(function: Any) -> None:
    def answer(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        return BatchedArray(function(a.array, n, from_the_end(axis, a.ndim)[0], norm), a.levels)

    RULES[function] = answer


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _transforming(getattr(np.fft, _name))


def _transforming_several(function: Any) -> None:
    def answer(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
        if axes is None:
            axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
        return BatchedArray(function(a.array, s, from_the_end(tuple(axes), a.ndim), norm), a.levels)

    RULES[function] = answer


for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _transforming_several(getattr(np.fft, _name))


def _shifting(function: Any) -> None:
    def answer(x: Any, axes: Any = None) -> Any:
        return BatchedArray(function(x.array, from_the_end(axes, x.ndim)), x.levels)

    RULES[function] = answer


_shifting(np.fft.fftshift)
_shifting(np.fft.ifftshift)

# --- linear algebra, which batches by itself --------------------------------------------------------------------------


def _of_matrices(function: Any) -> None:
    def answer(a: Any, *args: Any, **kwargs: Any) -> Any:
        if a.ndim < 2 or any(type(value) is BatchedArray for value in (*args, *kwargs.values())):
            return NotImplemented
        return batched(function(a.array, *args, **kwargs), a.levels)

    RULES[function] = answer


for _name in (
    "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_power", "qr", "slogdet", "svd", "svdvals",
):  # fmt: skip
    _of_matrices(getattr(np.linalg, _name))


@rule(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, **kwargs: Any) -> Any:
    if type(a) is not BatchedArray or type(rcond) is BatchedArray or kwargs:
        return NotImplemented
    return BatchedArray(np.linalg.pinv(a.array, rcond, hermitian), a.levels)


@rule(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    columns = b[..., None] if np.ndim(b) == 1 else b
    arrays, levels = aligned((a, columns))
    if type(columns) is not BatchedArray:
        arrays[1] = with_levels(columns, levels, max(np.ndim(a), np.ndim(columns)))
    solved = BatchedArray(np.linalg.solve(*arrays), levels)
    return solved[..., 0] if np.ndim(b) == 1 else solved


@rule(np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    arrays, levels = aligned([np.moveaxis(x, axis, -1) for x in (x1, x2)], (1, 1))
    return BatchedArray(np.vecdot(*arrays), levels)
