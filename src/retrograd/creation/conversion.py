"""Tensors from data: Python numbers and lists, NumPy arrays, buffers, and tensors of other libraries."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.registry import method
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation.options import NumpyDType, Request, dtype_of_number
from retrograd.device import array_module
from retrograd.device import device as _device
from retrograd.dtypes import default_float, from_numpy_dtype, get_default_dtype, int64, promote_types
from retrograd.dtypes import dtype as _dtype

if TYPE_CHECKING:
    from retrograd.core.annotations import DeviceLike, DTypeLike


__all__ = ["as_tensor", "asarray", "from_dlpack", "from_numpy", "frombuffer", "tensor"]

_CPU = _device("cpu")

# NumPy's integers that tensors do not have: these are taken only where another dtype is asked for.
_UNSIGNED = frozenset((np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)))


def tensor(
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a new tensor with a copy of ``data``: a number, a nested sequence of numbers, an array or a tensor.

    Parameters
    ----------
    dtype
        By default Python floats become the default dtype, ints int64, bools bool, complex numbers the default complex
        dtype. NumPy's arrays and scalars keep theirs.
    requires_grad
        Whether operations on the result are recorded. It is a leaf in any case.

    Raises
    ------
    ValueError
        If the sequences are not of the same length.
    TypeError, RuntimeError
        If they contain something that is not a number, or does not fit the dtype.

    Examples
    --------
    >>> rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    return _tensor("tensor", data, dtype, device, requires_grad, pin_memory)


@method
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a new tensor with a copy of ``data`` and the dtype and device of this one; see :func:`tensor`."""
    return _tensor(
        "new_tensor",
        data,
        self.dtype if dtype is None else dtype,
        self.device if device is None else device,
        requires_grad,
        pin_memory,
    )


def _tensor(name: str, data: Any, dtype: Any, device: Any, requires_grad: bool, pin_memory: bool) -> Tensor:
    if isinstance(data, Tensor):
        warn_user(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            f"sourceTensor.detach().clone().requires_grad_(True), rather than retrograd.{name}(sourceTensor)."
        )
    if dtype is device is None and not requires_grad and not pin_memory:
        request = Request(name, {})
    else:
        request = Request(
            name, {"dtype": dtype, "device": device, "requires_grad": requires_grad, "pin_memory": pin_memory}
        )
    wanted = None if dtype is None else request.dtype
    memory = _memory_of(data, wanted)
    if memory is None:
        return _delivered(request, _from_sequence(name, data, wanted), wanted, device)
    array = _converted(memory, wanted)
    return _delivered(request, array.copy("K") if array is memory else array, wanted, device)


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return ``data`` as a tensor, without a copy where it is a tensor or an array that need not be changed.

    A tensor keeps its place in the graph; memory is shared with an array.
    """
    request = Request("as_tensor", {"dtype": dtype, "device": device})
    wanted = None if dtype is None else request.dtype
    if isinstance(data, Tensor):
        return _changed(data, request, dtype, device)
    memory = _memory_of(data, wanted)
    return _delivered(request, _from_sequence("as_tensor", data, wanted) if memory is None else memory, wanted, device)


def _changed(tensor: Tensor, request: Request, dtype: Any, device: Any) -> Tensor:
    """The tensor in the dtype and on the device asked for; itself if it already is."""
    if device is not None:
        tensor = tensor.to(request.device)
    return tensor if dtype is None else tensor.to(request.dtype)


def asarray(
    obj: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Return ``obj`` as a tensor, sharing its memory where that is possible.

    Parameters
    ----------
    obj
        A tensor (which keeps its place in the graph), an array, a number, a nested sequence of numbers, or an object
        with Python's buffer protocol, whose bytes are taken for elements of ``dtype``.
    copy
        True copies in any case; False raises where a copy would be needed.
    requires_grad
        None means as ``obj``; False detaches.

    Raises
    ------
    ValueError
        If ``copy`` is False and a copy would be needed.
    """
    request = Request("asarray", {"dtype": dtype, "device": device, "requires_grad": requires_grad or False})
    wanted = None if dtype is None else request.dtype
    if isinstance(obj, Tensor):
        source = obj.detach() if requires_grad is False else obj
        result = _changed(source, request, dtype, device)
        if result is source and copy:
            result = source.clone()
        elif result is not source and copy is False:
            raise _no_alias(obj, result)
        wants_grad = obj.requires_grad if requires_grad is None else requires_grad
        return result.detach().requires_grad_() if wants_grad and not result.requires_grad else result
    if _is_buffer(obj):
        memory = frombuffer(obj, dtype=dtype or get_default_dtype())._data
    else:
        memory = _memory_of(obj, None if copy is False else wanted)
    if memory is None:
        if copy is False:
            raise ValueError("asarray(): can't alias arbitrary sequence into a tensor, and copy=False forbids a copy")
        return _delivered(request, _from_sequence("asarray", obj, wanted), wanted, device)
    result = _delivered(request, memory.copy("K") if copy else memory, wanted, device)
    if copy is False and (type(result._data) is not type(memory) or result._data.dtype != memory.dtype):
        raise _no_alias(memory, result)
    return result


