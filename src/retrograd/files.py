"""State dicts in files: torch's format, NumPy's .npz and safetensors; nothing in a file is ever run.

In .npz and safetensors a flat dict of tensors, such as a module's state dict, is stored as just that. Anything else,
such as the state dict of an optimizer or a checkpoint with several of them, is stored as its tensors, by dotted names,
and a description in JSON of what they are part of. Every tensor is stored by itself there. Only torch's format knows
of memory that tensors share, of objects that are met twice and of attributes of tensors.
"""

from __future__ import annotations

import errno
import json
import math
import os
import threading
import zipfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple, cast

import numpy as np

from retrograd import _safetensors, _torch_file
from retrograd._archive import DAMAGE, Archive
from retrograd._torch_file import is_array_of_numbers
from retrograd.core.size import Size
from retrograd.core.tensor import Tensor, wrap
from retrograd.device import device
from retrograd.dtypes import dtype, from_numpy_dtype

__all__ = ["load", "save"]

Arrays = dict[str, Any]
_Kept = dict[str, Any]  # the tensors and NumPy's arrays of what is saved, by name
_STRUCTURE = "__structure__"  # the name of the description


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int | None = None,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Store tensors in a file: one by name, or nested in dicts, lists and the like, with numbers and strings.

    Parameters
    ----------
    obj
        A state dict; or a dict of state dicts, numbers, strings, bytes, None, shapes, dtypes and devices, of NumPy's
        arrays of numbers, such as the state of ``numpy.random``, and of the namespaces in which ``argparse`` gives a
        program's arguments.
    f
        The path. ``.npz`` and ``.safetensors`` at its end mean these formats; anything else means torch's, which
        ``torch.load`` reads. A file that is there is replaced at once, when the new one is complete. An open file gets
        torch's format; it need not be more than a stream that can be written to.

        In torch's format tensors that share memory, such as a tensor and a part of it, still do so when they are
        loaded, one object comes back as one, and attributes of tensors are stored with them. The other formats hold
        what each tensor contains.
    pickle_module, pickle_protocol, _use_new_zipfile_serialization
        Accepted; what is written is what torch writes where none of these is given.

    Raises
    ------
    TypeError
        If ``obj`` contains something else, such as a module, or an array of strings.
    RuntimeError
        If the folder of the path does not exist.
    AttributeError
        If ``f`` is neither a path nor an open file.
    ValueError
        If a container contains itself.

    Examples
    --------
    >>> import os, tempfile
    >>> model = rg.nn.Linear(3, 1)
    >>> optimizer = rg.optim.Adam(model.parameters())
    >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint.safetensors")
    >>> rg.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    >>> checkpoint = rg.load(path)
    >>> model.load_state_dict(checkpoint["model"])
    <All keys matched successfully>
    >>> checkpoint["epoch"]
    3
    """
    path = "" if hasattr(f, "write") else _path("save", f)
    kept: _Kept = {}
    try:
        description = _describe(obj, "", kept)
    except RecursionError:
        raise ValueError("save: the object contains itself, or is nested too deeply") from None
    if hasattr(f, "write"):
        _torch_file.write(cast(IO[bytes], f), obj)
        return
    layout = _format_of(path)
    is_flat = isinstance(obj, Mapping) and list(kept) == list(obj) and not any(map(is_array_of_numbers, kept.values()))
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    partial = f"{path}.{os.getpid()}.{threading.get_ident()}.partial"
    try:
        if layout is None:
            _torch_file.write(partial, obj)
        else:
            arrays = {name: x.numpy(force=True) if isinstance(x, Tensor) else x for name, x in kept.items()}
            layout.write(partial, arrays, None if is_flat else json.dumps(description))
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    pickle_module: Any = None,
    encoding: str | None = None,
) -> Any:
    """Return what :func:`save`, ``torch.save`` or another program stored.

    Parameters
    ----------
    f
        The path. ``.npz`` and ``.safetensors`` at its end mean these formats, anything else means torch's. Or an open
        file in torch's format, read from where it stands; a stream is read to its end.
    map_location
        The device to put the tensors on; the CPU by default, wherever they were. torch's functions and dicts, too, mean
        the CPU.
    weights_only
        Accepted, and always so: files hold tensors and plain data. Nothing in a file is run, so a model that was saved
        as a whole cannot be loaded; save its state dict.
    mmap
        Accepted; files are read at once.
    pickle_module, encoding
        Accepted; nothing is unpickled here.

    Returns
    -------
    object
        What was saved. From a ``.npz`` or ``.safetensors`` file of another program: a dict of tensors.

    Raises
    ------
    ValueError
        If the file is damaged, or holds something else than tensors and plain data.
    AttributeError
        If ``f`` is neither a path nor an open file.
    """
    target = device(map_location) if isinstance(map_location, (str, device)) else None
    if hasattr(f, "read"):
        found = _torch_file.read(cast(IO[bytes], f), "the open file")
    else:
        path = _path("load", f)
        found = _torch_file.read(path, path) if _format_of(path) is None else _read_described(path)
    return found if target is None or target.type == "cpu" else _moved(found, target)


def _path(function: str, f: Any) -> str:
    try:
        return os.fsdecode(f)
    except TypeError:
        advice = "; the path is the second argument" if function == "save" else ""
        raise AttributeError(
            f"{function}: expected 'f' to be a path or an open file, not {type(f).__name__}{advice}"
        ) from None


def _moved(value: Any, target: device) -> Any:
    """Nested lists, tuples and dicts with their tensors on a device."""
    if isinstance(value, Tensor):
        return value.to(target)
    if isinstance(value, dict):
        for key in value:
            value[key] = _moved(value[key], target)
        return value
    if isinstance(value, Namespace):
        _moved(vars(value), target)
        return value
    return type(value)(_moved(item, target) for item in value) if type(value) in (list, tuple) else value


def _read_described(path: str) -> Any:
    """The contents of a file with named arrays and, perhaps, a description of what they are part of."""
    layout = _format_of(path)
    assert layout is not None
    arrays, description = layout.read(path)
    if description is None:
        return {name: _tensor(array, f"{path}: {name}") for name, array in arrays.items()}
    try:
        return _restore(json.loads(description), arrays, path)
    except DAMAGE as error:
        raise ValueError(f"{path}: its record of how the tensors are nested is damaged: {error!r}") from error


def _tensor(array: Any, label: str) -> Tensor:
    try:
        wanted = from_numpy_dtype(array.dtype).numpy  # operations compare dtypes by identity
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label} is not a tensor: {error}") from None
    return wrap(array if array.dtype is wanted else array.astype(wanted))


# --- what the tensors are part of -----------------------------------------------------------------------------------

# In JSON a number, a string, None and a bool stand for themselves; all else is a list that begins with its kind.


def _describe(value: Any, name: str, kept: _Kept) -> Any:
    """The description of a value; its tensors and arrays are added to ``kept``."""
    if isinstance(value, Tensor) or is_array_of_numbers(value):
        name = name or "value"
        while name in kept or name == _STRUCTURE:  # {"a": {"b": x}, "a.b": y}
            name += "_"
        kept[name] = value
        return ["tensor" if isinstance(value, Tensor) else "array", name]
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic) and not isinstance(item := value.item(), np.generic):  # a longdouble is its own
        return _describe(item, name, kept)
    if type(value) is complex:
        return ["complex", value.real, value.imag]
    if isinstance(value, Mapping):
        return ["dict", *([_key(key), _describe(item, _join(name, key), kept)] for key, item in value.items())]
    if isinstance(value, (device, dtype)):
        return ["device", str(value)] if isinstance(value, device) else ["dtype", value.name]
    if type(value) is bytes:
        return ["bytes", value.decode("latin1")]
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "size" if isinstance(value, Size) else "tuple"
        return [kind, *(_describe(item, _join(name, number), kept) for number, item in enumerate(value))]
    if isinstance(value, set):
        return ["set", *(_describe(item, _join(name, "item"), kept) for item in value)]
    if isinstance(value, Namespace):
        return ["namespace", _describe(vars(value), name, kept)]
    advice = "; save its tolist()" if isinstance(value, np.ndarray) else ""
    if hasattr(value, "state_dict"):
        advice = "; save its state_dict()"
    raise TypeError(
        f"save: {name or 'the object'} is of type {type(value).__name__}; files hold tensors, arrays of "
        "numbers, numbers, strings, bytes, None, shapes, dtypes and devices, and dicts, lists, tuples, sets and "
        f"namespaces of these{advice}"
    )


def _key(key: Any) -> Any:
    kept: _Kept = {}
    description = _describe(key, "a key", kept)
    if kept:
        raise TypeError(f"save: keys cannot contain tensors, but got the key {key!r}")
    return description


def _join(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


_COLLECTIONS: dict[str, Any] = {"list": list, "tuple": tuple, "size": Size, "set": set}


def _restore(description: Any, arrays: Arrays, path: str) -> Any:
    if not isinstance(description, list):
        return description
    kind, *items = description
    if kind == "tensor":
        return _tensor(arrays[items[0]], f"{path}: {items[0]}")
    if kind == "array":
        return arrays[items[0]]
    if kind == "complex":
        return complex(*items)
    if kind == "dict":
        return {_restore(key, arrays, path): _restore(item, arrays, path) for key, item in items}
    if kind == "namespace":
        return Namespace(**_restore(items[0], arrays, path))
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](_restore(item, arrays, path) for item in items)
    if kind == "bytes":
        return items[0].encode("latin1")
    if kind == "device":
        return device(items[0])
    if kind == "dtype":
        return _torch_file.DTYPES[items[0]]
    raise ValueError(f"unknown kind {kind!r}")


# --- formats ----------------------------------------------------------------------------------------------------------


class _Format(NamedTuple):
    write: Callable[[str, Arrays, str | None], None]  # path, arrays, description
    read: Callable[[str], tuple[Arrays, str | None]]


_NPY_HEADERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _write_npz(path: str, arrays: Arrays, description: str | None) -> None:
    if description is not None:
        arrays = {**arrays, _STRUCTURE: np.frombuffer(description.encode(), np.uint8)}
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _read_npz(path: str) -> tuple[Arrays, str | None]:
    try:
        with Archive(path, {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}) as members:
            arrays = {name.removesuffix(".npy"): _read_npy(members, name) for name in members.names}
        structure = arrays.pop(_STRUCTURE, None)
        return arrays, None if structure is None else structure.tobytes().decode()
    except DAMAGE as error:
        raise ValueError(f"{path} is not an .npz file of plain arrays, or is damaged: {error}") from None


def _read_npy(members: Archive, name: str) -> np.ndarray:
    """An array, for which memory is asked once the member is known to have that many bytes."""
    with members.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _NPY_HEADERS:
            raise ValueError(f"{name} is in version {version} of NumPy's format, which only structured arrays need")
        try:
            shape, _, dtype = _NPY_HEADERS[version](stream)
        except MemoryError:  # which Python's parser says of brackets and signs that are nested deeply
            raise ValueError(f"the header of {name} is not a dict that describes an array") from None
        size = members.size(name) - stream.tell()
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects; loading them would run code from the file")
    if math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name} has {size} bytes, which do not hold {dtype} of shape {shape}")
    with members.open(name) as stream:
        array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _write_safetensors(path: str, arrays: Arrays, description: str | None) -> None:
    _safetensors.write(path, arrays, {} if description is None else {_STRUCTURE: description})


def _read_safetensors(path: str) -> tuple[Arrays, str | None]:
    arrays, metadata = _safetensors.read(path)
    return arrays, metadata.get(_STRUCTURE)


_FORMATS = {
    ".npz": _Format(_write_npz, _read_npz),
    ".safetensors": _Format(_write_safetensors, _read_safetensors),
}


def _format_of(path: str) -> _Format | None:
    """The format that the end of a name means; None for torch's."""
    ending = os.path.splitext(path)[1]
    if ending in (".npy", ".h5", ".csv", ".json"):
        raise ValueError(
            f"{path}: {ending} is not supported; use {', '.join(_FORMATS)}, or for torch's format another, such as .pt"
        )
    return _FORMATS.get(ending)
