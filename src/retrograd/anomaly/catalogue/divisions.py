"""Divisions by zero without a more specific cause, and what to put in place of the 0: row 32."""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Collection

from retrograd.anomaly.catalogue._denominators import largest_other, of_like_size
from retrograd.anomaly.catalogue._expression import (
    DIVISIONS,
    LOGS,
    denominator,
    first,
    is_number,
    maker,
    named,
    second,
    shown,
    value,
)
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._scopes import assignments_to, reads_of, targets_of
from retrograd.anomaly.catalogue._source_line import NOWHERE, Line, Site, atom, dotted, number_written
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.catalogue.domain import FLOORED, floored_softplus, kept_inside
from retrograd.anomaly.parsing import expression_of
from retrograd.anomaly.surroundings import Operand, Operation, Place


@cause(32, "division by zero")
def division_by_zero(scene: Scene) -> Finding | None:
    below = first(scene.birth) if scene.op == "rsqrt" else denominator(scene.birth)
    known = value(below)
    tiny = known is not None and abs(known) < 1e-18 and scene.kind in ("overflow", "divide", "invalid")
    if below is None or not (tiny or (known is None and scene.kind in ("divide", "invalid"))):
        return None
    site, name = scene.site(scene.birth), scene.called(below, "x")
    spelling, place = scene.spelling(site), None
    if scene.op == "rsqrt":
        remedy = _CHOSEN_AT_ZERO
        rewritten = scene.replaced(site, 0, lambda text, _: f"{text} + {scene.eps}", "input")
        otherwise = f"y = {spelling.call('rsqrt', f'{name} + {scene.eps}')}"
    else:
        remedy, low = _stand_in(scene, below)
        together = remedy is _ZERO_TOGETHER  # the others in the line may have another numerator
        rewritten = scene.guarded(site, lambda text, _: _guarded(scene, below, text, low, spelling), alone=together)
        otherwise = f"y = a / {atom(_guarded(scene, below, name, low, spelling))}"
        is_finite = scene.backward or (scene.kind == "divide" and scene.event.harmed != "loss")
        bounded = scene.bounded_by if known == 0 and is_finite else None
        if bounded is not None:
            remedy, eps = _FINITE_LATER.format(bounded), _small(scene)
            rewritten = scene.guarded(site, lambda text, _: f"{atom(text)} + {eps}")
            otherwise = f"y = a / ({name} + {eps})"
        elif (floored := floored_softplus(scene, below)) is not None:
            (rewritten, place), remedy = floored, FLOORED
        elif known == 0 and (smoothed := scene.smoothed_root(below, site)) is not None:
            (rewritten, place), remedy = smoothed, _UNDER_THE_ROOT
        elif known == 0 and (rooted := _root_of_power(scene, below, low)) is not None:
            (rewritten, place), remedy = rooted, _UNDER_THE_POWER
        elif known == 0 and (inside := kept_inside(scene, below, site)) is not None:
            (rewritten, place), remedy = inside, _AT_ITS_EDGE
        elif known == 0 and (shared := _guarded_where_made(scene, below, low, site)) is not None:
            rewritten, place, others = shared
            remedy = f"Keep {others} as well, away from 0 where it is made: all that is computed from it then agrees."
        if (log := _log_of_one(below)) is not None:
            remedy, (rewritten, place) = _FIRST_RANK, _from_two(scene, log, site)
            otherwise = f"y = a / {spelling.call(log.op, 'rank + 2')}"
    return Finding(f"{_what_happened(scene, below)}. {remedy}", rewritten, otherwise, place)


def _stand_in(scene: Scene, below: Operand) -> tuple[str, str | None]:
    """Why which number stands in for a 0 that is divided by; None for it where it is a bound of 1, for counts."""
    known = value(below)
    if known == 0 and _counts(below):
        return _COUNTED, None
    if known == 0 and _only_zeros(scene):
        return _ZERO_TOGETHER, "1.0"
    if known == 0 and (scaled := of_like_size(scene)) is not None:
        return _AS_LARGE_AS_OTHERS if scene.event.size != 1 else _ABOUT_ONE, scaled
    return _CHOSEN_AT_ZERO, scene.eps


def _guarded(scene: Scene, below: Operand, text: str, low: str | None, spelling: Spelling) -> str:
    """A denominator with its 0 replaced by a number, or bounded below by 1 if there is no such number."""
    if low is None:
        return spelling.clamp(text, "1")
    if is_number(below):
        return f"{atom(text)} or {1 if isinstance(below.value, int) else scene.eps}"
    if (tighter := _guarded_already(text, spelling, scene.eps)) is not None:
        return tighter
    is_apart = value(below) in (0, None) and not _underflows(scene)
    test = f"{atom(text)} == 0" if is_apart else f"{spelling.call('abs', text)} < {scene.eps}"
    return spelling.where(test, "1" if "int" in (below.dtype or "") else low, text)


