"""Finite numbers that a distribution refuses as its parameter: a scale of zero, a probability above one."""

from __future__ import annotations

import re
from typing import Any

from retrograd.anomaly.catalogue._expression import first, maker, number
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import Line, atom
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.surroundings import Place

_BOUND = re.compile(r"lower_bound=(-?[\d.e+-]+)")
_POSITIVE = ("exp", "exp2", "sigmoid", "softplus", "softmax", "square", "sqrt", "abs", "norm", "std", "var", "mul")
_LEAST_EXPONENT = {"float16": ("-9", "1e-4"), "half": ("-9", "1e-4")}
_ROUNDING = 1e-3


def _told(scene: Scene) -> dict[str, Any] | None:
    told = scene.context.get("refused")
    return dict(told) if isinstance(told, dict) else None


def _is_positive(told: dict[str, Any]) -> bool:
    bound = _BOUND.search(str(told.get("constraint")))
    return str(told.get("constraint")).startswith("GreaterThan") and bound is not None and float(bound[1]) == 0.0


def _in_call(scene: Scene, told: dict[str, Any], new: str) -> tuple[str | None, Place | None]:
    """The line that constructs the distribution, with another argument for the parameter, and its place."""
    line = Line.parse(told.get("code_line"))
    text = told.get("text")
    for written in line.operations if text else ():
        parts = [each for each in written.parts() if line.text(each) == text]
        if written.op == canonical(str(told["by"])) and len(parts) == 1:
            return line.replaced({parts[0]: new}), Place.told(told)
    return None, None


@cause(None, "parameter of a distribution that underflowed to zero")
def underflowed(scene: Scene) -> Finding | None:
    told = _told(scene)
    if told is None or not _is_positive(told) or told.get("value") != 0 or scene.op not in _POSITIVE:
        return None
    zero = next((each for each in scene.birth.args if number(each.value) == 0), None) if scene.op == "mul" else None
    born = maker(zero, "exp") or scene.birth
    site = scene.site(born)
    spelling = scene.spelling(site)
    parameter, by, x = told["parameter"], told["by"], first(born)
    least, floor = _LEAST_EXPONENT.get(scene.dtype, ("-20", "1e-6"))
    needs = f"{parameter} of {by} must be above 0, but"
    if canonical(born.op) == "exp":
        return Finding(
            f"{needs} exp({scene.at(x, 'x')}) is so small that {scene.dtype} rounds it to 0. Clamp the exponent from "
            f"below: exp({least}) is small enough for any {parameter}. A clamped exponent gets no gradient; "
            f"softplus(x) + {floor} in place of exp falls off more slowly.",
            scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, f"{least}.0"), "input"),
            f"{parameter} = {spelling.call('exp', spelling.clamp(scene.called(x, 'x'), f'{least}.0'))}",
        )
    known = ", ".join(scene.at(each, each.name) for each in born.args) if scene.op == "mul" else scene.at(x, "x")
    what = f"{scene.op}({known}) is 0" if x.value is not None else f"{scene.op} gave 0"
    rewritten = site.replaced(f"{atom(site.line.text(site.node))} + {floor}") if site else None
    return Finding(
        f"{needs} {what}{' in ' + scene.dtype if scene.kind == 'underflow' else ''}. Add a floor.",
        rewritten,
        f"{parameter} = {told.get('text') or parameter} + {floor}",
    )


