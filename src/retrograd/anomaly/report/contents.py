"""The contents of a report, independent of whether a terminal or a browser shows it."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from retrograd.anomaly.event import (
    GradEvent,
    NaNEvent,
    came_in_with,
    check_event,
    context_of,
    is_derived,
    is_tangent,
    is_to_come,
    or_before,
    refused_by,
)
from retrograd.anomaly.messages import CARRIED_OVER, NOT_AGAIN
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.parsing import indentation_of, module_of, names_in
from retrograd.anomaly.report.layers import Rows, layers_of
from retrograd.anomaly.report.producers import consumers, producers
from retrograd.anomaly.report.source import SourceLine, excerpt, guilty_span, lines_of
from retrograd.anomaly.report.training_history import History, remembered
from retrograd.anomaly.stack_frames import package_of
from retrograd.anomaly.surroundings import Operation

TAB = 4
_DECLARED = '`with retrograd.anomaly.expect_nonfinite("why"):`'
_SAME_LINE = 4  # leading characters that a rewritten line shares with the original
_MEMBER_CHANGED = re.compile(r"[\w.]+\.get_(?:parameter|buffer|submodule)\(")
_OPTION_SET = re.compile(r"[\w.]+\.get_submodule\([^()]*\)\.\w+ = ")
_LAYER_MADE = re.compile(r"[\w.]+ = (?:\w+\.)*nn\.[A-Z]\w*\(")
PATH_ENDS = 3  # how many nodes of a long path are shown at either end


@dataclass(frozen=True)
class Further:
    """A further birth of the step: what and where, and the code to write instead, or else the line as it is.

    ``code`` is empty if a line shown above fixes this birth as well. ``why`` explains code that is a general form, with
    placeholders for the program's own names; it is empty if the code is a line of the program's.
    """

    birth: str
    code: str
    is_mended: bool
    why: str = ""


@dataclass(frozen=True)
class Contents:
    """One event in words: everything that a report shows of it, in the order in which it does.

    Empty strings and tuples stand for what is not known. ``span`` is the guilty part of the one of the ``lines`` that
    has the number ``lineno``.
    """

    verdict: str
    outcome: str
    place: str
    lines: tuple[SourceLine, ...]
    lineno: int | None
    span: tuple[int, int] | None
    callers: tuple[str, ...]
    element: str
    operands: tuple[tuple[str, str], ...]
    made: tuple[str, ...]
    used: tuple[str, ...]
    result_name: str
    result: str
    layer: str
    path: tuple[str, ...]
    why: str
    instead: str
    also: tuple[Further, ...]
    more: int
    again: str
    history: History
    layers: Rows
    advice: tuple[str, ...]


def contents_of(
    event: NaNEvent, outcome: str = "", history: History = (), lines: tuple[SourceLine, ...] = ()
) -> Contents:
    """Put an event into words.

    Parameters
    ----------
    event : NaNEvent
    outcome : str
        What became of the step.
    history : sequence of mappings
        The last steps, oldest first; by default what the event itself remembers of them.
    lines : tuple of SourceLine
        The source as it was when the event happened; by default it is read from the file.
    """
    check_event(event)
    lines, span = _flush_left(event, lines or excerpt(event))
    return Contents(
        verdict=verdict(event),
        outcome=outcome,
        place=place(event),
        lines=lines,
        lineno=event.lineno,
        span=span,
        callers=callers(event),
        element="" if event.index is None else f"[{', '.join(map(str, event.index))}]",
        operands=tuple((name, number(value)) for name, value in event.operands.items()),
        made=tuple(_written(made, name if len(event.operands) > 1 else "", event) for name, made in producers(event)),
        used=tuple(_written(each, "", event) for each in consumers(event)),
        result_name="gradient" if event.is_backward else "result",  # "result" may be an operand in backward
        result=result(event),
        layer=layer(event),
        path=path(event),
        why=" ".join((event.cause or "").split()),
        instead=(event.remedy or "").strip("\n"),
        also=tuple(map(partial(_further, event), event.also[:_MOST_FURTHER])),
        more=len(event.also[_MOST_FURTHER:]),
        again=event.rerun or "",
        history=_telling(history or remembered(event)),
        layers=layers_of(event),
        advice=tuple(advice(event)),
    )


def _flush_left(
    event: NaNEvent, lines: tuple[SourceLine, ...]
) -> tuple[tuple[SourceLine, ...], tuple[int, int] | None]:
    """The lines without tabs and without their common indentation, and the guilty characters of the event's line."""
    texts = [line.text.expandtabs(TAB) for line in lines]
    indent = min((indentation_of(text) for text in texts if text.strip()), default=0)
    span = None
    for line in lines:
        if line.lineno == event.lineno and (found := guilty_span(event, line.text)):
            start, end = (len(line.text[:column].expandtabs(TAB)) - indent for column in found)
            span = start, end
    return tuple(SourceLine(line.lineno, text[indent:]) for line, text in zip(lines, texts, strict=True)), span


