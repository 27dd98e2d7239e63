"""The variables of the user's program, for the names in an event."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from opcode import opmap
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from retrograd.anomaly.adapters.program.assignments import first_line_with, left_over, made, unpacked_with
from retrograd.anomaly.adapters.program.source_location import variables_read
from retrograd.anomaly.stack_frames import is_library, is_own, outwards, package_of, trace_of, user_frames

_MOST = 200  # items of a container that are searched
_MOST_HELD = 10_000  # objects at one depth that are searched
_DEPTH = 4
_PLAIN = frozenset(("builtins", "numpy", "torch"))  # modules whose objects do not hold the user's variables
RAISE = opmap["RAISE_VARARGS"]  # what ``raise`` and ``assert`` end with
_ABOUT_NUMBERS = (ArithmeticError, ValueError, SystemExit)  # such as ``int`` raises for a NaN; and the end of a program
_FRAME_AND_HERE = 3  # references to an unshared dictionary: the frame's, ours, the argument's


def local_variables(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame, without keeping alive what they hold.

    Before Python 3.13 a function's frame keeps the dictionary that it makes of its variables; it is cleared here
    unless other code holds it, having called ``locals()``.
    """
    variables = frame.f_locals
    found = {name: value for name, value in dict(variables).items() if _can_be_asked(value)}
    of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if of_function and type(variables) is dict and sys.getrefcount(variables) <= _FRAME_AND_HERE:
        variables.clear()
    return found


def variables_at(frame: FrameType) -> dict[str, Any]:
    """The local variables read by the expression that a frame is at."""
    read = variables_read(frame.f_code, frame.f_lasti)
    return {name: value for name, value in local_variables(frame).items() if name in read}


def variables_left_by(error: BaseException, is_internal: Callable[[CodeType], bool]) -> Iterator[tuple[FrameType, Any]]:
    """The variables of the user's frames that an error of the program's own has left, with the frames, innermost first.

    Nothing for an error raised by internal code, or by a C function and not about numbers.
    """
    places = [(each.tb_frame, each.tb_lasti) for each in trace_of(error)]
    if not places:
        return
    frame, at = places[-1]
    if is_internal(frame.f_code) and not is_library(frame.f_code.co_filename, "numpy"):  # np.testing asserts for users
        return
    if frame.f_code.co_code[at] != RAISE and not isinstance(error, _ABOUT_NUMBERS):
        return
    for frame, _ in reversed(places):
        if not is_internal(frame.f_code):
            for _, value in named_variables(frame):
                yield frame, value


def named_variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The variables of a frame, then the items of lists, dictionaries and objects among them, with their names."""
    variables = _variables_and_globals(frame)
    yield from variables.items()
    for name, value in variables.items():
        yield from ((text, part) for text, part in _parts(name, value) if _can_be_asked(part))


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The items or attributes of a variable's value, with their names."""
    if isinstance(value, (list, tuple)):
        fields = getattr(type(value), "_fields", ())  # of a named tuple
        for position, item in enumerate(_first_of(value)):
            yield f"{name}.{fields[position]}" if position < len(fields) else f"{name}[{position}]", item
    elif isinstance(value, dict) and not name.startswith("__"):
        yield from ((f"{name}[{key!r}]", item) for key, item in _first_entries(value) if isinstance(key, (str, int)))
    elif type(value).__module__ not in _PLAIN and not isinstance(value, type):
        yield from ((f"{name}.{key}", item) for key, item in _first_entries(_attributes(value)))


def _can_be_asked(value: Any) -> bool:
    """Whether an object reveals its class; the proxy of a missing object may raise instead."""
    try:
        value.__class__  # noqa: B018 (isinstance asks for it)
    except Exception:
        return False
    return True


def _first_of(value: list[Any] | tuple[Any, ...]) -> Any:
    """The first items of a sequence as stored, bypassing any ``__getitem__`` of its own class."""
    first = slice(_MOST)
    return list.__getitem__(value, first) if isinstance(value, list) else tuple.__getitem__(value, first)


