"""Passing a call to CuPy: our arrays are unwrapped, the call runs on their GPU, and its results are wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from retrograd.gpu.array import DeviceArray

# What CuPy takes as it is; looked up first, as most operands are of these classes.
_PLAIN = frozenset(
    {int, float, complex, bool, str, type, slice, NoneType, EllipsisType, np.dtype, np.bool_}
    | {np.int32, np.int64, np.float32, np.float64, np.complex64, np.complex128}
)


def leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


# CUDA's function that returns the current GPU, from the library that an array type belongs to.
_current: dict[type, Callable[[], int]] = {}


def current_gpu(array: Any) -> int:
    """The number of the current GPU, according to the library that made one of CuPy's arrays."""
    asked = _current.get(type(array))
    if asked is None:
        import cupy

        asked = _current[type(array)] = cupy.cuda.runtime.getDevice
    return asked()


def run_on(gpu: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` with a GPU as the current one."""
    import cupy

    if cupy.cuda.runtime.getDevice() == gpu:
        return function(*args, **kwargs)
    with cupy.cuda.Device(gpu):
        return function(*args, **kwargs)


def plain(value: Any, asarray: Callable[[Any], Any]) -> Any:
    """The value with our and NumPy's arrays as CuPy's, also inside lists; NumPy's 0-d arrays become scalars."""
    return _brought(_opened(value, []), asarray)


def _opened(value: Any, found: list[Any]) -> Any:
    """The value with our arrays replaced by CuPy's, also inside lists; ``found`` collects these and any of NumPy's."""
    kind = type(value)
    if kind is DeviceArray:
        found.append(value.array)
        return value.array
    if kind in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        if not value.ndim:
            return value[()]
        found.append(value)
    elif isinstance(value, (list, tuple)):
        parts = [_opened(item, found) for item in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def _brought(value: Any, asarray: Callable[[Any], Any]) -> Any:
    """The value with NumPy's arrays replaced by CuPy's, also inside lists."""
    if isinstance(value, np.ndarray):
        return asarray(value)
    if isinstance(value, (list, tuple)):
        parts = [_brought(item, asarray) for item in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def wrapped(value: Any) -> Any:
    """The value with CuPy's arrays replaced by ours, also inside lists and (named) tuples."""
    if hasattr(type(value), "__cuda_array_interface__"):
        return DeviceArray(value)
    if isinstance(value, (list, tuple)):
        parts = [wrapped(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def call(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], beside: DeviceArray | None = None) -> Any:
    """Call one of CuPy's functions with our arrays, on the GPU that they are on.

    Parameters
    ----------
    beside
        An array on the GPU to work on if there is none among the arguments.

    Raises
    ------
    RuntimeError
        If the arrays are on several GPUs.
    """
    found: list[Any] = []
    handed = [_opened(value, found) for value in args]
    named = {key: _opened(value, found) for key, value in kwargs.items()} if kwargs else kwargs
    gpu, from_cpu = None, False
    if beside is not None and all(isinstance(array, np.ndarray) for array in found):
        found.append(beside.array)
    for array in found:
        if isinstance(array, np.ndarray):
            from_cpu = True
        elif gpu is None:
            gpu = array.data.device_id
            current = current_gpu(array)
        elif array.data.device_id != gpu:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, cuda:{gpu} and "
                f"cuda:{array.data.device_id}!"
            )
    assert gpu is not None
    if not from_cpu and current == gpu:
        return wrapped(function(*handed, **named))
    return wrapped(run_on(gpu, _with_copies, function, handed, named))


def _with_copies(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function of CuPy's, with operands in the computer's memory copied to the GPU."""
    import cupy

    return function(
        *[_brought(value, cupy.asarray) for value in args],
        **{key: _brought(value, cupy.asarray) for key, value in kwargs.items()},
    )


def call_simply(function: Callable[..., Any], operands: Sequence[Any], out: Any = None) -> Any:
    """A faster :func:`call` for a function of arrays and numbers that returns an array; None where it does not apply.

    It applies if all arrays are on the current GPU. The result is written to ``out``.
    """
    handed = []
    gpu = None
    for value in (*operands, out):
        kind = type(value)
        if kind is DeviceArray:
            value = value.array
            if gpu is None:
                gpu = current_gpu(value)
            if value.data.device_id != gpu:
                return None
        elif kind not in _PLAIN:
            return None
        handed.append(value)
    target = handed.pop()
    if target is None:
        return DeviceArray(function(*handed))
    function(*handed, out=target)
    return out


def method(array: DeviceArray, name: str, *args: Any, **kwargs: Any) -> DeviceArray:
    """Call a method of CuPy's array with arguments that are not arrays."""
    own = array.array
    gpu = own.data.device_id
    if current_gpu(own) == gpu:
        return DeviceArray(getattr(own, name)(*args, **kwargs))
    return DeviceArray(run_on(gpu, getattr(own, name), *args, **kwargs))


def is_answered(types: Iterable[type]) -> bool:
    """Whether all array types of a call are known here; a tensor or a batch handles the call itself."""
    return _ANSWERED.issuperset(types) or all(kind is DeviceArray or issubclass(kind, np.ndarray) for kind in types)


_ANSWERED = frozenset({DeviceArray, np.ndarray})
