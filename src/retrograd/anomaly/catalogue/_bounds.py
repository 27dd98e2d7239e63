"""Bounds for the exponent of an exponential, also where its line or function uses the same variable outside of it."""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Iterable

from retrograd.anomaly.catalogue._expression import EXPONENTIALS, first, source
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.catalogue._scopes import assignments_to, reads_of, targets_of
from retrograd.anomaly.catalogue._source_line import Line, number_written
from retrograd.anomaly.surroundings import Place


def bounded_everywhere(scene: Scene, limit: float) -> tuple[str, str] | None:
    """The line with the variable in the exponent bounded in all of its uses, and that variable.

    None unless the line has a term that opposes the exponential, as ``log_var`` does in ``log_var + d ** 2 *
    exp(-log_var)``: with a bound in the exponential alone, it would move the variable further out in every step.

    Parameters
    ----------
    scene
        The scene of an exponential.
    limit
        The largest exponent, or, if negative, the smallest.
    """
    site = scene.site(scene.birth)
    node = site.written.argument(0, "input") if site.node is site.written.node else None
    multiple = None if node is None else _multiple(node)
    if multiple is None:
        return None
    line, (factor, variable) = site.line, multiple
    exponents = [x for each in line.operations if each.op in EXPONENTIALS and (x := each.argument(0, "input"))]
    uses = line.same(variable)
    outside = [each for each in uses if not any(line.inside(each, x) for x in exponents)]
    terms = [each for each in outside if _is_term(line, each)]
    own = _sign(line, site.written.node) * factor
    if not any(_sign(line, each) * own < 0 for each in terms):
        return None
    factors = [made[0] for x in exponents if (made := _multiple(x)) and ast.dump(made[1]) == ast.dump(variable)]
    bounds = [limit / factor for factor in factors]
    low, high = _nearest(x for x in bounds if x < 0), _nearest(x for x in bounds if x > 0)
    bounded = scene.spelling(site).clamp(line.text(variable), low, high)
    new = line.replaced(dict.fromkeys((each for each in uses if each in terms or each not in outside), bounded))
    return None if new is None else (new, line.text(variable))


def bounded_where_made(scene: Scene, limit: float) -> tuple[str, Place, str] | None:
    """The statement that makes the variable in the exponent, with a bound; its place; and the other lines that read it.

    None unless other lines of its function use the variable as well, as a flow's layer does, which returns the sum of
    its log-scales beside what it has scaled by their exponentials: the two have to agree. None for parameters and data.

    Parameters
    ----------
    scene
        The scene of an exponential.
    limit
        The largest exponent.
    """
    site, place = scene.site(scene.birth), scene.birth.place
    node = site.written.argument(0, "input") if site.node is site.written.node else None
    multiple = None if node is None or source(first(scene.birth)).producer is None else _multiple(node)
    if place is None or multiple is None or not isinstance(multiple[1], ast.Name):
        return None
    factor, name = multiple[0], multiple[1].id
    made = [each for each in assignments_to(name, place) if targets_of(each) == {name}]
    reads = reads_of(name, place)
    if len(made) != 1 or not reads or not made[0].lineno < place.lineno or made[0].lineno != made[0].end_lineno:
        return None
    others = sorted({each.lineno for each in reads if each.lineno > made[0].lineno} - {place.lineno})
    others = [each for each in others if not _only_in_exponents(name, each, place)]
    line = Line.parse(linecache.getline(place.filename or "", made[0].lineno).strip())
    if not others or line.assignment is None or line.assignment[0] != name:
        return None
    value, bound = line.assignment[1], str(math.copysign(math.floor(2 * abs(limit / factor)) / 2, factor))
    low, high = (None, bound) if factor > 0 else (bound, None)
    new = line.replaced({value: scene.spelling(site).clamp(line.text(value), low, high)})
    readers = f"line {others[0]} uses" if len(others) == 1 else f"lines {', '.join(map(str, others))} use"
    return None if new is None else (new, place._replace(lineno=made[0].lineno), f"{name}, which {readers}")


def _only_in_exponents(name: str, lineno: int, place: Place) -> bool:
    """Whether a line uses a variable in exponentials alone: with two of them, a bound would change their product."""
    line = Line.parse(linecache.getline(place.filename or "", lineno).strip())
    exponents = [x for each in line.operations if each.op in EXPONENTIALS and (x := each.argument(0, "input"))]
    used = [each for each in line.names() if each.id == name]
    return bool(used) and all(any(line.inside(each, x) for x in exponents) for each in used)


def _is_term(line: Line, node: ast.expr) -> bool:
    """Whether an expression, or a multiple of it, is a term of a sum."""
    for each in line.operations:
        if node in each.arguments and each.op in ("add", "sub"):
            return True
        if node in each.arguments and each.op == "mul" and any(number_written(other) for other in each.arguments):
            return _is_term(line, each.node) if isinstance(each.node, ast.expr) else False
    return False


def _sign(line: Line, node: ast.AST) -> int:
    """Whether what contains an expression grows with it, 1, or falls, -1, as far as sums and numbers tell."""
    sign = 1
    for each in line.operations:
        if each.node is node or not line.inside(node, each.node):
            continue
        is_taken_off = each.op == "sub" and len(each.arguments) > 1 and line.inside(node, each.arguments[1])
        is_negative = each.op == "mul" and any((number_written(other) or 0) < 0 for other in each.arguments)
        sign *= -1 if is_taken_off or is_negative or each.op == "neg" else 1
    return sign


def _nearest(bounds: Iterable[float]) -> str | None:
    """The bound nearest to 0 as code, rounded towards 0 to halves."""
    nearest = min(bounds, key=abs, default=None)
    return None if nearest is None else str(math.copysign(math.floor(2 * abs(nearest)) / 2, nearest))


def _multiple(node: ast.expr) -> tuple[float, ast.expr] | None:
    """An expression as a number times another one: ``-0.5 * x`` is -0.5 times ``x``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = _multiple(node.operand)
        return None if found is None else (-found[0], found[1])
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        left, right = number_written(node.left), number_written(node.right)
        if right:
            found, factor = _multiple(node.left), right if isinstance(node.op, ast.Mult) else 1 / right
        elif left and isinstance(node.op, ast.Mult):
            found, factor = _multiple(node.right), left
        else:
            return None
        return None if found is None else (found[0] * factor, found[1])
    return (1.0, node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