def _telling(history: History) -> History:
    """The history, unless it holds only the bad step itself."""
    values = [value for row in history for name, value in row.items() if name != "step"]
    return history if len(history) > 1 or any(map(math.isfinite, values)) else ()


def verdict(event: NaNEvent | GradEvent) -> str:
    """What, where and when, in one line: "NaN born in log, train.py:41, step 47,012"."""
    if isinstance(event, GradEvent):
        return str(event)
    parts = [birth(event)]
    if event.filename and event.lineno is not None:
        parts.append(f"{Path(event.filename).name}:{event.lineno}")
    if event.step is not None:
        parts.append(f"step {event.step:,}")
    elif event.batch_idx is not None:
        parts.append(f"batch {event.batch_idx:,}")
    return ", ".join(parts)


def birth(event: NaNEvent) -> str:
    """What was born, and in which operation."""
    if event.kind == "leaf":
        return f"{event.born} came in with {came_in_with(event)}"
    if (refused := refused_by(event)) is not None:
        return refused
    if event.kind == "error":
        return f"error in {'the backward of ' if event.is_backward else ''}{canonical(event.op)}"
    if event.op == "unknown":
        return f"{event.born} of unknown birth in {event.harmed or 'a step'}"
    if event.kind == "underflow":
        return f"underflow in {canonical(event.op)}"
    what = f"{'the backward of ' if event.is_backward else ''}{canonical(event.op)}"
    if is_tangent(event):
        what = f"the tangent of {canonical(event.op)}"
    elif is_derived(event):
        what = f"{what} of a derivative" if event.is_backward else f"the {what} of a derivative"
    return f"{event.born} {'to come' if is_to_come(event) else 'born'} in {what}{or_before(event)}"


def place(event: NaNEvent) -> str:
    """File (relative where it lies beneath the working directory), line and function."""
    if not event.filename:
        return ""
    line = "" if event.lineno is None else f":{event.lineno}"
    function = f" in {event.function}" if event.function and event.function != "<module>" else ""
    return _shortened(event.filename) + line + function


def _shortened(filename: str) -> str:
    path = Path(filename)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # it lies elsewhere; or the working directory has been removed
        return os.fspath(path)


def callers(event: NaNEvent) -> tuple[str, ...]:
    """The program's own lines that led there, the innermost first: "train.py:9  loss = model(ids).loss"."""
    return tuple(
        f"{_line(own['filename'], own['lineno'], event)}  {_calling(own)}".rstrip()
        for own in event.callers[:_MOST_CALLERS]
    )


def _line(filename: str | None, lineno: int | None, event: NaNEvent) -> str:
    """A line other than the event's, with its file if that differs."""
    return f"line {lineno}" if filename == event.filename else f"{_shortened(filename or '')}:{lineno}"


def _calling(own: Mapping[str, Any]) -> str:
    """A caller's line; if it calls the same function several times, only the relevant call."""
    line = own.get("code_line", "")
    call = line[own["col"] : own["end_col"]] if own.get("col") is not None else ""
    function = call.partition("(")[0]
    return f"... {call}" if function and line.count(f"{function}(") > 1 else line


_MOST_CALLERS = 3


def _written(made: Operation, operand: str, event: NaNEvent) -> str:
    """An operation and its line, and which of several operands: "softmax, model.py:12  p = torch.softmax(x, dim=1)"."""
    text = " ".join((made.code_line or "").split())
    of = f"{operand}: " if operand else ""
    return f"{of}{canonical(made.op)}, {_line(made.filename, made.lineno, event)}  {text}"


