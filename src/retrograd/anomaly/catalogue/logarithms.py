"""Logarithms of numbers already rounded to zero or grown to infinity: rows 3, 4, 6 to 9, 34, 35, 38 and 39."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

from retrograd.anomaly.catalogue._denominators import of_like_size
from retrograd.anomaly.catalogue._expression import (
    denominator,
    first,
    is_masked,
    is_number,
    least,
    made_from,
    maker,
    number,
    one_minus,
    plus_one,
    same,
    second,
    squared,
    unscaled,
    value,
)
from retrograd.anomaly.catalogue._log_space import asking_for_logits, in_log_space
from retrograd.anomaly.catalogue._repeated_calls import calls_of_own
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._softmax import Quotient, summand
from retrograd.anomaly.catalogue._source_line import NOTHING, Line, Site, atom, number_written
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.catalogue.safeguards import relu_behind, softplus_instead
from retrograd.anomaly.parsing import expression_of
from retrograd.anomaly.surroundings import Operand, Operation, Place

_SCALING = ("mul", "div", "neg", "sub", "add")


@cause(4, "log of a softmax")
def log_of_softmax(scene: Scene) -> Finding | None:
    for log in scene.roots("log"):
        softmax = maker(first(log), "softmax")
        if softmax is None:
            continue
        if is_masked(first(softmax)):
            return _log_of_masked_softmax(scene, log)
        own, logits = scene.site(softmax), scene.taken(softmax, "logits")
        general = scene.spelling().tensor_call("log_softmax", logits, "dim=-1")
        if own and logits == scene.called(first(softmax), "logits"):
            general = own.written.renamed("log_softmax")
        return Finding(
            f"softmax rounded this probability to {scene.at(first(log), 0.0)} because its logit is far below the "
            "largest one, and the log of that is -inf. In backward, 1/0 times the softmax's derivative of 0 is NaN. "
            "log_softmax computes the same number without passing through 0.",
            in_log_space(scene, log),
            f"log_p = {general}",
            log.place,
        )
    return _log_of_written_out_softmax(scene)


def _log_of_masked_softmax(scene: Scene, log: Operation) -> Finding:
    """The score itself is -inf: another form of the same function would be -inf as well."""
    weighted = "mul" in (operation.op for operation in scene.elementwise())

    def positive(p: str, spelling: Spelling) -> str:
        return spelling.where(f"{atom(p)} > 0", p, "1.0") if weighted else spelling.clamp(p, scene.floor)

    kept = (
        "replace its probability by 1 inside the log, so that the product is 0"
        if weighted
        else "clamp its probability to a small positive number"
    )
    site = scene.site(log)
    return Finding(
        "The score of this class is -inf, as a mask makes it, so its probability is exactly 0 and the log of that is "
        "-inf. log_softmax would give -inf too, and 0 * -inf is NaN. Where you need the log of a masked class, "
        f"{kept}.",
        scene.replaced(site, 0, positive, "input"),
        f"log_p = {scene.spelling(site).call('log', positive(scene.called(first(log), 'p'), scene.spelling(site)))}",
        log.place,
    )


def _log_of_written_out_softmax(scene: Scene) -> Finding | None:
    for log in scene.roots("log", through=("exp", "sum", "div")):
        written_out = Quotient.of(maker(first(log), "div"))
        if written_out is None:
            continue
        rewritten = in_log_space(scene, log)
        if rewritten is None and (scene.op != "log" or not written_out.is_softmax):
            continue
        happened = (
            f"This probability is exactly {scene.at(first(log), 0.0)}, and the log of that is -inf: its exponential "
            "underflowed, or another one in the sum overflowed (in float32, exp overflows above 88.7)."
            if scene.op == "log"
            else (
                f"{_too_large(scene)} overflows {scene.dtype} to inf before the division and the log can bring it "
                "back into range."
            )
        )
        how = (
            "log_softmax does exponential, sum and log in one step, without passing through 0 or inf."
            if written_out.is_softmax
            else "log(exp(a)) is a, and logsumexp factors the largest value out of the sum first."
        )
        logits = scene.taken(written_out.above, "logits")
        return Finding(
            f"{happened} {how}",
            rewritten,
            f"log_p = {scene.spelling().tensor_call('log_softmax', logits, 'dim=-1')}",
            log.place,
        )
    return None


def _too_large(scene: Scene) -> str:
    """Which part of a sum of exponentials is beyond the type's range."""
    return f"exp({scene.at(first(scene.birth), 'x')})" if scene.op == "exp" else "The sum of the exponentials"


