"""Quotients with a limit where both sides are zero together: ``sin(x) / x``, ``(x ** p - 1) / p``."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from retrograd.anomaly.catalogue._definitions import Definitions
from retrograd.anomaly.catalogue._expression import (
    denominator,
    euclidean,
    first,
    is_number,
    maker,
    same,
    second,
    unscaled,
    value,
)
from retrograd.anomaly.catalogue._repeated_faults import alike
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._scopes import assignments_before, assignments_to, is_given_to, targets_of
from retrograd.anomaly.catalogue._series import SLOPES, leading, limit
from retrograd.anomaly.catalogue._source_line import NOTHING, Line, Site, Written, atom, number_written
from retrograd.anomaly.catalogue.domain import kept_inside
from retrograd.anomaly.catalogue.roots import smoothed
from retrograd.anomaly.parsing import expression_of, names_in
from retrograd.anomaly.surroundings import Operand, Operation

_ODD = ("sin", "tan", "tanh", "sinh", "atanh")
_ZERO_WITH = (*SLOPES, "atanh", "atan2")


@cause(None, "direction of a zero vector, times something that vanishes with its norm")
def direction_with_limit(scene: Scene) -> Finding | None:
    below = second(scene.birth)
    x = euclidean(below)
    norm = maker(below, "norm", "sqrt", "pow")
    if scene.op != "div" or scene.kind != "invalid" or scene.backward or x is None or norm is None:
        return None
    if value(below) != 0 or not _is_undone(scene, norm, x):
        return None
    site = scene.site(scene.birth)
    eps, name = scene.floor, scene.called(x, "x")
    rewritten, place = scene.smoothed_root(below, site, eps) or (smoothed(norm.code_line, scene, eps), norm.place)
    return Finding(
        "The vector is all zeros, so its norm is 0 and the division gives NaN (0/0). The result is multiplied by a "
        "function of the norm that is 0 as well, and the product has a limit and a derivative. A small number under "
        "the root of the norm preserves both. (Clamping the norm would make the derivative 0, and such a vector would "
        "stay 0.)",
        rewritten,
        f"norm = {scene.spelling(site).call('sqrt', f'({name} ** 2).sum(-1, keepdim=True) + {eps}')}",
        place,
    )


def _is_undone(scene: Scene, norm: Operation, x: Operand) -> bool:
    """Whether a vector over its norm is multiplied by a number that is 0 with the norm, as in axis times sin(angle)."""
    site = scene.site(scene.birth)
    name = site.written.argument(1, "other")
    is_direction = same(unscaled(first(scene.birth)), unscaled(x))
    if is_direction and isinstance(name, ast.Name) and is_given_to(_ODD, name.id, scene.birth.place):
        return True  # as far as the line's function tells, which may do more than is recorded
    above = maker(first(scene.birth), "mul")
    products = [*(each for each in scene.chain[1:] if each.op == "mul"), *([] if above is None else [above])]
    return any(_is_zero_with(factor, norm) for product in products for factor in product.args[:2])


def _is_zero_with(operand: Operand, norm: Operation) -> bool:
    """Whether an operand is a multiple of a norm, or of a function of it that is 0 at 0."""
    function = maker(unscaled(operand), *_ZERO_WITH)
    found = maker(unscaled(operand if function is None else first(function)), norm.op)
    return found is not None and (found.place, found.col) == (norm.place, norm.col)


@cause(None, "quantity below its bound, divided by itself")
def bounded_over_itself(scene: Scene) -> Finding | None:
    below = second(scene.birth)
    if scene.op != "div" or scene.kind != "invalid" or scene.backward or value(below) != 0:
        return None
    site = scene.site(scene.birth)
    above, node = (site.written.argument(position, name) for position, name in enumerate(("input", "other")))
    made, bounded = maker(first(scene.birth), *_BOUNDED), site.line.operation_at(above)
    text = "" if node is None else site.line.text(node)
    is_written = bounded.op in _BOUNDED and text in [bounded.text(0, "input"), bounded.text(1, "other")]
    if not is_written and not any(same(each, below) for each in (() if made is None else made.args[:2])):
        return None
    spelling, x = scene.spelling(site), scene.called(below, "x")
    safe, rewritten = spelling.where(f"{x} == 0", "1.0", x), None
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        guarded = site.line.text(site.node, {node: spelling.where(f"{text} == 0", "1.0", text)})
        rewritten = site.replaced(spelling.where(f"{text} == 0", "1.0", guarded))
    return Finding(
        f"0 / 0 is NaN. But below its bound {x} is divided by itself here, and that is 1, however small it is: choose "
        "1 where it is 0, and divide by another number there.",
        rewritten,
        f"w = {spelling.where(f'{x} == 0', '1.0', f'bounded / {safe}')}",
    )


_BOUNDED = ("minimum", "clamp_max", "clamp")


@cause(None, "quotient whose two sides are zero together")
def removable_zero(scene: Scene) -> Finding | None:
    below = second(scene.birth)
    if scene.op != "div" or scene.kind != "invalid" or scene.backward or below is None or value(below) != 0:
        return None
    site = scene.site(scene.birth)
    tends_to = limit(site, Definitions(site, scene.operations()))
    of_itself = maker(first(scene.birth), *SLOPES)
    if tends_to is None and (of_itself is None or not same(unscaled(first(of_itself)), unscaled(below))):
        return None
    if (inside := kept_inside(scene, below, site)) is not None:
        return Finding(
            "0 / 0 is NaN, although the quotient tends to a number there. The denominator is an angle or a distance, "
            "whose derivative at 0 is infinite as well: keep it away from 0, and both stay finite.",
            inside[0],
            place=inside[1],
        )
    spelling = scene.spelling(site)
    name = scene.called(below, "x")
    rewritten = None
    if tends_to is not None and (node := site.written.argument(1, "other")) is not None:
        text = site.line.text(node)
        test = f"{atom(text)} == 0"
        quotient = site.line.text(site.node, {node: spelling.where(test, "1.0", text)})
        rewritten = site.replaced(spelling.where(test, tends_to, quotient))
    general = spelling.where(f"{name} == 0", "limit", f"a / {spelling.where(f'{name} == 0', '1.0', name)}")
    tends = "the quotient tends to a number" if of_itself is None else f"{of_itself.op}(x) / x tends to 1"
    return Finding(
        f"0 / 0 is NaN, although {tends} as x goes to 0. Use a condition to return that limit there, and a second one "
        "around the denominator, because otherwise the derivative would still be NaN. (A small number in place of the "
        "0 would make the quotient 0, with a wrong derivative.)",
        rewritten,
        f"y = {general}",
    )


@cause(None, "derivative divided by its coordinate, where that is zero")
def derivative_over_coordinate(scene: Scene) -> Finding | None:
    below, site = denominator(scene.birth), scene.site(scene.birth)
    if below is None or value(below) != 0 or site.written.op != "div":
        return None
    line, (above, node) = site.line, site.written.arguments[:2]
    product = next((each for each in line.operations if each.op == "mul" and site.node in each.arguments), None)
    whole = site.node if product is None else product.node
    names = [each for each in ast.walk(whole) if isinstance(each, ast.Name)]
    found = [each for each in names if isinstance(node, ast.Name) and _is_derivative(each.id, node.id, scene)]
    if not isinstance(node, ast.Name) or len(found) != 1 or site.node is not site.written.node:
        return None
    r, name, spelling = node.id, found[0].id, scene.spelling(site)
    others = (each for each in assignments_before(scene.birth.place) if _by(each, r, of=name))
    again = next((target for each in others for target in targets_of(each)), None)
    second = again or f"{spelling.library}.autograd.grad({name}.sum(), {r}, create_graph=True)[0]"
    outer = site.node if line.inside(found[0], site.node) else whole
    edits: dict[ast.AST, str] = {site.node: line.text(above, {found[0]: second})}
    limit = line.text(outer, edits if outer is site.node else {**edits, found[0]: second})
    safe = line.text(outer, {node: spelling.where(f"{r} == 0", "1.0", r)})
    chosen = spelling.where(f"{r} == 0", second, f"{name} / {spelling.where(f'{r} == 0', '1.0', r)}")
    return Finding(
        f"{name} is a derivative with respect to {r}, and {r} is 0 here. If the solution is symmetric about the axis, "
        f"its derivative there is 0, and {name} / {r} tends to the second derivative: use that. (A network's "
        "derivative is not exactly 0 there, so dividing by a small number instead would make the quotient huge. "
        "Leaving the axis out of the points works as well.)",
        line.replaced({outer: spelling.where(f"{r} == 0", limit, safe)}),
        f"y = {chosen}",
    )


def _is_derivative(name: str, by: str, scene: Scene) -> bool:
    return any(_by(each, by) for each in assignments_to(name, scene.birth.place))


def _by(statement: ast.Assign, coordinate: str, of: str | None = None) -> bool:
    """Whether a statement computes a derivative by a coordinate: ``u_r = autograd.grad(u.sum(), r)[0]``."""
    for call in ast.walk(statement.value):
        name = getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) else ""
        if isinstance(call, ast.Call) and "grad" in name and len(call.args) > 1:
            by = call.args[1].elts if isinstance(call.args[1], (ast.List, ast.Tuple)) else [call.args[1]]
            is_by = len(by) == 1 and isinstance(by[0], ast.Name) and by[0].id == coordinate
            if is_by and (of is None or names_in(call.args[0]) == {of}):
                return True
    return False


_CHOOSING = ("where", "masked_fill", "nan_to_num")  # which may discard what has no value


@dataclass(frozen=True)
class _Pole:
    """A number at which a denominator is 0: its expression, the condition for it, and a nearby number."""

    node: ast.expr
    test: str
    near: str


@cause(None, "expression with a limit where it divides by zero")
def limit_nearby(scene: Scene) -> Finding | None:
    below = denominator(scene.birth)
    if scene.op not in ("div", "reciprocal") or below is None or value(below) != 0 or is_number(below):
        return None
    if any(each in _CHOOSING for each in scene.later):
        return None
    site = scene.site(scene.birth)
    node = site.written.argument(1, "other") if site.written.op == "div" else None
    if node is None or site.node is not site.written.node or not _has_limit(scene):
        return None
    pole = _pole(scene, site, node, below)
    is_whole = scene.op == "div" and value(first(scene.birth)) == 0
    if is_whole and pole is not None and not _is_zero_with_it(site.line, site.written.argument(0, "input"), pole):
        return None
    others = (
        ()
        if pole is None
        else _elsewhere(site, pole.node, node, () if is_whole else _users(scene), is_single=below.shape == ())
    )
    if pole is None or not others:
        return None
    spelling = scene.spelling(site)
    everywhere = sorted((pole.node, *others), key=site.line.column)
    edits: dict[ast.AST, str] = dict.fromkeys(everywhere, "near")
    edits[everywhere[0]] = f"near := {spelling.where(pole.test, pole.near, site.line.text(pole.node))}"
    name = site.line.text(pole.node)
    above = scene.at(first(scene.birth), 1) if scene.op == "div" else 1
    return Finding(
        f"{above} / 0 is {'NaN' if is_whole else scene.quotient}, although the whole expression tends to a number "
        f"where {pole.test}. Replace {name} by a nearby number there, everywhere in the expression: value and "
        "derivative are then close to those of the limit. (Clamping the denominator alone would give a different "
        "number, with a derivative that is huge or 0.)",
        site.line.replaced(edits),
        f"{name} = {spelling.where(pole.test, pole.near, name)}",
    )


def _is_zero_with_it(line: Line, above: ast.expr | None, pole: _Pole) -> bool:
    """Whether what is divided may be 0 because of the pole: no term of it is another variable that is 0 by itself."""
    written = line.operation_at(above)
    if written.op not in ("add", "sub", "neg", "mul", "div"):
        return True
    if written.op in ("add", "sub"):
        names = names_in(expression_of(pole.test))
        return all(number_written(each) is not None or names & names_in(each) for each in written.arguments)
    return all(_is_zero_with_it(line, each, pole) for each in written.arguments)


def _has_limit(scene: Scene) -> bool:
    """Whether 0 is divided by 0, or the infinity comes to be a power of 1 or a multiple of 0."""
    if value(first(scene.birth)) == 0 and scene.op == "div":
        return True
    used = _user(scene)
    if used is None:
        return False
    if used.op == "sub":  # of one infinity from the other
        return True
    others = [each for each in used.args[:2] if not _comes_from(each, scene.birth)]
    wanted, known = 1 if used.op == "pow" else 0, [value(each) for each in others]
    return used.op in ("pow", "mul") and any(each is None or each != each or each == wanted for each in known)


def _users(scene: Scene) -> tuple[str, ...]:
    """The kinds of operation that may undo an infinity where it is used as it is here."""
    used = _user(scene)
    return ("sub",) if used is not None and used.op == "sub" else ("mul", "pow")


def _user(scene: Scene) -> Operation | None:
    """The first operation that does more with a quotient than to scale or shift it."""
    return next((each for each in scene.chain[1:4] if each.op != "neg" and not _has_number(each)), None)


def _cancel(line: Line, difference: Written) -> bool:
    """Whether a difference is one of two quotients that grow alike where they divide by 0."""
    quotients = [line.operation_at(each) for each in difference.arguments]
    sides = [each.arguments for each in quotients if each.op == "div"]
    above, below = [number_written(one) for one, _ in sides], [leading(line, other) for _, other in sides]
    if len(sides) < 2 or not all(above) or below[0].x != below[1].x or below[0].order != below[1].order:
        return False
    return (above[0] or 0.0) * below[1].factor == (above[1] or 0.0) * below[0].factor


def _has_number(operation: Operation) -> bool:
    return operation.op in ("mul", "add", "sub", "div") and any(is_number(each) for each in operation.args[:2])


def _comes_from(operand: Operand, operation: Operation, depth: int = 3) -> bool:
    made = operand.producer
    if made is None or not depth:
        return False
    is_it = (made.op, made.place, made.col) == (operation.op, operation.place, operation.col)
    return is_it or any(_comes_from(each, operation, depth - 1) for each in made.args[:2])


def _pole(scene: Scene, site: Site, below: ast.expr, operand: Operand) -> _Pole | None:
    line = site.line
    step = "1e-5" if scene.double else "1e-1" if scene.half else "3e-3"
    if _users(scene) == ("sub",) and not scene.half:  # whose digits cancel
        step = "1e-4" if scene.double else "1e-2"
    node = _zero_with(line, below)
    pair = None if node is None else _pair(line, node)
    if pair is not None:
        moved, fixed = pair if number_written(pair[0]) is None else pair[::-1]
        at = value(first(maker(operand, "sub")))
        if not _is_variable(moved):
            return None
        text = line.text(moved)
        near = f"{atom(text)} + {step}" if at == 0 else f"{atom(text)} * (1 + {step})"
        return _Pole(moved, f"{atom(text)} == {atom(line.text(fixed))}", near)
    if node is None or not _is_variable(node):
        return None
    text = line.text(node)
    return _Pole(node, f"{atom(text)} == 0", f"{atom(text)} + {step}")


def _zero_with(line: Line, node: ast.expr) -> ast.expr | None:
    """The variable, or difference of two, with which an expression is 0; None if unknown."""
    while not _is_variable(node):
        written = line.operation_at(node)
        if not written.arguments:
            return None
        sides = written.arguments
        rest = [each for each in sides if number_written(each) is None]
        if written.op in ("mul", "div") and len(rest) == 1:
            node = rest[0]
        elif written.op in (*SLOPES, "neg", "square") or (written.op == "pow" and number_written(sides[-1])):
            node = sides[0]
        elif written.op == "sub" and len(rest) == 1 and (inner := _one_at_zero(line, rest[0])) is not None:
            node = inner
        else:
            return node if _pair(line, node) is not None else None
    return node


def _one_at_zero(line: Line, node: ast.expr) -> ast.expr | None:
    """The ``x`` at whose zero an expression is 1: that of ``exp(x)``, ``cos(x)`` and ``(1 + x) ** n``."""
    written = line.operation_at(node)
    if not written.arguments:
        return None
    if written.op in ("exp", "cos", "cosh"):
        return written.arguments[0]
    base = line.operation_at(written.arguments[0]) if written.op == "pow" else NOTHING
    terms = base.arguments if base.op == "add" else ()
    rest = [each for each in terms if number_written(each) != 1]
    return rest[0] if len(terms) == 2 and len(rest) == 1 else None


def _pair(line: Line, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The two expressions that are equal where this one is 0: ``a`` and ``b`` for ``a - b`` and ``log(a / b)``."""
    written = line.operation_at(node)
    if written.op == "log" and written.arguments:
        written = line.operation_at(written.arguments[0])
        wanted = "div"
    else:
        wanted = "sub"
    if written.op != wanted or written.form != "operator" or len(written.arguments) != 2:
        return None
    return written.arguments[0], written.arguments[1]