_MOST_FURTHER = 3


def _further(event: NaNEvent, other: NaNEvent) -> Further:
    """A further birth: "NaN born in sqrt, line 15, input = -1.0 at [1]"."""
    where = "" if other.lineno is None else _line(other.filename, other.lineno, event)
    values = ", ".join(f"{name} = {number(value)}" for name, value in other.operands.items())
    at = f" at [{', '.join(map(str, other.index))}]" if values and other.index else ""
    text = ", ".join(filter(None, (birth(other), where, values + at)))
    if not other.remedy:
        return Further(text, (other.code_line or "").strip(), is_mended=False)
    earlier = itertools.takewhile(lambda each: each is not other, (event, *event.also))
    is_shown = (other.remedy, _replaced(other)) in ((each.remedy, _replaced(each)) for each in earlier)
    is_form = other.remedy_lineno is None and _tells_a_form(other, other.remedy) and not is_shown
    why = " ".join((other.cause or "").split()) if is_form else ""
    return Further(text, "" if is_shown else other.remedy.strip("\n"), True, why)


def _replaced(event: NaNEvent) -> tuple[str | None, int | None]:
    """The place of the line that the remedy of an event replaces."""
    own = event.lineno if event.remedy and _new_names(event, event.remedy) else None
    return event.remedy_filename or event.filename, event.remedy_lineno or own


def _new_names(event: NaNEvent, remedy: str) -> list[str]:
    """The names in a remedy that its line does not have, if it is that line rewritten but for these."""
    line = (event.code_line or "").strip()
    if event.remedy_lineno is not None or not line or not remedy.startswith(line[:_SAME_LINE]):
        return []
    try:
        before, after = (names_in(module_of(text)) for text in (line, remedy))
    except SyntaxError:
        return []
    return [name for name in sorted(after - before) if re.search(rf"\b{name} = ", event.cause or "")]


def result(event: NaNEvent) -> str:
    """Shape, type and counts: "(32, 10) float32, 12 -Inf of 320; the others: -9.2 to -0.1"."""
    counts = ((event.nan_count, "NaN"), (event.posinf_count, "Inf"), (event.neginf_count, "-Inf"))
    bad = " and ".join(f"{count:,} {name}" for count, name in counts if count)
    shape = " ".join(str(part) for part in (event.output_shape, event.dtype) if part is not None)
    text = ", ".join(part for part in (shape, f"{bad} of {event.size:,}" if bad and event.size > 1 else bad) if part)
    stats = event.output_stats or {}
    ends = [f"{stats[name]:.4g}" for name in ("min", "max") if _is_number(stats.get(name))]
    return text + (f"; the others: {' to '.join(dict.fromkeys(ends))}" if len(ends) == 2 else "")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def layer(event: NaNEvent) -> str:
    """The module: "encoder.0 (Linear)"."""
    if event.layer_name and event.module_type:
        return f"{event.layer_name} ({event.module_type})"
    return event.layer_name or event.module_type or ""


def path(event: NaNEvent) -> tuple[str, ...]:
    """The nodes from the birth to the harm, without the middle of a long path."""
    nodes = list(event.path) if event.is_backward else [canonical(node) for node in event.path]
    if event.kind == "leaf" and nodes and nodes[0] in ("leaf", "accumulate_grad"):
        nodes[0] = came_in_with(event)
    if event.harmed and (not nodes or nodes[-1] != event.harmed):
        nodes.append(event.harmed)
    left_out = len(nodes) - 2 * PATH_ENDS
    if left_out > 1:
        nodes[PATH_ENDS:-PATH_ENDS] = [f"({left_out:,} more)"]
    return tuple(nodes)


def advice(event: NaNEvent) -> Iterator[str]:
    """What to do now, and remarks."""
    yield from _what_to_do(event)
    if event.note:
        yield event.note
    if event.reproducible is False and not any(each in (event.note or "") for each in (NOT_AGAIN, CARRIED_OVER)):
        yield (
            "The step was run again and did not reproduce it: something differs between the runs (threads, randomness, "
            "data)."
        )
    if event.born != "NaN" and event.kind in ("divide", "overflow"):
        yield f"If {event.born} is intended: {_DECLARED}"
    elif context_of(event).get("asked"):
        yield f"If the program rejects such points itself, as a sampler does: {_DECLARED}"


