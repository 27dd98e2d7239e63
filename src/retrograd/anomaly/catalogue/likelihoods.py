"""Likelihoods whose logarithm is taken only after computing them: densities and determinants out of range."""

from __future__ import annotations

import ast
import itertools

from retrograd.anomaly.catalogue._expression import (
    EXPONENTIALS,
    LOGS,
    denominator,
    first,
    least,
    made_from,
    maker,
    number,
    one_minus,
    second,
    squared,
    value,
)
from retrograd.anomaly.catalogue._log_space import asking_for_logits, in_log_space, log_of_factors
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._scopes import assignments_to
from retrograd.anomaly.surroundings import Operand, Operation

# --- densities --------------------------------------------------------------------------------------------------------


def _factor(operand: Operand | None, op: str, depth: int = 4) -> Operation | None:
    """The operation of this kind whose result an operand is but for factors and divisors.

    Of exponentials, one that has underflowed as far as is known.
    """
    if op == "exp" and operand is not None and (least(operand) or 0.0) > 0:
        return None
    found = maker(operand, op)
    product = None if found is not None or not depth else maker(operand, "mul", "div")
    if product is None:
        return found
    factors = product.args[:2] if product.op == "mul" else product.args[:1]
    return next((found for each in factors if (found := _factor(each, op, depth - 1)) is not None), None)


def _added_densities(operand: Operand | None, depth: int = 6) -> list[Operation]:
    """The exponentials of the densities that a sum adds up; none if it adds up anything else."""
    total = maker(operand, "add", "sum", "mean", "matmul", "dot")
    if total is None:
        exp = _factor(operand, "exp")
        return [exp] if exp is not None else []
    if total.op == "add":
        found = [(each, _added_densities(each, depth - 1) if depth else []) for each in total.args[:2]]
        # a sum may begin with zeros
        are_densities = all(exps or (value(each) == 0 and not each.requires_grad) for each, exps in found)
        return [exp for _, exps in found for exp in exps] if are_densities else []
    if total.op in ("sum", "mean"):
        added = first(total)
        exp = _factor(added, "exp")
        return [exp] if exp is not None and added.min == added.max == 0 else []
    pair = (first(total), second(total))
    for each, weights in (pair, pair[::-1]):
        exp = _factor(each, "exp")
        if exp is not None and weights is not None and (number(weights.min) or 0.0) > 0:
            return [exp]
    return []


@cause(None, "log of a density that underflowed")
def log_of_density(scene: Scene) -> Finding | None:
    for log in scene.roots(*LOGS):
        if not scene.zero(first(log)) or value(first(log)) is None:
            continue
        exp = _factor(first(log), "exp")
        if exp is not None:
            return _log_of_one(scene, log, exp)
        if asking_for_logits(scene, log) is not None:
            return None
        exps = _added_densities(first(log))
        if exps:
            return _log_of_several(scene, log, exps)
    return None


def _log_of_one(scene: Scene, log: Operation, exp: Operation) -> Finding:
    spelling = scene.spelling(scene.site(exp) or scene.site(log))
    new = log_of_factors(scene, exp) if log.op == "log" else None
    return Finding(
        f"exp({scene.at(first(exp), 'x')}) underflows to 0 in {scene.dtype}, and the log of 0 is -inf. log(exp(x)) is "
        "x, so compute the log-density directly: it stays in range. Clamping the density would only zero its gradient.",
        in_log_space(scene, log),
        f"log_p = {new or spelling.call(log.op, 'factor') + ' + ' + scene.called(first(exp), 'exponent')}",
        log.place,
    )


def _log_of_several(scene: Scene, log: Operation, exps: list[Operation]) -> Finding:
    spelling = scene.spelling(scene.site(log))
    two = maker(first(log), "add") is not None and len(exps) == 2
    together = "logaddexp" if two else "logsumexp"
    new = (
        spelling.call("logaddexp", "log_weight_1 + log_density_1", "log_weight_2 + log_density_2")
        if two
        else spelling.tensor_call("logsumexp", "log_weight + log_density", "dim=-1")
    )
    return Finding(
        "Every density in the sum underflows to 0 because its exponential does, and the log of 0 is -inf. Compute "
        f"log-densities instead and add them with {together}, which factors out the largest one first. Clamping the "
        "sum would only zero its gradient.",
        in_log_space(scene, log),
        f"log_p = {new}",
        log.place,
    )