@cause(39, "log of 1 - tanh(x)^2")
def log_of_tanh_slope(scene: Scene) -> Finding | None:
    for log in scene.roots("log", through=("sub", "add", "mul", "pow", "square")):
        tanh = maker(squared(one_minus(first(log))), "tanh")
        if tanh is None:
            continue
        x, spelling = atom(scene.taken(tanh, "x")), scene.spelling(scene.site(log))
        return Finding(
            f"tanh({scene.at(first(tanh), 'x')})^2 rounds to 1, so 1 - tanh(x)^2 is exactly 0 and its log is -inf. "
            "This is the change-of-variables term of a tanh-squashed Gaussian (as in SAC); 2 * (log 2 - x - "
            "softplus(-2x)) is the same function, accurate for every x.",
            in_log_space(scene, log),
            f"y = 2 * (0.6931471805599453 - {x} - {spelling.functional('softplus', f'-2 * {x}')})",
            log.place,
        )
    return None


def _written_out_sigmoid(operand: Operand | None) -> Operation | None:
    """The exponential of ``1 / (1 + exp(x))``, which an operand is."""
    product = maker(operand, "mul")  # as torch computes 1 / y
    factors = product.args[:2] if product is not None and 1 in map(value, product.args[:2]) else ()
    for each in (operand, *factors):
        quotient = maker(each, "div", "reciprocal")
        if quotient is None or (quotient.op == "div" and value(first(quotient)) != 1):
            continue
        exp = maker(plus_one(denominator(quotient)), "exp")
        if exp is not None:
            return exp
    return None


def _log_of_written_out_sigmoid(scene: Scene, log: Operation, exp: Operation, complement: bool) -> Finding:
    """``log(1 / (1 + exp(x)))`` is ``-softplus(x)``, and ``log(1 - 1 / (1 + exp(x)))`` is ``logsigmoid(x)``."""
    x, spelling = scene.taken(exp, "x"), scene.spelling(scene.site(log))
    rounded, size = ("1 and 1 - p to 0", "is small") if complement else ("0", "overflows")
    new = spelling.functional("logsigmoid", x) if complement else f"-{spelling.functional('softplus', x)}"
    return Finding(
        f"exp({scene.at(first(exp), 'x')}) {size} here, so the sigmoid p = 1 / (1 + exp(x)) rounds to {rounded}, and "
        f"the log of 0 is -inf. {'logsigmoid' if complement else 'softplus'} computes the logarithm without passing "
        "through 0; a whole cross entropy written this way is binary_cross_entropy_with_logits.",
        in_log_space(scene, log),
        f"log_p = {new}",
        log.place,
    )


@cause(8, "log of 1 - sigmoid(x)")
def log_of_sigmoid_complement(scene: Scene) -> Finding | None:
    for log in scene.roots("log", through=("sub", "add")):
        p = one_minus(first(log))
        sigmoid, exp = maker(p, "sigmoid"), _written_out_sigmoid(p)
        if sigmoid is None and exp is not None and scene.zero(first(log)):
            return _log_of_written_out_sigmoid(scene, log, exp, complement=True)
        if sigmoid is not None:
            return _of_sigmoid(
                scene,
                log,
                f"sigmoid({scene.at(first(sigmoid), 'x')}) rounds to 1, so 1 - sigmoid(x) is exactly 0 and its log is "
                "-inf. log(1 - sigmoid(x)) equals logsigmoid(-x), which does not pass through 0; a whole cross entropy "
                "written this way is binary_cross_entropy_with_logits.",
                "-" + scene.taken(sigmoid, "logits"),
            )
    return None


