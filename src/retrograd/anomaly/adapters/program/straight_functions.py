"""Functions of the program that only name expressions and return one, so that they can be computed step by step.

They may have branches. The conditions have to be computed in order to know which of them a call takes.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol

from retrograd.anomaly.adapters.program.syntax import function_of
from retrograd.anomaly.parsing import names_in, parameters_of
from retrograd.anomaly.stack_frames import is_own


class Computer(Protocol):
    """Computes a call of a function as far as its conditions need it."""

    def assign(self, name: str, value: ast.expr) -> None:
        """Give a name a value, or none if it cannot be computed."""

    def holds(self, test: ast.expr) -> bool:
        """Whether a condition holds; an error if it cannot be computed."""


@dataclass(frozen=True)
class PlainFunction:
    """A function that does nothing but assign to names, branch and return.

    ``outside`` are the variables that it reads besides its parameters and its own.
    """

    code: CodeType
    parameters: Sequence[str]
    defaults: Mapping[str, Any]
    statements: Sequence[ast.stmt]
    outside: ChainMap[str, Any]

    @property
    def has_branches(self) -> bool:
        """Whether what it computes depends on conditions."""
        return any(isinstance(each, ast.If) for statement in self.statements for each in ast.walk(statement))

    def bound(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any] | None:
        """The value of each parameter in a call; None if the arguments do not fit."""
        if len(args) > len(self.parameters) or not set(keywords) <= set(self.parameters[len(args) :]):
            return None
        given = {**self.defaults, **dict(zip(self.parameters, args, strict=False)), **keywords}
        return given if given.keys() == set(self.parameters) else None

    def taken(self, computer: Computer | None = None) -> StraightFunction | None:
        """What a call computes, by the branches that it takes; None if it returns nothing."""
        assigned: list[tuple[str, ast.expr]] = []
        result = _follow(self.statements, computer, assigned)
        if result is None:
            return None
        return StraightFunction(self, assigned, result)


@dataclass(frozen=True)
class StraightFunction:
    """What a call of a function computes: expressions for names, one after the other, and finally its result."""

    function: PlainFunction
    assigned: Sequence[tuple[str, ast.expr]]
    result: ast.expr

    def part(self, number: int) -> StraightFunction | None:
        """The function that computes one of the results alone; None if it does not return a tuple as it is written."""
        if not isinstance(self.result, ast.Tuple) or number >= len(self.result.elts):
            return None
        result = self.result.elts[number]
        needed = set(names_in(result))
        assigned: list[tuple[str, ast.expr]] = []
        for name, value in reversed(self.assigned):
            if name in needed:
                assigned.insert(0, (name, value))
                needed.update(names_in(value))
        return replace(self, assigned=assigned, result=result)


def plain(function: Any) -> PlainFunction | None:
    """A function or method of the program, if it is of that kind."""
    if isinstance(function, MethodType):
        found = plain(function.__func__)
        return None if found is None else _with_first(found, function.__self__)
    if not isinstance(function, FunctionType) or not is_own(function.__code__):
        return None
    node = function_of(function.__code__)
    if node is None or node.args.vararg is not None or node.args.kwarg is not None or hasattr(function, "__wrapped__"):
        return None
    statements: list[ast.stmt] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    if not _are_plain(statements):
        return None
    names = list(parameters_of(node.args))
    positional = names[: function.__code__.co_argcount]
    defaults = dict(zip(positional[::-1], (function.__defaults__ or ())[::-1], strict=False))
    defaults |= function.__kwdefaults__ or {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closure = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return PlainFunction(function.__code__, names, defaults, statements, ChainMap(closure, function.__globals__))


def _with_first(function: PlainFunction, value: Any) -> PlainFunction:
    """A function whose first parameter has a value."""
    first, rest = function.parameters[0], function.parameters[1:]
    defaults = {name: each for name, each in function.defaults.items() if name != first}
    outside = ChainMap({first: value}, *function.outside.maps)
    return replace(function, parameters=rest, defaults=defaults, outside=outside)


def _follow(
    statements: Sequence[ast.stmt], computer: Computer | None, assigned: list[tuple[str, ast.expr]]
) -> ast.expr | None:
    """The result of a call, with what it assigns to names on the way; None if it goes on behind these statements."""
    for statement in statements:
        match statement:
            case ast.Return(value=result):
                return result
            case ast.If(test=test, body=then, orelse=other) if computer is not None:
                result = _follow(then if computer.holds(test) else other, computer, assigned)
                if result is not None:
                    return result
            case _:
                for name, value in _given(statement) or ():
                    assigned.append((name, value))
                    if computer is not None:
                        computer.assign(name, value)
    return None


def _are_plain(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements do nothing but assign to names, branch and return."""
    for statement in statements:
        match statement:
            case ast.If(body=then, orelse=other) if _are_plain(then) and _are_plain(other):
                continue
            case ast.Return(value=ast.expr()):
                continue
            case _ if _given(statement) is not None:
                continue
        return False
    return True


def _given(statement: ast.stmt) -> list[tuple[str, ast.expr]] | None:
    """What a statement assigns to which names; None if it does anything else."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Pass():  # a docstring, or nothing
            return []
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [(name, value)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [(name, value)]
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if _independent(names, values):
            pairs = zip(names, values, strict=True)
            return [(each.id, value) for each, value in pairs if isinstance(each, ast.Name)]
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if _independent(names, [value] * len(names)):
            numbered = enumerate(names)
            return [(each.id, item_of(value, number)) for number, each in numbered if isinstance(each, ast.Name)]
    return None


def item_of(value: ast.expr, number: int) -> ast.Subscript:
    """The expression of one of the items of a value, which stands where that does."""
    return ast.copy_location(ast.Subscript(value, ast.Constant(number), ast.Load()), value)


def _independent(names: Sequence[ast.expr], values: Sequence[ast.expr]) -> bool:
    """Whether values may be assigned to names one after the other instead of together."""
    if len(names) != len(values) or not all(isinstance(each, ast.Name) for each in names):
        return False
    written = {each.id for each in names if isinstance(each, ast.Name)}
    return not any(isinstance(part, ast.Name) and part.id in written for each in values for part in ast.walk(each))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty one raises
    except ValueError:
        return False
    return True
