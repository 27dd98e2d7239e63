"""Devices: where a tensor's numbers live, and which array library computes there."""

from __future__ import annotations

import functools
import operator
import re
import threading
from types import ModuleType
from typing import Any, NoReturn, TypeAlias, final

import numpy as np

__all__ = ["array_module", "as_device", "cuda_is_available", "device", "device_count", "device_of_block"]

_DEVICE_TYPES = ("cpu", "cuda")

# ASCII digits only and no leading zero, so that every device has one spelling.
_DEVICE_STRING = re.compile(r"([A-Za-z_]+)(?::(0|[1-9][0-9]*))?")

_WITHOUT_MEMORY = "; every tensor has memory here, so omit it: functional_call takes a module as it is"

# Device numbers are C ints in the CUDA runtime.
_MAX_INDEX = 2**31 - 1


def _as_index(value: Any) -> int | None:
    """Return `value` as a Python int, or None where it is not an integer; bool does not count as one."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _parse(text: str) -> tuple[str, int | None]:
    """Split a device string such as ``'cuda:1'`` into its type and index."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    match = _DEVICE_STRING.fullmatch(text)
    if match is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    kind, digits = match.groups()
    if kind not in _DEVICE_TYPES:
        known = f"Expected one of {', '.join(_DEVICE_TYPES)} device type at start of device string: {kind}"
        raise RuntimeError(known + (_WITHOUT_MEMORY if kind == "meta" else ""))
    if digits is None:
        return kind, None
    # The length is looked at first because Python refuses to convert absurdly long digit strings.
    if len(digits) > len(str(_MAX_INDEX)) or int(digits) > _MAX_INDEX:
        raise RuntimeError(f"Could not parse device index '{digits}' in device string '{text}'")
    return kind, int(digits)


@final
class device:  # noqa: N801 (torch's name)
    """Where a tensor lives: the CPU or a CUDA device.

    Parameters
    ----------
    type : str, int or device
        ``'cpu'``, ``'cuda'`` or ``'cuda:1'``; an int is the number of a CUDA device.
    index : int, optional
        The device number, where `type` does not already name one.

    Notes
    -----
    Within ``with device("cuda"):`` it is where this thread makes tensors when no device is asked for.

    As in torch, a device without an index differs from the same device with one:
    ``device('cuda') != device('cuda:0')``.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __new__(cls, type: str | int | _Device, index: int | None = None) -> _Device:
        if index is None and isinstance(type, device):
            return type
        number: int | None
        if isinstance(type, str):
            kind, number = _parse(type)
            if index is not None:
                if number is not None:
                    raise RuntimeError(
                        f"type (string) must not include an index because index was passed explicitly: {type}"
                    )
                number = _as_index(index)
                if number is None:
                    raise TypeError(
                        f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}"
                    )
        elif index is None:
            number = _as_index(type)
            if number is None:
                raise TypeError(
                    f"device() received an invalid combination of arguments - got ({type.__class__.__name__}), "
                    "but expected a device, a str with an optional int index, or an int"
                )
            kind = "cuda"
        else:
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {type.__class__.__name__}")
        if number is not None and number < 0:
            raise RuntimeError("Device index must not be negative")
        if not isinstance(type, str) and not cuda_is_available():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        self = object.__new__(cls)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"attribute '{name}' of 'retrograd.device' objects is not writable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"attribute '{name}' of 'retrograd.device' objects is not writable")

    def __enter__(self) -> _Device:
        _blocks.entered += (self,)
        return self

    def __exit__(self, *error: object) -> None:
        _blocks.entered = _blocks.entered[:-1]

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))


_Device: TypeAlias = device

_CPU = device("cpu")


class _Blocks(threading.local):
    """The devices whose ``with`` blocks a thread is in, the innermost last."""

    entered: tuple[device, ...] = ()


_blocks = _Blocks()


def device_of_block() -> device | None:
    """Return the device whose ``with`` block this thread is in, if any."""
    return _blocks.entered[-1] if _blocks.entered else None


def as_device(x: device | str | int | None = None) -> device:
    """Return `x` as a device: None means the CPU, a str or an int is what `device` makes of it."""
    if x is None:
        return _CPU
    if isinstance(x, device):
        return x
    if isinstance(x, str) or _as_index(x) is not None:
        return device(x)
    raise TypeError(f"argument 'device' must be a retrograd.device, a str or an int, not {x.__class__.__name__}")


def _import_cupy() -> ModuleType:
    """Import CuPy, or say how to get it."""
    try:
        import cupy  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"  # installed, but cannot be loaded
        raise RuntimeError(f'CUDA tensors need CuPy{reason}: pip install "retrograd[cuda]"') from None
    return cupy


def _cuda_device_count(cupy: ModuleType) -> int:
    """Return how many CUDA devices CuPy sees."""
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        # The CUDA runtime reports a machine without a driver or a device as an error, not as zero.
        return 0


# A failed call raises and so is not kept: a device that appears later is found.
@functools.cache
def _cuda_array_module(index: int | None) -> Any:
    """Return the library of CuPy after checking that the CUDA device `index` (None: the current one) is there."""
    from retrograd.gpu.cupy_namespace import library  # imported late: few have a GPU

    cupy = _import_cupy()
    count = _cuda_device_count(cupy)
    if count == 0:
        raise RuntimeError("No CUDA device is available: CuPy is installed but finds no usable GPU or driver")
    if index is not None and index >= count:
        raise RuntimeError(f"No CUDA device cuda:{index}: this machine has {count}, numbered from 0")
    return library(cupy)


def array_module(dev: device) -> Any:
    """Return the NumPy-like module that makes arrays on `dev`: NumPy for the CPU, CuPy in our arrays for CUDA.

    Raises
    ------
    RuntimeError
        If `dev` is a CUDA device and CuPy is not installed, or no such GPU is there.
    """
    return np if dev.type == "cpu" else _cuda_array_module(dev.index)


def device_count() -> int:
    """Return how many CUDA devices CuPy finds, 0 without CuPy; never raises."""
    try:
        return _cuda_device_count(_import_cupy())
    except Exception:  # a broken CuPy or driver may raise anything, and means none
        return 0


def cuda_is_available() -> bool:
    """Return whether CuPy is installed and finds a CUDA device; never raises."""
    return device_count() > 0