def _of_sigmoid(scene: Scene, log: Operation, happened: str, logits: str) -> Finding:
    rewritten = in_log_space(scene, log)
    asked = asking_for_logits(scene, log) if rewritten is None else None
    usual = f"y = {scene.spelling(scene.site(log)).functional('logsigmoid', logits)}"
    general, more = asked or (usual, "" if rewritten else _called_for_sigmoid(scene, log))
    return Finding(f"{happened} {more}".strip(), rewritten, general, log.place)


def _called_for_sigmoid(scene: Scene, log: Operation) -> str:
    """What to say if the sigmoid is in what the line calls: how to get what it was given."""
    site = scene.site(log)
    given = site.written.argument(0, "input")
    own = (each for each in calls_of_own(site.line) if isinstance(each, ast.Call))
    called = next((each.func for each in own if given is not None and site.line.inside(each, given)), None)
    if called is None:
        return ""
    return f"The sigmoid is in {site.line.text(called)}: let it return what goes into its sigmoid, the logits."


@cause(7, "log of a sigmoid")
def log_of_sigmoid(scene: Scene) -> Finding | None:
    for log in scene.roots("log"):
        sigmoid, exp = maker(first(log), "sigmoid"), _written_out_sigmoid(first(log))
        if sigmoid is None and exp is not None and scene.zero(first(log)):
            return _log_of_written_out_sigmoid(scene, log, exp, complement=False)
        if sigmoid is not None:
            return _of_sigmoid(
                scene,
                log,
                f"sigmoid({scene.at(first(sigmoid), 'x')}) underflows to 0, and the log of 0 is -inf. logsigmoid "
                "computes the same number without passing through 0.",
                scene.taken(sigmoid, "logits"),
            )
    return None


@cause(6, "log of 1 + exp(x)")
def log_of_one_plus_exp(scene: Scene) -> Finding | None:
    if scene.op != "exp":
        return None
    for log in scene.roots("log", "log1p", through=("exp", "add")):
        exp = maker(plus_one(first(log)) if log.op == "log" else first(log), "exp")
        if exp is None:
            continue
        spelling = scene.spelling(scene.site(log))
        return Finding(
            f"exp({scene.at(first(exp), 'x')}) overflows {scene.dtype} to inf before the log can bring it back. log(1 "
            "+ exp(x)) is softplus(x), which is simply x for large x.",
            in_log_space(scene, log),
            f"y = {spelling.functional('softplus', scene.taken(exp, 'x'))}",
            log.place,
        )
    return None


def _may_weigh(weights: Operand) -> bool:
    """Whether numbers may be weights, none of them negative, as those of a mixture's density are."""
    return not weights.constant and (least(weights) or 0.0) >= 0


@cause(9, "log of a sum of exponentials")
def log_of_sum_of_exp(scene: Scene) -> Finding | None:
    for log in scene.roots("log", through=("exp", "mul", "sum", "cumsum")):
        total = maker(first(log), "sum", "cumsum")
        exp = summand(total, _may_weigh)
        if total is None or exp is None:
            continue
        happened = (
            f"{_too_large(scene)} overflows {scene.dtype} to inf"
            if scene.op in ("exp", "sum", "mul", "cumsum")
            else "Every exponential underflows to 0, and the log of 0 is -inf"
        )
        name = "logsumexp" if total.op == "sum" else "logcumsumexp"
        return Finding(
            f"{happened}. {name} factors out the largest value first and gives the same "
            f"number{'s' if total.op == 'cumsum' else ''}. (For a row that is all -inf, it returns -inf.)",
            in_log_space(scene, log),
            f"y = {scene.spelling(scene.site(log)).tensor_call(name, scene.taken(exp, 'x'), 'dim=-1')}",
            log.place,
        )
    return None


