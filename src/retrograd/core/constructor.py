"""What a tensor class makes of its arguments: sizes, as in ``Tensor(2, 3)``, or data, as in ``Tensor([2, 3])``."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number
from typing import Any

import numpy as np

from retrograd.core.size import Size
from retrograd.device import array_module, device


def constructed_array(name: str, args: tuple[Any, ...], dtype: np.dtype, on: device) -> Any:
    """An array as a tensor class makes it: of the given sizes without values, or a copy of the data.

    Raises
    ------
    TypeError
        If the only argument is neither a size nor a sequence.
    """
    return array_module(on).asarray(_constructed(name, args, dtype))


def _constructed(name: str, args: tuple[Any, ...], dtype: np.dtype) -> Any:
    if len(args) != 1 or isinstance(args[0], int | np.integer):
        sizes: Any = args or (0,)
        if not all(isinstance(size, int | np.integer) for size in sizes):
            kinds = ", ".join(type(size).__name__ for size in sizes)
            raise TypeError(f"{name}() takes sizes, all of them ints, or one sequence of numbers, but got ({kinds})")
        if min(sizes) < 0:
            raise RuntimeError(f"{name}(): sizes cannot be negative, but got {tuple(sizes)}")
        return np.empty(sizes, dtype)
    (data,) = args
    if isinstance(data, Size):
        return np.empty(data, dtype)
    if isinstance(data, float | complex | str | bytes) or data is None:
        raise TypeError(
            f"{name}(): data must be a sequence of numbers, but got {type(data).__name__}; "
            "for a tensor of one number use retrograd.tensor()"
        )
    try:
        if not all(isinstance(item, Number) for item in _objects_in(data)):
            raise TypeError(f"{name}(): data must be a sequence of numbers, but got {data!r}")
        return np.array(data, dtype=dtype)
    except ValueError as error:
        raise ValueError(f"{name}(): {error}") from None


def _objects_in(data: Any) -> Iterable[Any]:
    """The objects in the data that are not plain numbers: NumPy would turn None into NaN, and a string into True."""
    found = np.asarray(data)
    return () if found.dtype.kind in "biufc" else found.flat
