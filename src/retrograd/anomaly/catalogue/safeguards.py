"""Code meant to keep a denominator, a root or a logarithm away from zero that fails to: an eps of zero, a relu."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from retrograd.anomaly.catalogue._expression import (
    LOGS,
    denominator,
    first,
    is_number,
    maker,
    named,
    one_minus,
    squared,
    unscaled,
    value,
)
from retrograd.anomaly.catalogue._layer_definitions import last_layer
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import Line, atom, dotted
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.stack_frames import package_of
from retrograd.anomaly.surroundings import Operand, Operation, Place

_EPS = re.compile(r"(?:\w*_)?(?:eps|epsilon)", re.IGNORECASE)
_FROM_ZERO = (*LOGS, "rsqrt", "sqrt")
_STEPS = 3  # operations back to the one that takes the eps


def usual_eps(scene: Scene) -> str:
    """What normalisations add to a variance."""
    return "1e-4" if scene.half else "1e-5"


def set_before(scene: Scene, option: str, value: str, line: str) -> str:
    """A line behind the statement that sets an option: ``self.eps``, or that of the layer ``self.norm``.

    Where the line is an installed package's, the statement alone, as the program can write it.
    """
    layer = scene.event.layer_name
    if layer and "." in option and package_of(scene.event.filename or "") is not None:
        return f'{scene.model}.get_submodule("{layer}").{option.rpartition(".")[2]} = {value}'
    return f"{option} = {value}; {line.strip()}"


@cause(None, "eps that is zero")
def zero_eps(scene: Scene) -> Finding | None:
    operand = first(scene.birth) if scene.op in _FROM_ZERO else denominator(scene.birth)
    if operand is None or not scene.zero(operand) or (scene.op == "sqrt" and not scene.backward):
        return None
    found = next(_named_eps(scene, operand), None)
    if found is None:
        return None
    name, operation = found
    line = Line.parse(operation.code_line)
    rewritten = None
    if name in line.parameters():  # of a lambda, in which no statement can stand
        default = line.default_of(name)
        rewritten = None if default is None else line.replaced({default: usual_eps(scene)})
    elif line.is_simple and operation.code_line is not None:
        rewritten = set_before(scene, name, usual_eps(scene), operation.code_line)
    return Finding(
        f"{name} is there to keep {scene.op} away from 0, but it is 0 itself, or so small that it rounds to 0, and "
        "what it is added to is 0 here. Set it to its usual size where it is defined; in float16 it must be 1e-4 or "
        "more.",
        rewritten,
        f"{name} = {usual_eps(scene)}",
        operation.place,
    )


def _named_eps(scene: Scene, operand: Operand) -> Iterator[tuple[str, Operation]]:
    """The eps that has been added to an operand, by the name it has in the line that does."""
    sums = list(_sums_behind(operand))
    if any(value(each) for made in sums for each in made.args if is_number(each)):
        return  # it is not what was added that is zero
    written = scene.site(scene.birth).written
    node = written.argument(0, "input") if scene.op in _FROM_ZERO else written.argument(1, "other")
    yield from ((name, scene.birth) for name in added_eps(node))
    for made in sums:
        if made.place != scene.birth.place:
            yield from ((name, made) for name in added_eps(scene.site(made).written.node))


def _sums_behind(operand: Operand) -> Iterator[Operation]:
    """The nearest additions that made an operand."""
    producer = operand.producer
    for _ in range(_STEPS):
        if producer is None:
            return
        if producer.op == "add":
            yield producer
        producer = first(producer).producer


def added_eps(node: ast.AST | None) -> Iterator[str]:
    """The names of what is added as an eps, in an expression."""
    for each in () if node is None else ast.walk(node):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add):
            for term in (each.right, each.left):
                name = dotted(term)
                if name is not None and _EPS.fullmatch(name.rpartition(".")[2]):
                    yield name


@cause(None, "relu where a number above zero is needed")
def relu_for_positive(scene: Scene) -> Finding | None:
    below = first(scene.birth) if scene.op in (*LOGS, "rsqrt", *_GAMMAS) else denominator(scene.birth)
    if below is None or not scene.zero(below):
        return None
    relu = relu_behind(below)
    if relu is None:
        return None
    rewritten, place = softplus_instead(scene, relu)
    of = f"the {scene.op} of 0" if scene.op in (*LOGS, "rsqrt", *_GAMMAS) else "a division by 0"
    return Finding(
        f"relu({scene.at(first(relu), 'x')}) is 0, as for every negative number, and what follows is {of}. relu passes "
        "no gradient back to such a number, so with a bound after the relu it would stay stuck there. For a standard "
        "deviation, a rate or any other number that must be above 0, use softplus, which is positive and has a "
        "gradient everywhere. (Its values differ from those of relu, but little where they are large; the small number "
        "added guards against rounding.)",
        rewritten,
        f"scale = {_softplus(scene, scene.taken(relu, 'h'), scene.spelling(scene.site(relu)))}",
        place,
    )


_GAMMAS = ("lgamma", "digamma")


def softplus_instead(scene: Scene, relu: Operation) -> tuple[str | None, Place | None]:
    """The line with a softplus in the place of a relu, or the one that makes its layer, and where that stands."""
    site = scene.site(relu, scene.site(scene.birth)) or scene.site(relu)
    text = site.written.text(0, "input")
    if text is not None:
        rewritten = site.written.line.replaced({site.written.node: _softplus(scene, text, scene.spelling(site))})
        return rewritten, site.place if site.made is None else site.made
    return last_layer(relu, "ReLU", "Softplus") or (None, relu.place)


def _softplus(scene: Scene, x: str, spelling: Spelling) -> str:
    return f"{spelling.functional('softplus', x)} + {'1e-4' if scene.half else '1e-6'}"


def relu_behind(operand: Operand | None) -> Operation | None:
    """The relu that an operand which is 0 is a multiple, a share, a power or a root of; None if it was given a 0.

    Of a sum, one whose terms are all such, or data that are 0.
    """
    behind = operand
    for _ in range(_STEPS):
        behind = unscaled(behind)
        if (relu := maker(behind, "relu")) is not None:
            known = value(first(relu))
            return relu if known is None or known < 0 else None
        if (total := maker(behind, "add")) is not None:
            terms = [each for each in total.args[:2] if each.producer or each.requires_grad]
            relus = [relu_behind(each) for each in terms]
            return relus[0] if relus and all(relus) else None
        made = maker(behind, "pow", "square", "sqrt", "div")
        if made is not None and made.op == "div" and value(first(made)) != 0:
            return None
        behind = squared(behind) if made is None else first(made)
    return None


_BITS = {"bfloat16": 8, "float16": 11, "half": 11, "float64": 53, "double": 53}  # of a number; else those of float32
_BOUNDED = (*LOGS, "log1p", "atanh", "logit", "acos", "asin", "erfinv")


@cause(None, "bound of a clamp that is rounded away")
def rounded_bound(scene: Scene) -> Finding | None:
    operand = first(scene.birth)
    clamp, end = maker(one_minus(operand), "clamp"), 1.0
    if clamp is None:
        clamp, end = maker(operand, "clamp"), value(operand) or 0.0
    if clamp is None or scene.op not in _BOUNDED or abs(end) != 1:
        return None
    dtype = (first(clamp).dtype or scene.dtype).split(".")[-1]
    bits = _BITS.get(dtype, 24)
    name, place = ("max", 2) if end > 0 else ("min", 1)
    bound = named(clamp, name)
    written = None if bound is None or not is_number(bound) else value(bound)
    if written is None or not 0 < abs(end - written) <= 2.0 ** -(bits + 1):
        return None
    narrow, sign, eps = bits < 24, "-" if end > 0 else "+", "1e-12" if bits > 24 else "1e-6"
    site = scene.site(clamp)
    rewritten = None
    given, limit = site.written.argument(0, "input"), site.written.argument(place, name)
    if limit is not None:
        edits: dict[ast.AST, str] = {limit: f"{end:g} {sign} {eps}"}
        if narrow and given is not None:
            edits[given] = f"{atom(site.line.text(given))}.float()"
        rewritten = site.written.line.replaced(edits)
    clamped = scene.called(first(clamp), "x") + (".float()" if narrow else "")
    do = "Compute this in float32, and stay" if narrow else "Stay"
    return Finding(
        f"The clamp should keep the argument of {scene.op} away from {end:g}, but {dtype} has no number between "
        f"{written!r} and {end:g}: the bound rounds to {end:g} itself. {do} {eps} away.",
        rewritten,
        f"y = {scene.spelling(site).clamp(clamped, eps if end > 0 else f'-1 + {eps}', f'1 - {eps}')}",
        clamp.place,
    )


CAUSES = (zero_eps, rounded_bound)
FALLBACK = (relu_for_positive,)
