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

from retrograd.anomaly.adapters.program.making import first_line_with, left_over, made, unpacked_with
from retrograd.anomaly.adapters.program.place import variables_read
from retrograd.anomaly.libraries import is_library, is_own, outwards, package_of, trace_of, user_frames

_MOST = 200  # items of a container that are looked through
_MOST_HELD = 10_000  # things at one depth that are looked through
_DEPTH = 4
_PLAIN = frozenset(("builtins", "numpy", "torch"))  # modules whose objects hold no variables of the user's
RAISE = opmap["RAISE_VARARGS"]  # what ``raise`` and ``assert`` end with
_ABOUT_NUMBERS = (ArithmeticError, ValueError, SystemExit)  # as ``int`` raises of a NaN, and what ends a program
_FRAME_AND_HERE = 3  # references to a dictionary that nobody else holds: the frame's, ours, the argument's


def local_variables(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame, without keeping alive what they hold.

    Before Python 3.13 a function's frame keeps the dictionary that it makes of its variables; it is emptied here,
    unless somebody else has it, who called ``locals()``.
    """
    variables = frame.f_locals
    found = {name: value for name, value in dict(variables).items() if _can_be_asked(value)}
    of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if of_function and type(variables) is dict and sys.getrefcount(variables) <= _FRAME_AND_HERE:
        variables.clear()
    return found


def variables_at(frame: FrameType) -> dict[str, Any]:
    """The local variables that the expression reads which a frame is at."""
    read = variables_read(frame.f_code, frame.f_lasti)
    return {name: value for name, value in local_variables(frame).items() if name in read}


def variables_left_by(error: BaseException, is_internal: Callable[[CodeType], bool]) -> Iterator[tuple[FrameType, Any]]:
    """The variables of the frames that an error of the program's own has left, the innermost first, with the frames.

    None of an error that internal code has raised, nor of one of a function in C that is not about numbers.
    """
    places = [(each.tb_frame, each.tb_lasti) for each in trace_of(error)]
    if not places:
        return
    frame, at = places[-1]
    if is_internal(frame.f_code) and not is_library(frame.f_code.co_filename, "numpy"):  # np.testing asserts for others
        return
    if frame.f_code.co_code[at] != RAISE and not isinstance(error, _ABOUT_NUMBERS):
        return
    for frame, _ in reversed(places):
        if not is_internal(frame.f_code):
            for _, value in named_variables(frame):
                yield frame, value


def named_variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The variables of a frame, then what lies in the lists, dictionaries and objects among them, with their names."""
    variables = _variables_and_globals(frame)
    yield from variables.items()
    for name, value in variables.items():
        yield from ((text, part) for text, part in _parts(name, value) if _can_be_asked(part))


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What lies in a variable, with its name."""
    if isinstance(value, (list, tuple)):
        fields = getattr(type(value), "_fields", ())  # of a named tuple
        for position, item in enumerate(_first_of(value)):
            yield f"{name}.{fields[position]}" if position < len(fields) else f"{name}[{position}]", item
    elif isinstance(value, dict) and not name.startswith("__"):
        yield from ((f"{name}[{key!r}]", item) for key, item in _first_entries(value) if isinstance(key, (str, int)))
    elif type(value).__module__ not in _PLAIN and not isinstance(value, type):
        yield from ((f"{name}.{key}", item) for key, item in _first_entries(_attributes(value)))


def _can_be_asked(value: Any) -> bool:
    """Whether something says what it is; a proxy of something that is not there may raise instead."""
    try:
        value.__class__  # noqa: B018 (isinstance asks for it)
    except Exception:
        return False
    return True


def _first_of(value: list[Any] | tuple[Any, ...]) -> Any:
    """The first items of a sequence as they lie in it, whatever its own class makes of them when it is asked."""
    first = slice(_MOST)
    return list.__getitem__(value, first) if isinstance(value, list) else tuple.__getitem__(value, first)


def _first_entries(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The same of a dictionary: keys and values. They are read at once, as another thread may add to it meanwhile."""
    for _ in range(_ATTEMPTS):
        with suppress(RuntimeError):  # the collector has run in between, and something that added to it
            return list(islice(dict.items(value), _MOST))
    return []


_ATTEMPTS = 10


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds by name; nothing where it does not say."""
    try:
        held = value.__dict__
    except Exception:
        return {}
    return held if isinstance(held, dict) else {}


def entries_around(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """What the objects among the variables of these frames keep in dictionaries of their own, as the program asks for
    it: ``batch.x`` or ``batch['x']``, whichever the code of the frame has.
    """
    for each in user_frames(frame):
        yield from _entries_as_read(each)


def _entries_as_read(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The same of one frame."""
    code = frame.f_code
    for name, value in local_variables(frame).items():
        for key, item in _entries(value):
            if key in code.co_names:
                yield f"{name}.{key}", item
            elif key in code.co_consts:
                yield f"{name}[{key!r}]", item


def _entries(value: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    """The entries, by text, of dictionaries that an object holds, or that an object in it does."""
    if isinstance(value, (type, ModuleType, FunctionType)) or type(value).__module__ in _PLAIN:
        return
    for _, held in _first_entries(_attributes(value)):
        if isinstance(held, dict):
            yield from ((key, item) for key, item in _first_entries(held) if isinstance(key, str))
        elif depth > 1:
            yield from _entries(held, depth - 1)


def _variables_and_globals(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame, and those of its module that its code names."""
    variables = local_variables(frame)
    if frame.f_code.co_name != "<module>":
        named = [name for name in frame.f_code.co_names if name in frame.f_globals and name not in variables]
        variables |= {name: frame.f_globals[name] for name in named if _can_be_asked(frame.f_globals[name])}
    return variables


def variables_around(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """The :func:`named_variables` of these frames, the innermost first."""
    for each in user_frames(frame):
        yield from named_variables(each)


def frames_that_name(frame: FrameType | None) -> list[FrameType]:
    """The user's frames in the order in which they are asked for a name, from ``frame`` outwards.

    What the program itself calls something comes before what an installed package does, such as ``args[0]``.
    """
    return sorted(user_frames(frame), key=lambda each: not is_own(each.f_code))


def name_of(frame: FrameType | None, is_it: Callable[[Any], bool]) -> str | None:
    """What the program's innermost function under way calls something."""
    own = next((each for each in user_frames(frame) if is_own(each.f_code)), None)
    if own is None:
        return None
    named = itertools.chain(named_variables(own), _entries_as_read(own))
    return next((name for name, value in named if is_it(value)), None)


def member_of(frame: FrameType, written: str) -> Any:
    """What a name with dots in it stands for in a frame, without running any code of its owners; None if unknown."""
    first, *rest = written.split(".")
    value = local_variables(frame).get(first, frame.f_globals.get(first))
    for name in rest:
        held = _attributes(value)
        method = inspect.getattr_static(type(value), name, None)
        bound = MethodType(method, value) if isinstance(method, FunctionType) else None
        value = held.get(name, held.get("_modules", {}).get(name, bound))
    return value


def held_around(frame: FrameType | None, is_hidden: Callable[[Any, str], bool]) -> Iterator[Any]:
    """What the variables of these frames hold, and what lies in that, as far as it is not deep.

    The variable of a loop that has ended holds something by accident. ``is_hidden`` says of an attribute of an object
    that it does not count.
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
    """What a container holds, or an object of the user's."""
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
    """The innermost call of a function that is under way, from a frame outwards."""
    return next((each for each in outwards(frame) if each.f_code is code), None)


def value_of(variables: Mapping[str, Any], written: str) -> Any:
    """What a name with dots in it leads to, through what objects hold themselves; nothing is computed for it."""
    first, *rest = written.split(".")
    value = variables.get(first)
    for name in rest:
        value = _attributes(value).get(name)
    return value


def members_of(module: Any) -> list[tuple[str, Any]]:
    """The parameters of a module, and then its buffers, with their names; none of what only looks like a module."""
    try:
        return [*module.named_parameters(), *module.named_buffers()]
    except Exception:
        return []


def taken_of(holder: tuple[FrameType, str], code: CodeType | None, at: int) -> dict[str, Any]:
    """Where the program has data at hand that an operation met, with what belongs to it: a part of an event's context.

    Parameters
    ----------
    holder
        A function under way, and the variable in it that holds the data.
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
    """The variables that were unpacked together with one of a function, if all have as many samples."""
    names = unpacked_with(frame.f_code, at, name)
    variables = local_variables(frame)
    return names if len(names) > 1 and _have_as_many_samples(map(variables.get, names)) else ()


def _entries_differ(frame: FrameType, name: str) -> bool:
    """Whether a variable is an entry of a dictionary whose entries have not as many samples each: ``batch['x']``."""
    owner, is_entry, _ = name.partition("[")
    held = _variables_and_globals(frame).get(owner) if is_entry else None
    return isinstance(held, dict) and not _have_as_many_samples(entry for _, entry in _first_entries(held))


def _have_as_many_samples(values: Iterable[Any]) -> bool:
    """Whether all values are arrays or tensors of the same length."""
    lengths = {tuple(getattr(each, "shape", ()))[:1] for each in values}
    return len(lengths) == 1 and () not in lengths


def modules_behind(frame: FrameType | None, code: CodeType | None, name: str) -> Iterator[tuple[str, Any]]:
    """The modules, by the variables that hold them, that the lines read by which a function under way made a variable.

    Any object that has parameters with names is one.
    """
    frame = under_way(frame, code)
    read = made(frame.f_code, name).variables if frame is not None else frozenset()
    if frame is not None and read:
        for variable, value in named_variables(frame):
            if variable in read and hasattr(type(value), "named_parameters"):
                yield variable, value
