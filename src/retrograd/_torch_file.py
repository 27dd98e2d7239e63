"""The file format of ``torch.save``: a zip file with a pickle of the structure and one member per storage.

What the pickle may name is listed here: tensors and plain data, as with ``weights_only=True`` of ``torch.load``.
"""

from __future__ import annotations

import math
import re
import sys
import zipfile
from collections import Counter, OrderedDict
from typing import IO, Any

import numpy as np

from retrograd import dtypes
from retrograd._pickled import Builder, dumps, encode, encode_name, loads
from retrograd.core.size import Size
from retrograd.core.tensor import Tensor, wrap
from retrograd.device import device

__all__ = ["read", "write"]

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
_STORAGE_OF = {dtype: name for name, dtype in _STORAGES.items()}
_NAMED = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"
DTYPES: dict[str, dtypes.dtype] = {name: getattr(dtypes, name) for name in _NAMED.split()}
# how files begin that torch wrote before version 1.6
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


class _Storage:
    """The memory that tensors lie on: its elements, and the version cell that they share."""

    def __init__(self, elements: np.ndarray) -> None:
        self.elements = elements
        self.cell = [0]


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
    try:
        with zipfile.ZipFile(file) as members:
            return _contents(members, label)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        if _beginning(file) == _LEGACY:
            raise ValueError(
                f"{label} is in the format that torch had before 1.6; load it in torch and save it again"
            ) from None
        raise ValueError(f"{label} is no file of torch.save, or is damaged: {error}") from error


def _beginning(file: File) -> bytes:
    if isinstance(file, str):
        with open(file, "rb") as stream:
            return stream.read(len(_LEGACY))
    file.seek(0)
    return file.read(len(_LEGACY))


def _contents(members: zipfile.ZipFile, label: str) -> Any:
    found = [name for name in members.namelist() if name.endswith("/data.pkl")]
    if len(found) != 1:
        raise ValueError(f"{label} is a zip file, but not of torch.save: it has no data.pkl")
    folder = found[0].removesuffix("data.pkl")
    if f"{folder}constants.pkl" in members.namelist():
        raise ValueError(f"{label} contains a program of torch.jit; save the state_dict() of the model instead")
    order = members.read(f"{folder}byteorder") if f"{folder}byteorder" in members.namelist() else b"little"
    storages: dict[str, _Storage] = {}

    def storage(identity: Any) -> _Storage:
        kind, dtype, key, _, count = identity
        if kind != "storage" or not isinstance(count, int):
            raise ValueError(f"it refers to {identity!r}")
        if key not in storages:
            storages[key] = _Storage(_elements(members, f"{folder}data/{key}", dtype, count, order))
        return storages[key]

    try:
        return loads(members.read(found[0]), _NAMES, storage)
    except zipfile.BadZipFile:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{label} cannot be read: {error}. Nothing in a file is run, so it may hold tensors, numbers, strings, and "
            "dicts, lists and tuples of these; of a model or an optimizer, save the state_dict()"
        ) from error


def _elements(members: zipfile.ZipFile, name: str, dtype: Any, count: int, order: bytes) -> np.ndarray:
    stored = np.dtype(np.uint16) if dtype == "bfloat16" else dtype
    if not isinstance(stored, np.dtype):
        raise ValueError(f"the storage {name} is of unknown type")
    member = members.getinfo(name)
    if member.file_size != count * stored.itemsize or member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} has {member.file_size} bytes, which are not {count} of {stored}")
    array = np.frombuffer(members.read(member), stored.newbyteorder(">" if order == b"big" else "<"))
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(dtypes.float32.numpy)
    return array.astype(stored)


def _rebuild_tensor(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    if not isinstance(storage, _Storage) or len(size) != len(stride):
        raise ValueError(f"a tensor has shape {size} and strides {stride} on {type(storage).__name__}")
    if not all(isinstance(n, int) and n >= 0 for n in (offset, *size, *stride)):
        raise ValueError(f"offset {offset}, shape {size} and strides {stride} must be non-negative integers")
    elements = storage.elements
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) > 0 and last >= elements.size:
        raise ValueError(f"a tensor of shape {size} and strides {stride} goes beyond its {elements.size} elements")
    steps = tuple(step * elements.itemsize for step in stride)
    array = np.lib.stride_tricks.as_strided(elements[offset:], size, steps, writeable=0 not in stride)
    tensor = wrap(array, None, storage.cell)
    if metadata and metadata.get("conj"):
        tensor = wrap(array.conj())
    if metadata and metadata.get("neg"):
        tensor = wrap(np.negative(tensor._data))
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise ValueError(f"a parameter is made of a {type(data).__name__}")
    data._is_param = True  # type: ignore[attr-defined]  # the mark by which nn.Parameter knows its instances
    return data.requires_grad_() if requires_grad is True else data


