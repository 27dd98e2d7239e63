"""Handing a call over to CuPy: operands into its arrays, on their GPU, and its results back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from retrograd.gpu.array import DeviceArray


def leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def gpu_of(values: Iterable[Any]) -> int:
    """The number of the GPU that all arrays among ``values`` are on.

    Raises
    ------
    RuntimeError
        If they are on several.
    """
    found = None
    for value in values:
        if type(value) is DeviceArray:
            number = int(value.array.device.id)
            if found is None:
                found = number
            elif found != number:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two devices, cuda:{found} and "
                    f"cuda:{number}!"
                )
    assert found is not None
    return found


def run_on(gpu: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` with a GPU as the current one."""
    import cupy

    if cupy.cuda.runtime.getDevice() == gpu:
        return function(*args, **kwargs)
    with cupy.cuda.Device(gpu):
        return function(*args, **kwargs)


def plain(value: Any, asarray: Callable[[Any], Any]) -> Any:
    """The value with CuPy's arrays for ours and for NumPy's, also inside lists; NumPy's 0-d arrays become scalars."""
    if type(value) is DeviceArray:
        return value.array
    if isinstance(value, np.ndarray):
        return asarray(value) if value.ndim else value[()]
    if isinstance(value, (list, tuple)):
        parts = [plain(item, asarray) for item in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def wrapped(value: Any) -> Any:
    """The value with our arrays for CuPy's, also inside lists and (named) tuples."""
    if isinstance(value, (list, tuple)):
        parts = [wrapped(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return DeviceArray(value) if hasattr(type(value), "__cuda_array_interface__") else value


def call(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call one of CuPy's functions with our arrays."""
    import cupy

    def handed() -> Any:
        return function(*plain(tuple(args), cupy.asarray), **{key: plain(x, cupy.asarray) for key, x in kwargs.items()})

    return wrapped(run_on(gpu_of(leaves([*args, *kwargs.values()])), handed))


def is_answered(types: Iterable[type]) -> bool:
    """Whether all array types of a call are known here; a tensor or a batch answers for itself."""
    return all(kind is DeviceArray or issubclass(kind, np.ndarray) for kind in types)