@cause(None, "parameter of a distribution that is not positive")
def not_positive(scene: Scene) -> Finding | None:
    told = _told(scene)
    if told is None or not _is_positive(told) or number(told.get("value")) is None:
        return None
    parameter, by, text = told["parameter"], told["by"], str(told.get("text") or told["parameter"])
    spelling = scene.spelling()
    needs = f"{parameter} of {by} must be above 0, but it is {told['value']:.6g}"
    if scene.event.op == "leaf":
        name = str(scene.context.get("name") or text)
        updates = scene.context.get("updates") or 0
        when = f" after {updates} update{'' if updates == 1 else 's'}" if updates else ""
        new = spelling.clamp(text, "1e-6")
        return Finding(
            f"{needs}{when}: nothing keeps the parameter {name} positive during updates. The clamp below avoids the "
            "error, but passes no gradient back to a number below its bound. It is better to learn the logarithm "
            "instead, and to give the distribution exp of that.",
            _in_call(scene, told, new)[0],
            f"{text} = {new}",
            _in_call(scene, told, new)[1],
        )
    site = scene.site(scene.birth)
    given = site.written.text(0, "input")
    if scene.op == "relu" and given is not None:
        return Finding(
            f"{needs}: relu gives 0 for every negative number. softplus is positive everywhere; the floor guards "
            "against rounding.",
            site.replaced(f"{spelling.functional('softplus', given)} + 1e-6"),
        )
    new = f"{spelling.functional('softplus', text)} + 1e-6"
    rewritten, place = _in_call(scene, told, new)
    return Finding(
        f"{needs}: nothing keeps the result of {scene.op} above 0. Make it positive with softplus plus a floor, or "
        "with exp.",
        rewritten,
        f"{text} = {new}",
        place,
    )


@cause(None, "probability outside its interval")
def no_probability(scene: Scene) -> Finding | None:
    told = _told(scene)
    interval = "Interval(lower_bound=0.0, upper_bound=1.0)"
    value = None if told is None else number(told.get("value"))
    if told is None or told.get("constraint") != interval or value is None:
        return None
    parameter, by, text = told["parameter"], told["by"], str(told.get("text") or told["parameter"])
    spelling = scene.spelling()
    if -_ROUNDING < value < 1 + _ROUNDING:
        new = spelling.clamp(text, "0", "1")
        why = f"it is {value!r}, outside by a rounding error: clamp it"
    else:
        new = spelling.call("sigmoid", text)
        why = (
            f"it is {value:.6g}, from {scene.op}, which can give any number: turn it into a probability with sigmoid, "
            "or pass it as logits="
        )
    rewritten, place = _in_call(scene, told, new)
    return Finding(f"{parameter} of {by} must lie between 0 and 1, but {why}.", rewritten, f"{text} = {new}", place)


@cause(None, "probabilities that do not sum to one")
def no_simplex(scene: Scene) -> Finding | None:
    told = _told(scene)
    if told is None or told.get("constraint") != "Simplex()":
        return None
    text = str(told.get("text") or told["parameter"])
    new = scene.spelling().call("softmax", text, "-1")
    rewritten, place = _in_call(scene, told, new)
    return Finding(
        f"{told['parameter']} of {told['by']} must be probabilities (none negative, with a sum of 1), and dividing "
        "what it was given by its sum does not make it so. Turn it into probabilities with softmax, or pass it as "
        "logits=.",
        rewritten,
        f"{text} = {new}",
        place,
    )


@cause(None, "matrix of a distribution that is not positive definite")
def not_definite(scene: Scene) -> Finding | None:
    told = _told(scene)
    if told is None or told.get("constraint") != "PositiveDefinite()":
        return None
    text = str(told.get("text") or told["parameter"])
    library = scene.spelling().library
    new = f"{atom(text)} + 1e-4 * {library}.eye({atom(text)}.shape[-1])"
    rewritten, place = _in_call(scene, told, new)
    return Finding(
        f"{told['parameter']} of {told['by']} must be symmetric positive definite. A product A @ A.T loses rank where "
        "two rows of A are equal: a small number on the diagonal makes up for that. Better still, learn a lower "
        "triangular matrix with a positive diagonal, and pass it as scale_tril=.",
        rewritten,
        f"{text} = {new}",
        place,
    )


@cause(None, "parameter that a distribution refuses")
def other(scene: Scene) -> Finding | None:
    told = _told(scene)
    if told is None:
        return None
    number = f", but it is {told['value']:.6g}" if "value" in told else ""
    return Finding(f"{told['parameter']} of {told['by']} must satisfy {told['constraint']}{number}.")


CAUSES = (underflowed, not_positive, no_probability, no_simplex, not_definite, other)