def _no_alias(source: Any, target: Tensor) -> ValueError:
    return ValueError(
        f"asarray(): can't alias tensor with dtype {source.dtype} into dtype {target.dtype} on {target.device}, "
        "and copy=False forbids a copy"
    )


def from_numpy(ndarray: Any) -> Tensor:
    """Return a tensor on the memory of a NumPy array; what is written to one is seen in the other.

    An array that is read-only gives a tensor that refuses to be written to.

    Raises
    ------
    TypeError
        If it is not an array, or has a dtype that tensors do not support.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy(): expected np.ndarray (got {type(ndarray).__name__})")
    return Request("from_numpy", {}, device=_CPU).deliver(_native(ndarray))


def from_dlpack(ext_tensor: Any, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """Return a tensor on the memory of another library's tensor.

    Parameters
    ----------
    ext_tensor
        What has the method ``__dlpack__``; or a capsule that such a method has returned, which can be used once.

    Raises
    ------
    RuntimeError
        If it is neither.
    BufferError
        If it requires grad.

    Notes
    -----
    What comes from other libraries can be written to with NumPy 2.1 or later.
    """
    if isinstance(ext_tensor, Tensor):
        if ext_tensor.requires_grad:
            raise BufferError("from_dlpack(): can't export tensors that require gradient, use tensor.detach()")
        array = ext_tensor._data
    elif type(ext_tensor).__name__ == "PyCapsule":
        array = _of_capsule(ext_tensor)
    elif not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(f"from_dlpack(): {type(ext_tensor).__name__} has no method __dlpack__")
    elif isinstance(ext_tensor, np.ndarray):
        array = ext_tensor  # which NumPy 2.0 would make read-only
    else:
        on_gpu = ext_tensor.__dlpack_device__()[0] == 2  # kDLCUDA
        array = array_module(_device("cuda" if on_gpu else "cpu")).from_dlpack(ext_tensor)
    return _delivered(Request("from_dlpack", {"device": device}), array.copy("K") if copy else array, None, device)


class _Capsule:
    """A capsule in the place of the tensor that it comes from."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU; NumPy looks into the capsule and refuses others


class _Memory:
    """The memory of an array; an array made from this may write to it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


def _of_capsule(capsule: Any) -> Any:
    """The array on the memory of a capsule."""
    try:
        array = np.from_dlpack(_Capsule(capsule))
    except (BufferError, ValueError) as error:
        raise RuntimeError(
            f"from_dlpack(): the capsule cannot be read: {error}; a capsule can be used only once"
        ) from None
    # older capsules cannot say whether one may write, and NumPy takes it for no; but what is not to be written to is
    # not exported to such
    is_older = '"dltensor"' in repr(capsule).replace("used_", "")
    return np.asarray(_Memory(array)) if is_older and not array.flags.writeable else array


def frombuffer(
    buffer: Any, *, dtype: DTypeLike, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a 1-d tensor on the memory of an object with Python's buffer protocol, such as a bytearray.

    Parameters
    ----------
    count
        How many elements to take; -1 means all that there are.
    offset
        How many bytes to leave out at the beginning.

    Raises
    ------
    ValueError
        If the bytes do not make up so many elements.
    """
    request = Request("frombuffer", {"dtype": dtype, "requires_grad": requires_grad}, device=_CPU)
    try:
        length = memoryview(buffer).nbytes
    except TypeError:
        raise ValueError(f"frombuffer(): {type(buffer).__name__} does not implement Python buffer protocol") from None
    size = request.dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"frombuffer(): both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"frombuffer(): offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"frombuffer(): buffer length ({length} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({size})"
        )
    if offset + count * size > length:
        raise ValueError(
            f"frombuffer(): requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({length} bytes)"
        )
    return request.deliver(np.frombuffer(buffer, request.dtype, max(count, -1), offset))


