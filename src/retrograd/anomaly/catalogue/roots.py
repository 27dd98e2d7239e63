"""Square roots of sums and differences: rows 13, 33, 36 and 37."""

from __future__ import annotations

import math
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import (
    addends,
    first,
    is_number,
    least_size,
    maker,
    root,
    same,
    second,
    shown,
    size_of,
    squared,
    summed_square,
    value,
)
from retrograd.anomaly.catalogue._reductions import dims
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import NOWHERE, Line, Site, atom
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.parsing import names_in
from retrograd.anomaly.surroundings import Operand, Operation

_ROOTS = ("sqrt", "rsqrt", "pow")


_SQUARES = ("pow", "square", "mul")


def _norm(scene: Scene, site: Site, total: Operation) -> tuple[str, str] | None:
    """What is squared and summed, as the user wrote it, and the dimensions."""
    summed = scene.site(total, site)
    if summed.written.op != "sum" or not summed.can_be_moved:
        return None
    square = summed.written.line.operation_at(summed.written.argument(0, "input"))
    text = square.text(0) if square.op in _SQUARES else None
    return None if text is None else (text, dims(summed, None, numpy=scene.spelling(site).numpy))


@cause(33, "square root of a variance lost in rounding: E[x^2] - E[x]^2")
def cancelled_variance(scene: Scene) -> Finding | None:
    inside = root(scene.birth) if scene.op in _ROOTS else first(scene.birth) if scene.op == "log" else None
    difference = maker(inside, "sub")
    x = squared(first(maker(first(difference), "mean")))
    mean = maker(squared(second(difference)), "mean")
    if difference is None or x is None or mean is None or not same(x, first(mean)):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    written = scene.site(mean, scene.site(difference, site))
    text = written.text(0, "input")
    new = None
    if text:
        where = dims(written, None, numpy=spelling.numpy)
        variance = spelling.call("var", text, where, "" if spelling.numpy else "correction=0")
        node = site.written.argument(0, "input")
        new = site.line.replaced({node: f"{variance} + {scene.eps}"}) if node is not None else None
    return Finding(
        "E[x^2] - E[x]^2 is a variance, but the two terms are almost equal and cancel: rounding leaves "
        f"{scene.at(inside, 'negative')} here, and a root needs more than 0. var subtracts the mean first and cannot "
        "go negative; a small eps keeps the root's derivative finite.",
        new or scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, scene.eps), "input"),
        f"std = {spelling.call('sqrt', spelling.call('var', scene.called(x, 'x')) + ' + ' + scene.eps)}",
    )


@cause(None, "root of a weighted variance lost in rounding")
def cancelled_weighted_variance(scene: Scene) -> Finding | None:
    inside = root(scene.birth) if scene.op in _ROOTS else None
    difference = maker(inside, "sub")
    averages = [maker(each, "sum", "matmul") for each in (first(difference), squared(second(difference)))]
    known = value(inside)
    if difference is None or None in averages or known is None or known > 0:
        return None
    return Finding(
        "The mean of the squares minus the square of the mean is a variance, but the two are almost equal and cancel: "
        f"rounding leaves {scene.at(inside, 0.0)} here, and a root needs more than 0. Keep it above a small number "
        "(such elements then get no gradient), or subtract the mean before squaring.",
        scene.replaced(
            scene.site(scene.birth), 0, lambda text, spelling: spelling.clamp(text, scene.floor), "input", alone=True
        ),
        f"std = {scene.spelling().call('sqrt', scene.spelling().clamp('second - mean ** 2', scene.floor))}",
    )


