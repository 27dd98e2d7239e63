"""What a call of the program's own function computes, as it would be written in the line of the call."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping

from retrograd.anomaly.catalogue._scopes import definition_of, is_global_at
from retrograd.anomaly.catalogue._source_line import Written
from retrograd.anomaly.operation_names import KNOWN, canonical
from retrograd.anomaly.parsing import names_in, parameters_of
from retrograd.anomaly.surroundings import Place

_Function = ast.FunctionDef | ast.Lambda
_Given = Mapping[str, ast.expr]


def inlined(call: Written, place: Place | None) -> tuple[str, dict[str, str]] | None:
    """What a call computes, and its arguments by parameter, as texts.

    None unless the function only names expressions and returns one, its names mean the same at the call, and no call
    among the arguments would be repeated.
    """
    node = call.node
    if place is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    function = definition_of(node.func.id, place)
    given = None if function is None else _given(function, node)
    body = None if function is None else _body(function)
    if given is None or body is None:
        return None
    known, result = dict(given), None
    for name, expression in body:
        free = names_in(expression) - known.keys()
        inner = (ast.Lambda, ast.comprehension, ast.NamedExpr)
        if any(isinstance(each, inner) for each in ast.walk(expression)):
            return None
        own = call.line.written | call.line.parameters()
        if free & own or not all(is_global_at(each, place) for each in free):
            return None
        result = _With(known).visit(copy.deepcopy(expression))
        known |= {name: result} if name is not None else {}
    if result is None or any(_count(result, each) > 1 for each in given.values() if not _is_cheap(each)):
        return None
    return ast.unparse(result), {name: ast.unparse(each) for name, each in given.items()}


class _With(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, given: _Given) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)


def _given(function: _Function, call: ast.Call) -> dict[str, ast.expr] | None:
    """The argument for each parameter of a call, defaults included; None if that cannot be determined."""
    arguments = function.args
    parameters = parameters_of(arguments)
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    starred = any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    )
    if arguments.vararg or arguments.kwarg or starred or len(call.args) > len(names):
        return None
    given = {name: default for name, default in parameters.items() if default is not None}
    given |= dict(zip(names, call.args, strict=False)) | {str(each.arg): each.value for each in call.keywords}
    return given if given.keys() == parameters.keys() else None


def _body(function: _Function) -> list[tuple[str | None, ast.expr]] | None:
    """The names that a function assigns with their expressions, and finally what it returns."""
    if isinstance(function, ast.Lambda):
        return [(None, function.body)]
    found: list[tuple[str | None, ast.expr]] = []
    for statement in function.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        if isinstance(statement, ast.Return) and statement.value is not None:
            return [*found, (None, statement.value)] if statement is function.body[-1] else None
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            return None
        found.append((target.id, statement.value))
    return None


def _count(whole: ast.expr, part: ast.expr) -> int:
    text = ast.dump(part)
    return sum(ast.dump(each) == text for each in ast.walk(whole) if isinstance(each, ast.expr))


def _is_cheap(argument: ast.expr) -> bool:
    """Whether an expression may be computed twice: it calls nothing but operations."""
    return all(name is not None and canonical(name) in KNOWN for name in _called(argument))


def _called(node: ast.expr) -> Iterator[str | None]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            yield getattr(each.func, "attr", getattr(each.func, "id", None))
