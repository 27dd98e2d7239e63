"""Functions at the edge of their domain or beyond, by themselves: rows 1, 2, 10, 21 to 27, 31 and 32."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from retrograd.anomaly.catalogue._code import Line, Site, atom
from retrograd.anomaly.catalogue._expression import (
    DIVISIONS,
    EXPONENTIALS,
    LOGS,
    denominator,
    first,
    is_number,
    made_from,
    maker,
    named,
    number,
    second,
    shown,
    value,
)
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.surroundings import Operand, Operation

# The largest exponents worth computing with in half, single and double precision.
_LARGEST = dict.fromkeys(EXPONENTIALS, (10.0, 80.0, 700.0)) | {"exp2": (15.0, 120.0, 1000.0)}
_ENDS = ("11.09", "88.7", "709.8")  # of exp
_EDGE = 1e-3  # this close outside a domain it is rounding


def _clamped(scene: Scene, low: str | None, high: str | None = None) -> str | None:
    return scene.replaced(
        scene.site(scene.birth), 0, lambda text, spelling: spelling.clamp(text, low, high), "input", complements=True
    )


def _general(scene: Scene, low: str | None, high: str | None = None) -> str:
    spelling = scene.spelling()
    return f"y = {spelling.call(scene.op, spelling.clamp(scene.called(first(scene.birth), 'x'), low, high))}"


def _near_one(scene: Scene) -> str:
    return {"float16": "1e-3", "half": "1e-3", "bfloat16": "1e-2"}.get(scene.dtype, "1e-6")


@cause(25, "acos or asin of a cosine that rounding took past 1")
def past_one(scene: Scene) -> Finding | None:
    known = value(first(scene.birth))
    margin = 0.05 if scene.dtype in ("float16", "half", "bfloat16") else _EDGE
    if scene.op not in ("acos", "asin") or known is None or not 1 < abs(known) <= 1 + margin:
        return None
    eps = _near_one(scene)
    return Finding(
        f"{scene.op}({known!r}) is NaN: a cosine computed from normalised vectors can come out a rounding error "
        "beyond 1. Clamp it inside (-1, 1); exactly at 1 the derivative would be infinite.",
        _clamped(scene, f"-1 + {eps}", f"1 - {eps}"),
        _general(scene, f"-1 + {eps}", f"1 - {eps}"),
    )


@cause(24, "acos or asin at 1 or -1")
def steep_edge(scene: Scene) -> Finding | None:
    known = value(first(scene.birth))
    if scene.op not in ("acos", "asin", "acosh") or not scene.backward or known not in (1.0, -1.0, None):
        return None
    if scene.complex:
        return None
    eps = _near_one(scene)
    low: str
    high: str | None
    low, high, slope = f"-1 + {eps}", f"1 - {eps}", "1/sqrt(1 - x^2) (up to sign)"
    keep = "Keep x inside, or take the angle from atan2, which is smooth there."
    if scene.op == "acosh":
        low, high, slope, keep = f"1 + {eps}", None, "1/sqrt(x^2 - 1)", "Keep x above 1."
    return Finding(
        f"The derivative of {scene.op} is {slope}, infinite at x = {scene.at(first(scene.birth), 1.0)}. {keep}",
        _clamped(scene, low, high),
        _general(scene, low, high),
    )


@cause(26, "atanh or logit at the end of its interval")
def interval_end(scene: Scene) -> Finding | None:
    ends = {"atanh": (-1.0, 1.0), "logit": (0.0, 1.0), "erfinv": (-1.0, 1.0)}.get(scene.op)
    if ends is None or scene.complex:
        return None
    known = value(first(scene.birth))
    if known not in ends and not (known is None and scene.kind == "divide"):
        return None
    eps = _near_one(scene)
    low, high = eps if ends[0] == 0 else f"-1 + {eps}", f"1 - {eps}"
    if (given := _given_to_log_prob(scene, low, high)) is not None:
        return Finding(
            f"log_prob of a distribution that tanh squashes undoes the tanh, and {scene.at(first(scene.birth), 1)} is "
            "the end of its interval, where atanh is infinite. TanhTransform(cache_size=1) remembers what a sample was "
            "made from, so that log_prob of the very tensor that rsample gave is exact; values from elsewhere must be "
            "kept inside.",
            given,
            None,
            scene.birth.lineno,
        )
    return Finding(
        f"{scene.op}({scene.at(first(scene.birth), ends[1])}) is infinite, and so is its derivative: the value "
        f"reached the end of the interval ({ends[0]:g}, {ends[1]:g}), where a saturated sigmoid or tanh lands "
        "easily. Keep it inside, or work with the number before the sigmoid or tanh.",
        _clamped(scene, low, high),
        _general(scene, low, high),
    )


def _given_to_log_prob(scene: Scene, low: str, high: str) -> str | None:
    """The line that calls ``log_prob``, which has called an atanh, with its argument kept between bounds."""
    line = Line.parse(scene.birth.code_line)
    if scene.op != "atanh" or line is None or scene.site(scene.birth) is not None:
        return None
    call = line.only("log_prob")
    node = call.argument(1, "value") if call is not None and call.form == "method" else None
    return None if node is None else line.replaced({node: scene.spelling().clamp(line.text(node), low, high)})


@cause(22, "negative number to a fractional power")
def fractional_power(scene: Scene) -> Finding | None:
    base, exponent = first(scene.birth), second(scene.birth)
    known, power = value(base), value(exponent)
    if (
        scene.op != "pow"
        or scene.kind == "overflow"
        or known is None
        or known >= 0
        or (power is not None and math.isfinite(power) and power == int(power))
    ):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    texts = (site.written.text(0, "input"), site.written.text(1, "exponent")) if site else (None, None)
    eps = f" + {scene.floor}" if power is not None and power < 1 else ""

    def formula(x: str, p: str) -> str:
        size = f"({spelling.call('abs', x)}{eps})" if eps else spelling.call("abs", x)
        return f"{spelling.call('sign', x)} * {size} ** {atom(p)}"

    return Finding(
        f"{shown(known)} to the power {scene.at(exponent, 'p')} is not a real number. Keep the sign apart, if that "
        "is what is meant; otherwise find out why x is negative.",
        site.replaced(formula(*texts)) if site and texts[0] and texts[1] else None,  # type: ignore[arg-type]
        f"y = {formula(scene.called(base, 'x'), scene.at(exponent, 'p'))}",
    )


@cause(23, "derivative of 0 ** p by the exponent")
def zero_to_the_exponent(scene: Scene) -> Finding | None:
    base, exponent = first(scene.birth), second(scene.birth)
    if (
        scene.op != "pow"
        or not scene.backward
        or exponent is None
        or not exponent.requires_grad
        or value(base) not in (0, None)
    ):
        return None
    power = value(exponent)
    if base.requires_grad and power is not None and power < 1:
        return None
    return Finding(
        "The derivative of x ** p by p is x ** p * log(x), and log(0) is -inf, although 0 ** p is 0 for every p > "
        "0. Keep the base away from zero.",
        _clamped(scene, scene.floor),
        f"y = {scene.spelling().clamp(scene.called(base, 'x'), scene.floor)} ** p",
    )


@cause(21, "derivative of a fractional power at zero")
def power_at_zero(scene: Scene) -> Finding | None:
    power = value(second(scene.birth))
    if (
        scene.op != "pow"
        or not scene.backward
        or power is None
        or not 0 < power < 1
        or not scene.zero(first(scene.birth))
    ):
        return None
    eps = scene.floor
    return Finding(
        f"The derivative of x ** {power:g} is {power:g} * x ** {power - 1:g}, infinite at x = 0. A small number "
        "inside keeps it finite.",
        scene.replaced(scene.site(scene.birth), 0, lambda text, _: f"{text} + {eps}", "input"),
        f"y = ({scene.called(first(scene.birth), 'x')} + {eps}) ** {power:g}",
    )


@cause(10, "derivative of a square root at zero")
def root_at_zero(scene: Scene) -> Finding | None:
    is_zero = scene.zero(first(scene.birth)) or scene.event.operands.get("result") == 0
    if scene.op != "sqrt" or not scene.backward or not is_zero:
        return None
    eps = scene.floor
    spelling = scene.spelling()
    return Finding(
        "The value sqrt(0) = 0 is fine, but its derivative 1/(2*sqrt(x)) is 1/(2*0) = inf. A small number under the "
        "root keeps it finite.",
        scene.replaced(scene.site(scene.birth), 0, lambda text, _: f"{text} + {eps}", "input"),
        f"y = {spelling.call('sqrt', scene.called(first(scene.birth), 'x') + ' + ' + eps)}",
    )


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
    limit = str(_LARGEST["exp"][scene.precision])
    spelling = scene.spelling(site)
    a, b = (scene.called(first(exp), name) for exp, name in zip((*exps, scene.birth, scene.birth), "xy", strict=False))
    left, right = (scene.at(operand, "inf") for operand in (*operation.args[:2], None, None)[:2])
    return Finding(
        f"{left} {'+' if operation.op == 'add' else '-'} {right} has no value. Both sides overflowed before they "
        "met; what is wanted is their difference. Keep the exponents in range, or take the common factor out: "
        "exp(x) - exp(y) = exp(y) * expm1(x - y).",
        None if site is None else _bounded(scene, site, exps, limit),
        f"d = {spelling.call('exp', spelling.clamp(a, None, limit))} - "
        f"{spelling.call('exp', spelling.clamp(b, None, limit))}",
        operation.lineno,
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


def _bounded(scene: Scene, site: Site, exps: Sequence[Operation], limit: str) -> str | None:
    """The line with the exponents of a difference bounded; without exponentials, its two sides."""
    line, spelling, edits = site.line, scene.spelling(site), {}
    if not exps:
        bound = "3e4" if scene.half else "1e30"
        sides = site.written.arguments[:2]
        return line.replaced({node: spelling.clamp(line.text(node), f"-{bound}", bound) for node in sides})
    for exp in exps:
        place = scene.site(exp, site)
        node = place.written.argument(0, "input") if place else None
        if place is not None and node is not None:
            written = place.written.line
            exponent = spelling.clamp(written.text(node), None, limit)
            edits[place.node] = written.text(place.written.node, {node: exponent})
    return line.replaced(edits) if len(edits) == len(exps) else None


def _difference_of_logarithms(scene: Scene, operation: Operation, logs: list[Operation]) -> Finding:
    site = scene.site(operation)
    edits: dict[ast.AST, str] = {}
    for log in logs:
        place = scene.site(log, site) if site else None
        node = place.written.argument(0, "input") if place else None
        if site and place and node and place.written.line is site.line:
            edits[node] = scene.spelling(place).clamp(site.line.text(node), scene.floor)
    spelling = scene.spelling(site)
    a, b = (
        spelling.call(log.op, spelling.clamp(scene.called(first(log), name), scene.floor))
        for log, name in zip(logs, "xy", strict=True)
    )
    return Finding(
        "-inf - -inf has no value: both sides are logarithms of 0. Leave such elements out before the logarithm is "
        "taken, or keep its argument above a small number.",
        site.line.replaced(edits) if site and len(edits) == 2 else None,
        f"d = {a} - {b}",
        operation.lineno,
    )


def _overflowed(operand: Operand) -> bool:
    """Whether an operand is infinite as far as can be known: its number is, or it was made by an exponential."""
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


_NUMBERS = frozenset(("sum", "mean", "norm", "mse_loss", "nll_loss", "cross_entropy"))  # the end of a way that is known
_SUFFICIENT = 1.0  # below, a bound would leave nothing of an exponential


def _exponent_limit(scene: Scene) -> float:
    """The largest exponent with which what follows stays in range."""
    usual = _LARGEST[scene.op][scene.precision]
    if _is_factor(scene) and not scene.half:
        return 0.125 * usual
    most = scene.allowed - (0.5 if scene.half else 1.0)
    most /= math.log(2) if scene.op == "exp2" else 1.0
    return min(usual, math.floor(2 * most) / 2)


@cause(27, "exponential out of range")
def exponential(scene: Scene) -> Finding | None:
    overflowed = scene.event.operands.get("result") == math.inf  # and meets a gradient of zero
    if scene.op not in EXPONENTIALS or (scene.backward and not overflowed):
        return None
    if scene.kind == "underflow":
        return Finding(
            f"{scene.op}({scene.at(first(scene.birth), 'x')}) is so small that {scene.dtype} rounds it to 0. That does "
            "no harm by itself: look at what divides by it or takes its log."
        )
    limit = _exponent_limit(scene)
    happened = (
        f"{scene.op}({scene.at(first(scene.birth), 'x')}) is beyond the largest {scene.dtype} "
        f"(exp ends at x = {_ENDS[scene.precision]})"
    )
    if limit < _SUFFICIENT:
        return Finding(
            f"{happened}. What is computed of it here leaves {scene.dtype} no room for an exponential, whatever the "
            "bound: compute all of this in a wider type, from the exponent on."
        )
    if _is_factor(scene):
        lower = ", the more so as factors multiply from layer to layer"
    elif limit < _LARGEST[scene.op][scene.precision]:
        lower = f"; {limit:g} leaves room for what is computed of it further on"
    else:
        lower = ""
    return Finding(
        f"{happened}. Stay in log space if a log, a ratio or a sum comes next (logsumexp, softmax, softplus); "
        f"otherwise bound the exponent{lower}.",
        _clamped(scene, None, str(limit)),
        _general(scene, None, str(limit)),
    )


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
    return Finding(
        f"exp({scene.at(x, name)}) underflows to 0 in {scene.dtype}, and the division by it is "
        f"{'NaN' if scene.event.born == 'NaN' else 'infinite'}. To divide by exp({name}) is to multiply by "
        f"exp(-{name}), and its logarithm is the exponent itself: stay in log space where you can, and bound "
        "the exponent.",
        scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, low), "input") if exp.code_line else None,
        f"scale = {spelling.call('exp', spelling.clamp(name, low))}",
        exp.lineno,
    )


def _underflowed(operand: Operand | None, depth: int = 4) -> tuple[Operation | None, float]:
    """The exponential because of which a number is 0, and the power of it that the number is."""
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


@cause(32, "division by zero")
def division_by_zero(scene: Scene) -> Finding | None:
    below = first(scene.birth) if scene.op == "rsqrt" else denominator(scene.birth)
    known = value(below)
    tiny = known is not None and abs(known) < 1e-18 and scene.kind in ("overflow", "divide", "invalid")
    if below is None or not (tiny or (known is None and scene.kind in ("divide", "invalid"))):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    name = scene.called(below, "x")
    lineno, remedy = None, _CHOSEN_AT_ZERO
    if scene.op == "rsqrt":
        rewritten = scene.replaced(site, 0, lambda text, _: f"{text} + {scene.eps}", "input")
        general = f"y = {spelling.call('rsqrt', f'{name} + {scene.eps}')}"
    else:
        if known == 0 and _counts(below):
            remedy = _COUNTED

        def guard(text: str) -> str:
            if remedy is _COUNTED:
                return spelling.clamp(text, "1")
            if is_number(below):
                return f"{atom(text)} or {1 if isinstance(below.value, int) else scene.eps}"
            test = f"{atom(text)} == 0" if known in (0, None) else f"{spelling.call('abs', text)} < {scene.eps}"
            return spelling.where(test, "1" if "int" in (below.dtype or "") else scene.eps, text)

        rewritten = scene.guarded(site, lambda text, _: guard(text))
        if known == 0 and (smoothed := scene.smoothed_root(below, site)) is not None:
            (rewritten, lineno), remedy = smoothed, _UNDER_THE_ROOT
        general = f"y = a / {atom(guard(name))}"
    sign = "%" if scene.op in ("remainder", "fmod") else "//" if scene.op == "floor_divide" else "/"
    above = 0 if scene.event.born == "NaN" and not scene.backward else "a"  # else it would be infinite
    top = f"{scene.at(first(scene.birth), above)} {sign} " if scene.op in DIVISIONS else "1 / "
    happened = f"1/sqrt({scene.at(below, 0.0)})" if scene.op == "rsqrt" else f"{top}{scene.at(below, 0.0)}"
    born = "NaN" if scene.event.born == "NaN" else "infinite"
    what = f"{happened} is {born}, and so is its derivative"
    if scene.backward and known:
        what = f"The derivative of {happened} divides by the square of {shown(known)}, which is 0: it is {born}"
    elif scene.backward and born == "NaN" and value(first(scene.birth)) != 0 and scene.grad == 0:
        what = (
            f"{happened} is infinite, and so is its derivative; the gradient that comes to it is 0, and 0 * inf is NaN"
        )
    return Finding(f"{what}. {remedy}", rewritten, general, lineno)


def _counts(operand: Operand) -> bool:
    """Whether ones were added up at indices, which nobody had in common with the element."""
    made = maker(operand, "bincount", "index_add", "scatter_add")
    if made is None:
        return False
    weights, added = named(made, "weights"), named(made, "source", "src")
    if made.op == "bincount":
        return weights is None or weights.shape is None
    return added is not None and added.min == added.max == 1


_COUNTED = (
    "The denominator counts what belongs to an index, and nothing does here. Let it be at least 1: a sum of nothing "
    "stays 0 then, and no other quotient changes."
)
_CHOSEN_AT_ZERO = (
    "If the denominator cannot be negative, add a small eps; otherwise choose what the quotient should be at zero."
)
_UNDER_THE_ROOT = (
    "The denominator is a root, whose derivative is infinite there as well: a small number under it keeps both finite."
)


_GAMMA = ("lgamma", "digamma", "polygamma", "mvlgamma", "gamma", "betaln")


@cause(55, "pole of the gamma function")
def gamma_pole(scene: Scene) -> Finding | None:
    if scene.op not in _GAMMA:
        return None
    args = scene.birth.args[:2] if scene.op == "betaln" else scene.birth.args[:1]
    poles = [place for place, each in enumerate(args) if (x := value(each)) is not None and x <= 0 and x == int(x)]
    if not poles:
        return None
    low = scene.floor if scene.half else "1e-6"
    operand = args[poles[0]]
    spelling = scene.spelling()
    return Finding(
        f"{scene.op}({scene.at(operand, 0.0)}) is infinite: the gamma function has poles at 0, -1, -2 and "
        "so on. Concentrations (of a Beta, Gamma, Dirichlet or Student's t) must be positive: make them so by softplus "
        "plus a floor.",
        scene.replaced(
            scene.site(scene.birth), poles[0], lambda text, spelling: spelling.clamp(text, low), operand.name
        ),
        _general(scene, low) if scene.op != "betaln" else f"x = {spelling.clamp(scene.called(operand, 'x'), low)}",
    )


@cause(None, "gamma function out of range")
def gamma_overflow(scene: Scene) -> Finding | None:
    if scene.op != "gamma" or scene.kind != "overflow" or scene.backward:
        return None
    return Finding(
        f"gamma({scene.at(first(scene.birth), 'x')}) is beyond the largest {scene.dtype}: factorials grow faster than "
        "any exponential (float64 ends at gamma(171.6)). Their logarithms stay in range: take those (lgamma, gammaln), "
        "and exp of a difference of them for a quotient.",
        None,
        f"log_y = {scene.spelling().tensor_call('lgamma', scene.called(first(scene.birth), 'x'))}",
    )


@cause(2, "logarithm of a negative number")
def negative_logarithm(scene: Scene) -> Finding | None:
    if scene.op not in (*LOGS, "log1p") or scene.complex:
        return None
    known = value(first(scene.birth))
    edge = -1.0 if scene.op == "log1p" else 0.0
    if not (scene.kind == "invalid" and not scene.backward if known is None else known < edge):
        return None
    low = f"-1 + {_near_one(scene)}" if edge else scene.floor
    return Finding(
        f"{scene.op}({scene.at(first(scene.birth), 'x')}) is NaN: the logarithm of a negative number is not real. "
        "Note that its gradient 1/x is finite, so only the loss shows it. Find out why the argument is negative; if "
        "it ought to be positive, make it so (softplus, exp) or clamp it.",
        _clamped(scene, low),
        _general(scene, low),
    )


@cause(None, "argument outside the function's domain")
def outside_domain(scene: Scene) -> Finding | None:
    known = value(first(scene.birth))
    eps, near = scene.floor, _near_one(scene)
    inside = {
        "sqrt": (0.0, math.inf, eps, None),
        "rsqrt": (0.0, math.inf, eps, None),
        "acos": (-1.0, 1.0, f"-1 + {near}", f"1 - {near}"),
        "asin": (-1.0, 1.0, f"-1 + {near}", f"1 - {near}"),
        "atanh": (-1.0, 1.0, f"-1 + {near}", f"1 - {near}"),
        "erfinv": (-1.0, 1.0, f"-1 + {near}", f"1 - {near}"),
        "logit": (0.0, 1.0, near, f"1 - {near}"),
        "acosh": (1.0, math.inf, f"1 + {near}", None),
    }.get(scene.op)
    if inside is None or scene.backward or scene.complex:
        return None
    lowest, highest, low, high = inside
    if (known is None and scene.kind != "invalid") or (known is not None and lowest <= known <= highest):
        return None
    interval = f"at least {lowest:g}" if highest == math.inf else f"between {lowest:g} and {highest:g}"
    return Finding(
        f"{scene.op} needs an argument {interval}; here it was {scene.at(first(scene.birth), 'outside')}. Find out "
        "why; if it is rounding only, clamp it.",
        _clamped(scene, low, high),
        _general(scene, low, high),
    )


@cause(1, "logarithm of zero")
def zero_logarithm(scene: Scene) -> Finding | None:
    if scene.op not in (*LOGS, "log1p"):
        return None
    known = first(scene.birth).value if scene.complex else value(first(scene.birth))
    edge = -1.0 if scene.op == "log1p" else 0.0
    if scene.complex and (edge or known not in (0, None)):
        return None
    tiny = isinstance(known, float) and 0 < known < 1e-35 and scene.backward and not edge
    if not tiny and known != edge and not (known is None and scene.kind == "divide"):
        return None
    low = f"-1 + {_near_one(scene)}" if edge else scene.floor
    keep = (
        "Keep the argument above a small number; if it is a probability, compute its log directly (log_softmax, "
        "logsigmoid)."
    )
    if scene.complex:
        keep = "Complex numbers are neither above nor below another one: choose by a condition what stands in for a 0."
    return Finding(
        f"{scene.op}({scene.at(first(scene.birth), edge)}) is {'-inf' if not tiny else 'finite'}, and its derivative "
        f"{'1/(1 + x)' if edge else '1/x'} {'is infinite there' if not tiny else 'overflows'}. {keep}",
        _clamped(scene, low),
        _general(scene, low),
    )


CAUSES = (
    past_one,
    steep_edge,
    interval_end,
    fractional_power,
    zero_to_the_exponent,
    power_at_zero,
    root_at_zero,
    difference_of_infinities,
    exponential,
    underflowed_exponential,
    division_by_zero,
    gamma_pole,
    gamma_overflow,
    negative_logarithm,
    outside_domain,
    zero_logarithm,
)