@cause(36, "root of a sum of squares that overflow")
def overflowing_norm(scene: Scene) -> Finding | None:
    if scene.kind not in ("overflow", "invalid") or scene.backward or scene.half:
        return None
    if scene.op == "norm" and scene.kind == "overflow" and _is_euclidean(scene.birth):
        return _long_vector(scene, scene.birth, first(scene.birth))
    called = canonical(scene.event.op)  # which may be composed of other operations
    if called in DISTANCES and scene.kind == "overflow" and _is_euclidean(scene.birth):
        return _long_distances(scene, replace(scene.birth, op=called))
    for outer in scene.roots(*_ROOTS, through=("mul", "square", "add", "sum", "dot")):
        inside = root(outer)
        site = scene.site(outer)
        if outer is scene.birth or inside is None:
            continue
        if _is_square_root(outer, site) and (found := summed_square(inside)):
            return _long_vector(scene, outer, found[1])
        if (factored := _without_the_largest(scene, outer, inside)) is not None:
            return factored
        pair = addends(inside)
        if pair is not None and (beside := _beside_a_number(scene, outer, pair)) is not None:
            return beside
        if pair is None or None in (sides := [squared(side) for side in pair]):
            continue
        a, b = sides
        texts = _squared_texts(scene, site, inside)
        spelling = scene.spelling(site)
        return Finding(
            f"The square of {scene.at(a, 'a')} or {scene.at(b, 'b')} overflows {scene.dtype}, although the root of the "
            "sum would be in range. hypot rescales before it squares.",
            site.replaced(spelling.call("hypot", *texts)) if texts else None,
            f"y = {spelling.call('hypot', scene.called(a, 'a'), scene.called(b, 'b'))}",
            outer.place,
        )
    return None


def _beside_a_number(scene: Scene, outer: Operation, pair: tuple[Operand, Operand]) -> Finding | None:
    """The finding for the root of a square and a number: ``sqrt(1 + x ** 2)``."""
    for number, other in (pair, pair[::-1]):
        x, known = squared(other), value(number)
        if not is_number(number) or x is None or known is None or known < 0 or outer.op != "sqrt":
            continue
        site = scene.site(outer)
        spelling = scene.spelling(site)
        side = shown(math.sqrt(known) + 0.0) if math.sqrt(known).is_integer() else f"{shown(known)} ** 0.5"
        side = side if spelling.numpy else spelling.tensor_call("tensor", side if "*" in side else f"{float(side)}")
        total = maker(root(outer), "add")
        inner = scene.site(total, site) if total is not None else NOWHERE
        squares = map(inner.written.line.operation_at, inner.written.arguments[:2])
        found = [each for each in squares if each.op in _SQUARES]
        text = found[0].text(0) if len(found) == 1 and inner.can_be_moved else None
        return Finding(
            f"The square of {scene.at(x, 'x')} overflows {scene.dtype}, although the root of the sum would be in "
            "range. hypot rescales before it squares.",
            site.replaced(spelling.call("hypot", text, side)) if text else None,
            f"y = {spelling.call('hypot', scene.called(x, 'x'), side)}",
            outer.place,
        )
    return None


def _without_the_largest(scene: Scene, outer: Operation, inside: Operand) -> Finding | None:
    """The finding for a norm of any order that is written out: ``(x ** p).sum() ** (1 / p)``."""
    total = maker(inside, "sum")
    power = maker(first(total), "pow")
    order, inverse = value(second(power)), value(second(outer))
    if power is None or order is None or inverse is None or abs(order * inverse - 1) > 1e-3:
        return None
    site = scene.site(outer)
    spelling = scene.spelling(site)
    inner = scene.site(power, site)
    node = inner.written.argument(0, "input")
    whole = total is not None and len(scene.site(total, site).written.parts()) == 1
    rewritten = None
    if node is not None and inner.line is site.line and whole:
        text = site.line.text(node)
        low = "1e-4" if scene.half else "1e-30"
        largest = f"(largest := {atom(text)}.detach().abs().max().clamp(min={low}))"
        rest = site.line.text(site.node, {node: f"({atom(text)} / largest)"})
        free = site.node is site.written.node and not spelling.numpy and "largest" not in text
        rewritten = site.replaced(f"{largest} * {rest}") if free else None
    name = scene.called(first(power), "x")
    return Finding(
        f"{scene.at(first(power), 'x')} to the power {shown(order)} overflows {scene.dtype}, although the root of the "
        "sum would be in range. Divide by the largest element first and multiply by it at the end.",
        rewritten,
        f"y = largest * (({name} / largest) ** {shown(order)}).sum() ** {shown(inverse)}",
        outer.place,
    )


