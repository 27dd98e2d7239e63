"""Exponentials that overflow, or underflow to a denominator of 0, and differences of infinities: rows 27 and 31."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from retrograd.anomaly.catalogue._bounds import bounded_everywhere, bounded_where_made
from retrograd.anomaly.catalogue._expression import (
    EXPONENTIALS,
    LOGS,
    denominator,
    first,
    least,
    made_from,
    maker,
    number,
    second,
    shown,
    value,
)
from retrograd.anomaly.catalogue._log_space import scaling_in_log_space
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._softmax import summand
from retrograd.anomaly.catalogue._source_line import Site, atom
from retrograd.anomaly.catalogue.domain import clamped, general
from retrograd.anomaly.catalogue.likelihoods import WAYS
from retrograd.anomaly.surroundings import Operand, Operation

# The largest exponents worth computing with in half, single and double precision.
_LARGEST = dict.fromkeys(EXPONENTIALS, (10.0, 80.0, 700.0)) | {"exp2": (15.0, 120.0, 1000.0)}
_ENDS = ("11.09", "88.7", "709.8")  # of exp


@cause(31, "infinity minus infinity")
def difference_of_infinities(scene: Scene) -> Finding | None:
    operation = _difference(scene)
    if operation is None:
        return None
    site = scene.site(operation)
    logs = [made_from(operand, *LOGS) for operand in operation.args[:2] if value(operand) == -math.inf]
    if len(logs) == 2 and None not in logs:
        return _difference_of_logarithms(scene, operation, [log for log in logs if log is not None])
    exps = [found for operand in operation.args[:2] if (found := made_from(operand, "exp"))]
    if not exps and site:
        return _of_unknown_infinities(scene, operation, site)
    limit = str(_LARGEST["exp"][scene.precision])
    spelling = scene.spelling(site)
    a, b = (scene.called(first(exp), name) for exp, name in zip((*exps, scene.birth, scene.birth), "xy", strict=False))
    left, right = (scene.at(operand, "inf") for operand in (*operation.args[:2], None, None)[:2])
    return Finding(
        f"{left} {'+' if operation.op == 'add' else '-'} {right} is undefined. Both sides overflowed before they were "
        "combined. Keep the exponents in range, or factor out what they have in common: exp(x) - exp(y) = exp(y) * "
        "expm1(x - y).",
        _bounded(scene, site, exps, limit),
        f"d = {spelling.call('exp', spelling.clamp(a, None, limit))} - "
        f"{spelling.call('exp', spelling.clamp(b, None, limit))}",
        operation.place,
    )


def _difference(scene: Scene) -> Operation | None:
    """The sum or difference of two infinities: the birth, or where two exponentials meet that have overflowed."""
    if scene.op == "exp":
        met = next(scene.roots("sub", through=("exp", "mul", "div", "neg")), None)
        sides = () if met is None else met.args[:2]
        infinite = [operand for operand in sides if maker(operand, "exp") and not _finite(operand.value)]
        return met if len(infinite) == 2 else None
    if scene.op not in ("sub", "add") or scene.kind != "invalid" or scene.backward or len(scene.birth.args) < 2:
        return None
    sides = scene.birth.args[:2]
    if any(_finite(operand.value) for operand in sides):
        return None
    return scene.birth if not scene.context.get("unkept") or all(map(_overflowed, sides)) else None


def _of_unknown_infinities(scene: Scene, operation: Operation, site: Site) -> Finding:
    """Two infinities of unknown origin; a bound would turn their difference into 0, without a gradient."""
    a, b = site.written.text(0) or "the first", site.written.text(1, "other") or "the second"
    largest_one = operation.op == "sub" and maker(second(operation), "maximum", "max", "amax", "fmax")
    if largest_one and [value(each) for each in operation.args[:2]] == [-math.inf, -math.inf]:
        zero = "-1e4" if scene.half else "-1e30"
        return Finding(
            f"{a} and {b} are both -inf, the logarithm of 0: every term to be added up here is -inf, the largest "
            f"included, and -inf - (-inf) is NaN. Where the terms are first set, use a large negative number, {zero}, "
            "instead of -inf: its exponential is 0 as well, and the difference of two of them is 0. (logaddexp and "
            "logsumexp return -inf there, but their derivative is NaN.)",
            None,
            f"log_zero = {zero}",
            operation.place,
        )
    if isinstance(site.node, ast.AugAssign):
        happened = f"{a} is infinite at this element before the line changes it, and so is {b}"
        look = f"what made {a} infinite (perhaps this very line, a step earlier), and at how {b} became infinite"
    else:
        happened, look = f"{a} is infinite at this element, and so is {b}", "how each of them became infinite"
    sum_ = "their sum" if operation.op == "add" else "their difference"
    return Finding(
        f"{happened}: {sum_} is NaN, and clamping them would not make it meaningful. Look at {look}: a log or a root "
        "of 0, a division by 0, an infinite gradient.",
        None,
        None,
        operation.place,
    )


def _bounded(scene: Scene, site: Site, exps: Sequence[Operation], limit: str) -> str | None:
    """The line with the exponents of a difference bounded."""
    line, spelling, edits = site.line, scene.spelling(site), {}
    for exp in exps:
        place = scene.site(exp, site)
        node = place.written.argument(0, "input")
        if node is not None and place.can_be_moved:
            written = place.written.line
            exponent = spelling.clamp(written.text(node), None, limit)
            edits[place.node] = written.text(place.written.node, {node: exponent})
    return line.replaced(edits) if len(edits) == len(exps) else None


def _difference_of_logarithms(scene: Scene, operation: Operation, logs: list[Operation]) -> Finding:
    site = scene.site(operation)
    edits: dict[ast.AST, str] = {}
    for log in logs:
        place = scene.site(log, site)
        node = place.written.argument(0, "input")
        if node and place.written.line is site.line:
            edits[node] = scene.spelling(place).clamp(site.line.text(node), scene.floor)
    spelling = scene.spelling(site)
    a, b = (
        spelling.call(log.op, spelling.clamp(scene.called(first(log), name), scene.floor))
        for log, name in zip(logs, "xy", strict=True)
    )
    return Finding(
        "-inf - (-inf) is NaN: both sides are logarithms of 0. Leave such elements out before taking the logarithm, or "
        "clamp its argument to a small positive number.",
        site.line.replaced(edits) if len(edits) == 2 else None,
        f"d = {a} - {b}",
        operation.place,
    )


def _overflowed(operand: Operand) -> bool:
    """Whether an operand is infinite, as far as is known: its value is, or an exponential made it."""
    return number(operand.value) in (math.inf, -math.inf) or made_from(operand, "exp") is not None


def _finite(known: object) -> bool:
    return isinstance(known, (int, float)) and math.isfinite(known)


def _is_factor(scene: Scene) -> bool:
    """Whether something computed is multiplied by the result, as by the scale of a flow's layer, on the way to more."""
    used = scene.chain[1] if len(scene.chain) > 1 and not scene.event.is_backward else None
    if used is None or used.op != "mul" or scene.chain[-1].op in _NUMBERS:
        return False
    others = [each for each in used.args[:2] if maker(each, scene.op) is None]
    return bool(others) and not any(each.constant for each in others)


