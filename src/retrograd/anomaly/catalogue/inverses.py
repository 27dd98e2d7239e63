"""A function followed by its inverse, with an intermediate result out of range: ``logit(sigmoid(x))``."""

from __future__ import annotations

from collections.abc import Callable

from retrograd.anomaly.catalogue._expression import first, maker, root, second, squared, value
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import NOTHING, Site, Written, atom, number_written
from retrograd.anomaly.catalogue.domain import bounds, clamped, general
from retrograd.anomaly.surroundings import Operation

_INVERSES = {"logit": "sigmoid", "atanh": "tanh", "erfinv": "erf", "ndtri": "ndtr"}


@cause(None, "function and its inverse")
def inverse(scene: Scene) -> Finding | None:
    made = maker(first(scene.birth), _INVERSES.get(scene.op, ""))
    if made is None or scene.complex or not scene.site(scene.birth):
        return None  # or one that a distribution has called
    happened = (
        f"{made.op}({scene.at(first(made), 'x')}) rounds to {scene.at(first(scene.birth), 1.0)}, the end of its "
        f"interval, where {scene.op} is infinite. {scene.op} merely inverts {made.op}: use the input of {made.op} "
    )
    place = scene.birth.place
    if made.place is not None and place is not None and not place.sees(made.place):
        low, high = bounds(scene, scene.op)
        return Finding(
            f"{happened}directly, if it can be kept along with the result and passed on. Otherwise clamp the argument "
            "inside the interval.",
            clamped(scene, low, high),
            general(scene, low, high),
        )
    name = scene.taken(made, "x")
    return Finding(f"{happened}directly.", _rewritten(scene, scene.birth, made, lambda x: x), f"y = {name}")


@cause(None, "root of a square")
def root_of_square(scene: Scene) -> Finding | None:
    if scene.complex:
        return None
    outer = scene.birth if scene.backward else scene.chain[1] if len(scene.chain) > 1 else None
    inside = root(outer)
    x, square = squared(inside), maker(inside, "pow", "square", "mul")
    if outer is None or inside is None or x is None or square is None or outer.op == "rsqrt":
        return None
    if outer.op == "pow" and value(second(outer)) != 0.5:
        return None
    if not (scene.zero(inside) if scene.backward else scene.kind == "overflow"):
        return None
    spelling = scene.spelling(scene.site(outer))
    happened = (
        "The derivative of the root is infinite at 0, and times the derivative of the square, 0, it is NaN"
        if scene.backward
        else f"The square of {scene.at(x, 'x')} is beyond the largest {scene.dtype}"
    )
    return Finding(
        f"{happened}. The root of x ** 2 is just abs(x), whose derivative at 0 is 0.",
        _rewritten(scene, outer, square, lambda x: spelling.call("abs", x)),
        f"y = {spelling.call('abs', scene.called(x, 'x'))}",
        outer.place,
    )


def _rewritten(scene: Scene, outer: Operation, inner: Operation, new: Callable[[str], str]) -> str | None:
    """The line with an operation changed to something else of what another one, which is its argument, is of."""
    site = scene.site(outer)
    place = scene.site(inner, site)
    text = place.text(0, "input")
    node = site.written.argument(0, "input")
    if text is None or node is None:
        return None
    return site.replaced(
        new(site.line.text(node, {place.node: atom(text)} if node is not place.node else {node: text}))
    )


@cause(None, "exponential of a logarithm")
def power_by_logarithm(scene: Scene) -> Finding | None:
    if scene.op != "log" or scene.complex or value(first(scene.birth)) != 0:
        return None
    site = scene.site(scene.birth)
    power = _power(site)
    if power is None:
        return None
    exp, new = power
    return Finding(
        "exp(p * log(x)) is x ** p, which is 0 at x = 0. But on the way there log(0) is -inf with an infinite "
        "derivative, and times the exponential, which is 0, that is NaN. Write the power itself.",
        site.line.replaced({exp.node: new}),
    )


def _power(log: Site) -> tuple[Written, str] | None:
    """The exponential of a multiple of a logarithm, and the power that it is; None of a root, which has a pole, too."""
    x = log.written.text(0, "input")
    for exp in log.line.operations if x is not None and log.node is log.written.node else ():
        node = exp.argument(0, "input") if exp.op == "exp" else None
        if node is log.node and x is not None:
            return exp, x
        product = log.line.operation_at(node) if node is not None else NOTHING
        if x is None or product.op not in ("mul", "div") or log.node not in product.arguments[:2]:
            continue
        factor = product.arguments[1 - product.arguments.index(log.node)]
        text, known = atom(log.line.text(factor)), number_written(factor)
        divided = product.op == "div"
        if product.arguments[0] is not log.node and divided:
            continue
        if known is not None and not (0 < known <= 1 if divided else known >= 1):
            return None
        return exp, f"{atom(x)} ** {f'(1 / {text})' if divided else text}"
    return None


CAUSES = (inverse, root_of_square, power_by_logarithm)