@cause(38, "log of a product that underflows")
def log_of_product(scene: Scene) -> Finding | None:
    for log in scene.roots("log", through=("prod", "cumprod")):
        product = maker(first(log), "prod", "cumprod")
        if product is None or not scene.zero(first(log)):
            continue
        spelling = scene.spelling(scene.site(log))
        factors = spelling.clamp(scene.called(first(product), "p"), "1e-4" if scene.half else "1e-30")
        total = "cumsum(dim=-1)" if product.op == "cumprod" else "sum()"
        return Finding(
            f"A product of many factors below 1 underflows to {scene.at(first(log), 0.0)} in {scene.dtype}, and the "
            "log of 0 is -inf. The sum of the logs is the same number and stays in range.",
            in_log_space(scene, log),
            f"y = {spelling.call('log', factors)}.{total}",
            log.place,
        )
    return None


def _difference_of_logs(names: tuple[str, str], scene: Scene, spelling: Spelling, numbers: Sequence[str] = ()) -> str:
    """The log of a quotient as a difference; as one logarithm where one of the two is a number, not a tensor."""
    eps = scene.floor
    if any(name in numbers or _is_written_number(name) for name in names):
        return spelling.call("log", spelling.clamp(" / ".join(map(atom, names)), eps))
    return " - ".join(spelling.call("log", spelling.clamp(name, eps)) for name in names)


def _is_written_number(text: str) -> bool:
    try:
        return number_written(expression_of(text)) is not None
    except SyntaxError:
        return False


def _differences_of_logs(
    log: Site, texts: tuple[str, str], scene: Scene, spelling: Spelling, numbers: Sequence[str]
) -> str | None:
    """The line with the log of a quotient as a difference, and all others of its kind with it."""
    edits: dict[ast.AST, str] = {log.node: _difference_of_logs(texts, scene, spelling, numbers)}
    for written in log.line.operations if log.node is log.written.node else ():
        quotient = log.line.operation_at(written.argument(0, "input")) if written.op == "log" else NOTHING
        both = _both(Site(log.line, quotient.node, quotient, log.place))
        if both is not None:
            edits[written.node] = _difference_of_logs(both, scene, spelling, numbers)
    return log.line.replaced(edits)


def _both(quotient: Site) -> tuple[str, str] | None:
    """The dividend and the divisor, as written."""
    if quotient.written.op != "div":
        return None
    above, below = quotient.text(0), quotient.text(1, "other")
    return (above, below) if above and below else None


@cause(34, "p * log(p / q) with a zero among them")
def divergence(scene: Scene) -> Finding | None:
    for log in scene.roots("log", through=("div",)):
        ratio = maker(first(log), "div")
        if ratio is not None and relu_behind(second(ratio)) is not None:
            return None  # no distribution
        place = scene.chain.index(log) + 1
        product = next((operation for operation in scene.chain[place:] if operation.op in ("mul", "sum", "mean")), None)
        if ratio is None or product is None or product.op != "mul" or (value(first(log)) or 0.0) < 0:
            continue
        known = [
            operand for operand in product.args if maker(operand, "log") is None and operand.producer is not scene.birth
        ]
        if known and not any(same(operand, first(ratio)) for operand in known):
            continue
        outer = scene.site(log)
        spelling = scene.spelling(outer)
        texts = _both(scene.site(ratio, outer))
        sides = zip(texts or (), ratio.args, strict=False)
        numbers = [text for text, operand in sides if is_number(operand)]
        p, q = scene.at(first(ratio), "p"), scene.at(second(ratio), 0.0)
        return Finding(
            f"In p * log(p / q), p is {p} and q is {q} here: the quotient or its log is infinite, and so is the "
            "product with p, or NaN where p is 0. Keep both away from 0, as below, or stay in log space: kl_div takes "
            "log q and handles p = 0.",
            _differences_of_logs(outer, texts, scene, spelling, numbers) if texts else None,
            f"kl = p * ({_difference_of_logs(('p', 'q'), scene, spelling)})",
            log.place,
        )
    return None


