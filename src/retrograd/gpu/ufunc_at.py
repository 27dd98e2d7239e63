"""``ufunc.at``: combining values into an array one after the other, where an index may be repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.gpu.array import DeviceArray
from retrograd.gpu.cupy_calls import call
from retrograd.gpu.fallback import on_cpu
from retrograd.gpu.indexing import in_bounds


def combine_at(ufunc: Any, target: DeviceArray, index: Any, *values: Any) -> None:
    """Combine values into ``target``; on the CPU where CuPy's kernels do not know the ufunc or the dtype."""
    if ufunc in (np.maximum, np.minimum) and target.dtype in (np.float32, np.float64):
        _extremum_at(ufunc, target, index, *values)
        return
    import cupy

    try:
        call(getattr(cupy, ufunc.__name__).at, (target, in_bounds(target, index), *values), {})
    except (NotImplementedError, TypeError, ValueError):
        host = on_cpu(target)
        ufunc.at(host, on_cpu(index), *map(on_cpu, values))
        target[...] = host


def _extremum_at(ufunc: Any, target: DeviceArray, index: Any, values: Any) -> None:
    """Compare as integers in the order of the floats: CuPy's kernels round float64 to float32, and ignore NaN."""
    largest = ufunc is np.maximum
    keys = _keys(target, largest)
    combine_at(ufunc, keys, index, _keys(np.asarray(values, target.dtype, like=target), largest))
    target[...] = _floats(keys, target.dtype, largest)


def _keys(x: Any, nan_is_largest: bool) -> Any:
    """Unsigned integers that are ordered as the floats are, and NaN above or below all of them."""
    bits = x.copy().view(f"u{x.dtype.itemsize}")
    sign, everything = _sign_and_everything(bits.dtype)
    keys = np.where(bits & sign != 0, bits ^ everything, bits | sign)
    return np.where(np.isnan(x), everything if nan_is_largest else bits.dtype.type(0), keys)


def _floats(keys: Any, dtype: np.dtype, nan_is_largest: bool) -> Any:
    sign, everything = _sign_and_everything(keys.dtype)
    made = np.where(keys & sign != 0, keys ^ sign, keys ^ everything).view(dtype)
    return np.where(keys == (everything if nan_is_largest else 0), dtype.type(np.nan), made)


def _sign_and_everything(dtype: np.dtype) -> tuple[Any, Any]:
    bits = 8 * dtype.itemsize
    return dtype.type(1 << (bits - 1)), dtype.type((1 << bits) - 1)
