"""What a program calls its libraries: ``import torch as T``, ``import torch.nn.functional as func``."""

from __future__ import annotations

import ast
import os.path
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType

from retrograd.anomaly.parsing import tree_in, tree_of

MODULES = frozenset(
    ("torch", "th", "rg", "retrograd", "np", "numpy", "jnp", "F", "nn", "functional", "special", "linalg", "math")
) | {"scipy"}
"""Names that a function is called from in any program; anything else before a dot is taken for a tensor."""

_ROOTS = {"th": "torch", "rg": "retrograd", "np": "numpy", "jnp": "jax.numpy"}
_STATEMENTS = {
    "rg": "import retrograd as rg",
    "np": "import numpy as np",
    **{name: f"import {name}" for name in ("torch", "retrograd", "numpy", "math")},
}

UNRESOLVED = "?"
"""What :func:`module_called` says of a variable that holds a module."""

# What no tensor has: a variable with one of these is a module, such as the ``xp`` of ``xp = get_namespace(x)``.
_OF_MODULES = frozenset(
    [
        "special",
        "linalg",
        "fft",
        "float16",
        "float32",
        "float64",
        "int64",
        "asarray",
        "tensor",
        "zeros",
        "ones",
        "arange",
        "linspace",
        "no_grad",
    ]
)

Imports = Mapping[str, str]
_NONE: Imports = MappingProxyType({})
_imports: ContextVar[Imports] = ContextVar("imports", default=_NONE)


@contextmanager
def imports_of(filename: str | None) -> Iterator[None]:
    """Read lines as those of a file, which gives its own names to modules."""
    token = _imports.set(_read(tree_of(filename)))
    try:
        yield
    finally:
        _imports.reset(token)


def names_of_modules() -> frozenset[str]:
    """The names that the file has imported modules under."""
    return frozenset(_imports.get())


def is_module(name: str) -> bool:
    """Whether functions are called from a name."""
    return name in MODULES or name in _imports.get()


def module_called(name: str) -> str:
    """The module that a name stands for: ``"torch"`` for ``th``."""
    return _imports.get().get(name) or _ROOTS.get(name, name)


def name_of(module: str, usual: str) -> str:
    """What the file calls a module; the usual name, if it does not import it."""
    known = imported(module)
    return usual if usual in known or not known else known[0]


def imported(module: str) -> list[str]:
    """The names under which the file imports a module."""
    return [name for name, target in _imports.get().items() if target == module]


def missing_imports(code: str, filename: str | None) -> list[str]:
    """The imports that a file needs before it can use the code of a line; another notebook cell may have them already.

    Only names that the file does not use for anything are considered.
    """
    if filename is None or not os.path.isfile(filename):
        return []
    known = _names_in(tree_of(filename))
    names = dict.fromkeys(_names_in(tree_in(code.strip())) if known else ())
    return [_STATEMENTS[name] for name in names if name in _STATEMENTS and name not in known]


@lru_cache(maxsize=16)
def _names_in(tree: ast.Module) -> list[str]:
    """The names that a program reads, gives or imports."""
    nodes = list(ast.walk(tree))
    names = [each.id for each in nodes if isinstance(each, ast.Name)]
    return [*names, *(each.asname or each.name.partition(".")[0] for each in nodes if isinstance(each, ast.alias))]


@lru_cache(maxsize=16)
def _read(tree: ast.Module) -> Imports:
    """The names that a program imports modules under."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                name = each.name if each.asname else each.name.partition(".")[0]
                found[each.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names if _is_part(each)}
    for node in ast.walk(tree):
        held = node.value if isinstance(node, ast.Attribute) and node.attr in _OF_MODULES else None
        if isinstance(held, ast.Name) and held.id not in MODULES:
            found.setdefault(held.id, UNRESOLVED)
    return MappingProxyType(found)


def _is_part(imported: ast.alias) -> bool:
    """Whether what is imported from a library is one of its modules."""
    return imported.name in MODULES