def _what_to_do(event: NaNEvent) -> Iterator[str]:
    if event.remedy:
        change = _what_to_change(event, event.remedy)
        if event.rerun:  # the command is also on a line above
            change = change.replace("line above", 'line at "instead"')
        yield f"{_with_others(event, change)}, then run again."
    elif _is_state(event):
        yield "Fix its source, then run again."
    elif event.lineno is None or context_of(event).get("computed_by"):
        pass  # there is nothing to do at that line
    elif event.kind == "leaf":
        what, package = "it", package_of(event.filename or "")
        if package is not None:
            yield f"Line {event.lineno} belongs to {package}."
            what = f"what line {event.callers[0]['lineno']} passes to it" if event.callers else "what is passed to it"
        yield f"Fix {what} before line {event.lineno} uses it, then run again."
    elif _is_in_own_step(event):
        yield f"Mend {event.op}, the update that line {event.lineno} calls, then run again."
    elif event.operands and not (_is_unkept(event) or is_derived(event)):
        yield f"Look at the operands above: line {event.lineno} must not get such values."


def _with_others(event: NaNEvent, change: str) -> str:
    """What to do with the remedy, and with those of further births."""
    remedies = [each for each in event.also[:_MOST_FURTHER] if each.remedy]
    change = _with_replaced(event, change, remedies)
    forms = [each for each in remedies if each.remedy_lineno is None and _tells_a_form(each, each.remedy or "")]
    lines = list(dict.fromkeys(_line(each.filename, each.lineno, event) for each in forms))
    if not lines:
        return change
    if change.startswith(_FORM):
        return f"{change}, and {' and '.join(lines)} as well"
    return f"{change}; {_FORM.lower()}{' and '.join(lines)} {'computes' if len(lines) == 1 else 'compute'} in that form"


def _with_replaced(event: NaNEvent, change: str, remedies: Iterable[NaNEvent]) -> str:
    """What to do with the remedy, and the lines that some other remedies replace."""
    others = [(file, line) for file, line in dict.fromkeys(map(_replaced, remedies)) if line is not None]
    others = [each for each in others if each != _replaced(event)]
    if not others:
        return change
    own = event.remedy_lineno or event.lineno
    if change == f"Change line {own} as above" and all(file == event.filename for file, _ in others):
        *numbers, last = sorted(line for line in (own, *(line for _, line in others)) if line is not None)
        return f"Change lines {', '.join(map(str, numbers))} and {last} as above"
    *lines, end = (_line(file, line, event) for file, line in others)
    return f"{change}, and {', '.join(lines)}{' and ' if lines else ''}{end} as well"


_FORM = "Write what "


def _tells_a_form(event: NaNEvent, remedy: str) -> bool:
    """Whether a remedy is a general form to be written with the program's names, not a line to be pasted."""
    return event.kind != "leaf" and _what_to_change(event, remedy).startswith(_FORM)


def _what_to_change(event: NaNEvent, remedy: str) -> str:
    """What to do with the remedy, which need not be the user's own line rewritten."""
    line = event.remedy_lineno or event.lineno
    if event.kind == "leaf" and event.remedy_lineno is not None:
        return f"Change line {line} as above"
    if line and (remedy.startswith("assert ") or (event.kind == "leaf" and not _is_state(event))):
        return _put_before(event, line)
    if event.kind == "leaf":
        return "Fix its source, or put the line above after the model is created and loaded"
    return _change_elsewhere(event, remedy) or _change_line(event, remedy)


def _put_before(event: NaNEvent, line: int) -> str:
    """Where to write code that handles data before it is used."""
    taken = context_of(event).get("taken")
    if taken is None:
        return f"Put the line above before line {line}, where the value is used"
    file = "" if taken["filename"] == event.filename else f" of {_shortened(taken['filename'])}"
    return f"Put the line above before line {taken['lineno']}{file}, the first one that has the batch"