@cause(35, "Gaussian likelihood with a variance of zero")
def gaussian_likelihood(scene: Scene) -> Finding | None:
    whole = denominator(scene.birth) if scene.op != "log" else first(scene.birth)
    variance = unscaled(whole)
    if variance is None or not (scene.zero(variance) or abs(value(variance) or 1.0) < 1e-12):
        return None
    partner = ("div", "reciprocal", "pow") if scene.op == "log" else ("log",)
    log = scene.birth if scene.op == "log" else None
    for operation in scene.elementwise():
        if operation.op not in (*_SCALING, "pow", "square"):
            return None
        made = [found for operand in operation.args if (found := made_from(operand, *partner))]
        meets = [found for found in made if _is_spread(_below(found), variance)]
        if operation.op in ("add", "sub") and meets:
            log = log or meets[0]
            break
    else:
        return None
    name, happened = scene.called(variance, "var"), f"The variance is {scene.at(variance, 0.0)} here: log(var) is -inf "
    happened += "and the error divided by it is infinite or NaN. "
    if (relu := relu_behind(variance)) is not None:
        rewritten, place = softplus_instead(scene, relu)
        return Finding(
            f"{happened}It comes from a relu, which passes no gradient back for a negative input: with a mere floor "
            "after the relu, the variance would stay stuck there. softplus is positive and has a gradient everywhere.",
            rewritten,
            f"{name} = {scene.spelling().functional('softplus', 'h')} + {'1e-4' if scene.half else '1e-6'}",
            place,
        )
    site = scene.site(log)
    spelling = scene.spelling(site)
    floor = "1e-3" if scene.half else "1e-6"
    rewritten, place = None, log.place
    low = _usual_spread(scene, log) if value(whole) == 0 else None

    def mended(text: str) -> str:
        return spelling.clamp(text, floor) if low is None else spelling.where(f"{atom(text)} == 0", low, text)

    node = _unscaled(site.line, site.written.argument(0, "input"))
    if node is not None:
        everywhere = site.line.same(node)
        if len(everywhere) > 1:
            rewritten = site.line.replaced({each: mended(site.line.text(node)) for each in everywhere})
        else:  # the logarithm and the quotient are in different lines: mend the variance itself
            rewritten, place = _mended_spread(variance, site.line.text(node), mended) or (None, place)
    instead = "Give the variance a floor, or predict the log-variance (or use softplus plus a floor)."
    if low is not None:
        instead = (
            "The number below stands in for the 0, and this element then counts about as much as the others; a tiny "
            "floor would let it outweigh them all. To keep a learned variance away from 0, use softplus plus a floor, "
            "or predict the log-variance."
        )
    return Finding(
        f"{happened}A network drives the variance towards 0 wherever it fits well, and constant data have none. "
        f"{instead}",
        rewritten,
        f"{name} = {mended(name)}",
        place,
    )


def _usual_spread(scene: Scene, log: Operation) -> str | None:
    """A variance for which a likelihood is about as large as at the other elements; None if these are not known.

    Of the variances whose logarithms are known the smallest, else one for which the quotient is as the largest other.
    """
    if log is not scene.birth:
        return of_like_size(scene)
    smallest = number((scene.event.output_stats or {}).get("min"))
    if scene.backward or smallest is None or not -25 < smallest < 25:
        return None
    decades = math.floor(smallest / math.log(10))
    return f"1e{decades}" if decades else "1.0"


