"""Single functions at the edge of their domain or beyond: rows 1, 2, 10 and 21 to 26."""

from __future__ import annotations

import math

from retrograd.anomaly.catalogue._expression import (
    LOGS,
    addends,
    first,
    is_flat,
    is_number,
    made_from,
    maker,
    one_minus,
    second,
    shown,
    size_of,
    squared,
    unscaled,
    value,
)
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import NOTHING, NOWHERE, Site, atom, number_written
from retrograd.anomaly.operation_names import TRANSPARENT
from retrograd.anomaly.surroundings import Operand, Operation, Place

_EDGE = 1e-3  # this close outside a domain, the cause is rounding


def clamped(scene: Scene, low: str | None, high: str | None = None) -> str | None:
    """The line with the argument of the birth between two bounds, wherever it stands in it."""
    return scene.replaced(
        scene.site(scene.birth), 0, lambda text, spelling: spelling.clamp(text, low, high), "input", complements=True
    )


def general(scene: Scene, low: str | None, high: str | None = None) -> str:
    """The general form of the same."""
    spelling = scene.spelling()
    name = "special.ndtri" if scene.op == "ndtri" else scene.op
    return f"y = {spelling.call(name, spelling.clamp(scene.called(first(scene.birth), 'x'), low, high))}"


def floored_softplus(scene: Scene, operand: Operand | None) -> tuple[str, Place | None] | None:
    """The line of the softplus that made an operand, which underflowed, with a floor; and its place."""
    made = maker(operand, "softplus")
    site = NOWHERE if made is None else scene.site(made)
    if made is None or value(operand) != 0 or not site or site.node is not site.written.node:
        return None
    new = site.line.replaced({site.node: f"{site.line.text(site.node)} + {'1e-3' if scene.half else '1e-6'}"})
    return None if new is None else (new, made.place)


FLOORED = (
    "It is a softplus, which is above 0, but rounds to 0 far below. Add a small number to it where it is made: "
    "whatever is computed from it then agrees."
)


def least_of_root(scene: Scene) -> str:
    """A bound for the argument of a root that is too small to affect any value."""
    return scene.floor if scene.half else "1e-30"


def _by_rounding(scene: Scene, beyond: float) -> bool:
    """Whether rounding may have taken the argument of the birth this far outside a domain, as far as is known."""
    made, eps = first(scene.birth).producer, float(_near_one(scene))
    terms = (
        [] if made is None else [*made.args, *(each for arg in made.args if arg.producer for each in arg.producer.args)]
    )
    size = max((size for each in terms if (size := size_of(each)) is not None), default=0.0)
    return beyond <= max(_EDGE, 10 * eps * size)


def _near_one(scene: Scene) -> str:
    near = {"float16": "1e-3", "half": "1e-3", "bfloat16": "1e-2", "float64": "1e-12", "double": "1e-12"}
    return near.get(scene.dtype, "1e-6")


_DOMAINS = {
    **dict.fromkeys(("sqrt", "rsqrt"), (0.0, math.inf)),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), (-1.0, 1.0)),
    **dict.fromkeys(("logit", "ndtri"), (0.0, 1.0)),
    "acosh": (1.0, math.inf),
}
_INFINITE_AT_ENDS = ("atanh", "logit", "erfinv", "ndtri")


def bounds(scene: Scene, op: str) -> tuple[str, str | None]:
    """Between which numbers a function has a value and a derivative, as code."""
    lowest, highest = _DOMAINS[op]
    eps = _near_one(scene)
    low = scene.floor if highest == math.inf and lowest == 0 else eps if lowest == 0 else f"{lowest:g} + {eps}"
    return low, None if highest == math.inf else f"{highest:g} - {eps}"


def kept_inside(scene: Scene, operand: Operand | None, site: Site) -> tuple[str, Place | None] | None:
    """A line with what an angle or a distance that is 0 was taken of kept inside its interval, and its place.

    None if the operand was not made so. It has no derivative there, whatever is computed of it.
    """
    made = made_from(operand, "acos", "asin", "acosh")
    if made is None or scene.complex or abs(value(first(made)) or 0.0) != 1:
        return None
    low, high = bounds(scene, made.op)
    found = scene.site(made, site) or scene.site(made)
    own = Site(found.written.line, found.written.node, found.written, made.place)
    rewritten = scene.replaced(own, 0, lambda text, spelling: spelling.clamp(text, low, high), "input")
    return None if rewritten is None else (rewritten, made.place)