def _change_elsewhere(event: NaNEvent, remedy: str) -> str | None:
    """Where to write a remedy that belongs elsewhere than at the line of the event; None if it belongs there."""
    if event.remedy_lineno is None and _LAYER_MADE.match(remedy):
        return "Create the layer as above, where it is created now"
    if _OPTION_SET.match(remedy):
        return "Put the line above after the one that creates the model, for each layer that needs it"
    if (event.remedy_lineno or event.lineno) is None:
        return "Change the code as above"
    if event.remedy_lineno is None and remedy.startswith("optimizer = "):
        return "Create the optimizer as above"
    if _RATE_SET.match(remedy):
        return "Set this learning rate where your program sets the optimizer's"
    if _RATE_DIVIDED.match(remedy):
        return "Make the update steps smaller, as above"
    kept = _LOGARITHM_KEPT.match(remedy)
    if kept is not None and f"Keep its logarithm, log_{kept[1]}" in (event.cause or ""):
        return f"Change the lines that compute {kept[1]} as above"
    return None


_RATE_SET = re.compile(r"lr = [\d.e+-]+$")
_LOGARITHM_KEPT = re.compile(r"log_(\w+) = ")
_RATE_DIVIDED = re.compile(r"([\w.]+) = \1 / 10$")


def _change_line(event: NaNEvent, remedy: str) -> str:
    """How to change a line: the program's own, or the arguments that it passes to an installed package's."""
    number = event.remedy_lineno or event.lineno or 0
    file = "" if event.remedy_filename is None else f" of {_shortened(event.remedy_filename)}"
    line = f"{lines_of(event.remedy_filename or event.filename, number, _text_at(event, number))}{file}"
    package = package_of(event.remedy_filename or event.filename or "")
    if package is not None:
        given = f" what line {event.callers[0]['lineno']} passes to it" if event.callers else " what is passed to it"
        return (
            f"Line {number}{file} belongs to {package}. Change{given}, or its options; otherwise change the line as "
            "above, in a copy of the package"
        )
    whole = (event.code_line or "").strip()
    own = whole[:_SAME_LINE]
    if whole and remedy.endswith(f"; {whole}"):
        return f"Change {line} as above, or make the change in its first part where that object is created"
    is_own = bool(own) and (remedy.startswith(own) or (remedy.startswith("with ") and f": {own}" in remedy))
    if names := _new_names(event, remedy):
        return f'Give {" and ".join(names)} a value as "why" says, and change {line} as above'
    if file or number != event.lineno or is_own:
        return f"Change {line} as above"
    if _MEMBER_CHANGED.match(remedy):
        return "Run the line above once, after whatever wrote those numbers"
    return f"{_FORM}{line} computes in the form above, with your own names"


def _text_at(event: NaNEvent, lineno: int) -> str | None:
    """The statement that begins in a line, as recorded by the event or one of its operations."""
    if lineno == event.lineno and event.remedy_filename is None:
        return event.code_line
    around = event.surroundings
    waiting = [] if around is None or around.operation is None else [around.operation]
    waiting += [] if around is None else [each for each in around.consumers if isinstance(each, Operation)]
    filename = event.remedy_filename or event.filename
    for operation in waiting:
        if operation.lineno == lineno and operation.filename in (None, filename):
            return operation.code_line
        waiting += [each.producer for each in operation.args if each.producer is not None]
    return None


def _is_state(event: NaNEvent) -> bool:
    """Whether a parameter or a buffer came in non-finite."""
    return event.kind == "leaf" and context_of(event).get("leaf") in ("parameter", "buffer")


def _is_in_own_step(event: NaNEvent) -> bool:
    """Whether an optimizer that belongs to the program made it, in a step whose operations are not known."""
    optimizer = context_of(event).get("optimizer") or {}
    return bool(optimizer.get("own")) and event.op == f"{optimizer.get('name')}.step"


def _is_unkept(event: NaNEvent) -> bool:
    """Whether something that went into the operation is not known."""
    return bool(context_of(event).get("unkept"))


def number(value: object) -> str:
    """A value to six digits; integers whole."""
    if isinstance(value, complex):
        imaginary = number(value.imag)
        return f"{number(value.real)}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    text = f"{value:.6g}"
    if float(text).is_integer() and float(text) != value and abs(value) < 1e6:
        text = f"{value:.9g}"  # a number close to an integer is often the point: a cosine of 1.0000001
    return f"{text}.0" if text.lstrip("-").isdigit() else text
