"""Learning rates that a program writes into updates of its own: ``p - 0.5 * g``, ``w -= lr * w.grad``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from retrograd.anomaly.adapters.program.optimizer_construction import told
from retrograd.anomaly.adapters.program.syntax import body, file_of, functions_beside
from retrograd.anomaly.catalogue._source_line import dotted, number_written
from retrograd.anomaly.parsing import parameters_of
from retrograd.anomaly.stack_frames import is_own, user_frames

_ROUNDS = 3  # a gradient reassigned to new names this many times is still recognised


def rate_written(frame: FrameType | None) -> dict[str, Any]:
    """The learning rate of a program's own updates, for the context of an event; empty unless there is just one.

    It includes its value and the line that writes the number, if these are known.
    """
    for each in user_frames(frame):  # rates in unrelated functions belong to another training
        if is_own(each.f_code):
            tree = file_of(each.f_code)
            rates = {ast.unparse(rate): rate for rate in _rates(_run_by(each.f_code), _gradients(tree))}
            if len(rates) == 1:
                ((text, rate),) = rates.items()
                found = _number(tree, rate)
                return {"rate": ({} if found is None else told(each.f_code.co_filename, found)) | {"name": text}}
    return {}


def _run_by(code: CodeType) -> Iterator[ast.AST]:
    """The nodes of a function, of its lambdas, and of the functions in its file that it calls by name."""
    own = list(body(code))
    called = {_last(dotted(each.func) or "") for each in own if isinstance(each, ast.Call)}
    yield from own
    for each in own:
        if isinstance(each, ast.Lambda):
            yield from ast.walk(each.body)
    for function in functions_beside(code):
        if function.name in called:
            yield from ast.walk(function)


def _rates(nodes: Iterable[ast.AST], gradients: AbstractSet[str]) -> Iterator[ast.expr]:
    """The expressions by which gradients are multiplied before they are subtracted."""
    for node in nodes:
        step = None
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Sub):
            step = node.right if isinstance(node, ast.BinOp) else node.value
        if isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult):
            for rate, other in ((step.left, step.right), (step.right, step.left)):
                is_rate = number_written(rate) is not None or (dotted(rate) and not _is_gradient(rate, gradients))
                if is_rate and _is_gradient(other, gradients):
                    yield rate
                    break


@lru_cache(maxsize=8)  # as many as there are trees of files, each of which serves many events
def _gradients(tree: ast.Module) -> frozenset[str]:
    """The variables that hold gradients, judging by what is assigned to them."""
    found: set[str] = set()
    nodes = list(ast.walk(tree))
    for _ in range(_ROUNDS):
        known = len(found)
        for node in nodes:
            if isinstance(node, ast.Assign) and _is_gradient(node.value, found):
                names = (each for target in node.targets for each in ast.walk(target))
                found |= {each.id for each in names if isinstance(each, ast.Name)}
            elif isinstance(node, (ast.For, ast.comprehension)):
                found |= _paired(node.target, node.iter, found)
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Lambda):
                params = [each.arg for each in node.args[0].args.args]
                given = zip(params, node.args[1:], strict=False)  # as in a map over several trees
                found |= {param for param, value in given if _is_gradient(value, found)}
        if len(found) == known:
            break
    return frozenset(found)


def _paired(target: ast.expr, source: ast.expr, gradients: AbstractSet[str]) -> set[str]:
    """The loop variables that run through gradients, alone or in a ``zip``."""
    pairs = [(target, source)]
    if isinstance(target, ast.Tuple) and isinstance(source, ast.Call) and dotted(source.func) == "zip":
        pairs = list(zip(target.elts, source.args, strict=False))
    return {each.id for each, value in pairs if isinstance(each, ast.Name) and _is_gradient(value, gradients)}


def _is_gradient(node: ast.expr, gradients: AbstractSet[str]) -> bool:
    """Whether an expression is one or several gradients: ``w.grad``, ``grads["w"]``, ``grad(loss)(w)``."""
    if isinstance(node, ast.Name):
        return node.id in gradients
    if isinstance(node, ast.Attribute):
        return node.attr == "grad" or _is_gradient(node.value, gradients)
    if isinstance(node, ast.Subscript):
        return _is_gradient(node.value, gradients)
    if isinstance(node, ast.ListComp):
        return _is_gradient(node.elt, gradients)
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        return _is_gradient(node.func, gradients) if name is None else name in gradients or "grad" in _last(name)
    return False


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _number(tree: ast.Module, rate: ast.expr) -> ast.expr | None:
    """The expression that writes the number: in the update, or the only value assigned to the variable."""
    if number_written(rate) is not None:
        return rate
    if not isinstance(rate, ast.Name):
        return None
    given: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == rate.id for each in node.targets
        ):
            given.append(node.value)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)) and getattr(node.target, "id", "") == rate.id:
            return None
        elif isinstance(node, ast.arguments) and rate.id in (parameters := parameters_of(node)):
            default = parameters[rate.id]
            if default is None:
                return None
            given.append(default)
    return given[0] if len(given) == 1 and number_written(given[0]) is not None else None