@cause(None, "powers that overflow inside a reduction")
def overflowing_powers(scene: Scene) -> Finding | None:
    if scene.op not in _POWERS or scene.kind != "overflow" or scene.backward or scene.half:
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    wider = f".astype({spelling.module}.float64)" if spelling.numpy else ".double()"
    name = scene.called(first(scene.birth), "x")
    return Finding(
        f"{scene.op} adds up powers of its input, which is too large for that in {scene.dtype}: float32 cannot hold "
        "the square of 1.9e19 or the cube of 7e12. Find out why the input is so large; then scale it down, or compute "
        "this in float64.",
        scene.replaced(site, 0, lambda text, _: f"{atom(text)}{wider}", "input"),
        f"y = {name}{wider}.{scene.op}()",
    )


_POWERS = frozenset(("norm", "var", "std", "mse_loss"))


def _is_euclidean(norm: Operation) -> bool:
    order = next((operand for operand in norm.args if operand.name in ("p", "ord")), None)
    return order is None or value(order) in (None, 2)


def _squared_texts(scene: Scene, site: Site, inside: Operand) -> tuple[str, str] | None:
    total = maker(inside, "add")
    place = scene.site(total, site) if total else NOWHERE
    squares = map(place.written.line.operation_at, place.written.arguments[:2])
    texts = [square.text(0) for square in squares if square.op in _SQUARES]
    return (texts[0], texts[1]) if place.can_be_moved and len(texts) == 2 and texts[0] and texts[1] else None


def _long_vector(scene: Scene, outer: Operation, x: Operand) -> Finding:
    rewritten, general = in_wider_type(scene, outer, x, scene.site(outer))
    return Finding(
        f"Squares of values around {scene.at(x, 'x')} overflow {scene.dtype} (in float32, squares overflow above "
        "1.8e19), although the norm itself may be in range. Compute the norm in float64, or divide by the largest "
        "value first.",
        rewritten,
        general,
        outer.place,
    )


# what they are called, and the parameters that are points
DISTANCES = {"cdist": ("x1", "x2"), "pdist": ("input",)}


def _long_distances(scene: Scene, distances: Operation) -> Finding:
    site, rewritten = scene.site(distances), None
    if site:
        line, call = site.written.line, site.written.node
        points = [site.written.argument(position, name) for position, name in enumerate(DISTANCES[distances.op])]
        texts = {node: line.text(node) for node in points if node is not None}
        wide = line.text(call, {node: f"{atom(text)}.double()" for node, text in texts.items()})
        if len(texts) == len(points):
            rewritten = line.replaced({call: f"{wide}.to({atom(next(iter(texts.values())))}.dtype)"})
    known = [*distances.args, *(None for _ in DISTANCES[distances.op])]
    names = [scene.called(operand, "x") for operand, _ in zip(known, DISTANCES[distances.op], strict=False)]
    wider = ", ".join(f"{name}.double()" for name in names)
    return Finding(
        f"Squared differences between points overflow {scene.dtype} (in float32, squares overflow above 1.8e19), "
        "although the distances themselves may be in range. Compute them in float64, or scale the points down.",
        rewritten,
        f"y = {scene.spelling(site).call(distances.op, wider)}.to({names[0]}.dtype)",
    )


def in_wider_type(scene: Scene, norm: Operation, x: Operand, site: Site) -> tuple[str | None, str]:
    """The line with a Euclidean norm that stands at ``site`` computed in a wider type, and the general form of that."""
    spelling, wider = scene.spelling(site), "float" if scene.half else "double"

    def formula(x: str, where: str) -> str:
        if spelling.numpy:
            return spelling.call("linalg.norm", f"{atom(x)}.astype({spelling.module}.float64)", where)
        return spelling.tensor_call("linalg.vector_norm", f"{atom(x)}.{wider}()", where) + f".to({atom(x)}.dtype)"

    new, text = None, site.written.text(0, "input")
    if norm.op == "norm" and text is not None:
        new = formula(text, ", ".join(site.written.rest()))
        if site.written.form == "method":
            new = f"{atom(text)}.{wider}().norm({', '.join(site.written.rest())}).to({atom(text)}.dtype)"
    elif (found := summed_square(root(norm))) is not None and (written := _norm(scene, site, found[0])) is not None:
        new = formula(*written)
    rewritten = site.written.line.replaced({site.written.node: new}) if new is not None else None
    return rewritten, f"y = {formula(scene.called(x, 'x'), '')}"


