"""The tensors in what a layer takes and puts out, however they are nested."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def tensors_in(value: Any, is_tensor: Callable[[Any], bool]) -> list[Any]:
    """The tensors in any nesting of mappings, sequences, sets, dataclasses and plain objects, each once, in order."""
    if is_tensor(value):
        return [value]
    found: dict[int, Any] = {}
    _visit(value, 0, is_tensor, found, set())
    return list(found.values())


def _visit(item: Any, depth: int, is_tensor: Callable[[Any], bool], found: dict[int, Any], seen: set[int]) -> None:
    if is_tensor(item):
        found.setdefault(id(item), item)
    elif id(item) not in seen and depth < _DEEPEST and len(seen) < _MOST:
        seen.add(id(item))
        for each in _items(item):
            _visit(each, depth + 1, is_tensor, found, seen)


_DEEPEST = 16
_MOST = 10_000  # containers and objects that are opened
_PLAIN = (str, bytes, int, float, complex, type(None), type)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, _PLAIN) or callable(value):  # modules and functions hold tensors that are not put out
        return
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    if dataclasses.is_dataclass(value):
        yield from (getattr(value, field.name, None) for field in dataclasses.fields(value))
    yield from getattr(value, "__dict__", {}).values()