WAYS = (
    *("exp", "expm1", "cosh", "sinh", "i0", "pow", "square", "sqrt", "reciprocal"),
    *("add", "mul", "div", "sub", "neg", "where", "flip"),
    *("sum", "mean", "prod", "cumsum", "cumprod", "matmul", "dot", "stack", "cat", "masked_fill"),
)
"""The operations that lead to a logarithm which is taken too late."""


@cause(None, "log taken too late, after an underflow or overflow")
def log_taken_too_late(scene: Scene) -> Finding | None:
    for log in scene.roots(*LOGS, "log1p", through=WAYS):
        if _is_behind_exponential(scene, log):
            return None  # of exp(x) the logarithm is x, which is as bad as before
        if maker(first(log), "prod", "cumprod") or maker(squared(one_minus(first(log))), "tanh"):
            continue  # which have rows of their own
        happened = _lost_before(scene, log)
        rewritten = in_log_space(scene, log) if happened is not None else None
        asked = asking_for_logits(scene, log) if happened is not None and rewritten is None else None
        if rewritten is not None or asked is not None:
            general, more = asked or (None, "")
            return Finding(
                f"{happened} Take the logarithm part by part instead, and nothing leaves the range: the log of a "
                "product is the sum of the logs, the log of a sum is logaddexp or logsumexp, and log(exp(x)) is x. A "
                f"clamp would only zero the gradient. {more}".strip(),
                rewritten,
                general,
                log.place,
            )
    return None


def _is_behind_exponential(scene: Scene, log: Operation) -> bool:
    """Whether what was born goes through an exponential on its way to a logarithm."""
    ways = itertools.takewhile(lambda each: each is not log, scene.chain[1:])
    return log is not scene.birth and any(each.op in EXPONENTIALS for each in ways)


def _lost_before(scene: Scene, log: Operation) -> str | None:
    """What was lost in the argument of a logarithm; None if nothing was."""
    known, edge = value(first(log)), -1 if log.op == "log1p" else 0
    if log is not scene.birth:
        if scene.backward:
            return None
        if scene.kind == "overflow":
            return f"{scene.gave(scene.op)}, which is beyond the largest {scene.dtype}, before the log was taken."
        divided = denominator(scene.birth) is not None and scene.kind in ("divide", "invalid")
        return f"{scene.gave(scene.op)} before the log was taken: its divisor rounded to 0." if divided else None
    if known == edge:
        return (
            f"The argument of {log.op} is exactly {edge}, so the result is -inf: part of it was rounded away (an "
            "exponential or a probability to 0, or two nearby numbers to the same value)."
        )
    if known is not None and edge < known < _TINY and scene.backward:
        return f"{log.op}({known:g}) is finite, but its derivative 1/x overflows: the argument has nearly underflowed."
    return None


_TINY = 1e-35


@cause(None, "log of a normal distribution's cumulative probability")
def log_of_cumulative(scene: Scene) -> Finding | None:
    log = scene.birth
    if log.op not in LOGS or value(first(log)) != 0:
        return None
    difference = maker(first(log), "sub")
    sides = (first(log),) if difference is None else difference.args[:2]
    if not all(made_from(each, "erf", "erfc", "ndtr") for each in sides):
        return None
    spelling = scene.spelling(scene.site(log))
    low, high = (spelling.tensor_call("special.log_ndtr", each) for each in ("-a", "-b"))
    if len(sides) == 1:
        return Finding(
            f"Far out in the tail of the distribution, the probability underflows to 0 in {scene.dtype}, and the log "
            "of 0 is -inf. log_ndtr computes the log of the normal CDF without passing through 0. Clamping the "
            "probability would only zero its gradient.",
            None,
            f"log_p = {spelling.tensor_call('special.log_ndtr', '(x - mean) / std')}",
        )
    inside = spelling.call("log", f"-{spelling.call('expm1', f'{high} - {low}')}")
    return Finding(
        "Far out in the tail, both cumulative probabilities round to the same number (0 or 1), so their difference is "
        "0 and its log is -inf. Compute the log of the difference from log_ndtr of both ends, as below for a < b above "
        "the mean, in standard deviations from it; below the mean, use b for -a and a for -b. Clamping the difference "
        "would only zero its gradient.",
        None,
        f"log_p = {low} + {inside}",
    )


