"""Functions of the program that only name expressions and return one, so that they can be computed step by step."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, MethodType
from typing import Any

from retrograd.anomaly.adapters.program.syntax import function_of
from retrograd.anomaly.parsing import names_in, parameters_of
from retrograd.anomaly.stack_frames import is_own


@dataclass(frozen=True)
class StraightFunction:
    """What a function computes: expressions for names, one after the other, and finally its result.

    ``outside`` are the variables that it reads besides its parameters and its own.
    """

    code: CodeType
    parameters: Sequence[str]
    defaults: Mapping[str, Any]
    assigned: Sequence[tuple[str, ast.expr]]
    result: ast.expr
    outside: ChainMap[str, Any]

    def bound(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any] | None:
        """The value of each parameter in a call; None if the arguments do not fit."""
        if len(args) > len(self.parameters) or not set(keywords) <= set(self.parameters[len(args) :]):
            return None
        given = {**self.defaults, **dict(zip(self.parameters, args, strict=False)), **keywords}
        return given if given.keys() == set(self.parameters) else None

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


def straight(function: Any) -> StraightFunction | None:
    """A function or method of the program, if it consists of assignments to names and a result at its end."""
    if isinstance(function, MethodType):
        found = straight(function.__func__)
        return None if found is None else _with_first(found, function.__self__)
    if not isinstance(function, FunctionType) or not is_own(function.__code__):
        return None
    node = function_of(function.__code__)
    if node is None or node.args.vararg is not None or node.args.kwarg is not None or hasattr(function, "__wrapped__"):
        return None
    body = _straight_body(node)
    if body is None:
        return None
    names = list(parameters_of(node.args))
    positional = names[: function.__code__.co_argcount]
    defaults = dict(zip(positional[::-1], (function.__defaults__ or ())[::-1], strict=False))
    defaults |= function.__kwdefaults__ or {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closure = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    outside = ChainMap(closure, function.__globals__)
    return StraightFunction(function.__code__, names, defaults, *body, outside)


def _with_first(function: StraightFunction, value: Any) -> StraightFunction:
    """A function whose first parameter has a value."""
    first, rest = function.parameters[0], function.parameters[1:]
    return StraightFunction(
        function.code,
        rest,
        {name: each for name, each in function.defaults.items() if name != first},
        function.assigned,
        function.result,
        ChainMap({first: value}, *function.outside.maps),
    )


def _straight_body(node: ast.FunctionDef | ast.Lambda) -> tuple[list[tuple[str, ast.expr]], ast.expr] | None:
    if isinstance(node, ast.Lambda):
        return [], node.body
    assigned: list[tuple[str, ast.expr]] = []
    for statement in node.body:
        match statement:
            case ast.Expr(value=ast.Constant()):  # a docstring
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                assigned.append((name, value))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if _independent(
                names, values
            ):
                pairs = zip(names, values, strict=True)
                assigned += [(each.id, value) for each, value in pairs if isinstance(each, ast.Name)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if _independent(names, [value] * len(names)):
                assigned += [
                    (each.id, item_of(value, number)) for number, each in enumerate(names) if isinstance(each, ast.Name)
                ]
            case ast.Return(value=ast.expr() as result) if statement is node.body[-1]:
                return assigned, result
            case _:
                return None
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
