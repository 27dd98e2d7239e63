"""Why it happened and what to write instead: the catalogue of causes.

:func:`diagnose` uses only the event of the birth: the operation, the kind of birth, the values of its operands, where
they came from and what used the result (:class:`~retrograd.anomaly.surroundings.Surroundings`). It serves any tensor
library whose adapter fills those in; with less information it says less. Rows are tried from the most specific to the
most general: causes outside single operations, library functions with a known edge, float16, recurrences, whole
expressions (the log of a softmax before the log of zero), masks, single functions at the edge of their domain, and
finally what can be said of any operation.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from retrograd.anomaly.catalogue import (
    angles,
    distribution_parameters,
    divisions,
    domain,
    eigenvalues,
    exponentials,
    half_precision,
    incomplete_records,
    inverses,
    library_functions,
    likelihoods,
    logarithms,
    masks,
    nonfinite_inputs,
    overflow,
    python_numbers,
    quotients,
    recurrences,
    removable_singularities,
    roots,
    safeguards,
    softmaxes,
    training,
)
from retrograd.anomaly.catalogue._faults_in_line import mended_together
from retrograd.anomaly.catalogue._imports import imports_of, missing_imports
from retrograd.anomaly.catalogue._repeated_calls import named_instead
from retrograd.anomaly.catalogue._scene import Cause, Finding, Scene
from retrograd.anomaly.catalogue._several_births import explained_together
from retrograd.anomaly.catalogue._source_line import Line
from retrograd.anomaly.event import NaNEvent, check_event
from retrograd.anomaly.surroundings import Place

CAUSES: tuple[Cause, ...] = (
    # outside single operations
    *distribution_parameters.CAUSES,
    *incomplete_records.CAUSES,
    *python_numbers.CAUSES,
    *nonfinite_inputs.CAUSES,
    *training.CAUSES,
    # a function, a type or a piece of code that is at fault itself
    *library_functions.CAUSES,
    *half_precision.CAUSES,
    *safeguards.CAUSES,
    *inverses.CAUSES,
    *eigenvalues.CAUSES,
    *recurrences.CAUSES,
    *overflow.CAUSES,
    # whole expressions
    *logarithms.CAUSES,
    *likelihoods.CAUSES,
    *roots.CAUSES,
    *removable_singularities.CAUSES,
    *softmaxes.CAUSES,
    *quotients.CAUSES,
    # what is meant to keep a bad number away
    *masks.CAUSES,
    *safeguards.FALLBACK,
    # single functions
    *exponentials.CAUSES,
    *angles.CAUSES,
    *domain.CAUSES,
    *divisions.CAUSES,
    # any operation
    *training.FALLBACK,
    *incomplete_records.FALLBACK,
    *overflow.FALLBACK,
)
"""Every row, in the order in which they are tried: the first one that recognises an event explains it.

