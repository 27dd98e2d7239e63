"""The file format of ``torch.save``: a zip file with a pickle of the structure and one member per storage.

What the pickle may name is listed here: tensors and plain data, as with ``weights_only=True`` of ``torch.load``.
"""

from __future__ import annotations

import io
import math
import re
import reprlib
import sys
import zipfile
from argparse import Namespace
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import IO, Any

import numpy as np

from retrograd import dtypes
from retrograd._archive import DAMAGE, Archive
from retrograd._plain_pickle import Builder, Encoder, as_key, encode_name, loads
from retrograd._storages import lay_out
from retrograd.conjugate_views import UnresolvedArray
from retrograd.core.size import Size
from retrograd.core.tensor import Tensor, wrap
from retrograd.device import device

__all__ = ["is_array_of_numbers", "read", "write"]

File = str | IO[bytes]

_STORAGES = {
    "BoolStorage": dtypes.bool.numpy,
    "ByteStorage": dtypes.uint8.numpy,
    "CharStorage": dtypes.int8.numpy,
    "ShortStorage": dtypes.int16.numpy,
    "IntStorage": dtypes.int32.numpy,
    "LongStorage": dtypes.int64.numpy,
    "HalfStorage": dtypes.float16.numpy,
    "FloatStorage": dtypes.float32.numpy,
    "DoubleStorage": dtypes.float64.numpy,
    "ComplexFloatStorage": dtypes.complex64.numpy,
    "ComplexDoubleStorage": dtypes.complex128.numpy,
    "BFloat16Storage": None,  # read as float32
}
_MOST_DIMENSIONS = 64  # those of NumPy's arrays
_UNRESOLVED = {"conj": np.conjugate, "neg": np.negative}  # what torch says of a tensor whose memory holds these
_STORAGE_OF = {dtype: name for name, dtype in _STORAGES.items()}
_NAMED = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"
DTYPES: dict[str, dtypes.dtype] = {name: getattr(dtypes, name) for name in _NAMED.split()}
# the first bytes of files that torch wrote before version 1.6
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


class _Storage:
    """The memory that tensors lie on: its elements, and the version cell that they share."""

    def __init__(self, elements: np.ndarray) -> None:
        self.elements = elements
        self.cell = [0]

    @cached_property
    def negated_conjugate(self) -> _Storage:
        """What a tensor holds that is a negated conjugate of this; one for all such tensors."""
        return _Storage(-np.conjugate(self.elements))


# --- reading ----------------------------------------------------------------------------------------------------------


def read(file: File, label: str) -> Any:
    """Return what a file contains, in CPU memory.

    Parameters
    ----------
    file
        A path, or an open file that can be sought.
    label
        What to call it in error messages.

    Raises
    ------
    ValueError
        If it is damaged, or contains anything but tensors and plain data.
    """
    if not isinstance(file, str):
        file = _sought(file, label)
    start = 0 if isinstance(file, str) else file.tell()
    try:
        with Archive(file, {zipfile.ZIP_STORED}) as members:
            if members.start is not None and start < members.start:
                raise ValueError(
                    f"{label} is read from byte {start} on, but the object that was saved last begins at byte "
                    f"{members.start}; save everything as one dict, or seek to where the object begins"
                )
            return _contents(members, label)
    except zipfile.BadZipFile as error:
        if _beginning(file, start) == _LEGACY:
            raise ValueError(
                f"{label} is in torch's format from before 1.6; load it in torch and save it again"
            ) from None
        raise ValueError(f"{label} was not written by torch.save, or is damaged: {error}") from None


def _sought(file: IO[bytes], label: str) -> IO[bytes]:
    """The open file if it can be sought, otherwise what is left to be read of it."""
    if isinstance(file, io.TextIOBase):
        raise TypeError(f"{label} was opened as text; open it with the mode 'rb'")
    if hasattr(file, "seekable") and file.seekable():
        return file
    return io.BytesIO(file.read())


def _beginning(file: File, start: int) -> bytes:
    if isinstance(file, str):
        with open(file, "rb") as stream:
            return stream.read(len(_LEGACY))
    file.seek(start)
    return file.read(len(_LEGACY))


