"""Types as text for a stub, and the imports that they need."""

from __future__ import annotations

import ast
import collections.abc
import contextlib
import functools
import sys
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union, Unpack, get_args, get_origin

import numpy as np

from retrograd.core import annotations as unions
from retrograd.core.tensor import Tensor

# unions that are written by their names, the largest first
ALIASES = ("Index", "Operand", "TensorOrArray", "Number", "DTypeLike")

_MEMBERS = {name: get_args(getattr(unions, name)) for name in ALIASES}
_MODULES = {Tensor: "retrograd.core.tensor"}


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function as types, including names that its module imports for type checkers only."""
    return typing.get_type_hints(function, localns=_for_checkers(sys.modules[function.__globals__["__name__"]]))


@functools.cache
def _for_checkers(module: types.ModuleType) -> dict[str, Any]:
    """The names that a module imports under ``if TYPE_CHECKING``."""
    names: dict[str, Any] = {}
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for statement in tree.body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            for each in statement.body:
                with contextlib.suppress(ImportError):  # of a stub without a module
                    exec(compile(ast.Module([each], []), module.__file__, "exec"), names)
    return names


class Names:
    """What one stub says by which name: text for types, and the imports behind it.

    Parameters
    ----------
    taken
        The names that the stub itself binds, and to what: a module and the name there, if it imports that. Another
        type of such a name is imported with an underscore.
    """

    def __init__(self, taken: Mapping[str, tuple[str, str] | None]) -> None:
        self.taken = taken
        self.results: set[str] = set()  # the classes of several results among what was written
        self.imported: dict[str, set[tuple[str, str]]] = defaultdict(set)

    def name(self, module: str, name: str) -> str:
        """The name of an object in the stub, which is to import it."""
        if self.taken.get(name) == (module, name):
            return name
        alias = f"_{name}" if name in self.taken else name
        if module != "builtins" or alias != name:
            self.imported[module].add((name, alias))
        return alias

    def imports(self) -> list[str]:
        """The import lines for the names used so far."""
        return [
            f"from {module} import {name}" + (f" as {alias}" if alias != name else "")
            for module, names in sorted(self.imported.items())
            for name, alias in sorted(names)
        ]

    def text(self, annotation: Any) -> str:
        """A type as text."""
        if annotation is None or annotation is type(None):
            return "None"
        if annotation is Any:
            return self.name("typing", "Any")
        if annotation is ...:
            return "..."
        if isinstance(annotation, TypeVar):
            return self.name("retrograd.core.annotations", annotation.__name__)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if origin is Literal:
            return f"{self.name('typing', 'Literal')}[{', '.join(map(repr, arguments))}]"
        if origin is Unpack:
            return f"{self.name('typing', 'Unpack')}[{self.text(arguments[0])}]"
        if origin is np.ndarray:
            return self.name("numpy", "ndarray")
        if origin is collections.abc.Callable:
            taken, given = arguments
            parameters = "..." if taken is ... else f"[{', '.join(map(self.text, taken))}]"
            return f"{self.name('collections.abc', 'Callable')}[{parameters}, {self.text(given)}]"
        if origin is not None:
            return f"{self._class(origin)}[{', '.join(map(self.text, arguments))}]"
        return self._class(annotation)

    def _class(self, cls: Any) -> str:
        module = _MODULES.get(cls, cls.__module__)
        if module == "retrograd.return_types":
            self.results.add(cls.__name__)
            return f"{self.name('retrograd', 'return_types')}.{cls.__name__}"
        if cls is types.ModuleType:  # whose own name is "module"
            return self.name("types", "ModuleType")
        return self.name(module, cls.__qualname__)

    def _union(self, members: tuple[Any, ...]) -> str:
        left = list(members)
        texts = []
        for alias in ALIASES:
            if all(member in left for member in _MEMBERS[alias]):
                texts.append(self.name("retrograd.core.annotations", alias))
                left = [member for member in left if member not in _MEMBERS[alias]]
        absent = [member for member in left if member is type(None)]
        rest = [member for member in left if member is not type(None)]
        return " | ".join([*map(self.text, rest), *texts, *map(self.text, absent)])