def _first_entries(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The first keys and values of a dictionary, read at once because another thread may add to it meanwhile."""
    for _ in range(_ATTEMPTS):
        with suppress(RuntimeError):  # the collector ran code in between that added to it
            return list(islice(dict.items(value), _MOST))
    return []


_ATTEMPTS = 10


def _attributes(value: Any) -> dict[str, Any]:
    """The ``__dict__`` of an object; empty if it has none or raises."""
    try:
        held = value.__dict__
    except Exception:
        return {}
    return held if isinstance(held, dict) else {}


def entries_around(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """The entries of dictionaries held by objects among the variables of the user's frames, named as the program reads
    them: ``batch.x`` or ``batch['x']``, whichever the code of the frame has.
    """
    for each in user_frames(frame):
        yield from _entries_as_read(each)


def _entries_as_read(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The :func:`entries_around` of one frame."""
    code = frame.f_code
    for name, value in local_variables(frame).items():
        for key, item in _entries(value):
            if key in code.co_names:
                yield f"{name}.{key}", item
            elif key in code.co_consts:
                yield f"{name}[{key!r}]", item


def _entries(value: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    """The entries with string keys of dictionaries that an object holds, directly or through another."""
    if isinstance(value, (type, ModuleType, FunctionType)) or type(value).__module__ in _PLAIN:
        return
    for _, held in _first_entries(_attributes(value)):
        if isinstance(held, dict):
            yield from ((key, item) for key, item in _first_entries(held) if isinstance(key, str))
        elif depth > 1:
            yield from _entries(held, depth - 1)


def _variables_and_globals(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame, and the globals that its code names."""
    variables = local_variables(frame)
    if frame.f_code.co_name != "<module>":
        named = [name for name in frame.f_code.co_names if name in frame.f_globals and name not in variables]
        variables |= {name: frame.f_globals[name] for name in named if _can_be_asked(frame.f_globals[name])}
    return variables


def variables_around(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """The :func:`named_variables` of the user's frames, innermost first."""
    for each in user_frames(frame):
        yield from named_variables(each)


def frames_that_name(frame: FrameType | None) -> list[FrameType]:
    """The user's frames in the order in which they are searched for a name, from ``frame`` outwards.

    The program's own frames come before those of installed packages, whose names may be like ``args[0]``.
    """
    return sorted(user_frames(frame), key=lambda each: not is_own(each.f_code))


def name_of(frame: FrameType | None, is_it: Callable[[Any], bool]) -> str | None:
    """The name of an object in the innermost running function of the program's own; None if it has none."""
    own = next((each for each in user_frames(frame) if is_own(each.f_code)), None)
    if own is None:
        return None
    named = itertools.chain(named_variables(own), _entries_as_read(own))
    return next((name for name, value in named if is_it(value)), None)


def member_of(frame: FrameType, written: str) -> Any:
    """The value of a dotted name in a frame, found without running code of its owners; None if unknown."""
    first, *rest = written.split(".")
    value = local_variables(frame).get(first, frame.f_globals.get(first))
    for name in rest:
        held = _attributes(value)
        method = inspect.getattr_static(type(value), name, None)
        bound = MethodType(method, value) if isinstance(method, FunctionType) else None
        value = held.get(name, held.get("_modules", {}).get(name, bound))
    return value


def held_around(frame: FrameType | None, is_hidden: Callable[[Any, str], bool]) -> Iterator[Any]:
    """The values of the variables of the user's frames, and what these contain, to a limited depth.

    Variables of finished loops are left out, as they only hold a leftover. ``is_hidden`` tells whether an attribute of
    an object is to be skipped.
    """
    level = [
        value
        for each in user_frames(frame)
        for name, value in _variables_and_globals(each).items()
        if name not in left_over(each.f_code, each.f_lineno)
    ]
    seen: set[int] = set()
    for _ in range(_DEPTH):
        level = [each for each in level if id(each) not in seen][:_MOST_HELD]
        seen.update(map(id, level))
        yield from level
        level = [inner for value in level for inner in _items(value, is_hidden)]


def _items(value: Any, is_hidden: Callable[[Any, str], bool]) -> Iterator[Any]:
    """The items of a container, or the attributes of a user's object."""
    if isinstance(value, (list, tuple)):
        yield from _first_of(value)
    elif isinstance(value, (set, frozenset, deque)):
        yield from list(islice(value, _MOST))
    elif isinstance(value, dict):
        yield from (item for _, item in _first_entries(value))
    elif not isinstance(value, (type, ModuleType, FunctionType)) and type(value).__module__ not in _PLAIN:
        own = dict(_attributes(value))
        slots = getattr(type(value), "__slots__", ())
        own |= {name: getattr(value, name, None) for name in ([slots] if isinstance(slots, str) else slots)}
        yield from (item for name, item in islice(own.items(), _MOST) if not is_hidden(value, name))


def under_way(frame: FrameType | None, code: CodeType | None) -> FrameType | None:
    """The innermost running call of a function, from a frame outwards."""
    return next((each for each in outwards(frame) if each.f_code is code), None)


def value_of(variables: Mapping[str, Any], written: str) -> Any:
    """The value of a dotted name, looked up in the objects' own dictionaries; nothing is computed."""
    first, *rest = written.split(".")
    value = variables.get(first)
    for name in rest:
        value = _attributes(value).get(name)
    return value


def members_of(module: Any) -> list[tuple[str, Any]]:
    """The named parameters of a module, then its buffers; empty for an object that only looks like a module."""
    try:
        return [*module.named_parameters(), *module.named_buffers()]
    except Exception:
        return []


def taken_of(holder: tuple[FrameType, str], code: CodeType | None, at: int) -> dict[str, Any]:
    """Where the program holds the data that an operation met, and what belongs to it, for an event's context.

    Parameters
    ----------
    holder
        A running function, and the variable in it that holds the data.
    code, at
        Where the operation was called.
    """
    frame, name = holder
    if not is_own(frame.f_code):
        return {"held_by": package_of(frame.f_code.co_filename) or "Python"}
    differ = {"entries_differ": True} if _entries_differ(frame, name) else {}
    if frame.f_code is code:
        partners = _partners_of(frame, at, name)
        return differ | ({"partners": partners} if partners else {})
    partners = _partners_of(frame, frame.f_lasti, name)
    lineno = first_line_with(frame.f_code, frame.f_lineno, name)
    taken = None if lineno is None else {"filename": frame.f_code.co_filename, "lineno": lineno}
    return {"taken": taken} | differ | ({"partners": partners} if partners else {})


def _partners_of(frame: FrameType, at: int, name: str) -> tuple[str, ...]:
    """The variables that were unpacked together with one, if all have the same number of samples."""
    names = unpacked_with(frame.f_code, at, name)
    variables = local_variables(frame)
    return names if len(names) > 1 and _have_as_many_samples(map(variables.get, names)) else ()


def _entries_differ(frame: FrameType, name: str) -> bool:
    """Whether a name such as ``batch['x']`` is an entry of a dictionary whose entries differ in length."""
    owner, is_entry, _ = name.partition("[")
    held = _variables_and_globals(frame).get(owner) if is_entry else None
    return isinstance(held, dict) and not _have_as_many_samples(entry for _, entry in _first_entries(held))


def _have_as_many_samples(values: Iterable[Any]) -> bool:
    """Whether all values are arrays or tensors of the same length."""
    lengths = {tuple(getattr(each, "shape", ()))[:1] for each in values}
    return len(lengths) == 1 and () not in lengths


def modules_behind(frame: FrameType | None, code: CodeType | None, name: str) -> Iterator[tuple[str, Any]]:
    """The modules read by the lines with which a running function made a variable, and the names of their variables.

    Any object with a ``named_parameters`` method counts as one.
    """
    frame = under_way(frame, code)
    read = made(frame.f_code, name).variables if frame is not None else frozenset()
    if frame is not None and read:
        for variable, value in named_variables(frame):
            if variable in read and hasattr(type(value), "named_parameters"):
                yield variable, value