def _contents(members: Archive, label: str) -> Any:
    found = [name for name in members.names if name.endswith("/data.pkl")]
    if len(found) != 1:
        raise ValueError(f"{label} is a zip file, but torch.save did not write it: it has no data.pkl")
    folder = found[0].removesuffix("data.pkl")
    if f"{folder}constants.pkl" in members.names:
        raise ValueError(f"{label} contains a torch.jit program; save the state_dict() of the model instead")
    order = members.read(f"{folder}byteorder") if f"{folder}byteorder" in members.names else b"little"
    storages: dict[str, tuple[Any, _Storage]] = {}

    def storage(identity: Any) -> _Storage:
        kind, dtype, key, _, count = identity
        if kind != "storage" or not isinstance(key, str) or not isinstance(count, int):
            raise ValueError(f"it refers to {reprlib.repr(identity)}")
        if not isinstance(dtype, np.dtype | str) or dtype not in (*_STORAGE_OF, "bfloat16"):
            raise ValueError(f"the storage {key} is of unknown type")
        if key not in storages:
            elements = _elements(members, f"{folder}data/{key}", dtype, count, order)
            storages[key] = (dtype, count), _Storage(elements)
        known, found = storages[key]
        if known != (dtype, count):
            raise ValueError(f"it says that storage {key} is {known[1]} of {known[0]} and {count} of {dtype}")
        return found

    try:
        return loads(members.read(found[0]), _NAMES, storage)
    except zipfile.BadZipFile:
        raise
    except DAMAGE as error:
        raise ValueError(
            f"{label} cannot be read: {error}. No code in a file is run, so it may hold only tensors, arrays of "
            "numbers, numbers, strings, and dicts, lists and tuples of these; to save a model or an optimizer, save "
            "its state_dict()"
        ) from error


def _elements(members: Archive, name: str, dtype: Any, count: int, order: bytes) -> np.ndarray:
    stored = np.dtype(np.uint16) if dtype == "bfloat16" else dtype
    if members.size(name) != count * stored.itemsize:
        raise ValueError(f"{name} has {members.size(name)} bytes, which do not hold {count} elements of {stored}")
    array = np.frombuffer(members.read(name), stored.newbyteorder(">" if order == b"big" else "<"))
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(dtypes.float32.numpy)
    return array.astype(stored)


def _rebuild_tensor(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    place = f"shape {reprlib.repr(size)} and strides {reprlib.repr(stride)}"
    if not (isinstance(storage, _Storage) and isinstance(size, tuple) and isinstance(stride, tuple)):
        raise ValueError(f"a tensor has {place} on {type(storage).__name__}")
    if len(size) != len(stride) or len(size) > _MOST_DIMENSIONS:
        raise ValueError(f"a tensor has {place}")
    if not all(isinstance(n, int) and n >= 0 for n in (offset, *size, *stride)):
        raise ValueError(f"offset {reprlib.repr(offset)}, {place} must be non-negative integers")
    elements = storage.elements
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) > 0 and last >= elements.size:
        raise ValueError(f"a tensor of {place} exceeds its storage of {elements.size} elements")
    steps = tuple(step * elements.itemsize for step in stride)
    overlaps = math.prod(size) > 0 and any(step == 0 and n > 1 for n, step in zip(size, stride, strict=True))
    array: Any = np.lib.stride_tricks.as_strided(elements[offset:], size, steps, writeable=not overlaps)
    unresolved = [ufunc for bit, ufunc in _UNRESOLVED.items() if metadata and metadata.get(bit)]
    if len(unresolved) == 1:
        array = UnresolvedArray(array, unresolved[0])
    elif unresolved:
        return _rebuild_tensor(storage.negated_conjugate, offset, size, stride, requires_grad, hooks)
    tensor = wrap(array, None, storage.cell)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Tensor:
    tensor = _with_attributes(data, state)
    tensor._is_param = True  # type: ignore[attr-defined]  # the mark by which nn.Parameter knows its instances
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_from_type(function: Any, kind: Any, args: Any, state: Any) -> Tensor:
    if function is not _NAMES["torch._utils._rebuild_tensor_v2"]:
        raise ValueError("a tensor with attributes must start as a tensor without them")
    return _with_attributes(_rebuild_tensor(*args), state)


def _with_attributes(tensor: Any, state: Any) -> Tensor:
    """A tensor, with the attributes that the user attached to it; those in slots of a subclass stay with that."""
    attributes = state[0] if isinstance(state, tuple) else state
    if not isinstance(tensor, Tensor) or not isinstance(attributes, dict | None):
        raise ValueError(
            f"expected a tensor with attributes, but found a {type(tensor).__name__} with a {type(state).__name__}"
        )
    for name in attributes or {}:
        # Python and libraries ask for names with underscores: NumPy reads at the address in an __array_interface__
        if hasattr(Tensor, name) or name.startswith("__"):
            raise ValueError(f"it sets {name} of a tensor")
    tensor.__dict__.update(attributes or {})
    return tensor


