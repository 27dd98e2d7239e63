"""The file format safetensors: eight bytes with the length of the header, the header in JSON, the arrays.

https://github.com/huggingface/safetensors describes it. Reading checks everything in the header against the file.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
from typing import Any

import numpy as np

from retrograd._archive import DAMAGE

Entry = tuple[np.dtype, tuple[int, ...], int, int]  # dtype, shape, first byte of the data and first beyond

_DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_BFLOAT16 = np.dtype("V2")  # the upper half of a float32; read as float32
_MOST_DIMENSIONS = 64  # those of NumPy's arrays
_LONGEST_HEADER = 100_000_000  # the format's own limit


def write(path: str, arrays: dict[str, Any], metadata: dict[str, str]) -> None:
    """Write arrays, by name, and strings by name."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    # largest items first, so that every array is aligned to its own items
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    for name, array in ordered:
        code = _CODES.get(array.dtype.newbyteorder("<"))
        if code is None:
            raise TypeError(f"safetensors has no dtype for {name}, which is {array.dtype}; use an .npz file")
        if name == "__metadata__":
            raise ValueError("safetensors reserves the name __metadata__; rename the tensor")
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            file.write(little.reshape(-1).view(np.uint8).data)


def read(path: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read arrays, by name, and strings by name."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            raise ValueError(f"{path} is not a safetensors file, or is truncated: it has {size} bytes")
        try:
            entries, metadata = _parsed(file.read(length).decode())
        except DAMAGE as error:
            raise ValueError(f"{path}: the header is damaged: {error}") from None
        body = file.read()
    _check_places(path, entries, len(body))
    arrays = {}
    for name, (dtype, shape, start, _) in entries.items():
        array = np.frombuffer(body, dtype, math.prod(shape), start).reshape(shape)
        arrays[name] = _widened(array) if dtype is _BFLOAT16 else array.copy()
    return arrays, metadata


def _parsed(text: str) -> tuple[dict[str, Entry], dict[str, str]]:
    header = json.loads(text, object_pairs_hook=_distinct)
    metadata = header.pop("__metadata__", {})
    if not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("the metadata must be strings")
    return {name: _checked(entry) for name, entry in header.items()}, metadata


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it describes a name twice")
    return found


def _checked(entry: dict[str, Any]) -> Entry:
    code, shape, (start, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    dtype = _BFLOAT16 if code == "BF16" else _DTYPES.get(code)
    if dtype is None:
        raise ValueError(f"NumPy has no dtype {code}")
    if not all(isinstance(n, int) and 0 <= n < 2**63 for n in (*shape, start, stop)):
        raise ValueError(f"shape {reprlib.repr(shape)} and offsets {start}, {stop} must be non-negative integers")
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"NumPy arrays cannot have {len(shape)} dimensions")
    if stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{stop - start} bytes do not hold {code} of shape {shape}")
    return dtype, shape, start, stop


def _check_places(path: str, entries: dict[str, Entry], size: int) -> None:
    """The format has one array after the other, without gaps."""
    end = 0
    for name, (_, _, start, stop) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if stop > size:
            raise ValueError(
                f"{path} is truncated: {name} should end at byte {stop} of the data, which has {size} bytes"
            )
        if start != end:
            raise ValueError(f"{path} is damaged: {name} begins at byte {start} of the data, not at {end}")
        end = stop
    if end < size:
        raise ValueError(f"{path} is damaged: {size - end} bytes at its end belong to no tensor")


def _widened(halves: np.ndarray) -> np.ndarray:
    return (halves.view("<u2").astype(np.uint32) << 16).view(np.float32)