_NUMBERS = frozenset(("sum", "mean", "norm", "mse_loss", "nll_loss", "cross_entropy"))  # the end of a known path
_SUFFICIENT = 1.0  # a smaller limit would leave nothing of an exponential


def _exponent_limit(scene: Scene) -> float:
    """The largest exponent for which the following operations stay in range."""
    usual = _LARGEST[scene.op][scene.precision]
    if _is_factor(scene) and not scene.half:
        return 0.125 * usual
    most = scene.allowed - (0.5 if scene.half else 1.0)
    most /= math.log(2) if scene.op == "exp2" else 1.0
    return min(usual, math.floor(2 * most) / 2)


@cause(None, "product or quotient of two exponentials")
def joined_exponentials(scene: Scene) -> Finding | None:
    joined = next(scene.roots("mul", "div", through=("exp",)), None)
    sides = [] if joined is None or scene.backward else [maker(each, "exp") for each in joined.args[:2]]
    exps = [each for each in sides if each is not None]
    if joined is None or len(exps) < 2 or not (scene.op == "exp" or scene.kind in ("divide", "invalid")):
        return None
    one, other = (value(first(each)) or 0.0 for each in exps)
    sign, exponent = ("+", one + other) if joined.op == "mul" else ("-", one - other)
    if exponent > scene.largest:
        return None
    outer = scene.site(joined)
    spelling = scene.spelling(outer)
    texts = [text for each in exps if (text := scene.site(each, outer).text(0, "input")) is not None]

    def exponential(one: str, other: str) -> str:
        return spelling.call("exp", f"{one} {sign} {atom(other)}")

    a, b = (scene.called(first(each), name) for each, name in zip(exps, "ab", strict=True))
    values = " and ".join(f"exp({scene.at(first(each), name)})" for each, name in zip(exps, "ab", strict=True))
    return Finding(
        f"At least one of {values} leaves the range of {scene.dtype} before they are "
        f"{'multiplied' if joined.op == 'mul' else 'divided'}, although the result need not: exp(a) "
        f"{'*' if joined.op == 'mul' else '/'} exp(b) is exp(a {sign} b). Clamping the exponents would change the "
        "result and zero their gradient.",
        outer.replaced(exponential(*texts)) if len(texts) == 2 else None,
        f"y = {exponential(a, b)}",
        joined.place,
    )


