"""What can be said if some information was not kept: an operand, or whose derivative it was."""

from __future__ import annotations

import math
from collections.abc import Sequence

from retrograd.anomaly.catalogue._expression import first, number, shown, value
from retrograd.anomaly.catalogue._line_inference import logarithm_behind, logarithm_written
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue.roots import smoothed
from retrograd.anomaly.surroundings import Operand, Operation

# Operations of two operands that give NaN only if one of them is not finite.
_HARMLESS = frozenset(("add", "sub", "rsub", "mul"))
_ADDS_NOTHING = 1e30  # to the largest number in single precision


@cause(None, "an operation of a derivative")
def derived_operation(scene: Scene) -> Finding | None:
    if not scene.context.get("derived"):
        return None
    op = f"{'The backward of ' if scene.backward else ''}{scene.op}"
    line = "the line" if scene.event.lineno is None else f"line {scene.event.lineno}"
    if (peak := _peak(scene)) is not None:
        return Finding(
            f"{scene.gave(op)}. It is not written on {line}, which computes a derivative that can be differentiated "
            f"again: that derivative called it. The numbers there reach {shown(peak)}: they have run away until "
            f"they overflowed {scene.dtype}. Look for what makes them grow: steps that are too large, such as those of "
            "an inner loop of updates, a product that is repeated many times, or a division by almost 0.",
        )
    before = _before(scene)
    text = "" if before is None else " ".join((before.code_line or "").split())
    made = "" if before is None else f" The 0 was computed from the result of {scene.line_of(before)}, `{text}`."
    rewritten = None if before is None or scene.op != "div" else smoothed(text, scene)
    advice = "" if rewritten is None else " If that is the norm there, the line below is smooth at 0."
    return Finding(
        f"{scene.gave(op)}. It is not written on {line}, which computes a derivative that can be differentiated again: "
        f"that derivative called it, and which operation it belongs to was not recorded.{made} Look for an operation "
        "whose derivative has a pole: a root or a norm at 0, a quotient, a log. A small number inside it keeps the "
        f"derivative finite.{advice}",
        rewritten,
        None,
        None if before is None or rewritten is None else before.place,
    )


def _peak(scene: Scene) -> float | None:
    """The largest number that an overflow was computed from or gave beside it, if it is so large that it tells why."""
    if scene.kind != "overflow":
        return None
    stats = scene.event.output_stats or {}
    known = [stats.get("min"), stats.get("max"), *map(value, scene.birth.args)]
    sizes = [abs(each) for each in map(number, known) if each is not None and math.isfinite(each)]
    peak = max(sizes, default=0.0)
    return peak if peak > math.exp(_LARGE * scene.largest) else None


_LARGE = 0.3  # of the exponents of a type: 4e11 in single precision


def _before(scene: Scene) -> Operation | None:
    """The operation of another line from which the operand came that is 0."""
    waiting = [each for each in scene.birth.args if value(each) == 0.0]
    for operand in waiting:
        made = operand.producer
        if made is None:
            continue
        if made.place is not None and made.place != scene.place and made.code_line:
            return made
        waiting += made.args
    return None


@cause(None, "an operation of a derivative that is differentiated again")
def second_derivative(scene: Scene) -> Finding | None:
    if not scene.context.get("second_derivative") or scene.kind == "overflow" or scene.site(scene.birth):
        return None
    op = f"{'the backward of ' if scene.backward else ''}{scene.op}"
    line = "this line" if scene.event.lineno is None else f"line {scene.event.lineno}"
    return Finding(
        f"The derivative of what {line} computes is differentiated again, and in it {scene.gave(op)}. Look for an "
        "operation there whose derivatives have a pole: a root, a power or a norm at 0, a quotient, a log. A small "
        "number inside it keeps them finite.",
    )


@cause(None, "an operand that was not kept")
def unkept_operand(scene: Scene) -> Finding | None:
    infinite = scene.kind == "overflow"
    if not scene.context.get("unkept") or scene.backward or not (infinite or scene.kind == "invalid"):
        return None
    if scene.op == "copy_slices" and not infinite:
        return Finding(
            "This line writes to a part of a tensor in place. As far as is known, the tensor was finite before, so the "
            "NaN was born in what the line computes, or came in with its operands. Written out of place, as in top = "
            "top / s, the line would keep enough to tell.",
        )
    operands = scene.birth.args[:2]  # what follows are options
    unknown = [each for each in operands if is_unkept(each)]
    known = [each for each in operands if value(each) is not None]
    harmless = _passes_on(scene, known)
    if not unknown or ((len(unknown) > 1 or infinite) and not harmless):
        return None
    name = " or ".join(map(_called, unknown))
    nothing = f"{name} was computed without a gradient, or its values were not needed for one, so they were not kept"
    if len(unknown) > 1:
        nothing = f"The values of {' and '.join(map(_called, unknown))} were not kept"
        blame = f"One of them was already non-finite: {scene.op} only passed it on."
    elif harmless and known:
        values = " and ".join(f"{_called(each)} is {scene.at(each, 0)}" for each in known)
        blame = f"{values} here, so {name} was already non-finite: {scene.op} only passed it on."
    else:
        blame = f"{name} was already non-finite, or lies outside the domain of {scene.op}."
    is_one = len(unknown) == 1 and scene.event.born != "NaN"
    log = logarithm_written(unknown[0].text, scene.birth) or logarithm_behind(unknown[0]) if is_one else None
    if log is not None:
        return Finding(f"{nothing}. {blame} That happens where {first(log).text} is 0: keep it above 0.", birth=log)
    makers = "log(0), atanh(1), an exponential" if infinite else "a log or a root of a negative number"
    return Finding(
        f"{nothing}. {blame} Look at how {name} is computed{_where(scene, unknown)}: {makers}, a division by 0, a "
        "missing value in the data.",
    )


def _passes_on(scene: Scene, known: Sequence[Operand]) -> bool:
    """Whether an operation makes nothing non-finite of the operands that are known, and of ordinary numbers."""
    numbers = [value(each) or 0.0 for each in known]
    if scene.op not in _HARMLESS or not all(map(math.isfinite, numbers)):
        return False
    # finite numbers add up to an infinity as well, and multiply to one, if they are large enough
    most = 1.0 if scene.half or scene.op == "mul" else _ADDS_NOTHING
    return scene.kind != "overflow" or all(abs(each) <= most for each in numbers)


def is_unkept(operand: Operand) -> bool:
    """Whether nothing is known of an operand, which is not a plain argument."""
    return value(operand) is None and operand.shape is None and not operand.constant


def _where(scene: Scene, operands: Sequence[Operand]) -> str:
    """The lines of what made some operands, where they are others than the birth's."""
    made = [each.producer for each in operands if each.producer is not None]
    lines = {scene.line_of(each): each.code_line for each in made if each.code_line and each.place != scene.place}
    return "".join(f", in `{' '.join(text.split())}` ({line})" for line, text in lines.items())


def _called(operand: Operand) -> str:
    return operand.text or operand.leaf_name or f"its argument {operand.name}"


CAUSES = (derived_operation, second_derivative)
FALLBACK = (unkept_operand,)
