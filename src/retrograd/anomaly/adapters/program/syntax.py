"""The syntax tree of a function that runs, found by its code object."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from retrograd.anomaly.parsing import module_of

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def body(code: CodeType) -> Iterator[ast.AST]:
    """What stands in a function, but for what stands in functions and classes inside of it."""
    tree, scopes = _file_of(code)
    for node in [tree] if code.co_name == "<module>" else scopes.get(code.co_firstlineno, ()):
        yield from inside(node)


def file_of(code: CodeType) -> ast.Module:
    """What stands in the file of a function; nothing where that is no Python, as a cell of a notebook with commands."""
    return tree_of(code.co_filename)


def tree_of(filename: str) -> ast.Module:
    """What stands in a file."""
    return _parsed("".join(linecache.getlines(filename)))[0]


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """What stands within a node, but for what stands in functions and classes inside of it."""
    queue = list(ast.iter_child_nodes(node))
    while queue:
        node = queue.pop(0)
        yield node
        if not isinstance(node, _SCOPES):
            queue += ast.iter_child_nodes(node)


def lines_of(node: ast.AST) -> range:
    """The lines that a node stands on."""
    first = node.lineno  # type: ignore[attr-defined]
    return range(first, (node.end_lineno or first) + 1)  # type: ignore[attr-defined]


def variables_in(written: ast.AST) -> Iterator[str]:
    """The variables, and attributes of such, in what is written."""
    return (ast.unparse(each) for each in ast.walk(written) if isinstance(each, (ast.Name, ast.Attribute)))


def _file_of(code: CodeType) -> tuple[ast.Module, dict[int, list[ast.AST]]]:
    return _parsed("".join(linecache.getlines(code.co_filename)))


@lru_cache(maxsize=8)
def _parsed(source: str) -> tuple[ast.Module, dict[int, list[ast.AST]]]:
    """The tree of a file, and its functions and classes by their first line."""
    scopes: dict[int, list[ast.AST]] = {}
    try:
        tree = module_of(source)
    except SyntaxError:  # a notebook's commands
        return ast.Module([], []), scopes
    for node in ast.walk(tree):
        if isinstance(node, _SCOPES):
            scopes.setdefault(_begin(node), []).append(node)
    return tree, scopes


def _begin(scope: ast.AST) -> int:
    """The first line, that of a decorator if there is one."""
    decorators: list[ast.expr] = getattr(scope, "decorator_list", [])
    return min(lines_of(each).start for each in (scope, *decorators))