@cause(27, "exponential out of range")
def exponential(scene: Scene) -> Finding | None:
    overflowed = scene.event.operands.get("result") == math.inf  # and meets a gradient of zero
    if scene.op not in EXPONENTIALS or (scene.backward and not overflowed):
        return None
    if scene.kind == "underflow":
        return Finding(
            f"{scene.op}({scene.at(first(scene.birth), 'x')}) is so small that {scene.dtype} rounds it to 0. That is "
            "harmless by itself: look at what divides by it or takes its log."
        )
    limit = _exponent_limit(scene)
    happened = (
        f"{scene.op}({scene.at(first(scene.birth), 'x')}) is beyond the largest {scene.dtype} (exp overflows above x = "
        f"{_ENDS[scene.precision]})"
    )
    if limit < _SUFFICIENT:
        return Finding(
            f"{happened}. What follows leaves no room for an exponential in {scene.dtype}, whatever the bound: compute "
            "all of this in a wider type, from the exponent on."
        )
    log = next(scene.roots(*LOGS, through=WAYS), None) if scene.kind == "overflow" else None
    if log is not None and log is not scene.birth:
        line = scene.line_of(log)
        x = scene.called(first(scene.birth), "x")
        spelling = scene.spelling()
        return Finding(
            f"{happened}, before the log{f' in {line}' if line else ''} is taken. Clamping would change the result and "
            "zero the gradient. Compute everything up to the log in log space instead: log(exp(x)) is x, the log of a "
            "product is the sum of the logs, the log of a sum is logsumexp, and that of a matrix product a @ b is "
            "logsumexp(log_a[:, :, None] + log_b, 1).",
            None,
            f"log_y = {spelling.tensor_call('logsumexp', f'{x} + log_weight', 'dim=-1')}",
        )
    if (argument := _instead_of_loss(scene)) is not None:
        return Finding(f"{happened}. {_MONOTONE}", *argument)
    if _is_factor(scene):
        lower = " well below that, because the result is a factor of what follows, and factors multiply"
    elif limit < _LARGEST[scene.op][scene.precision]:
        lower = f"; {limit:g} leaves room for what follows"
    else:
        lower = ""
    if _is_in_library(scene):
        return Finding(
            f"{happened}. The exponential is inside of what the line calls: keep the numbers small that this is given, "
            "by scaling what they are made of, or bound them before the call.",
            None,
            f"x = {scene.spelling().clamp('x', None, str(limit))}",
        )
    if scene.later[:2] == ("mul", "cumsum") and _is_running_sum(first(scene.birth)):
        spelling, a = scene.spelling(), scene.called(first(scene.birth), "a")
        difference = spelling.clamp(f"{a}[:, None] - {a}[None, :]", None, "0")
        return Finding(
            f"{happened}. {_RUNNING_SUM}",
            None,
            f"h = {spelling.call('tril', spelling.call('exp', difference))} @ x",
        )
    everywhere = None if scene.complex else bounded_everywhere(scene, limit)
    if everywhere is None and not scene.complex and (where := bounded_where_made(scene, limit)) is not None:
        rewritten, place, used = where
        return Finding(
            f"{happened}. Bound the exponent{lower}. Do so where {used} as well, is made: a bound in the "
            "exponential alone would no longer agree with what else is computed from it, and nothing would keep it "
            "from moving further out.",
            rewritten,
            general(scene, None, str(limit)),
            place,
        )
    return Finding(
        f"{happened}. Stay in log space if a log, a ratio or a sum comes next (logsumexp, softmax, softplus); "
        f"otherwise bound the exponent{lower}.{'' if everywhere is None else _EVERYWHERE.format(everywhere[1])}",
        clamped(scene, None, str(limit)) if everywhere is None else everywhere[0],
        general(scene, None, str(limit)),
    )