# --- determinants -----------------------------------------------------------------------------------------------------


@cause(None, "logarithm of a determinant out of range")
def determinant_out_of_range(scene: Scene) -> Finding | None:
    if scene.backward or (scene.op == "det") != (scene.kind == "overflow"):
        return None
    for log in scene.roots(*LOGS, through=("det", "mul", "div")):
        det = _factor(first(log), "det")
        if det is None or not (scene.op == "det" or value(first(log)) == 0):
            continue
        name, spelling = scene.called(first(det), "the matrix"), scene.spelling(scene.site(log))
        happened = (
            f"is beyond the largest {scene.dtype}"
            if scene.op == "det"
            else f"came out as 0 in {scene.dtype}, and log(0) is -inf"
        )
        singular = (
            f" If {name} really is singular, slogdet gives -inf as well: then add a small number to its diagonal."
            if scene.op != "det"
            else ""
        )
        return Finding(
            f"The determinant of {name} {happened}. A determinant is a product of one factor per row, so it soon "
            f"leaves the range of its type; slogdet adds up the logs of the factors instead.{singular}",
            in_log_space(scene, log),
            f"logdet = {spelling.module}.linalg.slogdet({scene.called(first(det), 'A')}).logabsdet",
            log.place,
        )
    return None


@cause(None, "a number times log(0)")
def times_log_of_zero(scene: Scene) -> Finding | None:
    factor = value(first(scene.birth))
    if scene.op != "xlogy" or scene.backward or not factor or value(second(scene.birth)) != 0:
        return None
    site = scene.site(scene.birth)
    if not site and (found := _on_the_border(scene, factor)) is not None:
        return found
    name, spelling = scene.called(second(scene.birth), "y"), scene.spelling(site)
    return Finding(
        f"xlogy(x, 0) is 0 only if x is 0 too; here it is {factor:.3g} * log(0). Keep the second argument above 0.",
        scene.replaced(site, 1, lambda text, spelling: spelling.clamp(text, scene.floor), "other"),
        f"y = {spelling.tensor_call('special.xlogy', 'x', spelling.clamp(name, scene.floor))}",
    )


def _on_the_border(scene: Scene, factor: float) -> Finding | None:
    """The same within a ``log_prob``: a Beta distribution is given 0 or 1, a gamma or Dirichlet distribution 0."""
    line, call = scene.line, scene.line.only("log_prob")
    node = call.argument(1, "value") if call.form == "method" else None
    if node is None:
        return None
    low, high = ("1e-6", "1 - 1e-6") if _is_of_beta(line.text(call.arguments[0]), scene) else (scene.floor, None)
    text = line.text(node)
    return Finding(
        f"{text} reaches the boundary of the distribution's support, where the density is 0 or infinite: log_prob "
        f"computes {factor:.3g} * log(0) there. Clamp such values slightly inside the support, or leave them out.",
        line.replaced({node: scene.spelling().clamp(text, low, high)}),
        f"value = {scene.spelling().clamp('value', low, high)}",
        scene.birth.place,
    )


def _is_of_beta(distribution: str, scene: Scene) -> bool:
    """Whether a distribution is a Beta, or one as far as the program says, where it is called or where it is made."""
    known = scene.context.get("distribution")
    if known is not None:
        return known == "Beta"
    made = [ast.unparse(each.value) for each in assignments_to(distribution, scene.birth.place)]
    return any("Beta(" in text for text in (distribution, *made))


CAUSES = (times_log_of_zero, determinant_out_of_range, log_of_density, log_taken_too_late, log_of_cumulative)
