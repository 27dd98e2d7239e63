"""State dicts in files: NumPy's .npz and safetensors, which other programs read; nothing in a file is ever run.

A flat dict of tensors, such as a module's state dict, is stored as just that. Anything else, such as the state dict of
an optimizer or a checkpoint with several of them, is stored as its tensors, by dotted names, and a description in JSON
of what they are part of.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from retrograd import _safetensors
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import from_numpy_dtype

__all__ = ["load", "save"]

Arrays = dict[str, Any]
_STRUCTURE = "__structure__"  # the name of the description


def save(obj: Any, f: str | os.PathLike[str]) -> None:
    """Store tensors in a file: one by name, or nested in dicts, lists and tuples with numbers, strings and None.

    Parameters
    ----------
    obj
        A state dict; or a dict of state dicts, numbers and the like.
    f
        The path. The format follows from its end: ``.npz`` or ``.safetensors``. A file that is there is replaced at
        once, when the new one is complete.

    Raises
    ------
    ValueError
        If the path ends otherwise.
    TypeError
        If ``obj`` contains something else.

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
    path = os.fspath(f)
    write = _format_of(path).write
    arrays: Arrays = {}
    description = _describe(obj, "", arrays)
    is_flat = isinstance(obj, Mapping) and list(arrays) == list(obj)
    partial = f"{path}.{os.getpid()}.partial"
    try:
        write(partial, arrays, None if is_flat else json.dumps(description))
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load(f: str | os.PathLike[str]) -> Any:
    """Return what :func:`save`, or another program, stored in a ``.npz`` or ``.safetensors`` file.

    Parameters
    ----------
    f
        The path.

    Returns
    -------
    object
        What was saved. From a file of another program: a dict of tensors.

    Raises
    ------
    ValueError
        If the path ends otherwise, or if the file is damaged or holds something else than numbers.
    """
    path = os.fspath(f)
    arrays, description = _format_of(path).read(path)
    tensors = {name: _tensor(array) for name, array in arrays.items()}
    if description is None:
        return tensors
    try:
        return _restore(json.loads(description), tensors)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: the description of what the tensors are part of is damaged: {error!r}") from error


def _tensor(array: Any) -> Tensor:
    wanted = from_numpy_dtype(array.dtype).numpy  # operations compare dtypes by identity
    return wrap(array if array.dtype is wanted else array.astype(wanted))


# --- what the tensors are part of -----------------------------------------------------------------------------------

# In JSON a number, a string, None and a bool stand for themselves; all else is a list that begins with its kind.


def _describe(value: Any, name: str, arrays: Arrays) -> Any:
    """The description of a value; its tensors are added to ``arrays``."""
    if isinstance(value, Tensor):
        name = name or "value"
        while name in arrays or name == _STRUCTURE:  # {"a": {"b": x}, "a.b": y}
            name += "_"
        arrays[name] = value.detach().cpu().numpy()
        return ["tensor", name]
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return _describe(value.item(), name, arrays)
    if type(value) is complex:
        return ["complex", value.real, value.imag]
    if isinstance(value, Mapping):
        return ["dict", *([_key(key), _describe(item, _join(name, key), arrays)] for key, item in value.items())]
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, *(_describe(item, _join(name, number), arrays) for number, item in enumerate(value))]
    raise TypeError(
        f"save: {name or 'the object'} is of type {type(value).__name__}; files hold tensors, numbers, strings, None, "
        "and dicts, lists and tuples of these"
    )


def _key(key: Any) -> Any:
    tensors: Arrays = {}
    description = _describe(key, "a key", tensors)
    if tensors:
        raise TypeError(f"save: keys cannot contain tensors, but there is {key!r}")
    return description


def _join(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _restore(description: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(description, list):
        return description
    kind, *items = description
    if kind == "tensor":
        return tensors[items[0]]
    if kind == "complex":
        return complex(*items)
    if kind == "dict":
        return {_restore(key, tensors): _restore(item, tensors) for key, item in items}
    if kind in ("list", "tuple"):
        restored = [_restore(item, tensors) for item in items]
        return restored if kind == "list" else tuple(restored)
    raise ValueError(f"unknown kind {kind!r}")


# --- formats ----------------------------------------------------------------------------------------------------------


class _Format(NamedTuple):
    write: Callable[[str, Arrays, str | None], None]  # path, arrays, description
    read: Callable[[str], tuple[Arrays, str | None]]


def _write_npz(path: str, arrays: Arrays, description: str | None) -> None:
    if description is not None:
        arrays = {**arrays, _STRUCTURE: np.frombuffer(description.encode(), np.uint8)}
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _read_npz(path: str) -> tuple[Arrays, str | None]:
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no .npz file of plain arrays, or is damaged: {error}") from error
    structure = arrays.pop(_STRUCTURE, None)
    return arrays, None if structure is None else structure.tobytes().decode()


def _write_safetensors(path: str, arrays: Arrays, description: str | None) -> None:
    _safetensors.write(path, arrays, {} if description is None else {_STRUCTURE: description})


def _read_safetensors(path: str) -> tuple[Arrays, str | None]:
    arrays, metadata = _safetensors.read(path)
    return arrays, metadata.get(_STRUCTURE)


_FORMATS = {
    ".npz": _Format(_write_npz, _read_npz),
    ".safetensors": _Format(_write_safetensors, _read_safetensors),
}


def _format_of(path: str) -> _Format:
    ending = os.path.splitext(path)[1]
    if ending not in _FORMATS:
        raise ValueError(
            f"the name of a file ends in {' or '.join(_FORMATS)}, which says its format, but {path!r} does not"
        )
    return _FORMATS[ending]