def _underflows(scene: Scene) -> bool:
    """Whether other quotients show that denominators come near 0 by and by, as densities do: the next is smaller."""
    return scene.op == "div" and (largest_other(scene) or 0.0) >= _FAR_BEYOND


_FAR_BEYOND = 1e8  # quotients of this size come from denominators that are hardly above 0


def _guarded_where_made(
    scene: Scene, below: Operand, low: str | None, site: Site
) -> tuple[str | None, Place, str] | None:
    """The line that makes a denominator by which other lines of its function divide as well, with its 0 replaced.

    With its place, and words that say which lines these are.
    """
    node, place = site.written.argument(1, "other"), scene.birth.place
    if not isinstance(node, ast.Name) or place is None or is_number(below):
        return None
    made = [each for each in assignments_to(node.id, place) if targets_of(each) == {node.id}]
    reads = reads_of(node.id, place)
    if len(made) != 1 or made[0].lineno != made[0].end_lineno or made[0].lineno >= place.lineno:
        return None
    others = sorted({each.lineno for each in reads} - {place.lineno})
    line = Line.parse(linecache.getline(place.filename or "", made[0].lineno).strip())
    if line.assignment is None or not any(_has(node.id, 1, DIVISIONS, each, place) for each in others):
        return None
    if low is not None and any(_has(node.id, at, ("mul",), each, place) for at in (0, 1) for each in others):
        low = scene.eps  # the product undoes the quotient, but not if that was rounded to 0 in between
    value_made = line.assignment[1]
    rewritten = line.replaced({value_made: _guarded(scene, below, line.text(value_made), low, scene.spelling(site))})
    readers = f"line {others[0]} uses" if len(others) == 1 else f"lines {', '.join(map(str, others))} use"
    return rewritten, place._replace(lineno=made[0].lineno), f"{node.id}, which {readers}"


def _has(name: str, position: int, ops: Collection[str], lineno: int, place: Place) -> bool:
    """Whether a line of a place's file has such an operation with a variable in a position."""
    line = Line.parse(linecache.getline(place.filename or "", lineno).strip())
    return any(each.op in ops and each.text(position, "other") == name for each in line.operations)


def _root_of_power(scene: Scene, below: Operand, low: str | None) -> tuple[str | None, Place | None] | None:
    """The line of the root whose power is divided by, with a number for the 0 under it, and its place."""
    made = maker(below, "pow")
    power = value(second(made))
    found = _root_made(scene, first(made)) if made is not None and power is not None and power > 1 else NOWHERE
    node = found.written.argument(0, "input")
    if node is None or power is None:
        return None
    decades = math.floor(2 / power * math.log10(float(low or scene.eps)))
    small = f"1e{decades}" if decades else "1.0"
    text, spelling = found.line.text(node), scene.spelling(found)
    return found.line.replaced({node: spelling.where(f"{atom(text)} == 0", small, text)}), found.place


def _root_made(scene: Scene, operand: Operand) -> Site:
    """Where the square root stands that made an operand, also if only the program's text shows it."""
    outer = maker(operand, "sqrt")
    if outer is not None:
        return scene.site(outer)
    place, name = scene.birth.place, scene.called(operand, "")
    statements = assignments_to(name, place) if name else []
    if place is None or len(statements) != 1:
        return NOWHERE
    line = Line.parse(linecache.getline(place.filename or "", statements[0].lineno))
    assigned, root = line.assignment or (None, None)
    written = line.operation_at(root if assigned == name else None)
    where = place._replace(lineno=statements[0].lineno)
    return Site(line, written.node, written, where) if written.op == "sqrt" else NOWHERE


def _what_happened(scene: Scene, below: Operand) -> str:
    known = value(below)
    sign = "%" if scene.op in ("remainder", "fmod") else "//" if scene.op == "floor_divide" else "/"
    above = 0 if scene.quotient == "NaN" else "a"  # else it would be infinite
    top = f"{scene.at(first(scene.birth), above)} {sign} " if scene.op in DIVISIONS else "1 / "
    happened = f"1/sqrt({scene.at(below, 0.0)})" if scene.op == "rsqrt" else f"{top}{scene.at(below, 0.0)}"
    born = "NaN" if scene.event.born == "NaN" else "infinite"
    if scene.backward and known:
        return (
            f"The derivative of {happened} divides by the square of {shown(known)}, which underflows to 0: it is {born}"
        )
    if scene.backward and born == "NaN" and value(first(scene.birth)):
        return f"{happened} is infinite, and its derivative is NaN here"
    return f"{happened} is {born}, and so is its derivative"


