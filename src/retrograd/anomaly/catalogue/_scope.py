"""Which variables have a value where a line stands: a remedy may name no others."""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Iterator
from functools import lru_cache

from retrograd.anomaly.catalogue._imports import is_module
from retrograd.anomaly.parsing import module_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def may_stand_at(text: str, original: str | None, filename: str | None, lineno: int | None) -> bool:
    """Whether all that a line reads has a value where another one stands, as far as the file tells.

    What the ``original`` line reads has one, and so have modules and builtins; of other variables one is to be given to
    them in the lines before, or outside of the function.
    """
    read, there = _read(text), _read(original or "")
    tree = _tree("".join(linecache.getlines(filename))) if filename else None
    if read is None or there is None or tree is None or lineno is None:
        return True
    scopes = list(_around(tree, lineno))
    return all(
        name in there or is_module(name) or hasattr(builtins, name) or _is_bound(name, scopes, lineno) for name in read
    )


def _read(text: str) -> set[str] | None:
    """The variables that a line reads and does not make itself; None if it is no statement by itself."""
    try:
        tree = module_of(text.strip())
    except (SyntaxError, ValueError):
        return None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    inner = (ast.comprehension, ast.NamedExpr, ast.Lambda)
    made = {each for node in ast.walk(tree) if isinstance(node, inner) for each in _names_bound(node)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - made


@lru_cache(maxsize=8)
def _tree(source: str) -> ast.Module | None:
    try:
        return module_of(source) if source else None
    except (SyntaxError, ValueError):  # a notebook's commands
        return None


def _around(tree: ast.AST, lineno: int) -> Iterator[ast.AST]:
    """The module and the functions that a line stands in, from the outside in."""
    yield tree
    inner = (node for node in _inside(tree) if isinstance(node, _SCOPES))
    scope = next((node for node in inner if node.lineno <= lineno <= (node.end_lineno or node.lineno)), None)
    if scope is not None:
        yield from _around(scope, lineno)


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a scope, but for what stands in those inside of it."""
    queue = list(ast.iter_child_nodes(scope))
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
            queue += ast.iter_child_nodes(node)


def _is_bound(name: str, scopes: list[ast.AST], lineno: int) -> bool:
    """Whether a variable has a value in the innermost of some scopes: one of its own, or else one from further out."""
    for scope in reversed(scopes):
        lines = [getattr(node, "lineno", 0) for node in (scope, *_inside(scope)) if name in _names_bound(node, scope)]
        if not lines or (isinstance(scope, ast.ClassDef) and scope is not scopes[-1]):
            continue
        return scope is not scopes[-1] or min(lines) < lineno
    return False


def _names_bound(node: ast.AST, scope: ast.AST | None = None) -> set[str]:
    """The variables that a node gives values to; of a function the parameters, where it is the ``scope`` itself."""
    if isinstance(node, _FUNCTIONS) and (node is scope or scope is None):
        given = node.args
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        return {each.arg for each in every if each is not None}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node is not scope:
        return {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(each.asname or each.name).partition(".")[0] for each in node.names}
    if isinstance(node, (ast.comprehension, ast.NamedExpr)):
        return {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
        return {node.name}
    return set()