# The size up to which the square of a number is 0, the root of half of the type's smallest number.
_WITHOUT_SQUARE = {"float16": 1.7e-4, "bfloat16": 6.7e-21, "float32": 2.6e-23, "complex64": 2.6e-23}


def underflowed_squares(scene: Scene, x: Operand, other: Operand | None = None) -> str | None:
    """What to say if the squares of non-zero numbers underflow; None if the numbers may be 0.

    ``other`` may be the same tensor, of which more is known.
    """
    known = abs(value(other) or 0.0) if same(x, other) else 0.0
    size = known or least_size(x) or (size_of(x) or 0.0 if x.value is None and x.min != x.max else 0.0)
    if not 0 < size < _WITHOUT_SQUARE.get(scene.dtype, 2e-162):
        return None
    return f"The squares of numbers around {size:.3g} underflow to 0 in {scene.dtype}, and so does the vector's norm"


@cause(37, "distance between equal points")
def equal_points(scene: Scene) -> Finding | None:
    if not _at_zero(scene):
        return None
    found = summed_square(root(scene.birth))
    difference = maker(found[1], "sub") if found else None
    if difference is None:
        return None
    site = scene.site(scene.birth)
    eps = scene.eps
    spelling = scene.spelling(site)
    a, b = scene.called(first(difference), "a"), scene.called(second(difference), "b")
    selected = _SELECTED if "where" in scene.later else ""
    return Finding(
        "The two are equal here (a point and itself on the diagonal, or an exact prediction), so their distance is "
        "sqrt(0), whose derivative 1/(2*0) is inf; times the difference, 0, that is NaN. A small eps under the root "
        f"keeps it finite; cdist and norm define the derivative at 0 as 0.{selected}",
        scene.replaced(site, 0, lambda text, _: f"{text} + {eps}", "input"),
        f"d = {spelling.call('sqrt', f'(({a} - {b}) ** 2).sum(-1) + {eps}')}",
    )


_SELECTED = " (The where does not help: it sends back a gradient of 0 for what it leaves out, and 0 * inf is NaN.)"


def _at_zero(scene: Scene) -> bool:
    """Whether a root was taken of zero and its derivative asked for."""
    inside = root(scene.birth) if scene.op in _ROOTS else None
    if inside is None or scene.op == "rsqrt" or (value(second(scene.birth)) or 1.0) < 0:
        return False
    return scene.backward and scene.zero(inside)


def _is_square_root(operation: Operation, site: Site) -> bool:
    """Whether an operation takes the square root whenever its line runs: a variable exponent may be another one."""
    if operation.op != "pow":
        return True
    exponent = site.written.argument(1, "exponent", "other")
    is_constant = exponent is None or not names_in(exponent)
    return is_constant and value(second(operation)) == 0.5