# --- arrays -------------------------------------------------------------------------------------------------------


def _delivered(request: Request, array: Any, dtype: NumpyDType | None, device: Any) -> Tensor:
    """A tensor on the memory of an array, unless its dtype or device has to change."""
    array = _converted(array, dtype)
    if isinstance(array, np.ndarray):
        return request.make(lambda xp: array if xp is np else xp.asarray(array))
    if type(array) is BatchedArray:
        tensor = request.deliver(array)
        return tensor if device is None else tensor.to(device)
    if device is None:
        request.device = _device("cuda", int(array.device.id))
    return request.make(lambda xp: array.get() if xp is np else xp.asarray(array))


def _memory_of(data: Any, dtype: NumpyDType | None) -> Any:
    """The array that ``data`` is or wraps; None if there is none. Only what must be is converted."""
    if isinstance(data, (list, tuple, float, int, complex)):  # also NumPy's float64 and complex128
        return None
    if isinstance(data, Tensor):
        return data._data
    if isinstance(data, np.ndarray):
        return _native(data, dtype)
    if hasattr(data, "__cuda_array_interface__"):
        cupy: Any = array_module(_device("cuda"))
        return cupy.asarray(data)
    if hasattr(data, "__array__") and not isinstance(data, np.generic):
        return _native(np.asarray(data), dtype)
    return None


def _native(array: np.ndarray, dtype: NumpyDType | None = None) -> np.ndarray:
    """The array as plain ndarray with the very dtype object that NumPy's own results have."""
    if dtype is not None and array.dtype in _UNSIGNED:
        return _converted(np.asarray(array), dtype)
    wanted = from_numpy_dtype(array.dtype).numpy
    return np.asarray(array) if array.dtype is wanted else np.asarray(array).view(wanted)


def _converted(array: Any, dtype: NumpyDType | None) -> Any:
    """The array in another dtype, as torch converts: the real part of complex values, integers wrapping around."""
    if dtype is None or array.dtype == dtype:
        return array
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        warn_user("Casting complex values to real discards the imaginary part")
        array = array.real
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _is_buffer(obj: Any) -> bool:
    """Whether torch takes an object for bytes rather than for numbers."""
    if isinstance(obj, (list, tuple, str)) or hasattr(obj, "__array__"):
        return False
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


# --- nested sequences ---------------------------------------------------------------------------------------------