def _rebuild_from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    return function.build(*args)


def _numpy_scalar(dtype: Any, data: bytes) -> Any:
    return np.frombuffer(data, dtype, 1).item()


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
    "torch._utils._rebuild_parameter": Builder(_rebuild_parameter),
    "torch._tensor._rebuild_from_type_v2": Builder(_rebuild_from_type),
    "collections.Counter": Builder(Counter),
    "collections.OrderedDict": Builder(lambda: OrderedDict()),
    "collections.defaultdict": Builder(lambda *factory: {}),
    "_codecs.encode": Builder(lambda text, encoding: text.encode("latin1")),
    **{f"numpy.{core}.multiarray.scalar": Builder(_numpy_scalar) for core in ("core", "_core")},
    "numpy.dtype": Builder(_numpy_dtype),
}
for _builtins in ("builtins", "__builtin__"):
    _NAMES |= {f"{_builtins}.{kind.__name__}": Builder(kind) for kind in (complex, set, frozenset, list, dict)}
    _NAMES[f"{_builtins}.bytes"] = Builder(lambda: b"")  # so are no bytes written


# --- writing ----------------------------------------------------------------------------------------------------------


def write(file: File, obj: Any) -> None:
    """Write tensors and plain data, so that ``torch.load`` reads them with ``weights_only=True``.

    Raises
    ------
    TypeError
        If there is something else in ``obj``.
    """
    storages: dict[Any, tuple[str, np.ndarray]] = {}

    def other(value: Any) -> bytes | None:
        if isinstance(value, Tensor):
            encoded = _encode_tensor(value, storages)
            return _as_parameter(encoded, value.requires_grad) if "_is_param" in value.__dict__ else encoded
        if isinstance(value, np.generic):
            return encode(value.item(), other)
        if isinstance(value, dtypes.dtype):
            return encode_name("torch", value.name)
        if isinstance(value, device):
            return encode_name("torch", "device") + encode((str(value),), other) + b"R"
        if isinstance(value, Size):
            return encode_name("torch", "Size") + encode((tuple(value),), other) + b"R"
        return None

    structure = dumps(obj, other)
    with zipfile.ZipFile(file, "w") as members:
        _add(members, "data.pkl", structure)
        _add(members, "byteorder", sys.byteorder.encode())
        for key, array in storages.values():
            _add(members, f"data/{key}", array.reshape(-1).view(np.uint8).data)
        _add(members, "version", b"3\n")


def _add(members: zipfile.ZipFile, name: str, data: Any) -> None:
    with members.open(zipfile.ZipInfo(f"archive/{name}"), "w", force_zip64=len(data) >= 2**31) as member:
        member.write(data)


def _encode_tensor(tensor: Tensor, storages: dict[Any, tuple[str, np.ndarray]]) -> bytes:
    """A tensor, encoded; its elements are added to ``storages``, once for tensors that are the same memory."""
    data = tensor.numpy(force=True)
    place = (data.__array_interface__["data"][0], data.shape, data.strides, data.dtype)
    # with the array, so that its memory is not given to another one meanwhile
    key, _ = storages.setdefault(place, (str(len(storages)), np.ascontiguousarray(data)))
    strides = tuple(math.prod(data.shape[dim + 1 :]) for dim in range(data.ndim))

    storage = ("storage", encode_name("torch", _STORAGE_OF[data.dtype]), key, "cpu", data.size)
    arguments = (
        encode(storage, _encoded) + b"Q",
        *(0, tuple(data.shape), strides, tensor.requires_grad),
        encode_name("collections", "OrderedDict") + b")R",
    )
    return encode_name("torch._utils", "_rebuild_tensor_v2") + encode(arguments, _encoded) + b"R"


def _as_parameter(encoded: bytes, requires_grad: bool) -> bytes:
    """A tensor, encoded, made a parameter."""
    arguments = (encoded, requires_grad, encode_name("collections", "OrderedDict") + b")R")
    return encode_name("torch._utils", "_rebuild_parameter") + encode(arguments, _encoded) + b"R"


def _encoded(value: Any) -> bytes | None:
    """What is encoded already."""
    return value if isinstance(value, bytes) else None
