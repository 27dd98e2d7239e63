"""What all creation functions have in common: sizes, numbers, and the keywords ``dtype``, ``device`` and so on."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from retrograd.batching import lift
from retrograd.core.errors import no_tensor
from retrograd.core.in_place import change_shape, check_writable, mark_inference
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.device import array_module, as_device, device_of_block
from retrograd.device import device as _device
from retrograd.dtypes import as_dtype, default_complex, default_float, fits, int64
from retrograd.dtypes import bool as bool_

if TYPE_CHECKING:
    from retrograd.core.annotations import DTypeLike


# numpy.dtype is generic in its scalar type, which nothing here depends on
NumpyDType = np.dtype[Any]


class layout(enum.Enum):  # noqa: N801 (torch's name)
    """How elements are kept; there is only ``strided``."""

    strided = "strided"

    def __repr__(self) -> str:
        return f"retrograd.{self.value}"

    __str__ = __repr__


class memory_format(enum.Enum):  # noqa: N801 (torch's name)
    """The order of elements in memory: that of the indices, or that of the tensor a new one is made like."""

    contiguous_format = "contiguous_format"
    preserve_format = "preserve_format"

    def __repr__(self) -> str:
        return f"retrograd.{self.value}"

    __str__ = __repr__


strided = layout.strided
contiguous_format = memory_format.contiguous_format
preserve_format = memory_format.preserve_format


class Options(TypedDict, total=False):
    """The keywords of creation functions.

    Attributes
    ----------
    out
        The tensor to write the result into; it gets the result's shape and keeps its dtype.
    dtype
        The default is the default dtype, unless the function says otherwise.
    device
        The default is the default device, or that of the tensor that the new one is made like.
    requires_grad
        Whether operations on the result are recorded.
    layout, pin_memory, memory_format
        Accepted with torch's defaults.
    """

    out: Tensor | None
    dtype: DTypeLike | None
    device: _device | str | int | None
    requires_grad: bool
    layout: layout | None
    pin_memory: bool
    memory_format: memory_format | None


class ShapedOptions(Options, total=False):
    """The keywords of functions that take a shape as ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``."""

    size: Sequence[int]


_KEYWORDS = frozenset(Options.__annotations__)

_default_device = as_device("cpu")


def get_default_device() -> _device:
    """Return the device on which tensors are made when none is asked for; the CPU unless changed.

    That is the one in whose ``with`` block the thread is, or else the one last set for all.
    """
    return device_of_block() or _default_device


def set_default_device(device: _device | str | int | None) -> None:
    """Set the device on which tensors are made when none is asked for; None means the CPU.

    Raises
    ------
    RuntimeError
        If there is no such device.
    """
    global _default_device
    found = as_device(device)
    array_module(found)
    _default_device = found


class Request:
    """What the keywords of one call ask for.

    Parameters
    ----------
    name
        The function, for error messages.
    options
        Its keywords.
    dtype
        The NumPy dtype where the keywords name none; None means the default dtype.
    device
        The device where the keywords name none; None means the default device.
    """

    __slots__ = ("batch", "device", "dtype", "name", "order", "out", "requires_grad")

    def __init__(
        self,
        name: str,
        options: Options,
        dtype: NumpyDType | None = None,
        device: _device | None = None,
    ) -> None:
        self.name = name
        self.device = get_default_device() if device is None else device
        self.dtype = default_float() if dtype is None else dtype
        self.out: Tensor | None = None
        self.requires_grad = False
        self.order = "K"
        self.batch: Any = ()  # inside of vmap, the levels that the new tensor is to have room for
        if options:
            self._read(options)

    def _read(self, options: Any) -> None:
        name = self.name
        for key in options:
            if key not in _KEYWORDS:
                raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
        if (device := options.get("device")) is not None:
            self.device = _checked_device(name, device)
        self.out = options.get("out")
        asked = options.get("dtype")
        if asked is not None:
            self.dtype = as_numpy_dtype(name, asked)
        if self.out is not None:
            self._check_out(self.out, asked is not None)
        requires_grad = options.get("requires_grad")
        if requires_grad is not None and not isinstance(requires_grad, bool):
            raise TypeError(f"{name}(): argument 'requires_grad' must be bool, not {requires_grad!r}")
        self.requires_grad = requires_grad is True
        if options.get("layout") not in (None, strided):
            raise TypeError(f"{name}(): argument 'layout' must be retrograd.strided, not {options['layout']!r}")
        if options.get("pin_memory"):
            raise RuntimeError(f"{name}(): pinned memory is not available; omit pin_memory")
        order = options.get("memory_format")
        if order not in (None, preserve_format, contiguous_format):
            raise TypeError(
                f"{name}(): argument 'memory_format' must be retrograd.contiguous_format or retrograd.preserve_format, "
                f"not {order!r}"
            )
        if order is contiguous_format:
            self.order = "C"

    def _check_out(self, out: Any, dtype_asked: bool) -> None:
        if not isinstance(out, Tensor):
            raise no_tensor(self.name, "argument 'out'", out)
        if dtype_asked and out._data.dtype != self.dtype:
            raise RuntimeError(
                f"{self.name}(): dtype {self.dtype.name} does not match dtype of out parameter ({out._data.dtype.name})"
            )
        if out.requires_grad and local.grad_enabled:
            raise RuntimeError(
                f"{self.name}(): functions with out=... arguments don't support automatic differentiation, "
                "but one of the arguments requires grad."
            )
        self.dtype = out._data.dtype

    def make(self, function: Callable[[ModuleType], Any]) -> Tensor:
        """Call ``function`` with the array module of the device, and deliver the array that it makes."""
        device = self.device
        xp: Any = array_module(device)
        try:
            if device.type == "cpu" or device.index is None:
                return self.deliver(function(xp))
            with xp.cuda.Device(device.index):
                return self.deliver(function(xp))
        except ValueError as error:  # from NumPy, for more elements than an index can count
            raise RuntimeError(f"{self.name}(): {error}") from None

    def deliver(self, array: Any) -> Tensor:
        """A tensor around the new array, as requested."""
        if self.out is not None:
            return _write(self.name, self.out, array)
        tensor = wrap(lift(array, self.batch).copy() if self.batch else array)
        if local.inference:
            mark_inference(tensor)
        if self.requires_grad:
            tensor.requires_grad_()
        return tensor


def _write(name: str, out: Tensor, array: Any) -> Tensor:
    """Give ``out`` the values and the shape of ``array``."""
    fits = out._data.shape == array.shape
    check_writable(out, f"{name}(out=)", elements=fits)
    if not fits:
        change_shape(out, array.shape)
    out._data[...] = array
    bump(out)
    return out


# --- arguments ----------------------------------------------------------------------------------------------------


def as_numpy_dtype(name: str, dtype: Any) -> NumpyDType:
    """The NumPy dtype that the argument ``dtype`` means."""
    try:
        return as_dtype(dtype).numpy
    except TypeError as error:
        raise TypeError(f"{name}(): argument 'dtype' must be retrograd.dtype: {error}") from None


def _checked_device(name: str, device: Any) -> _device:
    try:
        return as_device(device)
    except TypeError:
        raise TypeError(f"{name}(): argument 'device' must be retrograd.device, not {type(device).__name__}") from None


def shape_of(name: str, shape: tuple[Any, ...], options: ShapedOptions) -> tuple[int, ...]:
    """The shape from ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``; takes ``size`` out of the keywords."""
    if "size" in options:
        if shape:
            raise TypeError(f"{name}() got multiple values for argument 'size'")
        return as_shape(name, options.pop("size"))
    if not shape:
        raise TypeError(f"{name}() missing 1 required positional argument: 'size'")
    if not isinstance(shape[0], (tuple, list)):
        return as_shape(name, shape)
    if len(shape) > 1:
        raise TypeError(f"{name}() takes 1 positional argument but {len(shape)} were given")
    return as_shape(name, shape[0])


def as_shape(name: str, size: Any) -> tuple[int, ...]:
    """A shape from a tuple or list of ints, 0-d integer tensors among them."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"{name}(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    shape = tuple(n if type(n) is int else _length(name, n, k) for k, n in enumerate(size))
    for n in shape:
        if n < 0:
            raise RuntimeError(f"{name}(): Trying to create tensor with negative dimension {n}: {list(shape)}")
    return shape


def _length(name: str, value: Any, position: int) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(
        f"{name}(): argument 'size' must be tuple of ints, but found element of type {type(value).__name__} "
        f"at pos {position}"
    )


def as_number(name: str, argument: str, value: Any) -> Any:
    """A Python number from a number or a 0-d tensor that does not require grad."""
    kind = type(value)
    if kind is float or kind is int or kind is bool or kind is complex:
        return value
    if isinstance(value, (np.number, np.bool_)):
        return value.item()
    if isinstance(value, Tensor) and value.ndim == 0 and not value.requires_grad:
        return value.item()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    if isinstance(value, (int, float, complex)):
        return value
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {kind.__name__}")


def as_real(name: str, argument: str, value: Any) -> float:
    """A Python float from a real number or a 0-d tensor that does not require grad."""
    number = as_number(name, argument, value)
    if isinstance(number, complex):
        raise TypeError(f"{name}(): argument '{argument}' must be float, not complex")
    return float(number)


def dtype_of_number(value: bool | int | float | complex) -> NumpyDType:
    """The dtype that torch gives to a Python number."""
    if isinstance(value, bool):
        return bool_.numpy
    if isinstance(value, int):
        return int64.numpy
    return default_complex() if isinstance(value, complex) else default_float()


def cast_number(name: str, value: bool | int | float | complex, dtype: NumpyDType) -> Any:
    """A Python number as a 0-d array of ``dtype``.

    Raises
    ------
    RuntimeError
        If it does not fit. As in torch, fractions are cut off and negative integers wrap around in unsigned dtypes.
    """
    if isinstance(value, complex) and dtype.kind not in "cb" and value.imag == 0:
        value = value.real
    if not fits(value, dtype):
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise OverflowError(f"{name}(): int {value} too big to convert")
        raise RuntimeError(f"{name}(): value {value} cannot be converted to type {dtype.name} without overflow")
    return np.asarray(value).astype(dtype)
