"""The part of the pickle language that plain data needs, read without running anything.

The opcodes are those that ``pickletools`` of the standard library documents. A name in a pickle is looked up in a given
table and nowhere else, and only what stands there can be called.
"""

from __future__ import annotations

import math
import pickletools
import struct
from argparse import Namespace
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Builder", "Encoder", "as_key", "encode_name", "loads"]


class Builder(NamedTuple):
    """What is called for a name that pickles call."""

    build: Callable[..., Any]


_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": set}
_FIXED_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_LITERALS = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "BINFLOAT", "FLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINBYTES", "SHORT_BINBYTES"),
}


_SIZED = (str, bytes, list, tuple, dict, set, frozenset)
_MOST_GIVEN = 100  # how many items builders may be given for each byte of a pickle; all are in it, most of them once
_LARGEST_KEY = 10_000


def loads(data: bytes, names: Mapping[str, Any], persistent: Callable[[Any], Any]) -> Any:
    """Return what a pickle describes.

    Parameters
    ----------
    data
        The pickle.
    names
        What the names in it stand for, as ``"module.name"``: a :class:`Builder`, or a value.
    persistent
        Called with every persistent id; returns what it stands for.

    Raises
    ------
    ValueError
        If something in it is not in ``names``, or needs more than plain data does.
    """
    stack: list[Any] = []
    outer: list[list[Any]] = []  # the stacks below the marks
    given = 0  # how many items have been given to builders
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        nonlocal stack
        items, stack = stack, outer.pop()
        return items

    arg: Any
    for opcode, arg, _ in pickletools.genops(data):
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "STOP":
                return stack.pop()
            case "MARK":
                outer.append(stack)
                stack = []
            case name if name in _LITERALS:
                stack.append(arg)
            case name if name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            case name if name in _EMPTY:
                stack.append(_EMPTY[name]())
            case name if name in _FIXED_TUPLES:
                count = _FIXED_TUPLES[name]
                if len(stack) < count:
                    raise ValueError(f"a tuple of {count} has {len(stack)}")
                stack[-count:] = [tuple(stack[-count:])]
            case "TUPLE":
                items = since_mark()
                stack.append(tuple(items))
            case "APPEND":
                item = stack.pop()
                _expect(list, stack[-1]).append(item)
            case "APPENDS":
                items = since_mark()
                _expect(list, stack[-1]).extend(items)
            case "ADDITEMS":
                items = since_mark()
                _expect(set, stack[-1]).update(map(as_key, items))
            case "SETITEM":
                items, stack[-2:] = stack[-2:], []
                _add(_expect(dict, stack[-1]), items)
            case "SETITEMS":
                items = since_mark()
                _add(_expect(dict, stack[-1]), items)
            case "BINPUT" | "LONG_BINPUT" | "PUT":
                memo[arg] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET" | "GET":
                stack.append(memo[arg])
            case "GLOBAL":
                stack.append(_named(names, ".".join(arg.split(" "))))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                stack.append(_named(names, f"{_expect(str, module)}.{_expect(str, name)}"))
            case "REDUCE" | "NEWOBJ":
                args, builder = _expect(tuple, stack.pop()), _expect(Builder, stack.pop())
                given += sum(len(part) for part in args if isinstance(part, _SIZED))
                if given > _MOST_GIVEN * len(data):
                    raise ValueError("it expands a little data into a lot by repeating it")
                stack.append(builder.build(*args))
            case "BUILD":
                state = stack.pop()
                if isinstance(stack[-1], OrderedDict) and isinstance(state, dict) and set(state) <= {"_metadata"}:
                    stack[-1].__dict__.update(state)  # as in the state dicts of modules
                elif isinstance(stack[-1], Namespace):
                    vars(stack[-1]).update(_expect(dict, state))
                elif isinstance(stack[-1], np.ndarray):
                    _fill(stack[-1], state)
                elif not (isinstance(stack[-1], np.dtype) and state[1] in ("<", "|")):  # which adds nothing
                    raise ValueError(f"it sets attributes of an object of type {type(stack[-1]).__name__}")
            case "BINPERSID":
                stack.append(persistent(stack.pop()))
            case name:
                raise ValueError(f"it uses {name}, which plain data does not need")
    raise ValueError("its end is missing")


def _fill(array: Any, state: Any) -> None:
    """Give an array, which was made without elements, those that a pickle has for it."""
    _, shape, dtype, is_in_columns, data = _expect(tuple, state)
    if not all(isinstance(length, int) and length >= 0 for length in _expect(tuple, shape)):
        raise ValueError("the shape of an array is not made of non-negative integers")
    if array.size or array.base is not None or _expect(np.dtype, dtype).kind not in "biufc":
        raise ValueError("it changes an existing array")
    if math.prod(shape) * dtype.itemsize != len(_expect(bytes, data)):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} has {len(data)} bytes")
    array.__setstate__((1, shape, dtype, bool(is_in_columns), data))


