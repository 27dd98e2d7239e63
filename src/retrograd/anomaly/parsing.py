"""The syntax trees of what stands in the user's program.

Python has said what it has to say about the code when it compiled it: what it would say of an invalid escape sequence,
or of a ``return`` in a ``finally``, is not said again of a part of the code without its file, nor made an error of.
"""

from __future__ import annotations

import ast
import warnings


def module_of(source: str) -> ast.Module:
    """The tree of statements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def expression_of(text: str) -> ast.expr:
    """The tree of an expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body
