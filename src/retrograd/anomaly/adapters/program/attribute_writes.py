"""The lines of a class that write to an attribute of its objects, and what they write."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType

from retrograd.anomaly.adapters.program.syntax import file_of, function_of, inside
from retrograd.anomaly.stack_frames import is_own


@dataclass(frozen=True)
class Write:
    """A statement in a method; ``value`` is what it writes to ``owner.attribute``, if it replaces all of it."""

    code: CodeType
    owner: str
    statement: ast.stmt
    value: ast.expr | None


def writes_to(kind: type, attribute: str) -> Iterator[Write]:
    """The statements that write to an attribute in the methods of the program's own classes, after construction.

    The attribute may be one of another object that is an attribute: ``"embedding.weight"``.
    """
    methods = {name: each for base in reversed(kind.__mro__) for name, each in vars(base).items()}
    for name, method in methods.items():
        if isinstance(method, FunctionType) and name != "__init__":
            for owner, each in _statements(method.__code__):
                if (found := _written(each, f"{owner}.{attribute}")) is not None:
                    yield Write(method.__code__, owner, each, found[0])


def constructions(kind: type, attribute: str) -> Iterator[tuple[CodeType, ast.stmt]]:
    """The statements that make an attribute when an object is constructed, and the functions that they are in.

    Buffers are made by calls of ``register_buffer``, which the program may have given to a variable.
    """
    for base in kind.__mro__:
        made = vars(base).get("__init__")
        if isinstance(made, FunctionType):
            for owner, each in _statements(made.__code__):
                if _registers(each, attribute) or _written(each, f"{owner}.{attribute}") is not None:
                    yield made.__code__, each


def _statements(code: CodeType) -> Iterator[tuple[str, ast.stmt]]:
    """The statements of a method of the program's own, and what it calls the object."""
    node = function_of(code) if is_own(code) and code.co_argcount else None
    for each in () if node is None else inside(node):
        if isinstance(each, ast.stmt):
            yield code.co_varnames[0], each


def _registers(statement: ast.stmt, attribute: str) -> bool:
    """Whether a statement registers a buffer of that name."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=[name, *_])):
            return called == "register_buffer" and isinstance(name, ast.Constant) and name.value == attribute
    return False


def lines_that_write(code: CodeType, attribute: str) -> list[int]:
    """The lines in a function's file that write to this attribute of any object, or change what it holds in place."""
    statements = (each for each in ast.walk(file_of(code)) if isinstance(each, ast.stmt))
    return sorted({each.lineno for each in statements if any(_is_of(attribute, target) for target in _targets(each))})


def lines_that_keep(code: CodeType, name: str) -> list[int]:
    """The lines in a function's file that write to an attribute, ``self.name``, outside of ``__init__``.

    What they write is kept from one call to the next.
    """
    _, dot, attribute = name.rpartition(".")
    if not dot or not attribute.isidentifier():
        return []
    tree = file_of(code)
    made = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    first = [(each.lineno, each.end_lineno or each.lineno) for each in made]
    lines = lines_that_write(code, attribute)
    return [each for each in lines if not any(low <= each <= high for low, high in first)]


def _targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement writes to, as far as it can be seen."""
    match statement:
        case ast.Assign(targets=targets):
            yield from targets
        case ast.AugAssign(target=target):
            yield target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=changed, attr=method))) if method.endswith("_"):
            yield changed


def _is_of(attribute: str, node: ast.expr) -> bool:
    """Whether an expression is an attribute of that name, its ``data``, or an item of it."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == attribute


def _written(statement: ast.stmt, target: str) -> tuple[ast.expr | None] | None:
    """What a statement writes to a target, in a tuple; None if it does not write to it."""
    match statement:
        case ast.Assign(targets=[ast.Attribute() as to], value=value) if _is(to, target):
            return (_wrapped(value),)
        case ast.Assign(targets=[ast.Subscript(value=to, slice=ast.Slice(None, None, None))], value=value) if _is(
            to, target
        ):
            return (value,)
        case ast.Assign(targets=[ast.Subscript(value=to)]) | ast.AugAssign(target=to) if _is(to, target):
            return (None,)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=to, attr="copy_"), args=[value])) if _is(to, target):
            return (value,)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=to, attr=method))) if method.endswith("_"):
            return (None,) if _is(to, target) else None
    return None


def _wrapped(value: ast.expr) -> ast.expr:
    """What is made a parameter or a buffer, as in ``nn.Parameter(total / count)``."""
    match value:
        case ast.Call(func=ast.Attribute(attr="Parameter" | "Buffer") | ast.Name(id="Parameter" | "Buffer"), args=[of]):
            return of
    return value


def _is(node: ast.expr, target: str) -> bool:
    """Whether an expression is the target or its ``data``; through a chain of methods that change it in place."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        node = node.func.value
    return ast.unparse(node) in (target, f"{target}.data")
