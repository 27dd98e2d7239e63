"""The syntax tree of a function that runs, found by its code object."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

from retrograd.anomaly.parsing import tree_of

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def body(code: CodeType) -> Iterator[ast.AST]:
    """The nodes of a function, except those in nested functions and classes."""
    tree = file_of(code)
    for node in [tree] if code.co_name == "<module>" else _scopes(tree).get(code.co_firstlineno, ()):
        yield from inside(node)


def function_of(code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The definition of a function; None if several begin in its first line, or if it is not an ordinary one."""
    found = _scopes(file_of(code)).get(code.co_firstlineno, ())
    node = found[0] if len(found) == 1 else None
    return node if isinstance(node, (ast.FunctionDef, ast.Lambda)) else None


def file_of(code: CodeType) -> ast.Module:
    """The tree of a function's file; empty if that is not Python, such as a notebook cell with commands."""
    return tree_of(code.co_filename)


def functions_beside(code: CodeType) -> Iterator[ast.FunctionDef]:
    """The functions of a function's file, itself among them."""
    for scopes in _scopes(file_of(code)).values():
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


@lru_cache(maxsize=8)
def _scopes(tree: ast.Module) -> dict[int, list[ast.AST]]:
    """The functions and classes of a file by their first line."""
    found: dict[int, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, _SCOPES):
            found.setdefault(_begin(node), []).append(node)
    return found


def _begin(scope: ast.AST) -> int:
    """The first line, including decorators."""
    decorators: list[ast.expr] = getattr(scope, "decorator_list", [])
    return min(lines_of(each).start for each in (scope, *decorators))