Rows overlap where an event has a specific cause and a general one: the log of a softmax is also the log of a zero. The
more specific row comes first. ``MORE_GENERAL`` in ``tests/anomaly/test_catalogue_programs.py`` lists the overlaps.
"""

_BY_THEMSELVES = (
    *logarithms.CAUSES,
    *likelihoods.CAUSES,
    *removable_singularities.CAUSES,
    *domain.CAUSES,
    *divisions.CAUSES,
)


@dataclass(frozen=True)
class Diagnosis:
    """Why a value was born and what to write instead.

    ``number`` is the row of the catalogue (None for an unknown cause, or one without a row), ``remedy`` one line of
    code or None, ``lineno`` the line that it replaces, if it is rewritten, and ``filename`` the file of that line.
    """

    number: int | None
    title: str
    cause: str
    remedy: str | None
    lineno: int | None = None
    filename: str | None = None


def diagnose(event: NaNEvent) -> Diagnosis:
    """Return the cause of an event and its remedy, in the words of the user's own source line where that can be read.

    Parameters
    ----------
    event : NaNEvent
        A birth; the more of its fields are known, the better the diagnosis.

    Examples
    --------
    >>> from retrograd.anomaly.catalogue import diagnose
    >>> from retrograd.anomaly.event import NaNEvent
    >>> found = diagnose(NaNEvent(kind="divide", op="log", code_line="y = torch.log(p).sum()", operands={"input": 0.0}))
    >>> found.title
    'logarithm of zero'
    >>> found.remedy
    'y = torch.log(torch.clamp(p, min=1e-12)).sum()'
    """
    check_event(event)
    with imports_of(event.filename):
        return _diagnosed(Scene(event))


def _diagnosed(scene: Scene) -> Diagnosis:
    for row in CAUSES:
        finding = row.recognise(scene)
        if finding is not None:
            finding = replace(finding, cause=finding.cause + training.aside(scene, finding))
            place = scene.birth.place if finding.place is None else finding.place
            if finding.rewritten is not None and place == scene.birth.place:
                together = mended_together(scene, finding.rewritten, _BY_THEMSELVES)
                finding = replace(finding, rewritten=together if _holds(scene, together, place) else finding.rewritten)
            finding = _without_calls(scene, finding, place)
            if finding.rewritten is not None and not _holds(scene, finding.rewritten, place):
                finding = replace(finding, rewritten=None)
            earlier = _earlier(scene, finding)
            if earlier is not None:
                return replace(earlier, number=row.number, title=row.title, cause=finding.cause)
            line = () if finding.rewritten is None or place is None else (place.lineno, place.filename)
            lacking = f"{finding.cause} {_lacking(finding.rewritten, place)}".strip()
            return Diagnosis(row.number, row.title, lacking, finding.remedy, *line)
    return _unknown(scene)


def _line_at(scene: Scene, place: Place | None) -> str | None:
    """The line at a place, if it is known."""
    written = [(scene.place, scene.event.code_line), *((each.place, each.code_line) for each in scene.operations())]
    known = ((where, text) for where, text in written if where is not None and text is not None)
    return next((text for where, text in known if where == place), None)


def _without_calls(scene: Scene, finding: Finding, place: Place | None) -> Finding:
    """The finding, without a line that would repeat an earlier line's call of a layer."""
    line = _line_at(scene, place)
    others = (
        [] if finding.rewritten is None else [each for each in scene.operations() if each.code_line not in (line, None)]
    )
    texts = [each.code_line or "" for each in others]
    found = None if line is None or finding.rewritten is None else named_instead(finding.rewritten, line, texts)
    if found is None:
        return finding
    new, name, call = found
    where = next((scene.line_of(each) for each in others if call in (each.code_line or "")), None)
    cause = (
        f"{finding.cause} {call} is already called {f'in {where}' if where else 'before'}: give its result a name "
        f"there, {name} = {call}, and use it in both lines. (A second call would cost as much again, and draw another "
        "dropout mask.)"
    )
    return replace(finding, cause=cause, rewritten=None, general=new.strip())


def _holds(scene: Scene, rewritten: str, place: Place | None) -> bool:
    """Whether a line computes, as rewritten, what the one that it replaces was to compute.

    It does not if it is not valid code, if it draws random numbers more often, as these would differ, or if it uses
    names without a value there.
    """
    line = _line_at(scene, place)
    if line is None or place is None:
        return True
    if Line.parse(line) and not Line.parse(rewritten):  # for example if it would assign to a call
        return False
    is_drawn_anew = len(_DRAWS.findall(rewritten)) > len(_DRAWS.findall(line))
    return not is_drawn_anew and scene.may_stand(rewritten, place)


def _lacking(rewritten: str | None, place: Place | None) -> str:
    """What a file has to import before a line of it can be replaced by another, as a sentence."""
    missing = [] if rewritten is None or place is None else missing_imports(rewritten, place.filename)
    return f"(The file lacks `{'` and `'.join(missing)}`.)" if missing else ""


_DRAWS = re.compile(
    r"\b(?:rand\w*|\w*drop\w*|(?:\w+_)?normal_?|bernoulli|gumbel_softmax|multinomial|poisson|r?sample)\("
)