@cause(None, "arcsine of a root at the end of its interval")
def angle_of_root(scene: Scene) -> Finding | None:
    asin = next((each for each in scene.chain[:2] if each.op == "asin"), None)
    root = scene.birth if scene.op == "sqrt" else maker(first(scene.birth), "sqrt")
    outer = NOWHERE if asin is None else scene.site(asin)
    x = None if root is None else scene.site(root, outer).text(0, "input")
    if asin is None or root is None or (scene.op == "sqrt" and not (scene.backward and scene.zero(first(root)))):
        return None
    if asin is scene.birth and (value(first(asin)) is None or not 1 <= (value(first(asin)) or 0.0) <= 1 + _EDGE):
        return None
    spelling, low = scene.spelling(outer), least_of_root(scene)

    def angle(x: str) -> str:
        return spelling.call(
            "atan2", *(spelling.call("sqrt", spelling.clamp(each, low)) for each in (x, f"1 - {atom(x)}"))
        )

    return Finding(
        "The derivative of asin(sqrt(x)) is infinite at x = 0 and at x = 1 (a point and itself, or the opposite one), "
        "and rounding can take x past 1. atan2(sqrt(x), sqrt(1 - x)) is the same angle, and bounds that no real value "
        "reaches keep its derivative finite. (A larger number under the root, or a bound below 1, would be an error of "
        "metres or kilometres on Earth.)",
        None if x is None else outer.replaced(angle(x)),
        f"y = {angle(scene.called(first(root), 'x'))}",
        asin.place,
    )


@cause(25, "acos or asin of a cosine that rounding took past 1")
def past_one(scene: Scene) -> Finding | None:
    known = value(first(scene.birth))
    margin = 0.05 if scene.dtype in ("float16", "half", "bfloat16") else _EDGE
    if scene.op not in ("acos", "asin") or known is None or not 1 < abs(known) <= 1 + margin:
        return None
    low, high = bounds(scene, scene.op)
    return Finding(
        f"{scene.op}({known!r}) is NaN: a cosine computed from normalised vectors can exceed 1 by a rounding error. "
        "Clamp it strictly inside (-1, 1), because at exactly 1 the derivative is infinite.",
        clamped(scene, low, high),
        general(scene, low, high),
    )


@cause(24, "acos or asin at 1 or -1")
def steep_edge(scene: Scene) -> Finding | None:
    known = value(first(scene.birth))
    if scene.op not in ("acos", "asin", "acosh") or not scene.backward or known not in (1.0, -1.0, None):
        return None
    if scene.complex:
        return None
    low, high = bounds(scene, scene.op)
    slope = "1/sqrt(1 - x^2) (up to sign)"
    keep = "Keep x strictly inside, or compute the angle with atan2, which is smooth there"
    if scene.op == "acosh":
        slope, keep = "1/sqrt(x^2 - 1)", "Keep x above 1; it is exactly 1 for the distance of a point to itself"
    return Finding(
        f"The derivative of {scene.op} is {slope}, which is infinite at x = {scene.at(first(scene.birth), 1.0)}. "
        f"{keep}.",
        clamped(scene, low, high),
        general(scene, low, high),
    )


@cause(26, "atanh or logit at the end of its interval")
def interval_end(scene: Scene) -> Finding | None:
    if scene.op not in _INFINITE_AT_ENDS or scene.complex:
        return None
    known, ends = value(first(scene.birth)), _DOMAINS[scene.op]
    if known not in ends and not (known is None and scene.kind == "divide"):
        return None
    low, high = bounds(scene, scene.op)
    if (given := _given_to_log_prob(scene, low, high)) is not None:
        return Finding(
            f"log_prob of a tanh-squashed distribution inverts the tanh, and {scene.at(first(scene.birth), 1)} is the "
            "end of its interval, where atanh is infinite. TanhTransform(cache_size=1) remembers what a sample was "
            "made from, so log_prob of the very tensor that rsample returned is exact; values from elsewhere must be "
            "clamped inside the interval.",
            given,
            None,
            scene.birth.place,
        )
    lands = (
        "a uniform random number or a rounded probability can land. Clamp it inside."
        if scene.op == "ndtri"
        else (
            "a saturated sigmoid or tanh easily lands. Clamp it inside, or work with the value before the sigmoid or "
            "tanh."
        )
    )
    return Finding(
        f"{scene.op}({scene.at(first(scene.birth), ends[1])}) is infinite, and so is its derivative: the argument "
        f"reached the end of the interval ({ends[0]:g}, {ends[1]:g}), where {lands}",
        clamped(scene, low, high),
        general(scene, low, high),
    )