def _is_variable(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))


def _elsewhere(
    site: Site, node: ast.expr, below: ast.expr, users: tuple[str, ...], *, is_single: bool
) -> tuple[ast.expr, ...]:
    """The places besides a denominator in which an expression stands in a quotient, or in what uses it.

    That is an operation of one of the kinds ``users``. ``is_single`` says that the expression is one number for all
    elements. None if it only divides there, too, but for two quotients that cancel.
    """
    line = site.line
    around = [each for each in line.operations if each.node is not site.node and line.inside(site.node, each.node)]
    used = next((each for each in reversed(around) if each.op in users), None)
    outer = site.node if used is None else used.node
    others = [each for each in line.same(node) if each is not node and line.inside(each, outer)]
    if not is_single and any(_is_moved(line, each, outer) for each in others):
        return ()
    if used is not None and used.op == "sub":
        return tuple(others) if _cancel(line, used) else ()
    poles = (below, *alike(line, site.written))
    kept = any(not any(line.inside(each, pole) for pole in poles) for each in others)
    return tuple(others) if kept else ()


_ELEMENTWISE = frozenset(SLOPES) | {
    *("abs", "acos", "acosh", "add", "atan2", "atanh", "clamp", "cos", "cosh", "div", "erf", "exp", "exp2", "log"),
    *("log10", "log2", "logsigmoid", "mul", "neg", "pow", "reciprocal", "rsqrt", "sigmoid", "softplus", "sqrt"),
    *("square", "sub", "where"),
}


def _is_moved(line: Line, node: ast.expr, outer: ast.AST) -> bool:
    """Whether a variable stands in what is no function of its single elements: a sum, a part of it, a shift."""
    around = (each for each in ast.walk(outer) if isinstance(each, (ast.Call, ast.Subscript)) and each is not node)
    written = [line.operation_at(each) for each in around if line.inside(node, each)]
    return any(each.op not in _ELEMENTWISE for each in written)


CAUSES = (bounded_over_itself, direction_with_limit, derivative_over_coordinate, removable_zero, limit_nearby)
