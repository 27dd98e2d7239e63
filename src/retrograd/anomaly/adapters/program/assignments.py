"""Static analysis of which statements of a function give a variable its value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from retrograd.anomaly.adapters.program.syntax import body, lines_of, variables_in
from retrograd.anomaly.parsing import expression_of
from retrograd.core import sites


class Made(NamedTuple):
    """How a variable of a function got its value.

    Attributes
    ----------
    lines
        The lines of the statements that assign it, of those that assign what these read, and so on.
    variables
        The other variables that they read, but not those that are only assigned together with it.
    """

    lines: frozenset[int]
    variables: frozenset[str]


class _Statement(NamedTuple):
    """A statement that assigns variables, or the head of a compound one."""

    lines: range
    gives: frozenset[str]
    reads: frozenset[str]


def made(code: CodeType, name: str) -> Made:
    """How a variable of a function got its value, regardless of the order of its statements.

    Parameters
    ----------
    name
        The variable; it may be an attribute or an item: ``batch.weight``.
    """
    statements = list(_statements(code))
    wanted = {name, name.partition(".")[0].partition("[")[0]}
    lines: set[int] = set()
    while found := [each for each in statements if each.gives & wanted]:
        for each in found:
            statements.remove(each)
            lines.update(each.lines)
            wanted |= each.reads
    return Made(frozenset(lines), frozenset(wanted - {name}))


@lru_cache(maxsize=256)
def calls_behind(code: CodeType, name: str, lineno: int | None = None) -> tuple[str, ...]:
    """The functions called in the statements of :func:`made`, as written: ``self.encoder``; the last one first.

    If the line is given that assigned the variable, only those in its statement.
    """
    lines = made(code, name).lines if lineno is None else frozenset(statement_at(code, lineno))
    calls = [node for node in body(code) if isinstance(node, ast.Call) and lines.issuperset(lines_of(node))]
    written = [ast.unparse(each.func) for each in sorted(calls, key=lambda each: -each.lineno)]
    return tuple(dict.fromkeys(each for each in written if each.replace(".", "").isidentifier()))


@lru_cache(maxsize=1024)
def sources(code: CodeType, name: str) -> tuple[str, ...]:
    """The variables read by the statements that assign this one."""
    return tuple(sorted({read for each in _statements(code) if name in each.gives for read in each.reads}))


def last_given(code: CodeType, name: str, lineno: int) -> tuple[int, frozenset[str]] | None:
    """The line of the last statement above a line that assigns a variable from others, and which these are."""
    above = [each for each in _statements(code) if name in each.gives and each.reads and each.lines.start < lineno]
    last = max(above, key=lambda each: each.lines.start, default=None)
    return None if last is None else (last.lines.start, last.reads)


def is_given_at(code: CodeType, name: str, lineno: int) -> bool:
    """Whether a statement on a line assigns a variable."""
    return any(name in each.gives and lineno in each.lines for each in _statements(code))


def statement_at(code: CodeType, lineno: int) -> range:
    """The lines of the innermost statement of a function around a line."""
    around = [lines_of(node) for node in body(code) if isinstance(node, ast.stmt) and lineno in lines_of(node)]
    return min(around, key=len, default=range(lineno, lineno + 1))


def exclude_each_other(code: CodeType, one: int, other: int) -> bool:
    """Whether two lines of a function are in different branches of one condition, so that only one runs."""
    return any(
        (one in first and other in second) or (one in second and other in first) for first, second in _branches(code)
    )


def is_sure_before(code: CodeType, earlier: int, later: int) -> bool:
    """Whether an earlier line has run whenever a later one runs, as far as conditions decide that."""
    return all(later in branch for pair in _branches(code) for branch in pair if earlier in branch)


def conditions_around(code: CodeType, lineno: int) -> Iterator[tuple[int, ast.expr, bool]]:
    """The conditions on which a line of a function runs: their lines, themselves, and whether they must hold."""
    for node in body(code):
        if isinstance(node, ast.If):
            for branch, holds in ((node.body, True), (node.orelse, False)):
                if lineno in _lines_in(branch):
                    yield node.lineno, node.test, holds


def is_given_later_in_loop(code: CodeType, lineno: int, name: str, above: int) -> bool:
    """Whether a loop around a line assigns a variable at or below it, whose first value is assigned above the loop."""
    loops = [lines_of(node) for node in body(code) if isinstance(node, (ast.For, ast.AsyncFor, ast.While))]
    around = [loop for loop in loops if lineno in loop and above not in loop]
    given = (each.lines.start for each in _statements(code) if name in each.gives)
    return any(line >= lineno and line in loop for line in given for loop in around)


def is_given_between(code: CodeType, name: str, first: int, last: int) -> bool:
    """Whether an assignment or a loop head between two lines of a function assigns a variable."""
    nodes = [node for node in body(code) if isinstance(node, (ast.Assign, ast.AugAssign, ast.For, ast.AsyncFor))]
    between = [node for node in nodes if first < node.lineno < last]
    targets = [
        target for node in between for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(name in _given(target) for target in targets)


def unpacked_with(code: CodeType | None, at: int, name: str) -> tuple[str, ...]:
    """The variables unpacked together with one, itself included: both, for ``for x, y in loader``.

    The unpacking is the last one above the instruction in its function; empty if the variable has been reassigned
    since.
    """
    if code is None:
        return ()
    here = sites.line_of(code, at)
    above = [node for node in body(code) if isinstance(node, (ast.For, ast.Assign)) and node.lineno < here]
    for node in sorted(above, key=lambda node: node.lineno, reverse=True):
        target, source = (node.target, node.iter) if isinstance(node, ast.For) else (node.targets[0], node.value)
        for each in ast.walk(target):
            if isinstance(each, ast.Tuple) and any(_is_named(item, name) for item in each.elts):
                names = [item.id for item in each.elts if isinstance(item, ast.Name)]
                return tuple(names) if len(names) == len(each.elts) else ()
        if _is_named(target, name) and not any(_is_named(each, name) for each in ast.walk(source)):
            return ()
    return ()


def first_line_with(code: CodeType, lineno: int, name: str) -> int | None:
    """The first line of a function at which a variable has the value it has at ``lineno``; None if unknown.

    That is the first line of the body of the loop that assigns it, after its assignment, or of the function.

    Parameters
    ----------
    name
        The variable; it may be an attribute or an item: ``batch["x"]``.
    """
    variable = re.split(r"[.\[]", name, maxsplit=1)[0]
    nodes = list(body(code))
    above = [node for node in nodes if isinstance(node, (ast.For, ast.Assign)) and node.lineno < lineno]
    for node in sorted(above, key=lambda node: node.lineno, reverse=True):
        targets = [node.target] if isinstance(node, ast.For) else node.targets
        if variable in {given for target in targets for given in variables_in(target)}:
            return node.body[0].lineno if isinstance(node, ast.For) else lines_of(node).stop
    if variable in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return min((node.lineno for node in nodes if isinstance(node, ast.stmt) and not _is_text(node)), default=None)
    return None


def is_item_of(code: CodeType, written: str, name: str) -> bool:
    """Whether an expression of a function is an item of a variable: ``name[i]``, or ``x`` after ``for x in name``."""
    expression = expression_of(written)
    if isinstance(expression, ast.Subscript):
        return _root(expression) == name
    for node in body(code) if isinstance(expression, ast.Name) else ():
        match node:
            case ast.For(target=target, iter=value) if written in _given(target):
                if any(_root(each) == name for each in _iterated(value)):
                    return True
            case ast.Assign(targets=targets, value=ast.Subscript() as value) if _root(value) == name:
                if any(written in _given(target) for target in targets):
                    return True
    return False


def _iterated(written: ast.expr) -> list[ast.expr]:
    """What a loop takes items of: ``x`` and ``y`` in ``zip(x, y)``."""
    match written:
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed"), args=args):
            return args
    return [written]


def _root(written: ast.expr) -> str:
    """The variable, or attribute of one, of which an expression is an item."""
    while isinstance(written, ast.Subscript):
        written = written.value
    return ast.unparse(written)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@lru_cache(maxsize=256)
def left_over(code: CodeType, lineno: int) -> frozenset[str]:
    """The variables of loops not around a line, which have ended or not begun, and that nothing else assigns."""
    loops = [node for node in body(code) if isinstance(node, (ast.For, ast.AsyncFor))]
    ended = {name for loop in loops if lineno not in lines_of(loop) for name in _given(loop.target)}
    heads = {lines_of(loop.iter) for loop in loops}
    return frozenset(ended.difference(*(each.gives for each in _statements(code) if each.lines not in heads)))


def _is_named(written: ast.AST, name: str) -> bool:
    return isinstance(written, ast.Name) and written.id == name


@lru_cache(maxsize=256)
def _statements(code: CodeType) -> tuple[_Statement, ...]:
    return tuple(_statements_in(body(code)))


def _statements_in(nodes: Iterable[ast.AST]) -> Iterator[_Statement]:
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if _fit(targets, values):
                for target, value in zip(targets, values, strict=True):
                    yield _statement(node, [target], [value])
            case ast.Assign(targets=targets, value=value):
                yield _statement(node, targets, [value])
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield _statement(node, [target], [value])
            case ast.AugAssign(target=target, value=value):
                yield _statement(node, [target], [target, value])
            case ast.NamedExpr(target=target, value=value):
                yield _statement(node, [target], [value])
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield _statement(value, [target], [value])
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield _statement(value, [target], [value])
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner)) as call) if not _is_self(owner):
                yield _statement(node, [owner], [call])  # such as parts.append(part)


def _is_self(owner: ast.expr) -> bool:
    """Whether it is ``self``: a method call on it must not count as an assignment to everything it holds."""
    return isinstance(owner, ast.Name) and owner.id == "self"


@lru_cache(maxsize=256)
def _branches(code: CodeType) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
    """The lines of the two branches of every ``if`` in a function."""
    conditions = (node for node in body(code) if isinstance(node, ast.If))
    return tuple((_lines_in(node.body), _lines_in(node.orelse)) for node in conditions)


def _lines_in(statements: Iterable[ast.AST]) -> frozenset[int]:
    return frozenset(line for each in statements for line in lines_of(each))


def _fit(targets: list[ast.expr], values: list[ast.expr]) -> bool:
    """Whether targets and values pair up one by one, as in ``a, b = b, a``."""
    return len(targets) == len(values) and not any(isinstance(each, ast.Starred) for each in (*targets, *values))


def _statement(node: ast.AST, targets: list[ast.expr], values: list[ast.expr]) -> _Statement:
    gives = frozenset(name for target in targets for name in _given(target))
    return _Statement(lines_of(node), gives, frozenset(name for value in values for name in variables_in(value)))


def _given(target: ast.expr) -> Iterator[str]:
    """The variables that an assignment sets, wholly or in part."""
    match target:
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for each in targets:
                yield from _given(each)
        case ast.Starred(value=each) | ast.Subscript(value=each):
            yield from _given(each)
        case ast.Name() | ast.Attribute():
            yield ast.unparse(target)