def _dict(items: Any = ()) -> dict[Any, Any]:
    return {as_key(key): value for key, value in (items.items() if isinstance(items, dict) else items)}


def _numpy_scalar(dtype: Any, data: bytes) -> Any:
    if not isinstance(dtype, np.dtype):
        raise ValueError(f"a number is of type {type(dtype).__name__}")
    return np.frombuffer(data, dtype, 1).item()


def _numpy_array(kind: Any, shape: Any, code: Any) -> np.ndarray[Any, Any]:
    """An array without elements; its state has them."""
    return np.empty(0)


def _numpy_dtype(code: str, *flags: Any) -> np.dtype:
    if not re.fullmatch("[biufc][0-9]+", code):
        raise ValueError(f"it contains elements of NumPy's dtype {code!r}")
    return np.dtype(code)


_NAMES: dict[str, Any] = {
    **{f"torch.{name}": "bfloat16" if dtype is None else dtype for name, dtype in _STORAGES.items()},
    **{f"torch.{name}": dtype for name, dtype in DTYPES.items()},
    "torch.Size": Builder(Size),
    "torch.device": Builder(device),
    "torch.Tensor": Tensor,
    "torch._utils._rebuild_tensor_v2": Builder(_rebuild_tensor),
    # known, so that what is refused of tensors of dtypes that NumPy has not is the dtype
    "torch._utils._rebuild_tensor_v3": None,
    "torch.storage.UntypedStorage": dtypes.uint8.numpy,
    "torch._utils._rebuild_parameter": Builder(_rebuild_parameter),
    "torch._utils._rebuild_parameter_with_state": Builder(_rebuild_parameter),
    "torch._tensor._rebuild_from_type_v2": Builder(_rebuild_from_type),
    "argparse.Namespace": Builder(lambda: Namespace()),
    "collections.Counter": Builder(lambda counts: Counter(_dict(counts))),
    "collections.OrderedDict": Builder(lambda: OrderedDict()),
    "collections.defaultdict": Builder(lambda *factory: {}),
    "_codecs.encode": Builder(lambda text, encoding: text.encode("latin1")),
    **{f"numpy.{core}.multiarray.scalar": Builder(_numpy_scalar) for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray._reconstruct": Builder(_numpy_array) for core in ("core", "_core")},
    "numpy.ndarray": None,
    "numpy.dtype": Builder(_numpy_dtype),
}
for _builtins in ("builtins", "__builtin__"):
    _NAMES |= {f"{_builtins}.{kind.__name__}": Builder(kind) for kind in (complex, list)}
    _NAMES[f"{_builtins}.set"] = Builder(lambda items=(): set(map(as_key, items)))
    _NAMES[f"{_builtins}.frozenset"] = Builder(lambda items=(): frozenset(map(as_key, items)))
    _NAMES[f"{_builtins}.dict"] = Builder(_dict)
    _NAMES[f"{_builtins}.bytes"] = Builder(lambda: b"")  # the form in which empty bytes are written


# --- writing ----------------------------------------------------------------------------------------------------------


def is_array_of_numbers(value: Any) -> bool:
    """Whether a value is a plain array of NumPy's that files can hold: one of numbers or truth values."""
    return type(value) is np.ndarray and value.dtype.kind in "biufc"


def write(file: File, obj: Any) -> None:
    """Write tensors and plain data.

    ``torch.load`` reads them with ``weights_only=True``, but for namespaces and arrays, as it does what torch wrote.

    Raises
    ------
    TypeError
        If there is something else in ``obj``.
    """
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> bytes:
        tensors.append(tensor)
        return b""

    _encoder(note).dumps(obj)
    places, storages = lay_out(tensors)

    def encode_place(tensor: Tensor) -> bytes:
        key, offset, strides = places[id(tensor)]
        return _encode_on_storage(tensor, str(key), storages[key].size, offset, strides)

    structure = _encoder(encode_place).dumps(obj)
    with zipfile.ZipFile(file if isinstance(file, str) else _OnlyWritten(file), "w") as members:  # type: ignore[call-overload]
        _add(members, "data.pkl", structure)
        _add(members, "byteorder", sys.byteorder.encode())
        for key, elements in enumerate(storages):
            _add(members, f"data/{key}", elements.view(np.uint8).data)
        _add(members, "version", b"3\n")


class _OnlyWritten:
    """An open file that is only written to: it may be a stream, or already have contents."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write

    def flush(self) -> None:
        """Do nothing: flushing is left to the owner of the file."""


def _add(members: zipfile.ZipFile, name: str, data: Any) -> None:
    with members.open(zipfile.ZipInfo(f"archive/{name}"), "w", force_zip64=len(data) >= 2**31) as member:
        member.write(data)


def _encoder(encode_arguments: Callable[[Tensor], bytes]) -> Encoder:
    """What encodes all that files hold, given the arguments with which torch makes a tensor, encoded."""

    def other(value: Any) -> bytes | None:
        if isinstance(value, Tensor):
            return _encode_tensor(value, encode_arguments(value), encoder) + encoder.put(value)
        if isinstance(value, np.generic):
            return encoder.encode(value.item())
        if is_array_of_numbers(value):
            return _encode_array(value, encoder)
        if isinstance(value, dtypes.dtype):
            return encode_name("torch", value.name)
        if isinstance(value, device):
            return _encode_call("torch", "device", encoder.encode(str(value)))
        if isinstance(value, Size):
            return _encode_call("torch", "Size", encoder.encode(tuple(value)))
        return None

    encoder = Encoder(other)
    return encoder


def _encode_call(module: str, name: str, *arguments: bytes) -> bytes:
    return encode_name(module, name) + b"(" + b"".join(arguments) + b"tR"


def _encode_array(array: np.ndarray, encoder: Encoder) -> bytes:
    """An array as NumPy pickles it: an empty one, and its state."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    order, code = little.dtype.str[0], little.dtype.str[1:]
    dtype = _encode_call("numpy", "dtype", *map(encoder.encode, (code, False, True)))
    dtype += encoder.encode((3, order, None, None, None, -1, -1, 0)) + b"b"
    kind = encode_name("numpy", "ndarray")
    empty = _encode_call("numpy._core.multiarray", "_reconstruct", kind, *map(encoder.encode, ((0,), b"b")))
    version, shape, is_in_columns, data = map(encoder.encode, (1, array.shape, False, little.tobytes()))
    return empty + encoder.put(array) + b"(" + version + shape + dtype + is_in_columns + data + b"tb"


_NO_HOOKS = _encode_call("collections", "OrderedDict")


def _encode_on_storage(tensor: Tensor, key: str, count: int, offset: int, strides: tuple[int, ...]) -> bytes:
    """The arguments with which torch makes a tensor on a storage."""
    plain = Encoder(lambda value: value if isinstance(value, bytes) else None)  # bytes are encoded already
    storage = ("storage", encode_name("torch", _STORAGE_OF[tensor.dtype.numpy]), key, "cpu", count)
    arguments = [plain.encode(storage) + b"Q", offset, tuple(tensor.shape), strides, tensor.requires_grad, _NO_HOOKS]
    if type(tensor._data) is UnresolvedArray:
        arguments.append({"conj" if tensor.is_conj() else "neg": True})
    return plain.encode(tuple(arguments))


def _encode_tensor(tensor: Tensor, arguments: bytes, encoder: Encoder) -> bytes:
    """A tensor or parameter, with the attributes that the user attached to it."""
    attributes = {name: value for name, value in tensor.__dict__.items() if name != "_is_param"}
    for name in attributes:
        if name.startswith("__"):
            raise TypeError(f"save: a tensor has the attribute {name}, which would not be loaded")
    try:
        state = encoder.encode(attributes) if attributes else b""
    except TypeError as error:
        raise TypeError(
            f"save: an attribute of a tensor of shape {list(tensor.shape)} cannot be stored, because {error}; it has "
            f"{', '.join(attributes)}. Save tensor.detach(), which has none"
        ) from None
    bare = encode_name("torch._utils", "_rebuild_tensor_v2")
    if "_is_param" in tensor.__dict__:
        name = "_rebuild_parameter_with_state" if attributes else "_rebuild_parameter"
        requires_grad = encoder.encode(tensor.requires_grad)
        return _encode_call("torch._utils", name, bare + arguments + b"R", requires_grad, _NO_HOOKS, state)
    if attributes:
        kind = encode_name("torch", "Tensor")
        return _encode_call("torch._tensor", "_rebuild_from_type_v2", bare, kind, arguments, state)
    return bare + arguments + b"R"