def _unscaled(line: Line, node: ast.expr | None) -> ast.expr | None:
    """An expression without plain factors: ``var`` for ``2 * var``."""
    product = line.operation_at(node)
    if product.op in ("mul", "div") and len(product.arguments) == 2:
        tensors = [each for each in product.arguments if number_written(each) is None]
        if len(tensors) == 1 and (product.op == "mul" or tensors[0] is product.arguments[0]):
            return _unscaled(line, tensors[0])
    return node


def _is_spread(one: Operand | None, other: Operand) -> bool:
    """Whether two operands are the same variance, or one is the other's square."""
    return same(one, other) or same(squared(one), other) or same(one, squared(other))


def _below(operation: Operation) -> Operand | None:
    """What an operation takes the logarithm of or divides by."""
    return unscaled(first(operation) if operation.op == "log" else denominator(operation))


def _mended_spread(
    variance: Operand, name: str, mended: Callable[[str], str]
) -> tuple[str | None, Place | None] | None:
    """The line that makes the variance, with that mended."""
    made = variance.producer
    earlier = Line.parse(made.code_line if made else None)
    assigned, expression = earlier.assignment or (None, None)
    if made is None or expression is None or assigned != name:
        return None
    return earlier.replaced({expression: mended(earlier.text(expression))}), made.place


@cause(3, "x * log(x) at zero")
def entropy(scene: Scene) -> Finding | None:
    if scene.op in ("xlogy", "xlog1py", "entr"):
        return _library_entropy(scene)
    log = scene.birth if scene.op == "log" else None
    if scene.op == "mul":
        log = next((found for operand in scene.birth.args[:2] if (found := maker(operand, "log"))), None)
    if log is None or not (scene.zero(first(log)) or (scene.op == "mul" and value(first(log)) is None)):
        return None
    if scene.op == "mul" and scene.kind != "invalid" and not scene.backward:
        return None
    products = [scene.birth] if scene.op == "mul" else []
    for operation in scene.elementwise():
        if operation.op == "mul":
            products.append(operation)
        if operation.op not in _SCALING:
            break
    if not any(same(operand, first(log)) for product in products for operand in product.args):
        return None
    site = scene.site(log)
    eps = scene.floor
    name = scene.called(first(log), "p")
    spelling = scene.spelling(site)
    return Finding(
        f"log({scene.at(first(log), 0.0)}) is -inf, and 0 * -inf is NaN, although x * log(x) tends to 0. Clamp inside "
        "the log: the value at 0 stays 0 and the gradient stays finite. (xlogy(x, x) fixes only the value: its "
        "gradient at 0 is NaN.)",
        scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, eps), "input", complements=True),
        f"y = {name} * {spelling.call('log', spelling.clamp(name, eps))}",
        log.place,
    )


def _library_entropy(scene: Scene) -> Finding | None:
    operand = first(scene.birth) if scene.op == "entr" else second(scene.birth)
    zero, low = (-1, "-1 + 1e-6") if scene.op == "xlog1py" else (0, scene.floor)
    factor = None if scene.op == "entr" else value(first(scene.birth))
    if value(operand) not in (zero, None) or (factor and not scene.backward):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    name = scene.called(operand, "x")
    position = 0 if scene.op == "entr" else 1
    return Finding(
        f"{scene.op} is 0 at {zero}, but its derivative there contains log(0) or 0/0. Clamp the argument of the log: "
        "the value stays 0 and the gradient stays finite.",
        scene.replaced(
            site, position, lambda text, spelling: spelling.clamp(text, low), "input" if scene.op == "entr" else "other"
        ),
        f"y = {name} * {spelling.call('log', spelling.clamp(name, low))}"
        if not zero
        else f"y = {spelling.tensor_call('special.xlog1py', 'n', spelling.clamp(name, low))}",
    )


CAUSES = (
    log_of_softmax,
    log_of_tanh_slope,
    log_of_sigmoid_complement,
    log_of_sigmoid,
    log_of_one_plus_exp,
    log_of_sum_of_exp,
    log_of_product,
    divergence,
    gaussian_likelihood,
    entropy,
)