def _given_to_log_prob(scene: Scene, low: str, high: str | None) -> str | None:
    """The line that calls ``log_prob``, which has called an atanh, with its argument kept between bounds."""
    if scene.op != "atanh" or scene.site(scene.birth):
        return None
    line, call = scene.line, scene.line.only("log_prob")
    node = call.argument(1, "value") if call.form == "method" else None
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
    if power is not None and power < 0:
        return Finding(
            f"{shown(known)} to the power {shown(power)} is not a real number. What is raised to such a power (a "
            "degree, a variance, a sum of weights) is meant to be positive: find out why it is not, and keep what it "
            "is computed from positive (softplus, exp, abs).",
            clamped(scene, scene.floor) if _by_rounding(scene, -known) else None,
        )
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    x, p = site.written.text(0, "input"), site.written.text(1, "exponent")
    eps = f" + {scene.floor}" if power is not None and power < 1 else ""

    def formula(x: str, p: str) -> str:
        size = f"({spelling.call('abs', x)}{eps})" if eps else spelling.call("abs", x)
        return f"{spelling.call('sign', x)} * {size} ** {atom(p)}"

    return Finding(
        f"{shown(known)} to the power {scene.at(exponent, 'p')} is not a real number. For a signed power, apply it to "
        "abs(x) and restore the sign; otherwise find out why x is negative.",
        site.replaced(formula(x, p)) if x and p else None,
        f"y = {formula(scene.called(base, 'x'), scene.at(exponent, 'p'))}",
    )


@cause(23, "derivative of 0 ** p with respect to the exponent")
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
        "The derivative of x ** p with respect to p is x ** p * log(x), and log(0) is -inf, although 0 ** p is 0 for "
        "every p > 0. Keep the base away from 0.",
        clamped(scene, scene.floor),
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
        f"The derivative of x ** {power:g} is {power:g} * x ** {power - 1:g}, which is infinite at x = 0. A small "
        "number added to x keeps it finite.",
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
    happened = "The value sqrt(0) = 0 is fine, but its derivative 1/(2*sqrt(x)) is 1/(2*0) = inf."
    if is_flat(first(scene.birth)) and scene.event.harmed != "loss":  # where it is differentiated only once
        low = least_of_root(scene)
        return Finding(
            f"{happened} Under the root are squares, so take the derivative at 0 to be 0, as a norm does: a bound "
            "under the root achieves that and leaves the values unchanged.",
            clamped(scene, low),
            general(scene, low),
        )
    if (raised := _raised_bound(scene, eps)) is not None:
        return Finding(
            f"{happened} The bound below is 0 itself: raise it slightly. Elements at the bound then get no gradient, "
            "and all others keep their values.",
            raised,
            general(scene, eps),
        )
    return Finding(
        f"{happened} A small number under the root keeps it finite.",
        scene.replaced(scene.site(scene.birth), 0, lambda text, _: f"{text} + {eps}", "input"),
        f"y = {spelling.call('sqrt', scene.called(first(scene.birth), 'x') + ' + ' + eps)}",
    )


def _raised_bound(scene: Scene, low: str) -> str | None:
    """The line with a bound above 0 where what the birth is taken of is bounded by 0; None if it is not."""
    site = scene.site(scene.birth)
    made = maker(first(scene.birth), "clamp", "clamp_min")
    bound = site.line.operation_at(site.written.argument(0, "input"))
    if made is None or not site:
        return None
    written = bound.argument(1, "min") if bound.op in ("clamp", "clamp_min") else None
    if written is not None:
        return site.line.replaced({written: low}) if number_written(written) == 0 else None
    return clamped(scene, low) if value(second(made)) == 0 else None


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
        f"{scene.op}({scene.at(operand, 0.0)}) is infinite: the gamma function has poles at 0, -1, -2 and so on. The "
        "parameters of a Beta, Gamma, Dirichlet or Student's t distribution must be positive: make them so with "
        "softplus plus a floor.",
        scene.replaced(
            scene.site(scene.birth), poles[0], lambda text, spelling: spelling.clamp(text, low), operand.name
        ),
        general(scene, low) if scene.op != "betaln" else f"x = {spelling.clamp(scene.called(operand, 'x'), low)}",
    )


