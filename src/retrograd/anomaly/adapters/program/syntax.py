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
    """The nodes of a function, except those in nested functions and classes."""
    tree, scopes = _file_of(code)
    for node in [tree] if code.co_name == "<module>" else scopes.get(code.co_firstlineno, ()):
        yield from inside(node)


def file_of(code: CodeType) -> ast.Module:
    """The tree of a function's file; empty if that is not Python, such as a notebook cell with commands."""
    return tree_of(code.co_filename)


def tree_of(filename: str) -> ast.Module:
    """The tree of a file; empty if that is not Python."""
    return _parsed("".join(linecache.getlines(filename)))[0]


def functions_beside(code: CodeType) -> Iterator[ast.FunctionDef]:
    """The functions of a function's file, itself among them."""
    for scopes in _file_of(code)[1].values():
        yield from (each for each in scopes if isinstance(each, ast.FunctionDef))


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes within a node, except those in nested functions and classes."""
    queue = list(ast.iter_child_nodes(node))
    while queue:
        node = queue.pop(0)
        yield node
        if not isinstance(node, _SCOPES):
            queue += ast.iter_child_nodes(node)


def lines_of(node: ast.AST) -> range:
    """The lines that a node spans."""
    first = node.lineno  # type: ignore[attr-defined]
    return range(first, (node.end_lineno or first) + 1)  # type: ignore[attr-defined]


def variables_in(written: ast.AST) -> Iterator[str]:
    """The variables, and attributes of variables, in an expression or statement."""
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
    """The first line, including decorators."""
    decorators: list[ast.expr] = getattr(scope, "decorator_list", [])
    return min(lines_of(each).start for each in (scope, *decorators))
