"""Copies: of the elements, to another dtype or device, and into a tensor that exists already."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from retrograd import dtypes
from retrograd.core import calls
from retrograd.core.errors import no_tensor
from retrograd.core.in_place import check_writable, writable_everywhere
from retrograd.core.layout import dense_copy, dense_like
from retrograd.core.op import Op, kernel, linear, op
from retrograd.core.registry import add_method, implements, method
from retrograd.core.sites import warn_user
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.core.tensor_types import DTYPES, TensorType
from retrograd.device import array_module, as_device
from retrograd.device import device as Device
from retrograd.dtypes import as_dtype, fits, from_numpys_name, get_default_dtype
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.core.annotations import DeviceLike, DTypeLike, Operand


# --- copies -------------------------------------------------------------------------------------------------------


@linear(input=lambda g: g)
def clone(input, memory_format: Any = None):
    """Return a copy, through which gradients flow, with the order of the elements in memory kept."""
    # only one of the existing formats asks for another layout
    return input.copy(order="C") if getattr(memory_format, "name", "") == "contiguous_format" else dense_copy(input)


@linear(name="contiguous", node_name="CloneBackward0", public=False, method=False, input=lambda g: g)
def _to_contiguous(input):
    return input.copy(order="C")


@method
def contiguous(input: Any, memory_format: Any = None) -> Tensor:
    """Return ``input`` if its elements lie in memory in index order, otherwise a copy whose elements do."""
    return input if input.is_contiguous() else _to_contiguous(input)


def _copy(input: Any, order: str = "C") -> Tensor:
    """Return a copy, through which gradients flow; NumPy's name for :meth:`clone`."""
    if order not in ("C", "K", "A"):
        raise TypeError(
            f"copy: order={order!r} is not supported for Tensors; for a column-major layout use x.T.clone().T"
        )
    return _to_contiguous(input) if order == "C" else clone(input)


add_method("copy", _copy)


@implements(np.copy)
def _np_copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    return _copy(a, order)


# --- other dtypes and devices -------------------------------------------------------------------------------------


def cast(array: Any, dtype: np.dtype) -> Any:
    """A copy of an array in another dtype, as torch converts: complex values to their real part, NaN to anything."""
    kind = array.dtype.kind
    if kind == "c" and dtype.kind not in "cb":
        warn_user("Casting complex values to real discards the imaginary part")
        array = array.real
    if kind in "fc" and dtype.kind in "iu":
        with np.errstate(invalid="ignore"):
            return dense_copy(array, dtype)
    return dense_copy(array, dtype)


@linear(name="to_copy", public=False, method=False, input=lambda g: g)
def _convert(input, dtype: np.dtype):
    return cast(input, dtype)


@kernel(
    name="to_copy",
    public=False,
    method=False,
    input=lambda g, device, source: _transfer(g, source, device),
)
def _transfer(input, device: Device, source: Device):
    if device.type == "cpu":
        return input.get()
    xp: Any = array_module(device)
    with xp.cuda.Device(device.index or 0):
        return xp.asarray(input, blocking=True)


@overload
def to(
    input: Tensor,
    dtype: DTypeLike,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    device: DeviceLike = None,
    memory_format: Any = None,
) -> Tensor: ...
@overload
def to(
    input: Tensor,
    device: DeviceLike = None,
    dtype: DTypeLike | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    memory_format: Any = None,
) -> Tensor: ...
@overload
def to(
    input: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False, *, memory_format: Any = None
) -> Tensor: ...
@method
def to(input: Any, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **ignored: Any) -> Tensor:
    """Return ``input`` in another dtype or on another device; ``input`` itself if nothing changes.

    The forms are ``x.to(dtype)``, ``x.to(device, dtype)`` and ``x.to(other)``, for the dtype and the device of another
    tensor. Gradients come back in the dtype and on the device of ``input``. Integer tensors carry no gradient.

    Parameters
    ----------
    copy
        Copy even if nothing changes.
    """
    dtype, device, copy = parse_to(args, dtype, device, copy, ignored)
    result = input
    if device is not None and (device.type, device.index or 0) != (input.device.type, input.device.index or 0):
        result = _transfer(result, device, input.device)
    if dtype is not None and dtype.numpy != input._data.dtype:
        return _convert(result, dtype.numpy)
    return _convert(input, input._data.dtype) if copy and result is input else result