def _is_running_sum(operand: Operand | None) -> bool:
    negated = maker(operand, "neg")
    return maker(first(negated) if negated is not None else operand, "cumsum") is not None


_RUNNING_SUM = (
    "The exponent is a running sum, which grows with the length of the sequence, and a bound would change all that "
    "comes after it. Only the ratios of such exponentials matter, and exp(a_i) / exp(a_j) is exp(a_i - a_j), which "
    "stays in range: take the differences of the sums first, as in the line below for one sequence, or go through the "
    "sequence in chunks or step by step."
)


def _is_in_library(scene: Scene) -> bool:
    """Whether the line has called what computed an exponential and more, such as a loss."""
    line, following = scene.birth.code_line, scene.chain[1:2]
    both = (scene.birth, *following)
    return line is not None and len(both) > 1 and all(each.code_line == line and not scene.site(each) for each in both)


_EVERYWHERE = (
    " The line uses {0} outside of the exponential as well: bound it there too, or that term would move {0} further "
    "out in every step."
)
_MONOTONE = (
    "It is the loss itself, and a bound would leave nothing to learn from: its derivative is 0. An exponential is "
    "smallest where its exponent is: minimise that instead."
)


def _instead_of_loss(scene: Scene) -> tuple[str | None, str] | None:
    """The line with an exponential that is the loss replaced by its exponent; None if it is not the loss."""
    if scene.op not in ("exp", "exp2") or scene.backward or scene.event.harmed != "loss" or scene.event.size != 1:
        return None
    if len(scene.chain) > 1 or not scene.event.posinf_count:
        return None
    site = scene.site(scene.birth)
    text = site.text(0, "input")
    rewritten = None if text is None else site.replaced(text)
    return rewritten, f"loss = {scene.called(first(scene.birth), 'x')}"


@cause(None, "division by an exponential that underflowed")
def underflowed_exponential(scene: Scene) -> Finding | None:
    below = denominator(scene.birth)
    exp, power = _underflowed(below)
    if exp is None or value(below) != 0:
        return None
    largest = _LARGEST["exp"][scene.precision]
    low = f"-{largest if power == 1 else largest / (4 * power):g}"
    low += "" if "." in low else ".0"
    site = scene.site(exp, scene.site(scene.birth)) or scene.site(exp)
    x = first(exp)
    name = scene.called(x, "x")
    spelling = scene.spelling(site)
    known = value(x)
    is_finite = known is not None and math.isfinite(known)
    happened = "underflows to 0" if is_finite else "is 0"
    doubt = (
        ""
        if is_finite
        else f" If {name} is -inf there, it is the log of a 0, and that is to be mended: a bound here would leave -inf "
        f"wherever else {name} is used."
    )
    return Finding(
        f"exp({scene.at(x, name)}) {happened} in {scene.dtype}, and dividing by it gives "
        f"{'NaN' if scene.event.born == 'NaN' else 'an infinity'}. Dividing by exp({name}) is the same as multiplying "
        f"by exp(-{name}), and its log is the exponent itself: stay in log space where you can; otherwise bound the "
        f"exponent.{doubt}",
        scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, low), "input") if exp.code_line else None,
        f"scale = {spelling.call('exp', spelling.clamp(name, low))}",
        exp.place,
    )