def as_key(value: Any) -> Any:
    """Return a key of a dict, or an element of a set.

    Raises
    ------
    ValueError
        If its hash would take very long, as that of a few dozen pairs may, each of which is twice the one before.
    """
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple | frozenset):
            waiting.extend(item)
            count += len(item) + 1
            if count > _LARGEST_KEY:
                raise ValueError("a key has too many parts")
    return value


def _add(into: dict[Any, Any], items: list[Any]) -> None:
    for key, value in zip(items[::2], items[1::2], strict=True):
        into[as_key(key)] = value


def _expect(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected a {kind.__name__}, but found a {type(value).__name__}")
    return value


def _named(names: Mapping[str, Any], name: str) -> Any:
    if name not in names:
        raise ValueError(f"it contains {name}")
    return names[name]


# --- writing ----------------------------------------------------------------------------------------------------------


def encode_name(module: str, name: str) -> bytes:
    """Return the part of a pickle that names a member of a module."""
    return f"c{module}\n{name}\n".encode()


_ORDERED_DICT = encode_name("collections", "OrderedDict") + b")R"


class Encoder:
    """Writes values as pickles of protocol 2; what is met again is named, so that it comes back as one object.

    Parameters
    ----------
    other
        Called first with every value; returns its encoding, or None to have it encoded as what it is.
    """

    def __init__(self, other: Callable[[Any], bytes | None]) -> None:
        self._other = other
        self._memo: dict[int, tuple[int, Any]] = {}  # with the value, so that its id is not given to another

    def dumps(self, value: Any) -> bytes:
        """Return the whole pickle of a value."""
        return b"\x80\x02" + self.encode(value) + b"."

    def put(self, value: Any) -> bytes:
        """Return what names the value that has just been made, for when it is met again."""
        self._memo[id(value)] = len(self._memo), value
        return _numbered(b"q", b"r", len(self._memo) - 1)

    def encode(self, value: Any) -> bytes:
        """Return the part of a pickle that makes a value.

        Parameters
        ----------
        value
            None, a bool, number, string or bytes, or dicts, lists, tuples, sets and namespaces of these.

        Raises
        ------
        TypeError
            If there is anything else in it.
        """
        if id(value) in self._memo:
            return _numbered(b"h", b"j", self._memo[id(value)][0])
        found = self._other(value)
        if found is not None:
            return found
        if value is None:
            return b"N"
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if isinstance(value, int):
            return _encode_int(value)
        if isinstance(value, float):
            return struct.pack(">cd", b"G", value)
        if isinstance(value, complex):
            parts = struct.pack(">cdcd", b"G", value.real, b"G", value.imag)
            return encode_name("__builtin__", "complex") + parts + b"\x86R"
        if isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            return struct.pack("<cI", b"X", len(text)) + text
        if isinstance(value, Mapping):
            return self._encode_mapping(value)
        if isinstance(value, bytes):
            text = self.encode(value.decode("latin1")) + self.encode("latin1")
            return encode_name("_codecs", "encode") + text + b"\x86R"
        if isinstance(value, list):
            return b"]" + self.put(value) + b"(" + self._encode_all(value) + b"e"
        if isinstance(value, tuple):
            return b"(" + self._encode_all(value) + b"t"
        if isinstance(value, set):
            return encode_name("__builtin__", "set") + self.encode((list(value),)) + b"R" + self.put(value)
        if isinstance(value, Namespace):
            made = encode_name("argparse", "Namespace") + b")\x81" + self.put(value)
            return made + self.encode(vars(value)) + b"b"
        raise TypeError(f"a {type(value).__name__} is not plain data")

    def _encode_all(self, values: Iterable[Any]) -> bytes:
        return b"".join([self.encode(item) for item in values])

    def _encode_mapping(self, value: Mapping[Any, Any]) -> bytes:
        if isinstance(value, Counter):  # as in the state of the scheduler MultiStepLR
            return encode_name("collections", "Counter") + self.encode((dict(value),)) + b"R" + self.put(value)
        is_ordered = isinstance(value, OrderedDict)
        empty = (_ORDERED_DICT if is_ordered else b"}") + self.put(value)
        items = b"(" + self._encode_all(part for item in value.items() for part in item) + b"u"
        metadata = getattr(value, "_metadata", None) if is_ordered else None
        return empty + items + (b"" if metadata is None else self.encode({"_metadata": metadata}) + b"b")


def _numbered(short: bytes, long: bytes, number: int) -> bytes:
    return struct.pack("<cB", short, number) if number < 256 else struct.pack("<cI", long, number)


def _encode_int(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return struct.pack("<ci", b"J", value)
    length = math.ceil((value.bit_length() + 1) / 8)
    head = struct.pack("<cB", b"\x8a", length) if length < 256 else struct.pack("<ci", b"\x8b", length)
    return head + value.to_bytes(length, "little", signed=True)