def _earlier(scene: Scene, finding: Finding) -> Diagnosis | None:
    """The diagnosis of the earlier birth that a finding points to."""
    if finding.birth is None:
        return None
    surroundings = replace(scene.surroundings, operation=finding.birth, consumers=(), grad_value=None)
    event = replace(
        scene.event,
        kind="divide",
        op=finding.birth.op,
        code_line=None,
        col=None,
        end_col=None,
        surroundings=surroundings,
    )
    found = _diagnosed(Scene(event))
    return found if found.remedy else None


def explain(event: NaNEvent) -> NaNEvent:
    """Return the event with its cause and its remedy filled in, and those of further births of its step.

    If the cause lies in the training, for example in the learning rate, it also explains the further births.
    """
    found = diagnose(event)
    first = _filled_in(event, found)
    if not event.also:
        return first
    if found.title in _IN_TRAINING:
        return replace(first, also=())
    return explained_together(first, lambda birth: _filled_in(birth, diagnose(birth)))


_IN_TRAINING = frozenset(
    row.title
    for row in (
        nonfinite_inputs.bad_rate,
        nonfinite_inputs.uninitialised,
        nonfinite_inputs.bad_weight,
        training.poisoned_clipping,
        training.zero_eps,
        training.runaway,
        training.overflowing_update,
    )
)


def _filled_in(event: NaNEvent, found: Diagnosis) -> NaNEvent:
    filename = None if found.filename == event.filename else found.filename
    return replace(event, cause=found.cause, remedy=found.remedy, remedy_lineno=found.lineno, remedy_filename=filename)


_WHERE_TO_LOOK = {
    "overflow": "Its inputs were finite and its result is beyond the type's range: follow the largest operand back to "
    "where it grew, and look at the loss and the gradient norm of the last steps.",
    "invalid": "Its inputs were not NaN and its result is: look for 0 times inf, inf minus inf, 0 divided by 0, or an "
    "argument outside the function's domain among its operands.",
    "divide": "It met a pole: look for the operand that is exactly 0 (or at the end of the function's interval).",
    "underflow": "Its result is too small for the type and was rounded to 0: look at what divides by it or takes its "
    "log.",
    "leaf": "The value came in from outside: look at how the tensor was made.",
}


_REFUSED = (
    "did not converge for this matrix. A NaN or an infinity in it is the usual reason: look at how it was made. If all "
    "of it is finite, rescale it, add a small number to its diagonal, or compute this in float64."
)
_UNSURE = "Not all of its inputs are known, so one of them may have been bad already."


def _unknown(scene: Scene) -> Diagnosis:
    event = scene.event
    arrived = [f"incoming gradient={scene.grad}"] if event.is_backward and scene.grad is not None else []
    if event.op == "unknown":
        return Diagnosis(None, "unknown cause", f"Where this {event.born} was born is not known.", None)
    if event.kind == "error":
        return Diagnosis(None, "unknown cause", f"{event.op} {_REFUSED}", None)
    happened = f"{scene.gave(event.op, *arrived)}."
    if (came_in := _came_in(scene)) is not None:
        return Diagnosis(None, "infinity from another layer", f"{happened} {came_in}", None)
    where = _UNSURE if scene.context.get("unkept") else _WHERE_TO_LOOK.get(event.kind, "")
    cause = f"This pattern is not in the catalogue. {happened} {where}"
    return Diagnosis(None, "unknown cause", cause.strip(), None)


def _came_in(scene: Scene) -> str | None:
    """Which layer was the first to put out an infinity, from which another layer made a NaN."""
    event, layers = scene.event, scene.context.get("layers")
    if event.kind != "invalid" or not event.input_has_inf or event.input_has_nan or not layers:
        return None
    first = layers[-1]  # the rows end with the first layer that is not finite
    if not math.isinf(first["absmax"]) or first["layer"] == event.layer_name:
        return None
    return (
        f"An infinity had come in, and {first['layer']} was the first layer to output one: its input or its weights "
        "were too large for the type. Look at that layer."
    )


__all__ = ["CAUSES", "Diagnosis", "diagnose", "explain"]