def _counts(operand: Operand) -> bool:
    """Whether ones were added up at indices, which nobody had in common with the element."""
    made = maker(operand, "bincount", "index_add", "scatter_add")
    if made is None:
        return False
    weights, added = named(made, "weights"), named(made, "source", "src")
    if made.op == "bincount":
        return weights is None or weights.shape is None
    return added is not None and added.min == added.max == 1


def _only_zeros(scene: Scene) -> bool:
    """Whether every division by 0 is one of 0 by 0, as far as the quotients show."""
    event = scene.event
    above = value(first(scene.birth))  # of what is NaN for a quotient by 0, it is 0 where it has not been kept
    both = scene.op == "div" and scene.kind == "invalid" and not scene.backward
    return (
        both
        and (above == 0 or (above is None and not event.input_has_nan))
        and bool(event.nan_count)
        and not event.posinf_count
        and not event.neginf_count
    )


def _small(scene: Scene) -> str:
    """A number to add to a denominator so that the quotient is very large, and its derivative's square in range."""
    power = abs(value(second(scene.birth)) or 1.0) if scene.op == "pow" else 1.0
    return f"1e-{max(math.floor((3 if scene.half else 12) / max(power, 1.0)), 1)}"


def _guarded_already(text: str, spelling: Spelling, eps: str) -> str | None:
    """A denominator that is another number only where it is 0, with that chosen close to 0 as well."""
    try:
        call = expression_of(text)
    except SyntaxError:
        return None
    test = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 3 else None
    is_where = isinstance(call, ast.Call) and (dotted(call.func) or "").rpartition(".")[2] == "where"
    if not is_where or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return None
    if not isinstance(call, ast.Call) or number_written(test.comparators[0]) != 0:
        return None
    size = spelling.call("abs", ast.unparse(test.left))
    return spelling.where(f"{size} < {eps}", *(ast.unparse(each) for each in call.args[1:]))


_AS_LARGE_AS_OTHERS = (
    "If the denominator cannot be negative, add a small eps; otherwise decide what the quotient should be at 0. The "
    "number below makes it about as large as the largest of the other quotients, so that it does not outweigh them all."
)
_ABOUT_ONE = (
    "If the denominator cannot be negative, add a small eps; otherwise decide what the quotient should be at 0. The "
    "number below makes it about 1; a tiny one would give it a huge value and a huge derivative."
)
_ZERO_TOGETHER = (
    "Numerator and denominator are both 0 here, and the numerator is 0 wherever the denominator is. Divide by 1 there: "
    "the quotient is then 0. (A small number in place of the 1 would give that 0 a huge derivative.)"
)


def _log_of_one(operand: Operand) -> Operation | None:
    """The logarithm of 1 that is divided by, as the discount of a rank is, where it is no variable of the model."""
    log = maker(operand, *LOGS)
    return log if log is not None and value(first(log)) == 1 and not operand.requires_grad else None


def _from_two(scene: Scene, log: Operation, site: Site) -> tuple[str | None, Place | None]:
    """A line with 2 for the 1 that is added under a logarithm, and its place."""
    written = scene.site(log, site or None).written
    line, total = written.line, written.line.operation_at(written.argument(0, "input"))
    ones = [each for each in total.arguments if total.op == "add" and number_written(each) == 1]
    if not ones:
        return None, scene.birth.place
    return line.replaced({ones[0]: "2"}), log.place


_FIRST_RANK = (
    "The logarithm of 1 is 0. A rank discount, as in DCG, is log2(rank + 1) for ranks counted from 1, but log2(rank + "
    "2) for ranks counted from 0. A small number in place of the 0 would give the first rank a huge weight."
)
_COUNTED = (
    "The denominator counts the entries of each index, and this index has none. Make it at least 1: the sum of nothing "
    "then stays 0, and no other quotient changes."
)
_FINITE_LATER = (
    "A later operation ({}) turns the infinity into a finite number; only the derivative is lost. A small number added "
    "to the denominator keeps that value and makes the derivative finite. (A larger one would change the value.)"
)
_CHOSEN_AT_ZERO = (
    "If the denominator cannot be negative, add a small eps; otherwise decide what the quotient should be at 0."
)
_UNDER_THE_ROOT = (
    "The denominator is a root, whose derivative at 0 is infinite as well: a small number under the root keeps both "
    "finite."
)

_UNDER_THE_POWER = (
    "The denominator is a power of a root, whose derivative at 0 is infinite as well: another number in place of the 0 "
    "under the root keeps both finite."
)


_AT_ITS_EDGE = (
    "The denominator comes from an angle or a distance that is 0, where its derivative is infinite as well. Clamp the "
    "argument of the inverse function slightly inside its interval, and both stay finite."
)


CAUSES = (division_by_zero,)