@cause(None, "derivative of a division by a small exponential")
def divided_by_small_exponential(scene: Scene) -> Finding | None:
    below = denominator(scene.birth) if scene.op == "div" and scene.backward else None
    known, exp = value(below), maker(below, "exp")
    if exp is None or not known or abs(known) > _SMALL_SQUARE:
        return None
    site = scene.site(scene.birth)
    above, exponent = site.text(0, "input"), scene.site(exp, site).text(0, "input")
    spelling = scene.spelling(site)
    rewritten = None
    if above is not None and exponent is not None:
        rewritten = site.replaced(f"{atom(above)} * {spelling.call('exp', f'-{atom(exponent)}')}")
    name = scene.called(first(exp), "x")
    return Finding(
        f"The derivative of a division by {shown(known)} divides by its square, which underflows to 0 in "
        f"{scene.dtype}: it is {'NaN' if scene.event.born == 'NaN' else 'infinite'}. The divisor is an exponential: "
        f"dividing by exp({name}) is the same as multiplying by exp(-{name}), whose derivative stays in range for as "
        "long as the result itself does. Cumulative sums that grow further have to be taken in chunks.",
        rewritten,
        f"y = a * {spelling.call('exp', f'-{name}')}",
    )


_SMALL_SQUARE = 1e-18  # the square of a smaller number is less than the smallest normal one in single precision


def _underflowed(operand: Operand | None, depth: int = 4) -> tuple[Operation | None, float]:
    """The exponential because of which a number is 0, and the power to which it occurs in the number."""
    made = maker(operand, "exp", "mul", "pow", "square", "sqrt")
    if made is None or depth == 0:
        return None, 1.0
    if made.op == "exp":
        return made, 1.0
    power = {"square": 2.0, "sqrt": 0.5, "pow": value(second(made)) or 1.0}.get(made.op, 1.0)
    factors = made.args[:2] if made.op == "mul" else made.args[:1]
    found = [_underflowed(each, depth - 1) for each in factors if value(each) in (0, None)]
    exp, inner = next((each for each in found if each[0] is not None), (None, 1.0))
    return exp, max(power * inner, 1.0)


@cause(None, "division by a sum of exponentials that underflowed")
def underflowed_sum(scene: Scene) -> Finding | None:
    below = denominator(scene.birth)
    total = maker(below, "sum", "matmul", "dot")
    exp = summand(total, _may_weigh) if total is not None and value(below) in (0, None) else None
    if total is None or exp is None or scene.backward:
        return None
    place = scene.site(exp)
    exponent = place.written.text(0, "input")
    spelling = scene.spelling(place)
    happened = (
        f"exp({exponent or 'x'}) underflowed to 0 in {scene.dtype} for every term of this sum, and dividing by it "
        f"gives {'NaN (0 / 0)' if scene.event.born == 'NaN' else 'an infinity'}"
    )
    product = maker(first(total), "mul") if total.op == "sum" else None
    if product is not None and not any(maker(each, "div") for each in product.args[:2]):
        return None  # the weights that exponentials are multiplied by are no scaling that an iteration has found
    log_matrix = exponent or scene.taken(exp, "log_K")
    general_line = (
        f"log_u = {spelling.call('log', 'a')} - {spelling.tensor_call('logsumexp', f'{log_matrix} + log_v', 'dim=-1')}"
    )
    return Finding(
        f"{happened}. When scaling the rows and columns of such a matrix in turn (Sinkhorn iterations for optimal "
        "transport), work with the logs of the scalings and sum with logsumexp: log u = log a - logsumexp(log K + log "
        "v). Begin with logs of 0, do the same in the line of the other scaling, and take exp(log u + log K + log v) "
        "only at the end. A small number in the denominator would only hide that the row is lost; a larger eps in the "
        "exponent keeps it.",
        None,
        scaling_in_log_space(scene, scene.birth) or general_line,
    )


def _may_weigh(weights: Operand) -> bool:
    """Whether numbers may be above 0, and are no mask: then it is not by them that a sum of products is 0."""
    lowest = least(weights)
    return "bool" not in (weights.dtype or "") if lowest is None else lowest > 0


CAUSES = (
    difference_of_infinities,
    joined_exponentials,
    exponential,
    underflowed_sum,
    underflowed_exponential,
    divided_by_small_exponential,
)
