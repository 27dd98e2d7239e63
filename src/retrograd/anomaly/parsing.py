"""Syntax trees of code in the user's program.

Python gave its warnings about the code when it compiled it. Those for an invalid escape sequence, say, or a ``return``
in a ``finally`` are neither repeated for a fragment without its file, nor turned into errors.
"""

from __future__ import annotations

import ast
import linecache
import threading
from functools import lru_cache

from retrograd.anomaly.warning_filters import Filter

# Up to Python 3.12, the threads of an interpreter share one count of how deep a tree is (CPython issue 106905): two
# threads that parse at once may end in a SystemError. Those of this package wait for one another; a conflict with
# the program's own threads, which may parse or compile meanwhile, is over after a few attempts.
_one_at_a_time = threading.Lock()
_ATTEMPTS = 20

_FILENAME = "<read by retrograd>"
_UNSAID = Filter("ignore", _FILENAME)  # the parser's warnings name the file as their module


def module_of(source: str) -> ast.Module:
    """The tree of statements."""
    tree = _parsed(source, "exec")
    assert isinstance(tree, ast.Module)
    return tree


def expression_of(text: str) -> ast.expr:
    """The tree of an expression."""
    tree = _parsed(text, "eval")
    assert isinstance(tree, ast.Expression)
    return tree.body


def tree_of(filename: str | None) -> ast.Module:
    """The tree of a file of the program; empty if there is none, or if it is not Python."""
    return tree_in("".join(linecache.getlines(filename)) if filename else "")


@lru_cache(maxsize=16)
def tree_in(source: str) -> ast.Module:
    """The tree of a text; empty if it is not Python, such as a notebook cell with commands."""
    try:
        return module_of(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def names_in(node: ast.AST) -> set[str]:
    """The names that occur in a piece of code."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def parameters_of(signature: ast.arguments) -> dict[str, ast.expr | None]:
    """The parameters that a function has by name, with their defaults; None for those that have none."""
    in_order = [each.arg for each in (*signature.posonlyargs, *signature.args)]
    by_keyword = [each.arg for each in signature.kwonlyargs]
    first = len(in_order) - len(signature.defaults)
    return {
        **dict.fromkeys(in_order[:first]),
        **dict(zip(in_order[first:], signature.defaults, strict=True)),
        **dict(zip(by_keyword, signature.kw_defaults, strict=True)),
    }


def indentation_of(line: str) -> int:
    """How many characters a line is indented by."""
    return len(line) - len(line.lstrip())


def _parsed(source: str, mode: str) -> ast.AST:
    with _one_at_a_time:
        try:
            _UNSAID.put()
            for _ in range(_ATTEMPTS - 1):
                try:
                    return ast.parse(source, _FILENAME, mode)
                except SystemError:
                    continue
            return ast.parse(source, _FILENAME, mode)
        finally:
            _UNSAID.remove()
