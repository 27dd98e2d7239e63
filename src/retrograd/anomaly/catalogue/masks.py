"""Values that a mask discards without discarding their gradients: rows 11, 12 and 30."""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from retrograd.anomaly.catalogue._expression import (
    DIVISIONS,
    LOGS,
    denominator,
    first,
    has_gradient,
    maker,
    named,
    number,
    same,
    second,
    value,
)
from retrograd.anomaly.catalogue._line_inference import logarithm_behind, logarithm_written
from retrograd.anomaly.catalogue._repeated_faults import alike, decisive
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._scopes import assignments_to, reads_of
from retrograd.anomaly.catalogue._source_line import NOWHERE, Line, Site, atom, bare, is_name
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.catalogue.safeguards import relu_behind
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.parsing import expression_of, indentation_of, names_in
from retrograd.anomaly.surroundings import Operand, Operation

# For each operation, a value at which it and its derivative are harmless.
_SAFE = {
    "acos": "0.0",
    "asin": "0.0",
    "atanh": "0.0",
    "exp": "0.0",
    "expm1": "0.0",
    "logit": "0.5",
    "ndtri": "0.5",
    "acosh": "2.0",
    "erfinv": "0.0",
}
_GUARDED = frozenset((*_SAFE, "sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "div", "reciprocal", "norm"))

_SUMS = ("add", "sub", "rsub")
_POLES = (*LOGS, "log1p", "reciprocal", "div", "sqrt", "rsqrt")
_ROOTS = ("sqrt", "pow", "norm")  # operations whose value at 0 is to be kept


@dataclass(frozen=True)
class Mask:
    """The operation that discards the born value, and the position of the argument by which that enters.

    ``around`` is another one that the value passes through, which discards it at other elements, or possibly here.
    """

    operation: Operation
    position: int
    around: Mask | None = None

    def guard(self, site: Site, spelling: Spelling, x: str, safe: str) -> str | None:
        """Code for ``x`` where the mask keeps it and a safe value elsewhere, in the user's spelling."""
        written = site.written
        if written.op == "masked_fill":
            condition = self._condition(site, written.argument(1, "mask"))
            return None if condition is None else spelling.where(condition, safe, x)
        if written.form == "method":
            node, position = written.argument(1, "condition"), 1 if self.position == 1 else 2
        else:
            node, position = written.argument(0, "condition"), self.position
        condition = self._condition(site, node)
        if condition is None:
            return None
        return spelling.where(condition, x, safe) if position == 1 else spelling.where(condition, safe, x)

    def condition(self, site: Site) -> str | None:
        """The condition as the user wrote it."""
        position = 1 if site.written.form == "method" or site.written.op == "masked_fill" else 0
        return self._condition(site, site.written.argument(position, "condition", "mask"))

    def _condition(self, site: Site, node: ast.expr | None) -> str | None:
        """The condition as written, or spelled out if it is a name assigned in an earlier line."""
        if node is None:
            return None
        text = site.line.text(node)
        operand = named(self.operation, "condition", "mask") or first(self.operation)
        earlier = Line.parse(operand.producer.code_line if operand.producer else None)
        name, condition = earlier.assignment or (None, None)
        return earlier.text(condition) if condition is not None and name == text else text


def _mask(scene: Scene) -> Mask | None:
    """The mask after the birth, if the born element is one that it discards."""
    previous, found, unsure = scene.birth, list[Mask](), None
    after, decisive_one = list(scene.elementwise()), None
    for place, operation in enumerate(after):
        if operation.op in ("where", "masked_fill"):
            position, chosen = _entered(operation, previous), _chosen(operation)
            found.append(Mask(operation, position))
            if chosen is not None and chosen != position:
                decisive_one = found[-1]
                break
            if chosen is None and unsure is None:
                unsure = place, found[-1]
        previous = operation
    if not found:
        return _in_a_later_line(scene)
    if decisive_one is None and unsure is not None:
        place, decisive_one = unsure
        harmless = scene.grad in (0, None) if scene.backward else scene.event.harmed != "loss"
        if not harmless or (scene.backward and any(map(_may_be_masking, after[place + 1 :]))):
            return None
    if decisive_one is None:
        return None
    around = None
    for each in reversed(found):  # at other elements another one may discard
        around = around if each is decisive_one else replace(each, around=around)
    return replace(decisive_one, around=around)


def _in_a_later_line(scene: Scene) -> Mask | None:
    """The mask in the only line that reads the result, if nothing is known of what was done with it but its gradient.

    That is 0, and in backward only what follows can have made it so.
    """
    birth, place = scene.birth, scene.birth.place
    if not scene.backward or scene.grad != 0 or scene.surroundings.consumers or place is None:
        return None
    site = scene.site(birth)
    name = next((each for each, made in site.line.assigned() if bare(made) is site.node), None)
    reads = reads_of(name, place) if name is not None else []
    if len(reads) != 1 or reads[0].lineno <= place.lineno:
        return None
    text = linecache.getline(place.filename or "", reads[0].lineno)
    line = Line.parse(text.strip())
    for written in line.operations:
        if written.op not in ("where", "masked_fill"):
            continue
        for position in (0,) if written.op == "masked_fill" else (1, 2):
            if written.text(position) == name:
                col = line.column(written.node) + indentation_of(text)
                operation = replace(birth, op=written.op, args=(), code_line=text.rstrip(), lineno=reads[0].lineno)
                return Mask(replace(operation, col=col), position)
    return None


def _may_be_masking(operation: Operation) -> bool:
    """Whether a product may have made the gradient 0: by a factor without a gradient that is 0 or unknown."""
    factors = operation.args[:2] if operation.op == "mul" else ()
    return any(not (each.requires_grad or each.constant) and value(each) in (0, None) for each in factors)


def _entered(operation: Operation, previous: Operation) -> int:
    """The position of the argument by which a value enters a mask: 1 or 2 for where, 0 for masked_fill."""
    if operation.op == "masked_fill":
        return 0
    made = {position: maker(each, previous.op) for position, each in enumerate(operation.args) if position}
    alike = [position for position, each in made.items() if each is not None]
    if alike:
        return next((position for position in alike if _is_same_call(made[position], previous)), alike[0])
    for position, operand in enumerate(operation.args):
        if position and (known := value(operand)) is not None and not math.isfinite(known):
            return position
    return 1


def _is_same_call(one: Operation | None, other: Operation) -> bool:
    return one is not None and (one.filename, one.lineno, one.col) == (other.filename, other.lineno, other.col)


def _chosen(operation: Operation) -> int | None:
    """The position of the argument that a mask let through at the element, if known."""
    condition = named(operation, "condition", "mask") or first(operation)
    known = condition.value if isinstance(condition.value, bool) or condition.name in ("condition", "mask") else None
    if known is None:
        return None
    if operation.op == "masked_fill":
        return 2 if known else 0
    return 1 if known else 2


def _guarded(scene: Scene, mask: Mask) -> str | None:
    """The user's line with the birth's argument made safe where the mask discards it."""
    site = scene.site(scene.birth)
    around = scene.site(mask.operation)

    def guard(text: str, _: Spelling) -> str:
        each: Mask | None = mask
        while each is not None:
            where = scene.site(each.operation)
            text = each.guard(where, scene.spelling(where), text, _SAFE.get(scene.op, "1.0")) or text
            each = each.around
        return text

    known = mask.guard(around, scene.spelling(around), "x", "1.0") is not None
    return scene.guarded(site, guard, around) if known else None


def _chooses_from(mask: Mask, scene: Scene) -> bool:
    """Whether a mask fits the birth's argument: it broadcasts, or has the same shape if that is changed in place."""
    condition = named(mask.operation, "condition", "mask") or first(mask.operation)
    site, argument = scene.site(scene.birth), first(scene.birth)
    if site.written.changed is not None and None not in (condition.shape, argument.shape):
        return condition.shape == argument.shape
    sizes = zip(reversed(condition.shape or ()), reversed(argument.shape or ()), strict=False)
    return all(one == other or 1 in (one, other) for one, other in sizes)


def _general(scene: Scene, name: str, call: str) -> str:
    spelling = scene.spelling()
    safe = spelling.where("keep", name, _SAFE.get(scene.op, "1.0"))
    return f"y = {spelling.where('keep', call.format(x=safe, m=spelling.module), '0.0')}"


@cause(12, "where around a division by zero")
def masked_division(scene: Scene) -> Finding | None:
    zero = denominator(scene.birth)
    if zero is None or scene.op == "pow" or value(zero) not in (0, None):
        return None
    mask = _mask(scene)
    if mask is None or not _chooses_from(mask, scene):
        return None
    happened = (
        f"{mask.operation.op} discards the quotient at the elements where the denominator is {scene.at(zero, 0.0)}, "
        "but its gradient is still computed: 0 times the infinite derivative is NaN. Make the denominator safe before "
        "the division"
    )
    return _by_the_same_condition(scene, mask, happened, scene.called(zero, "x"), "a / {x}")


def _by_the_same_condition(scene: Scene, mask: Mask, happened: str, name: str, call: str) -> Finding:
    """The double where; no rewritten line if the condition is not known yet where the operation stands."""
    if (kept := _still_discarded(scene, mask)) is not None:
        return Finding(
            f"{happened}, and write the non-finite value in as a constant, so that the condition still finds it but no "
            "gradient flows.",
            kept,
        )
    rewritten = _guarded(scene, mask)
    if rewritten is not None and mask.around is not None and not scene.may_stand(rewritten, scene.birth.place):
        rewritten = _guarded(scene, replace(mask, around=None))
    if rewritten is not None and not scene.may_stand(rewritten, scene.birth.place):
        return Finding(f"{happened}.", birth=scene.birth)
    return Finding(f"{happened}, with the same condition (the double where).", rewritten, _general(scene, name, call))


def _still_discarded(scene: Scene, mask: Mask) -> str | None:
    """The line with the argument made safe and the infinity or NaN written in, if the mask tests for just that."""
    around, site = scene.site(mask.operation), scene.site(scene.birth)
    line = site.line
    node = decisive(site.written) if site.node is site.written.node else None
    if not around or node is None:
        return None
    if not any(name in (mask.condition(around) or "") for name in ("isfinite", "isnan", "isinf")):
        return None
    if scene.op not in (*DIVISIONS, "reciprocal", *LOGS):
        return None
    spelling, x, tests = scene.spelling(site), line.text(node), mask.condition(around) or ""
    test = f"{atom(x)} {'<=' if scene.op in LOGS else '=='} 0"
    safe = line.text(site.node, {node: spelling.where(test, "1.0", x)})
    return site.replaced(spelling.where(test, f"{spelling.module}.{'inf' if 'isinf' in tests else 'nan'}", safe))


@cause(11, "where around a function outside its safe domain")
def masked_branch(scene: Scene) -> Finding | None:
    mask = _mask(scene) if scene.op in _GUARDED else None
    if mask is None or not _chooses_from(mask, scene):
        return None
    operand = first(scene.birth)
    happened = (
        f"{mask.operation.op} discards {scene.op}({scene.at(operand, 0.0)}), but gradients flow through both branches: "
        "the 0 that arrives here times the infinite (or undefined) derivative is NaN. Make the argument safe before "
        "the function"
    )
    return _by_the_same_condition(scene, mask, happened, scene.called(operand, "x"), "{m}." + scene.op + "({x})")


@cause(None, "nan_to_num around a function outside its safe domain")
def replaced_value(scene: Scene) -> Finding | None:
    site = scene.site(scene.birth) if scene.op in _POLES else NOWHERE
    call = site.line.only("nan_to_num")
    around = call.argument(0, "input", "x") is site.node
    if scene.op not in _POLES or not (around or "nan_to_num" in scene.later):
        return None
    below = denominator(scene.birth) or first(scene.birth)
    is_log, is_quotient = scene.op in LOGS, scene.op in ("div", "reciprocal")
    tested = "!= 0" if is_quotient else "> 0"
    rewritten = None
    if around and below.shape == scene.event.output_shape:
        divided = site.written.op == "div"
        node = site.written.argument(1, "other") if divided else site.written.argument(0, "input")
        of_zero = scene.op == "div" and value(first(scene.birth)) == 0
        infinite = (is_log and value(below) == 0) or (is_quotient and not of_zero)
        position, option = (1, "nan") if not infinite else (3, "neginf") if is_log else (2, "posinf")
        kept = call.text(position, option) or (None if infinite else "0.0")
        if node is not None and kept is not None:
            spelling = scene.spelling(site)
            condition = f"{atom(site.line.text(node))} {tested}"
            safe = site.line.text(site.node, {node: spelling.where(condition, site.line.text(node), "1.0")})
            rewritten = site.line.replaced({call.node: spelling.where(condition, safe, kept)})
    name, at = scene.called(below, "x"), scene.at(below, 0.0)
    happened = f"the division by {at}" if is_quotient else f"{scene.op}({at})"
    return Finding(
        f"nan_to_num replaces the result of {happened} and sends a gradient of 0 back to it, but 0 times the infinite "
        "(or undefined) derivative is NaN again. Make the argument safe before the function, and use the same "
        "condition to choose the replacement.",
        rewritten,
        _general(scene, name, "a / {x}" if is_quotient else "{m}." + scene.op + "({x})").replace(
            "keep", f"{name} {tested}"
        ),
    )


def _may_stand_at(scene: Scene, site: Site, text: str, mask: Operand, pole: Operation) -> bool:
    """Whether a mask can be written into the line of a pole, and has the shape of the argument to choose from."""
    argument = denominator(pole) or first(pole)
    if None not in (mask.shape, argument.shape) and mask.shape != argument.shape:
        return False
    assigned = site.line.assignment
    names = names_in(expression_of(f"({text})"))
    return (assigned is None or assigned[0] not in names) and scene.may_stand(text, pole.place)


@cause(30, "infinite value multiplied by a mask of zero")
def multiplied_mask(scene: Scene) -> Finding | None:
    pole, products = _multiplied_pole(scene)
    if pole is None:
        return None
    below = denominator(pole) or first(pole)
    if denominator(pole) is not None and _is_of_earlier_root(below, pole):
        return None  # which has an infinite derivative of its own
    argument = value(first(pole))
    if argument is not None and argument < 0 and pole.op in (*LOGS, "sqrt", "rsqrt"):
        return None  # outside of the domain, mask or not
    nan = scene.op != "mul" and scene.kind == "invalid"  # already NaN before the product with 0
    factors = ((product, operand) for product in products for operand in product.args[:2])
    masked = (each for each in factors if _is_mask(each[1], pole) and (not nan or value(each[1]) == 0))
    product, mask = next(masked, (None, None))
    if product is None or mask is None:
        return None
    site = scene.site(pole)
    spelling = scene.spelling(site)
    text = _factor_as_written(site, scene.site(product), product, mask)
    if text is not None and text.replace(".", "").isdigit():
        return None  # a plain factor: the other side, with the pole, was mistaken for a mask
    if relu_behind(below) is not None and not is_chosen(mask, text, product):
        return None  # data that happen to be 0, such as counts: the relu gives 0 elsewhere, too
    safe = _SAFE.get(pole.op, "1.0")
    rewritten = None
    if pole.op in LOGS and any(alike(site.line, site.written, complements=True)):
        floor = scene.floor  # p and 1 - p, or both factors of a cross entropy
        rewritten = scene.replaced(site, 0, lambda x, spelling: spelling.clamp(x, floor), "input", complements=True)
    elif text is not None and not has_gradient(mask) and _may_stand_at(scene, site, text, mask, pole):
        condition = f"{atom(text)} != 0"
        within = scene.site(product)
        rewritten = scene.guarded(site, lambda x, spelling: spelling.where(condition, x, safe), within)
    elif _is_pole_of_zero(pole, below):  # its own zeros tell where it is to be made safe
        rewritten = scene.guarded(site, lambda x, spelling: spelling.where(f"{atom(x)} != 0", x, safe))
    name = scene.called(first(pole), "x")
    does, times = ("gives NaN", "NaN") if nan else ("gives an infinity", "inf")
    if scene.backward and (nan or pole.op == "sqrt"):
        does, times = "has an infinite derivative", "inf"
    return Finding(
        f"{pole.op} {does} at an element where {_named(mask)} is 0, but 0 * {times} is NaN: multiplying does "
        f"not remove it. Make the argument safe before {pole.op}; then the product is 0 and so is the gradient.",
        rewritten,
        f"y = {spelling.call(pole.op, spelling.where('mask != 0', name, safe))} * mask",
        pole.place,
        birth=pole if rewritten is None and pole.op in _ROOTS else None,
    )


def _is_of_earlier_root(below: Operand, pole: Operation) -> bool:
    """Whether a denominator is a root, or a power of one, that another line takes."""
    power = maker(below, "pow")
    root = maker(below if power is None else first(power), "sqrt")
    return root is not None and root.place != pole.place


def _is_pole_of_zero(pole: Operation, below: Operand) -> bool:
    """Whether an operation is infinite because its argument is 0."""
    if denominator(pole) is not None:
        return value(below) in (0, None)
    return value(below) == 0 and pole.op not in _ROOTS


def _multiplied_pole(scene: Scene) -> tuple[Operation | None, list[Operation]]:
    """The operation that made an infinity, and the products that it enters; the birth is among these."""
    if scene.op == "mul":
        found = (maker(operand, *_POLES, "pow") for operand in scene.birth.args[:2])
        poles = (each for each in found if each is not None and (each.op != "pow" or denominator(each) is not None))
        return next(poles, None), [scene.birth]
    if scene.op in _GUARDED:
        return scene.birth, [operation for operation in _still_it(scene) if operation.op == "mul"]
    return None, []


def _still_it(scene: Scene) -> Iterator[Operation]:
    """The elementwise operations on the birth's elements; after an overflow, only up to a sum with other elements."""
    for operation in scene.elementwise():
        if scene.kind == "overflow" and operation.op in _SUMS and not any(each.constant for each in operation.args[:2]):
            return
        yield operation


def _factor_as_written(pole: Site, product: Site, operation: Operation, mask: Operand) -> str | None:
    """The source of the mask in a product: the side that does not contain the pole."""
    sides = list(product.written.arguments[:2])
    if pole and pole.line is not product.line:
        called_so = [side for side in sides if product.line.text(side) == (mask.leaf_name or "")]
        in_place = [side for side, each in zip(sides, operation.args, strict=False) if each is mask]
        sides = called_so or (in_place if len(sides) == 2 else []) or sides[1:]
    elif pole:
        sides = [side for side in sides if not pole.line.inside(pole.node, side)]
    return product.line.text(sides[0]) if len(sides) == 1 else None


@cause(None, "zero times infinity")
def zero_times_infinity(scene: Scene) -> Finding | None:
    if scene.op != "mul" or scene.kind != "invalid" or len(scene.birth.args) < 2:
        return None
    factors = sorted(scene.birth.args[:2], key=lambda operand: abs(value(operand) or 0.0))
    if (scene.grad if scene.backward else value(factors[0])) != 0 or value(factors[1]) not in _INFINITIES:
        return None
    finite, infinite = (operand.text or operand.leaf_name or f"the {operand.name}" for operand in factors)
    if scene.backward and (bounded := scene.bounded_by) is not None:
        return Finding(
            f"0 times an infinity is NaN: {infinite} is {factors[1].value}, and {bounded} turns it into a finite "
            f"number later, so its gradient is 0. Find where {infinite} became infinite, for example by an overflow. "
            "Another number in its place would change the loss."
        )
    is_zero = value(factors[0]) == 0
    is_constant, is_entropy = factors[1].constant, _is_entropy(*factors)
    pole = None if is_constant or is_entropy or scene.backward else _logarithm_of_zero(scene, *factors)
    if is_constant:
        why = "Multiplying by 0 does not switch an infinity off; choose it with a condition instead."
    elif is_entropy:
        why = "p * log(p) is 0 in the limit where p is 0: take the log only where p is not 0."
    elif pole is not None:
        why = f"It is -inf where {first(pole).text} is 0: clamp that to a small positive number."
    else:
        why = f"Find where {infinite} became infinite: a division by a count of 0, a log of 0, an overflow."
        if factors[0].shape == () and is_zero and not scene.backward and factors[1].shape not in ((), None):
            return Finding(f"0 times an infinity is NaN: {finite} is 0 and {infinite} is {factors[1].value}. {why}")
    happened = f"{finite} is 0 at this element and {infinite} is {factors[1].value}"
    if is_zero and has_gradient(factors[0]) and not is_entropy:  # healthy numbers may be 0 as well
        return Finding(f"0 times an infinity is NaN: {happened}. {why}", birth=pole)
    if scene.backward:
        happened = (
            f"a later operation discards this element, so its gradient is 0, and {infinite} is {factors[1].value}"
        )
    rewritten, general = _chosen_factor(scene, *factors)
    return Finding(f"0 times an infinity is NaN: {happened}. {why}", rewritten, general, birth=pole)


def _logarithm_of_zero(scene: Scene, finite: Operand, infinite: Operand) -> Operation | None:
    """The logarithm that makes a factor infinite, if only its line shows it."""
    # a scalar is not a mask: it will differ in the next step
    written = logarithm_written(infinite.text, scene.birth) if finite.shape == () else None
    return written or logarithm_behind(infinite)


def _chosen_factor(scene: Scene, finite: Operand, infinite: Operand) -> tuple[str | None, str]:
    """The line of a product with the infinite factor chosen by a condition, and the general form of that.

    Choosing among products would leave the other factor a gradient of 0 times infinity.
    """
    site, is_zero = scene.site(scene.birth), value(finite) == 0
    spelling = scene.spelling(site)
    zero = finite.text or finite.leaf_name or f"the {finite.name}"
    condition = f"{atom(zero)} != 0" if finite.text else "mask != 0"
    if not is_zero:
        condition = spelling.call("isfinite", infinite.text or "x")
    place: ast.AST | None
    if infinite.constant:
        chosen = spelling.where(condition, infinite.text or f"float('{infinite.value}')", "0.0")
        general, place = f"y = {chosen}", site.node
    else:
        chosen = spelling.where(condition, infinite.text or "x", "0.0")
        general = f"y = {chosen} * {atom(zero) if finite.text else 'mask'}"
        place = next((side for side in site.written.arguments if site.line.text(side) == infinite.text), None)
    return site.line.replaced({place: chosen}) if place and (finite.text or not is_zero) else None, general


def _is_entropy(probability: Operand, logarithm: Operand) -> bool:
    """Whether one factor is a probability and the other its logarithm."""
    exp = maker(probability, "exp")
    if exp is not None:
        return same(first(exp), logarithm)
    softmax, log_softmax = maker(probability, "softmax"), maker(logarithm, "log_softmax")
    return softmax is not None and log_softmax is not None and same(first(softmax), first(log_softmax))


@cause(None, "infinity of a mask that came through")
def mask_that_came_through(scene: Scene) -> Finding | None:
    if scene.op not in ("masked_fill", "where") or scene.backward or scene.event.nan_count:
        return None
    written = next((each for each in scene.birth.args if each.constant and number(each.value) in _INFINITIES), None)
    if written is None:
        return None
    harmed = scene.event.harmed or "the result"
    if scene.later[:2] == ("log_softmax", "sum"):
        return Finding(
            f"{scene.op} writes {written.value} where the mask says so. A class with this score has the probability 0, "
            "whose log is -inf. Label smoothing, and any sum of the logs of all probabilities, asks for it: leave the "
            "smoothing out here, or spread it over the classes that are not masked.",
        )
    if any(canonical(each) in _OF_CLASSES for each in scene.event.path):
        return Finding(
            f"{scene.op} writes {written.value} where the mask says so. A class with this score has probability 0, "
            f"whose log is -inf; that is harmless as long as nothing uses it. Here it reached {harmed}: the target of "
            "a sample is a class that is masked for it, or every class of a row is masked. Check the targets and the "
            "mask of such rows, or leave them out.",
        )
    site = scene.site(scene.birth)
    node = _written_value(site, written.value)
    added = next((op for op in scene.later if op in (*_ADDING, *_CHOOSING)), None) in _ADDING
    if added:
        new, instead = (
            "0.0",
            "Before a sum, write 0 instead: it leaves the sum unchanged (a mean still counts it).",
        )
    else:
        new = f"{'-' if written.value < 0 else ''}{_large(scene)}"
        instead = (
            f"Leave such rows out, or write a large number that leaves room for what follows ({new}), and check what "
            "it does there."
        )
    return Finding(
        f"{scene.op} writes {written.value} where the mask says so. That is harmless as long as a later operation "
        "removes it again, as softmax, logsumexp or a maximum does in a row with other elements; here it came through "
        f"to {harmed}{'' if added else ', so a whole row, or everything, was masked'}. {instead}",
        site.line.replaced({node: new}) if node is not None else None,
        f"m = x.masked_fill(mask, {new})",
    )


def _written_value(site: Site, infinity: float) -> ast.expr | None:
    """The expression for the infinity in a call that chooses by a mask."""
    given = {node for node, known in site.line.constants() if known == infinity}
    arguments = [each for each in site.written.parts() if each in given]
    filled = site.written.argument(2, "value") if site.written.op == "masked_fill" else None
    return arguments[0] if len(arguments) == 1 else filled


def _large(scene: Scene) -> str:
    """A large number for which the following operations stay in range."""
    decades = math.floor((scene.allowed - 0.7) / math.log(10))
    return f"1e{max(min(decades, 4 if scene.half else 30), 1)}"


_ADDING = ("sum", "mean", "dot", "matmul", "linear", "einsum", "mse_loss", "var", "std", "norm", "cumsum")
_CHOOSING = ("amax", "amin", "max", "min", "softmax", "logsumexp", "log_softmax", "sort", "topk", "minimum", "maximum")
_INFINITIES = (math.inf, -math.inf)
_OF_CLASSES = ("cross_entropy", "nll_loss", "nll_loss2d", "log_softmax")


def _named(mask: Operand) -> str:
    name = mask.leaf_name or mask.text
    return name if name and is_name(name) else "the factor"


def is_chosen(factor: Operand, text: str | None, product: Operation) -> bool:
    """Whether a factor selects elements: judging by its type, its name, or a comparison that made it."""
    if "bool" in (factor.dtype or "") or "mask" in (text or _named(factor)).lower():
        return True
    written = [] if text is None else [expression_of(f"({text})")]
    written += [each.value for each in assignments_to(factor.leaf_name or text or "", product.place)]
    return any(isinstance(each, ast.Compare) for whole in written for each in ast.walk(whole))


def _is_mask(operand: Operand, pole: Operation) -> bool:
    """Whether an operand of a product may be a mask: a zero that carries no gradient."""
    if operand.requires_grad or operand.constant:
        return False
    if operand.shape and not _goes_into(operand.shape, pole):
        return False  # an infinity meets several of its elements, zero or not
    if operand.producer is not None and operand.producer.op == pole.op:
        return False
    if same(operand, first(pole)) or same(operand, second(pole)):
        return False
    known = operand.min if operand.value is None else operand.value  # for a mask, False is 0
    return known is False or number(known) == 0


def _goes_into(shape: tuple[int, ...], pole: Operation) -> bool:
    """Whether a mask of this shape has one element for each of an operation's result, as far as shapes are known."""
    known = [each.shape for each in pole.args if each.shape is not None]
    if not known or any(each.shape is None and not each.constant for each in pole.args):
        return True
    rows = [[side[-dim] if len(side) >= dim else 1 for side in known] for dim in range(1, len(shape) + 1)]
    return all(own in (1, max(row)) for own, row in zip(reversed(shape), rows, strict=True))


CAUSES = (masked_division, masked_branch, replaced_value, multiplied_mask, zero_times_infinity, mask_that_came_through)
