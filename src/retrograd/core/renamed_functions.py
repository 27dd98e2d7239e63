"""Functions under further names, so that errors about their arguments name what the user called."""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any


def renamed(function: Any, name: str, owner: type | None = None) -> Any:
    """A function with the same code, signature and documentation, but the name ``name``.

    If it wraps another one (``functools.wraps``), that is renamed, too, because Python's errors name it.
    """
    closure, wrapped = function.__closure__, getattr(function, "__wrapped__", None)
    own = renamed(wrapped, name, owner) if isinstance(wrapped, FunctionType) else None
    if own is not None:
        closure = tuple(CellType(own) if cell.cell_contents is wrapped else cell for cell in closure)
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__doc__ = function.__doc__
    copy.__module__ = function.__module__
    copy.__dict__.update(function.__dict__)
    if own is not None:
        copy.__dict__["__wrapped__"] = own
    copy.__qualname__ = name if owner is None else f"{owner.__qualname__}.{name}"
    return copy


def own_methods(namespace: dict[str, Any], method: str, except_from: tuple[type, ...] = ()) -> None:
    """Give public classes their own copies of a method inherited from private bases.

    Then an error in ``Conv2d(3)`` is about ``Conv2d.__init__()``, whatever class the constructor is written in.

    Parameters
    ----------
    namespace
        The ``globals()`` of a module; the public classes are those in its ``__all__``.
    method
        The method's name, such as ``"__init__"``.
    except_from
        Bases that exist in torch as well, whose methods programs may replace.
    """
    members = [namespace[name] for name in namespace["__all__"]]
    public = [member for member in members if isinstance(member, type)]
    for cls in public:
        for base in cls.__mro__:
            found = vars(base).get(method)
            if base in public and (base is not cls or found is not None):
                break  # it has the method itself, or is going to
            if isinstance(found, FunctionType) and base not in except_from:
                setattr(cls, method, renamed(found, method, cls))
            if found is not None:
                break


__all__ = ["own_methods", "renamed"]
