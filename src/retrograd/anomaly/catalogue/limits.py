"""Quotients of two that are zero together and tend to a number there: ``sin(x) / x``."""

from __future__ import annotations

import ast

from retrograd.anomaly.catalogue._code import Line, Site, atom, number_written
from retrograd.anomaly.catalogue._expression import first, is_number, maker, same, second, unscaled, value
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause

_LIKE_THEIR_ARGUMENT = ("sin", "tan", "tanh", "asin", "atan", "sinh", "asinh", "expm1", "log1p")  # near 0


@cause(None, "function of x divided by x, at zero")
def removable_zero(scene: Scene) -> Finding | None:
    if scene.op != "div" or scene.kind != "invalid" or scene.backward or value(second(scene.birth)) != 0:
        return None
    above = maker(first(scene.birth), *_LIKE_THEIR_ARGUMENT)
    if above is None or not same(unscaled(first(above)), unscaled(second(scene.birth))):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    name = scene.called(second(scene.birth), "x")
    rewritten = None
    below = None if site is None or site.node is not site.written.node else site.written.argument(1, "other")
    if site is not None and below is not None and (limit := _limit(site, below)) is not None:
        text = site.line.text(below)
        test = f"{atom(text)} == 0"
        quotient = site.line.text(site.node, {below: spelling.where(test, "1.0", text)})
        rewritten = site.replaced(spelling.where(test, f"{limit:g}", quotient))
    general = spelling.where(f"{name} == 0", "limit", f"a / {spelling.where(f'{name} == 0', '1.0', name)}")
    return Finding(
        f"0 / 0 is NaN, although {above.op}(x) / x tends to 1 where x goes to 0. Choose that value there by a "
        "condition, with another one around the denominator, or else its derivative would be NaN. (A small number in "
        "the place of 0 would make the quotient 0, with a derivative that is wrong.)",
        rewritten,
        f"y = {general}",
    )


def _limit(site: Site, below: ast.expr) -> float | None:
    """What a quotient tends to whose numerator is of a multiple of the denominator, by a number in the line."""
    above = site.line.operation_at(site.written.argument(0, "input"))
    argument = above.argument(0, "input") if above is not None and above.op in _LIKE_THEIR_ARGUMENT else None
    if argument is None:
        return None
    inner, outer = _multiple(site.line, argument), _multiple(site.line, below)
    return inner[1] / outer[1] if inner[0] == outer[0] and outer[1] else None


def _multiple(line: Line, node: ast.expr) -> tuple[str, float]:
    """An expression without a factor that is a number, and that factor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (known := number_written(node.right)):
        return line.text(node.left), 1 / known
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if (known := number_written(one)) is not None:
                return line.text(other), known
    return line.text(node), 1.0


@cause(None, "Box-Cox transformation at an exponent of zero")
def box_cox(scene: Scene) -> Finding | None:
    exponent = second(scene.birth)
    if scene.op != "div" or scene.kind != "invalid" or scene.backward or value(exponent) != 0:
        return None
    difference = maker(first(scene.birth), "sub")
    power = maker(first(difference), "pow") if difference is not None else None
    if power is None or difference is None or value(second(difference)) != 1 or not same(second(power), exponent):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    place = scene.site(power, site) if site is not None else None
    rewritten = None
    if site is not None and place is not None and place.node is place.written.node and place.line is site.line:
        above, below = place.written.argument(1, "exponent"), site.written.argument(1, "other")
        if above is not None and below is not None and exponent is not None and not is_number(exponent):
            p = site.line.text(below)
            near = spelling.where(f"{atom(p)} == 0", f"{atom(p)} + {'1e-5' if scene.double else '1e-2'}", p)
            rewritten = site.line.replaced({above: f"near := {near}", below: "near"})
    return Finding(
        "0 / 0 is NaN, although (x ** p - 1) / p tends to log(x) where p goes to 0. Take an exponent close by where it "
        "is exactly 0: value and derivative are then close to those of the limit. (To bound the denominator alone "
        "would make the quotient 0 and its derivative huge.)",
        rewritten,
        f"y = {spelling.call('log', scene.called(first(power), 'x'))}  # where p is 0",
    )


CAUSES = (removable_zero, box_cox)