@cause(13, "norm written out as sqrt(sum(x^2)), at zero")
def written_out_norm(scene: Scene) -> Finding | None:
    if not _at_zero(scene):
        return None
    found = summed_square(root(scene.birth))
    site = scene.site(scene.birth)
    if found is None or not _is_square_root(scene.birth, site):
        return None
    total, x = found
    spelling = scene.spelling(site)
    written = _norm(scene, site, total)
    if (underflow := underflowed_squares(scene, x)) is not None:
        rewritten, general = in_wider_type(scene, scene.birth, x, site)
        return Finding(
            f"{underflow}, where the derivative of the root is infinite. Compute the norm in a wider type.",
            rewritten,
            general,
        )
    zero = f"Every element of {scene.called(x, 'the vector')} is 0"
    if scene.event.harmed == "loss":  # not a gradient: the derivative's result is used further
        return Finding(
            f"{zero}, so the norm is sqrt(0), whose derivative 1/(2*0) is inf. That derivative is part of the loss and "
            "is differentiated again. The built-in norm defines only its first derivative at 0 as 0; a small number "
            "under the root keeps both derivatives finite.",
            scene.replaced(site, 0, lambda text, _: f"{text} + {scene.eps}", "input"),
            f"y = {_smooth(scene.called(x, 'x'), '', spelling, scene.eps)}",
        )

    def norm(*arguments: str) -> str:
        if spelling.numpy:
            return spelling.call("linalg.norm", *arguments)
        return spelling.tensor_call("linalg.vector_norm", *arguments)

    new = site.replaced(norm(*written)) if written else None
    return Finding(
        f"{zero}, so the norm is sqrt(0): its derivative 1/(2*0) is inf, and times the derivative of the square, 2*0, "
        "it is NaN. The built-in norm defines its derivative at 0 as 0.",
        new or scene.replaced(site, 0, lambda text, _: f"{text} + {scene.eps}", "input"),
        f"y = {norm(scene.called(x, 'x'))}",
    )


@cause(None, "hypot of two zeros")
def hypot_at_zero(scene: Scene) -> Finding | None:
    a, b = first(scene.birth), second(scene.birth)
    if scene.op != "hypot" or not scene.backward or value(a) != 0 or value(b) != 0:
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)

    def root_of_squares(*sides: str) -> str:
        return spelling.call("sqrt", " + ".join([*(f"{atom(side)} ** 2" for side in sides), scene.eps]))

    x, y = site.written.text(0, "input"), site.written.text(1, "other")
    return Finding(
        "Both arguments are 0, so the derivative of hypot, x / hypot(x, y), is 0 / 0. A small number under the root "
        "makes the derivative 0 there.",
        site.replaced(root_of_squares(x, y)) if x and y else None,
        f"y = {root_of_squares(scene.called(a, 'a'), scene.called(b, 'b'))}",
    )


def _smooth(x: str, where: str, spelling: Spelling, eps: str) -> str:
    """A norm that can be differentiated any number of times at 0."""
    return spelling.call("sqrt", f"({atom(x)} ** 2).sum({where}) + {eps}")


def smoothed(code_line: str | None, scene: Scene, eps: str | None = None) -> str | None:
    """A line with the Euclidean norm in it as a root with a small number under it; None if there is not one such."""
    line = Line.parse(code_line)
    norm = line.only("norm")
    text = norm.text(0, "input", "x", "A")
    if text is None:
        return None
    order = norm.text(1, "p", "ord")
    if order not in (None, "None", "2", "2.0", '"fro"', "'fro'"):
        return None
    given = (("dim", norm.text(2, "dim", "axis")), ("keepdim", norm.text(3, "keepdim")))
    where = ", ".join(f"{name}={known}" for name, known in given if known not in (None, "None"))
    spelling = Spelling.of(scene.surroundings.library, line)
    return line.replaced({norm.node: _smooth(text, where, spelling, eps or scene.eps)})


@cause(None, "second derivative of a norm at zero")
def norm_differentiated_twice(scene: Scene) -> Finding | None:
    zeros = [value(each) for each in scene.birth.args[:2]]
    if canonical(scene.event.op) != "div" or not scene.backward or zeros != [0.0, 0.0]:
        return None
    if scene.op == "div" and scene.site(scene.birth):
        return None  # a quotient of the program's own
    rewritten = smoothed(scene.birth.code_line, scene)
    if rewritten is None:
        return None
    return Finding(
        "The derivative of the norm of x, x / |x|, is differentiated again, and x is 0 here: the first derivative is "
        "defined as 0 there, but the second is 0 / 0. A small number under the root keeps both finite, as a gradient "
        "penalty needs.",
        rewritten,
    )


CAUSES = (
    norm_differentiated_twice,
    cancelled_variance,
    cancelled_weighted_variance,
    overflowing_norm,
    overflowing_powers,
    equal_points,
    written_out_norm,
    hypot_at_zero,
)