def _from_sequence(name: str, data: Any, dtype: NumpyDType | None) -> np.ndarray:
    """The array of a number or a nested sequence of numbers, unwrapped level by level."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"{name}(): invalid data type '{type(data).__name__}'")
    shape: list[int] = []
    level = [data]
    while level and _is_sequence(level[0]):
        if set(map(type, level)) == {np.ndarray} and len({array.shape for array in level}) == 1 and _fit(level, dtype):
            return _stacked(level, tuple(shape), dtype)
        length = len(level[0])
        for item in level:
            if not _is_sequence(item):
                _dtype_of_type(name, type(item), dtype)  # gives a better error if it is not a number
                raise TypeError(f"{name}(): expected a sequence of length {length} at dim {len(shape)}, not {item!r}")
            if len(item) != length:
                raise ValueError(f"expected sequence of length {length} at dim {len(shape)} (got {len(item)})")
        shape.append(length)
        level = [element for item in level for element in item]
        if len(shape) > 64 or (level and isinstance(level[0], str)):
            raise ValueError(f"{name}(): too many dimensions '{type(level[0]).__name__}'")
    kinds = set(map(type, level))
    inferred = _dtype_of(name, level, kinds, dtype)
    return _stored(name, level, kinds, inferred if dtype is None else dtype, inferred).reshape(shape)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return True
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, (Tensor, Mapping, str, bytes, np.generic)):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _fit(arrays: list[np.ndarray], dtype: NumpyDType | None) -> bool:
    """Whether whatever the arrays hold fits the dtype; if not, every element has to be checked by itself."""
    return dtype is None or dtype.kind not in "iu" or all(np.can_cast(array.dtype, dtype) for array in arrays)


def _stacked(arrays: list[np.ndarray], shape: tuple[int, ...], dtype: NumpyDType | None) -> np.ndarray:
    """The arrays, all of one shape, as the last dimensions of one array."""
    common = functools.reduce(promote_types, {_known(array.dtype, dtype) for array in arrays}).numpy
    with np.errstate(all="ignore"):
        stacked = np.stack([_converted(array, common if dtype is None else dtype) for array in arrays])
    return stacked.reshape(shape + arrays[0].shape)


def _dtype_of(name: str, leaves: list[Any], kinds: set[type], dtype: NumpyDType | None) -> NumpyDType:
    """The dtype that holds all leaves, which are of these types."""
    found = set()
    for kind in kinds:
        if issubclass(kind, (Tensor, np.ndarray)):
            arrays = [leaf._data if isinstance(leaf, Tensor) else leaf for leaf in leaves if type(leaf) is kind]
            found |= {_known(array.dtype, dtype) for array in arrays}
        else:
            found.add(_dtype_of_type(name, kind, dtype))
    return functools.reduce(promote_types, found).numpy if found else default_float()


def _known(found: np.dtype, dtype: NumpyDType | None) -> _dtype:
    """The tensor dtype equal to ``found``; int64 where there is none but ``dtype`` was asked for."""
    return int64 if dtype is not None and found in _UNSIGNED else from_numpy_dtype(found)


def _dtype_of_type(name: str, kind: type, dtype: NumpyDType | None) -> Any:
    """The dtype of numbers of a Python or NumPy type.

    An object that merely converts to a number, such as a Fraction, is one only where a dtype is asked for.
    """
    if issubclass(kind, np.generic) and not issubclass(kind, (np.str_, np.bytes_)):
        return _known(np.dtype(kind), dtype)
    for python_type in (bool, int, float, complex):
        if issubclass(kind, python_type):
            return from_numpy_dtype(dtype_of_number(python_type()))
    if issubclass(kind, (str, bytes)):
        raise TypeError(f"{name}(): invalid data type '{kind.__name__}'")
    if issubclass(kind, (list, tuple)):
        raise TypeError(f"{name}(): expected a number, but found a {kind.__name__}")
    if dtype is None:
        raise RuntimeError(f"{name}(): Could not infer dtype of {kind.__name__}")
    if not hasattr(kind, "__float__") and not hasattr(kind, "__index__"):
        raise TypeError(f"{name}(): must be real number, not {kind.__name__}")
    return from_numpy_dtype(dtype)


def _stored(name: str, leaves: list[Any], kinds: set[type], dtype: NumpyDType, inferred: NumpyDType) -> np.ndarray:
    """A 1-d array of the leaves, each checked to fit an integer dtype."""
    if any(issubclass(kind, (Tensor, np.ndarray)) for kind in kinds):
        leaves = [_element(leaf, dtype) if isinstance(leaf, (Tensor, np.ndarray)) else leaf for leaf in leaves]
    if inferred.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"{name}(): must be real number, not complex")
    if dtype.kind in "iu":
        return _stored_integers(name, leaves, dtype, inferred.kind == "f")
    with np.errstate(all="ignore"):
        return np.array(leaves, dtype)


def _stored_integers(name: str, leaves: list[Any], dtype: NumpyDType, has_floats: bool) -> np.ndarray:
    try:
        wide = np.array(leaves, np.int64)
    except (OverflowError, ValueError):  # too large, or NaN
        if has_floats:
            raise _overflow(name, dtype) from None
        raise ValueError(f"{name}(): Overflow when unpacking long long; an integer does not fit into int64") from None
    if dtype.itemsize < 8:
        limits = np.iinfo(dtype)
        # torch lets negative integers, but not floats, wrap around in unsigned dtypes
        low = -limits.max if dtype.kind == "u" and not has_floats else limits.min
        values = np.array(leaves, np.float64) if has_floats else wide
        if not ((values >= low) & (values <= limits.max)).all():
            raise _overflow(name, dtype)
    return wide.astype(dtype, copy=False)


def _overflow(name: str, dtype: NumpyDType) -> RuntimeError:
    return RuntimeError(f"{name}(): value cannot be converted to type {dtype.name} without overflow")


def _element(leaf: Any, dtype: NumpyDType) -> Any:
    """The one element of a tensor or 0-d array among the leaves."""
    array = leaf._data if isinstance(leaf, Tensor) else leaf
    if dtype.kind in "biu" and (array.size != 1 or array.dtype.kind in "fc"):
        raise TypeError("only integer tensors of a single element can be converted to an index")
    if array.size != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars; join larger ones with retrograd.stack"
        )
    if isinstance(leaf, Tensor) and leaf.requires_grad:
        warn_user(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior. Consider using "
            "tensor.detach() first, or retrograd.stack, which keeps the gradient."
        )
    return array.item()