@cause(None, "Bessel function out of range")
def bessel_overflow(scene: Scene) -> Finding | None:
    name = scene.op.removeprefix("special_")
    if name not in ("i0", "i1") or scene.kind != "overflow" or scene.backward:
        return None
    spelling, line = scene.spelling(), scene.line
    sides = map(line.operation_at, line.only("div").arguments)
    both = [each for each in sides if each.op in ("i0", "i1")]
    edits = {each.node: spelling.tensor_call(f"special.{each.op}e", each.text(0, "input") or "x") for each in both}
    equal = len(both) == 2 and both[0].text(0, "input") == both[1].text(0, "input")
    return Finding(
        f"{name}({scene.at(first(scene.birth), 'x')}) is beyond the largest {scene.dtype}, because it grows like "
        f"exp(|x|). {name}e is the same function without that factor. In a quotient of two of them the factor cancels; "
        f"in a logarithm it becomes |x|: log({name}(x)) = log({name}e(x)) + |x| for x above 0.",
        line.replaced(edits) if equal else None,
        f"y = {spelling.tensor_call(f'special.{name}e', scene.called(first(scene.birth), 'x'))}",
    )


@cause(None, "gamma function out of range")
def gamma_overflow(scene: Scene) -> Finding | None:
    if scene.op != "gamma" or scene.kind != "overflow" or scene.backward:
        return None
    return Finding(
        f"gamma({scene.at(first(scene.birth), 'x')}) is beyond the largest {scene.dtype}: factorials grow faster than "
        "any exponential (float64 overflows above gamma(171.6)). Work with their logarithms (lgamma, gammaln), which "
        "stay in range; for a quotient, take exp of the difference of two.",
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
    if not edge and (learned := _learned(scene)) is not None:
        return _kept_positive(
            scene,
            f"{scene.op}({scene.at(first(scene.birth), 'x')}) is NaN: the logarithm of a negative number is not real.",
            learned,
        )
    if (tanh := _scaled_tanh(first(scene.birth))) is not None:
        spelling, x = scene.spelling(scene.site(scene.birth)), scene.called(first(tanh), "x")
        squared_tanh = f"{spelling.call('tanh', x)} ** 2"
        return Finding(
            f"{scene.op}({scene.at(first(scene.birth), 'x')}) is NaN: a tanh times a number is squared here, but 1 - "
            "y ** 2 is the derivative of tanh, and positive, only for the tanh itself. Square it before scaling it.",
            _with_tanh(scene, spelling.call("tanh", x)),
            f"y = {spelling.call('log', f'1 - {squared_tanh} + 1e-6')}",
        )
    low = f"-1 + {_near_one(scene)}" if edge else scene.floor
    happened = (
        f"{scene.op}({scene.at(first(scene.birth), 'x')}) is NaN: the logarithm of a negative number is not real. Its "
        "gradient 1/x is finite, so only the loss shows it."
    )
    if known is not None and not _by_rounding(scene, edge - known):
        below = "below -1" if edge else "negative"
        if _may_be_code(first(scene.birth)):
            usual, code = "1.0" if edge == 0 else "0.0", f"{known:g}"
            name, spelling = scene.called(first(scene.birth), "x"), scene.spelling()
            return Finding(
                f"{happened} {code} looks like the code of a missing value in the data. Replace it before the "
                f"logarithm, as below by a value whose logarithm is 0 or better by what is usual there, and tell the "
                "model which values were missing.",
                scene.replaced(
                    scene.site(scene.birth),
                    0,
                    lambda text, spelling: spelling.where(f"{atom(text)} == {code}", usual, text),
                    "input",
                ),
                f"y = {spelling.call(scene.op, spelling.where(f'{name} == {code}', usual, name))}",
            )
        return Finding(
            f"{happened} That is more than rounding. Find out why the argument is {below}; "
            "if it should be positive, make it so where it is computed (softplus, exp)."
        )
    return Finding(
        f"{happened} If it is negative only by rounding, clamp it; otherwise find out why.",
        clamped(scene, low),
        general(scene, low),
    )


_CODES = (9, 99, 999, 9999, 99999, 999999)


def _may_be_code(operand: Operand) -> bool:
    """Whether it is a number of data by which a table marks what is missing: -999."""
    known = value(operand)
    return known is not None and -known in _CODES and not operand.requires_grad


def _scaled_tanh(operand: Operand) -> Operation | None:
    """The tanh a multiple of which is squared in 1 minus the square, with or without an eps."""
    for each in (operand, *(part for part in addends(operand) or () if not is_number(part))):
        square = squared(one_minus(each))
        tanh = maker(unscaled(square, by_data=True), "tanh")
        if tanh is not None and maker(square, "tanh") is None:
            return tanh
    return None


def _with_tanh(scene: Scene, tanh: str) -> str | None:
    """The line with the tanh in the place of its multiple in the only square, if what it is of is known there."""
    square = next((each for op in ("pow", "square") if (each := scene.line.only(op))), NOTHING)
    base = square.argument(0, "input")
    rewritten = None if base is None else scene.line.replaced({base: tanh})
    return rewritten if rewritten is not None and scene.may_stand(rewritten, scene.birth.place) else None


def _learned(scene: Scene) -> str | None:
    """The name of the parameter that the operation takes, if updates have changed it."""
    x = first(scene.birth)
    while x.producer is not None and x.producer.op in TRANSPARENT and x.producer.args:
        x = first(x.producer)
    is_leaf = x.requires_grad and x.producer is None and x.leaf_name is not None
    return x.leaf_name if is_leaf and (scene.context.get("updates") or 0) > 0 else None


def _kept_positive(scene: Scene, happened: str, learned: str) -> Finding:
    """What to do about a parameter that an update has made negative."""
    name = learned.rpartition(".")[2]
    name = name if name.isidentifier() else "x"
    return Finding(
        f"{happened} {learned} is a parameter, and nothing keeps it positive when it is updated. Learn its logarithm "
        "in its place, and take exp of that where it is used; a clamp lets no gradient back to a number below its "
        "bound.",
        None,
        f"{name} = {scene.spelling().call('exp', f'log_{name}')}",
    )


@cause(None, "argument outside the function's domain")
def outside_domain(scene: Scene) -> Finding | None:
    known = value(first(scene.birth))
    if scene.op not in _DOMAINS or scene.backward or scene.complex:
        return None
    lowest, highest = _DOMAINS[scene.op]
    low, high = bounds(scene, scene.op)
    if (known is None and scene.kind != "invalid") or (known is not None and lowest <= known <= highest):
        return None
    beyond = None if known is None else max(lowest - known, known - highest)
    interval = f"of at least {lowest:g}" if highest == math.inf else f"between {lowest:g} and {highest:g}"
    happened = f"{scene.op} needs an argument {interval}; here it was {scene.at(first(scene.birth), 'outside')}."
    if (lowest, highest) == (0.0, math.inf) and (learned := _learned(scene)) is not None:
        return _kept_positive(scene, happened, learned)
    if beyond is not None and not _by_rounding(scene, beyond):
        return Finding(
            f"{happened} That is more than rounding: the formula or its inputs are wrong, and a clamp would only hide "
            "it. Find out why."
        )
    return Finding(
        f"{happened} If that is only rounding, clamp it; otherwise find out why.",
        clamped(scene, low, high),
        general(scene, low, high),
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
    if not edge and (floored := floored_softplus(scene, first(scene.birth))) is not None:
        return Finding(f"{scene.op}(0) is -inf. {FLOORED}", floored[0], general(scene, scene.floor), floored[1])
    low = f"-1 + {_near_one(scene)}" if edge else scene.floor
    keep = (
        f"Clamp the argument slightly above {edge:g} (clamped elements get no gradient); if it is a probability, "
        "compute its log directly (log_softmax, logsigmoid)."
    )
    if scene.backward and scene.grad == 0 and not tiny:
        keep = f"The incoming gradient is 0, as behind a mask or a where, and 0 * inf is NaN. {keep}"
    if scene.complex:
        keep = "Complex numbers cannot be clamped: use a condition to choose what replaces a 0."
    return Finding(
        f"{scene.op}({scene.at(first(scene.birth), edge)}) is {'-inf' if not tiny else 'finite'}, and its derivative "
        f"{'1/(1 + x)' if edge else '1/x'} {'is infinite there' if not tiny else 'overflows'}. {keep}",
        clamped(scene, low),
        general(scene, low),
    )


CAUSES = (
    angle_of_root,
    past_one,
    steep_edge,
    interval_end,
    fractional_power,
    zero_to_the_exponent,
    power_at_zero,
    root_at_zero,
    gamma_pole,
    gamma_overflow,
    bessel_overflow,
    negative_logarithm,
    outside_domain,
    zero_logarithm,
)