def parse_to(
    args: tuple[Any, ...], dtype: Any, device: Any, copy: bool, ignored: dict[str, Any]
) -> tuple[Any, Any, bool]:
    unknown = set(ignored) - {"non_blocking", "memory_format", "other"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument '{unknown.pop()}'")
    rest = [ignored["other"], *args] if "other" in ignored else list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        dtype, device = other.dtype, other.device
    elif rest and (rest[0] is None or (isinstance(rest[0], (str, int, Device)) and not isinstance(rest[0], bool))):
        device = rest.pop(0)
        if rest and not isinstance(rest[0], bool):
            dtype = rest.pop(0)
    elif rest:
        dtype = rest.pop(0)
    if len(rest) > 2:
        raise TypeError(f"to() takes a dtype, a device, or a tensor, and two flags, but got {args}")
    if len(rest) == 2:  # non_blocking, copy
        copy = rest[1]
    if isinstance(dtype, str):
        raise TypeError(
            f"to(): dtype must be a retrograd.dtype, not the str {dtype!r}; use getattr(retrograd, {dtype!r})"
        )
    if isinstance(device, str) and isinstance(getattr(dtypes, device, None), dtypes.dtype):
        raise RuntimeError(
            f"to(): Invalid device string: {device!r}; a dtype is not a string: write retrograd.{device}"
        )
    return None if dtype is None else as_dtype(dtype), None if device is None else as_device(device), copy


@method
def astype(
    input: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Tensor:
    """Return ``input`` in another dtype, a copy unless ``copy`` is False; NumPy's name for :meth:`to`.

    Raises
    ------
    TypeError
        If ``casting`` forbids the conversion.
    """
    wanted = from_numpys_name(dtype)
    if not np.can_cast(input._data.dtype, wanted.numpy, casting):  # type: ignore[arg-type]
        raise TypeError(f"astype: cannot cast from {input.dtype} to {wanted} according to the rule '{casting}'")
    return to(input, dtype=wanted, copy=copy)


@implements(np.astype)
def _np_astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    return to(x, dtype=from_numpys_name(dtype), device=device, copy=copy)


_NAME_OF_TYPE = {kind: name for name, kind in DTYPES.items()}


@overload
def _type(input: Tensor, dtype: None = None, non_blocking: bool = False) -> str: ...
@overload
def _type(input: Tensor, dtype: DTypeLike | TensorType | type[Tensor], non_blocking: bool = False) -> Tensor: ...
def _type(input: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the tensor type, such as ``'retrograd.FloatTensor'``, or ``input`` converted to ``dtype``."""
    prefix = "retrograd." if input.device.type == "cpu" else "retrograd.cuda."
    if dtype is None:
        return prefix + _NAME_OF_TYPE[input.dtype]
    if isinstance(dtype, str):
        package, _, name = dtype.rpartition(".")
        if package.partition(".")[0] not in ("retrograd", "torch") or name not in DTYPES:
            raise ValueError(f"invalid type: '{dtype}'; the types are retrograd.{', '.join(DTYPES)}")
        return to(input, "cuda" if "cuda" in package else "cpu", DTYPES[name])
    if dtype is Tensor:  # the type that torch.set_default_tensor_type used to choose
        return to(input, get_default_dtype())
    if isinstance(dtype, TensorType):
        return to(input, dtype.device, dtype.dtype)
    return to(input, dtype=dtype)


add_method("type", _type)


@method
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Return ``input`` in the dtype and on the device of ``other``."""
    return to(input, other)


@method
def cpu(input: Any, memory_format: Any = None) -> Tensor:
    """Return ``input`` in CPU memory; itself if it is there."""
    return to(input, device="cpu")


@method
def cuda(input: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Return ``input`` on a GPU (the current one by default); itself if it is there."""
    return to(input, device="cuda" if device is None else device)


def _conversion(name: str, target: dtypes.dtype) -> None:
    def convert(input: Any, memory_format: Any = None) -> Tensor:
        return to(input, dtype=target)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Return ``input`` as {target.name}; itself if it is that already."
    add_method(name, convert)


for _name, _dtype in {
    "half": dtypes.float16,
    "float": dtypes.float32,
    "double": dtypes.float64,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
    "byte": dtypes.uint8,
    "char": dtypes.int8,
    "short": dtypes.int16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "bool": dtypes.bool,
}.items():
    _conversion(_name, _dtype)


def _bfloat16(input: Any, memory_format: Any = None) -> Tensor:
    """Not available: raises TypeError, as NumPy has no such dtype."""
    raise TypeError("bfloat16(): NumPy has no such dtype; use float(), or half() to save memory")


add_method("bfloat16", _bfloat16)


# --- into a tensor that exists ------------------------------------------------------------------------------------


def write(input: Any, src: Any, non_blocking: bool = False) -> None:
    """Copy ``src`` over the elements of ``input``, broadcast and converted."""
    if not hasattr(src, "dtype"):
        if not isinstance(src, (bool, int, float, complex)):
            raise no_tensor("copy_", "argument 'other' (position 1)", src)
        src = np.asarray(src)
    if src.dtype.kind in "fc" and src.dtype != input.dtype:
        src = cast(src, input.dtype)
    try:
        if src.ndim > input.ndim:
            raise ValueError
        input[...] = src
    except ValueError:
        raise RuntimeError(
            f"copy_: a tensor of shape {list(src.shape)} cannot be broadcast to the target's, {list(input.shape)}"
        ) from None


@linear(
    name="copy",
    node_name="CopyBackwards",
    public=False,
    method=False,
    inplace=write,
    input=lambda g: np.zeros_like(g),
    src=lambda g: g,
)
def _copied(input, src, non_blocking: bool = False):
    result = input.copy()
    write(result, src)
    return result


_copy_on_device = calls.inplace(_copied.op, "copy_")


@method
def copy_(self: Tensor, other: Operand, non_blocking: bool = False) -> Tensor:
    """Copy ``other`` over the elements of this tensor, broadcast and converted, from whatever device it is on."""
    if isinstance(other, Tensor) and DeviceArray in (type(self._data), type(other._data)):
        other = to(other, device=self.device)
    return _copy_on_device(self, other)


def fill_value(name: str, value: Any, dtype: np.dtype) -> Any:
    """The value to fill elements of ``dtype`` with: a number, which must fit into the dtype, or a 0-d array."""
    if not isinstance(value, (bool, int, float, complex)) and not hasattr(value, "dtype"):
        raise TypeError(f"{name}(): argument 'value' must be Number or Tensor, not {type(value).__name__}")
    if np.ndim(value):
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {np.ndim(value)} dimension(s)."
        )
    is_number = not hasattr(value, "dtype")
    if not fits(value, dtype) if is_number else np.iscomplexobj(value) and dtype.kind not in "cb":
        if np.iscomplexobj(value):
            if not np.any(value.imag):
                return fill_value(name, value.real, dtype)
            if dtype.kind != "c":
                raise RuntimeError(
                    f"{name}: value {value} cannot be converted to type {dtype.name}, which has no imaginary part; "
                    "give its real attribute"
                )
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise OverflowError(f"{name}: int {value} too big to convert")
        raise RuntimeError(
            f"{name}: value {value} cannot be converted to type {dtype.name} without overflow"
            + (f"; the largest number of that type is {np.finfo(dtype).max}" if dtype.kind == "f" else "")
        )
    return np.asarray(value).astype(dtype) if is_number else value


def number_to_fill(name: str, value: Any, dtype: np.dtype) -> Any:
    """The same where torch takes the number out of a tensor of another dtype: then it must fit, too."""
    is_number = isinstance(value, (np.ndarray, np.generic)) and not value.ndim and value.dtype != dtype
    return fill_value(name, value.item() if is_number else value, dtype)


def _written_everywhere(op: Op, name: str) -> Callable[..., Any]:
    """The in-place form of an operation that writes one value: elements may share memory if nothing is recorded."""
    write = calls.inplace(op, name)

    @functools.wraps(write)
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        is_odd = type(input) is Tensor and not input._data.flags.writeable and local.tangents is None
        operands = (input, *args, *kwargs.values())
        if is_odd and not (
            local.grad_enabled and any(getattr(operand, "requires_grad", False) for operand in operands)
        ):
            check_writable(input, name, elements=False)
            everywhere = writable_everywhere(input._data)
            if everywhere is not None:
                write(wrap(everywhere), *args, **kwargs)
                bump(input)
                return input
        return write(input, *args, **kwargs)

    return call


def _fill(input: Any, value: Any) -> None:
    input[...] = fill_value("fill_", value, input.dtype)


@linear(
    public=False,
    method=False,
    inplace=_fill,
    node_name=lambda value: f"FillBackward{int(isinstance(value, Tensor))}",
    forms=2,
    input=lambda g: np.zeros_like(g),
    value=lambda g: g,
)
def fill(input, value):
    """Return a tensor like ``input`` with ``value``, a number or a 0-d tensor, everywhere."""
    result = dense_like(input)
    _fill(result, value)
    return result


add_method("fill_", _written_everywhere(fill.op, "fill_"))


def _zero(input: Any) -> None:
    input[...] = 0


@op(public=False, method=False, inplace=_zero, input=lambda g: np.zeros_like(g))
def zero(input):
    """Return zeros like ``input``."""
    return np.zeros_like(input)


add_method("zero_", _written_everywhere(zero.op, "zero_"))
