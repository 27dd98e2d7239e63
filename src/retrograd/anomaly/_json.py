"""Records to JSON and back without loss: standard JSON (no bare ``NaN``), one line per record.

A tuple is a JSON array and a list is tagged, because records hold tuples; whatever else JSON has no word for is an
object with one tag: ``{"$float": "nan"}``, ``{"$complex": [re, im]}``, ``{"$numpy": "float32", "value": 0.5}``,
``{"$record": "Operand", ...}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import numpy as np


def dumps(record: Any) -> str:
    """One line of ASCII JSON: every field of ``record``; of nested records, only non-default ones."""
    return json.dumps(_encode_record(record, every_field=True), allow_nan=False)


def loads(text: str | bytes, records: Mapping[str, type]) -> Any:
    """The value that :func:`dumps` was given; ``records`` are the classes by name.

    Fields that a class does not know are ignored, so that an older version reads what a newer one wrote; a record of
    an unknown class becomes a dict.

    Raises
    ------
    ValueError
        If the text is not JSON, or not what :func:`dumps` makes.
    """
    try:
        return _decode(json.loads(text), records)
    except ValueError:
        raise
    except (TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        if not isinstance(text, (str, bytes)):
            raise
        raise ValueError(f"not a record: {text[:80]!r} ({type(error).__name__}: {error})") from error


def default_of(field: Field[Any]) -> Any:
    """The default value of a field of a record."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _encode_record(record: Any, *, every_field: bool = False) -> dict[str, Any]:
    encoded: dict[str, Any] = {"$record": type(record).__name__}
    for field in fields(record):
        value, default = getattr(record, field.name), default_of(field)
        if every_field or not (value is default or (default == () and isinstance(value, tuple) and not value)):
            encoded[field.name] = _encode(value)
    return encoded


def _encode(value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        plain = (
            str(value) if value.dtype.char in "gG" else _encode(value.item())
        )  # no Python number holds a long double
        return {"$numpy": value.dtype.name, "value": plain}
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, complex):
        return {"$complex": [_encode(value.real), _encode(value.imag)]}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, list):
        return {"$list": [_encode(item) for item in value]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _encode(item) for key, item in value.items()}
        return {"$dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if is_dataclass(value):
        return _encode_record(value)
    raise TypeError(
        f"a record holds numbers, strings, tuples, lists, dicts and records, not {type(value).__name__}: {value!r}"
    )


def _decode(data: Any, records: Mapping[str, type]) -> Any:
    if isinstance(data, list):
        return tuple(_decode(item, records) for item in data)
    if not isinstance(data, dict):
        return data
    if "$float" in data:
        return float(data["$float"])
    if "$complex" in data:
        real, imaginary = (_decode(part, records) for part in data["$complex"])
        return complex(real, imaginary)
    if "$numpy" in data:
        return np.dtype(data["$numpy"]).type(_decode(data["value"], records))
    if "$list" in data:
        return [_decode(item, records) for item in data["$list"]]
    if "$dict" in data:
        return {_decode(key, records): _decode(item, records) for key, item in data["$dict"]}
    record = records.get(data.get("$record", ""))
    plain = {key: _decode(item, records) for key, item in data.items() if key != "$record"}
    if record is None:
        return plain
    known = {field.name for field in fields(record)}
    needed = [each.name for each in fields(record) if each.default is MISSING and each.default_factory is MISSING]
    if not plain.keys() >= set(needed):
        raise ValueError(
            f"a {record.__name__} has {' and '.join(needed)}, but this one has {', '.join(plain) or 'nothing'}"
        )
    return record(**{key: item for key, item in plain.items() if key in known})
