"""Whether what one line has written means the same in another one: its names may have been given other values since."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from retrograd.anomaly.parsing import module_of
from retrograd.anomaly.surroundings import Place

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Scopes:
    """What gives names their values in a program: the names, with the first and last line of each statement."""

    written: tuple[tuple[str, int, int], ...] = ()
    functions: tuple[tuple[int, int], ...] = ()

    def keep(self, names: Collection[str], made: int, used: int) -> bool:
        """Whether names mean in the line ``used`` what they did in the line ``made``, which comes before it."""
        if not made <= used or self._around(made) - self._around(used):
            return False
        return not any(name in names and made < start and end < used for name, start, end in self.written)

    def _around(self, lineno: int) -> set[tuple[int, int]]:
        """The functions that a line stands in."""
        return {(start, end) for start, end in self.functions if start < lineno <= end}


_UNKNOWN = Scopes()


def names_are_kept(names: Collection[str], made: Place | None, used: Place | None) -> bool:
    """Whether names mean the same in two lines, as far as the program can be read."""
    if made is None or used is None:
        return True
    filename = made.filename or used.filename
    scopes = _read("".join(linecache.getlines(filename))) if filename else _UNKNOWN
    return used.sees(made) and scopes.keep(names, made.lineno, used.lineno)


def written_by(statement: ast.AST) -> Iterator[str]:
    """The names that a statement gives a value, or changes in place by a method: ``x`` in ``x.mul_(2)``."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node.id
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield from _parts(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            yield from _parts(node.func.value)


def _parts(node: ast.expr) -> Iterator[str]:
    """The name at the beginning of what an expression is a part of, and the attributes on the way."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        node = node.value
    if isinstance(node, ast.Name) and node.id not in ("self", "cls"):
        yield node.id


def names_read(node: ast.AST) -> set[str]:
    """The names and attributes that an expression depends on."""
    read = (each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute)))
    return {each.id if isinstance(each, ast.Name) else ast.unparse(each) for each in read}


@lru_cache(maxsize=64)
def _read(text: str) -> Scopes:
    try:
        tree = module_of(text)
    except (SyntaxError, ValueError):
        return _UNKNOWN
    written: list[tuple[str, int, int]] = []
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            functions.append((node.lineno, node.end_lineno or node.lineno))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            written += ((name, node.lineno, node.lineno) for name in written_by(node.target))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            targets = (each.optional_vars for each in node.items if each.optional_vars is not None)
            written += ((name, node.lineno, node.lineno) for target in targets for name in written_by(target))
        elif isinstance(node, (ast.If, ast.While)):
            written += ((name, node.lineno, node.lineno) for name in written_by(node.test))
        elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
            written += ((name, node.lineno, node.end_lineno or node.lineno) for name in written_by(node))
    return Scopes(tuple(written), tuple(functions))
