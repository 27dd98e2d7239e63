"""Events as text that fits a screen."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

from retrograd.anomaly.event import GradEvent, NaNEvent
from retrograd.anomaly.report import layers, training_history
from retrograd.anomaly.report.contents import Contents, contents_of, verdict
from retrograd.anomaly.report.jsonl import Run
from retrograd.anomaly.report.source import display_width, fitting
from retrograd.anomaly.report.style import UNKNOWN, Style, style_of
from retrograd.anomaly.report.summary import Group, group, step_of
from retrograd.anomaly.report.training_history import History
from retrograd.anomaly.shell import command_line

LABEL = 9  # columns for "operands" and other labels
LISTED = 10  # birthplaces below the first one, so that it stays in sight


def format_event(
    event: NaNEvent, *, color: bool = False, width: int = UNKNOWN, history: History = (), outcome: str = ""
) -> str:
    """Return the report of one event as text, ready to print.

    Parameters
    ----------
    event : NaNEvent
    color : bool
        Use ANSI colours, box drawing and block characters; otherwise plain ASCII but for the user's own text.
    width : int
        Columns to fill.
    history : sequence of mappings
        The last steps, oldest first: ``{"step": 7, "loss": 0.3, "grad_norm": 1.2}``.
    outcome : str
        What became of the step, such as ``"update withheld, weights are clean"``.

    Examples
    --------
    >>> from retrograd.anomaly.event import NaNEvent
    >>> from retrograd.anomaly.report import format_event
    >>> event = NaNEvent(
    ...     kind="divide", op="log", filename="train.py", lineno=41, code_line="loss = -rg.log(p).mean()",
    ...     operands={"input": 0.0}, index=(3,), output_shape=(8,), dtype="float32", neginf_count=1, size=8,
    ...     path=("log", "mean", "neg"), harmed="loss",
    ... )
    >>> print(format_event(event, width=60))
    -- retrograd -----------------------------------------------
    -Inf born in log, train.py:41
    <BLANKLINE>
    train.py:41
    > 41 | loss = -rg.log(p).mean()
         |         ^^^^^^^^^
    <BLANKLINE>
    operands  input = 0.0 at [3]
    result    (8,) float32, 1 -Inf of 8
    path      log -> mean -> neg -> loss
    next      Look at the operands above: line 41 must not get
              such values.
              If -Inf is intended: `with
              retrograd.anomaly.expect_nonfinite("why"):`
    ------------------------------------------------------------
    """
    style = Style(color, color, width)
    return _framed(_event(contents_of(event, outcome, history), style), style)


def format_events(events: Sequence[NaNEvent | GradEvent], *, color: bool = False, width: int = UNKNOWN) -> str:
    """Return a list of what has happened: each birth once with its count, the earliest first.

    Parameters
    ----------
    events : sequence of NaNEvent or GradEvent
        In the order in which they happened, such as ``watch.events``.
    color, width
        As of :func:`format_event`.
    """
    style = Style(color, color, width)
    return _framed(_list(group(events), style), style)


def format_run(run: Run, *, color: bool = False, width: int = UNKNOWN, everything: bool = False) -> str:
    """Return all that a run has recorded: the first birth in full, then a list of all, or the first ten.

    Parameters
    ----------
    run : Run
    color, width
        As of :func:`format_event`.
    everything : bool
        Show each different birth in full.
    """
    return _run(run, Style(color, color, width), everything=everything)


def print_event(event: NaNEvent, *, history: History = (), outcome: str = "", file: IO[str] | None = None) -> None:
    """Print the report of one event to ``file``, by default to the standard error, in the form that suits it.

    The text starts on a line of its own and is written in one piece, so that it does not mix with a progress bar.

    Parameters
    ----------
    event, history, outcome
        As of :func:`format_event`.
    file : text stream, optional
        A terminal gets lines of its width, with colours unless ``NO_COLOR`` is set; any other file plain text.
    """
    _print(lambda style: _framed(_event(contents_of(event, outcome, history), style), style), file)


def print_events(events: Sequence[NaNEvent | GradEvent], *, file: IO[str] | None = None) -> None:
    """Print the list of what has happened to ``file``, by default to the standard error.

    Parameters
    ----------
    events
        As of :func:`format_events`.
    file
        As of :func:`print_event`.
    """
    _print(lambda style: _framed(_list(group(events), style), style), file)


def print_run(run: Run, *, files: Sequence[Path] = (), everything: bool = False, file: IO[str] | None = None) -> None:
    """Print all that a run has recorded to ``file``, by default to the standard error.

    Parameters
    ----------
    run, everything
        As of :func:`format_run`.
    files : sequence of Path
        Where it is kept; they are named at the end.
    file
        As of :func:`print_event`.
    """
    _print(lambda style: _run(run, style, files, everything), file)


def _print(text_in: Callable[[Style], str], file: IO[str] | None) -> None:
    """Write a text in one piece, on a line of its own, with escapes for characters that the encoding lacks."""
    file = sys.stderr if file is None else file
    if file is None:  # a program without a console, such as pythonw.exe runs: print() says nothing there either
        return
    text = text_in(style_of(file))
    encoding = getattr(file, "encoding", None) or "utf-8"
    file.write("\n" + text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    if hasattr(file, "flush"):
        file.flush()


def _framed(rows: Sequence[str], style: Style) -> str:
    title = f"{style.rule * 2} retrograd "
    edge = style.paint(style.rule * style.width, "dim")
    return "\n".join((style.paint(title + style.rule * (style.width - len(title)), "dim"), *rows, edge))


def _run(run: Run, style: Style, files: Sequence[Path] = (), everything: bool = False) -> str:
    groups = group(run.events)
    births = [entry for entry in run.first_entries() if isinstance(entry.event, NaNEvent)]
    rows: list[str] = []
    for entry in births if everything else births[:1]:
        assert isinstance(entry.event, NaNEvent)
        rows += [*_event(contents_of(entry.event, entry.outcome, entry.history, entry.lines), style), ""]
    if len(run.entries) > len(births[:1]):
        where = command_line(("retrograd", "report", "--all", str(files[0].parent))) if files else ""
        rows += [*_list(groups, style, None if everything else LISTED, where), ""]
    if not run.entries:
        rows += [f"{run.nothing}.", ""]
    for remark in run.remarks:
        rows += _fact("note", remark, style)
    for number, path in enumerate(files):
        rows += _labelled("" if number else "saved", [str(path)], style)
    return _framed(rows if rows[-1] else rows[:-1], style)


def _event(contents: Contents, style: Style) -> list[str]:
    rows = _verdict(contents, style)
    if contents.place:
        rows += ["", style.paint(contents.place, "strong"), *_source(contents, style)]
    rows.append("")
    rows += _labelled("called", [_cut(caller, style.width - LABEL - 1) for caller in contents.callers], style)
    operands = ", ".join(f"{name} = {value}" for name, value in contents.operands)
    rows += _fact("operands", operands + (f" at {contents.element}" if operands and contents.element else ""), style)
    for made in contents.made:
        rows += _fact("made by", made, style)
    for used in contents.used:
        rows += _fact("used by", used, style)
    rows += _fact(contents.result_name, contents.result, style)
    rows += _fact("layer", contents.layer, style)
    rows += _fact("path", f" {style.arrow} ".join(contents.path), style)
    rows += _fact("why", contents.why, style)
    rows += _code("instead", contents.instead, style)
    rows += _further(contents, style)
    rows += _code("again", contents.again, style)
    rows += _history(contents.history, style)
    rows += _labelled("layers", layers.table(contents.layers, style.width - LABEL - 1), style)
    return rows + _advice(contents.advice, style)


def _further(contents: Contents, style: Style) -> list[str]:
    """The further births of the step, each with what to write instead or the line that it is in."""
    rows: list[str] = []
    for each in contents.also:
        mended = ": the line above fixes it as well" if each.is_mended and not each.code else ""
        rows += _fact("also", each.birth + mended, style)
        rows += _fact("why", each.why, style)
        if each.is_mended:
            rows += _code("instead", each.code, style)
        elif each.code:
            rows += _labelled("", [_cut(line, style.width - LABEL - 1) for line in each.code.split("\n")[:1]], style)
    return rows + (_fact("", f"and {contents.more} more", style) if contents.more else [])


def _verdict(contents: Contents, style: Style) -> list[str]:
    dash = " — " if style.unicode else " - "
    whole = contents.verdict + (dash + contents.outcome if contents.outcome else "")
    if display_width(whole) <= style.width:
        return [style.paint(contents.verdict, "bad") + whole[len(contents.verdict) :]]
    lines = [style.paint(line, "bad") for line in textwrap.wrap(contents.verdict, style.width)]
    return lines + textwrap.wrap(contents.outcome, style.width)


def _source(contents: Contents, style: Style) -> list[str]:
    """The excerpt, cut to the width around the guilty part, which has carets below."""
    if not contents.lines:
        return []
    digits = len(str(contents.lines[-1].lineno))
    room = style.width - digits - 5
    rows = []
    for line in contents.lines:
        guilty = line.lineno == contents.lineno
        shown, marks = line.text, ""
        start, end = contents.span if guilty and contents.span is not None else (0, 0)
        if display_width(shown) > room and start > 8:
            cut = min(start - 8, len(shown) - fitting(shown[::-1], room))
            shown, start, end = "..." + shown[cut + 3 :], start - cut, end - cut
        if display_width(shown) > room:
            shown = shown[: fitting(shown, room - 3)] + "..."
        if end:
            marks = " " * display_width(shown[:start]) + "^" * display_width(shown[start:end])
        number = f"{'>' if guilty else ' '} {line.lineno:>{digits}}"
        rows.append(f"{style.paint(number, 'bad' if guilty else 'dim')} {style.paint(style.bar, 'dim')} {shown}")
        if marks:
            rows.append(f"{' ' * (digits + 2)} {style.paint(style.bar, 'dim')} {style.paint(marks, 'mark')}")
    return rows


def _fact(label: str, text: str, style: Style) -> list[str]:
    return _labelled(label, textwrap.wrap(text, style.width - LABEL - 1, break_on_hyphens=False), style)


def _cut(text: str, width: int) -> str:
    """A text on one line; what is too long ends in dots."""
    return text if display_width(text) <= width else text[: fitting(text, width - 3)] + "..."


def _labelled(label: str, lines: Iterable[str], style: Style) -> list[str]:
    """Lines with a label before the first one."""
    return [
        f"{style.paint(label.ljust(LABEL), 'strong') if number == 0 else ' ' * LABEL} {line}"
        for number, line in enumerate(lines)
    ]


def _code(label: str, code: str, style: Style) -> list[str]:
    """Lines of code, not wrapped because it is there to be copied; code too wide to fit beside the label goes below."""
    lines = textwrap.dedent(code).split("\n") if code else []
    painted = [style.paint(line, "good") for line in lines]
    if max(map(display_width, lines), default=0) <= style.width - LABEL - 1:
        return _labelled(label, painted, style)
    return [style.paint(label, "strong"), *painted]


def _history(history: History, style: Style) -> list[str]:
    if not history:
        return []
    names = training_history.quantities(history)
    sparks = (
        {name: training_history.sparkline([row.get(name) for row in history]) for name in names}
        if style.unicode
        else {}
    )
    room = max(map(len, sparks.values()), default=0)
    lines = training_history.table(history, style.width - LABEL - 1 - (room + 2 if room else 0))
    drawn = {name: style.paint(spark, "dim") for name, spark in sparks.items()}
    seen = [f"{line}  {drawn.get(name, '')}".rstrip() for name, line in lines.items() if len(line.split()) > 1]
    return _labelled("before", seen, style)


def _advice(advice: Sequence[str], style: Style) -> list[str]:
    rows: list[str] = []
    for text in advice:
        rows += _fact("" if rows else "next", text, style)
    return rows


def _list(groups: Sequence[Group], style: Style, most: int | None = None, where: str = "") -> list[str]:
    """A line for each group, or for the first few, and ``where`` the others are."""
    total = sum(g.count for g in groups)
    heading = f"{_plural(len(groups), 'birthplace')}, {_plural(total, 'event')}"
    heading += ", earliest first" if len(groups) > 1 else ""
    shown = groups if most is None or len(groups) <= most + 1 else groups[:most]
    rows = [style.paint(heading, "strong")]
    digits = max((len(f"{g.count:,}") for g in groups), default=1)
    for number, g in enumerate(shown, 1):
        last = step_of(g.last)
        until = "" if last is None or last == step_of(g.first) else f" (the last at {last:,})"
        text = f"{number:>3}. {g.count:>{digits},}x  {verdict(g.first)}{until}"
        rows += textwrap.wrap(text, style.width, subsequent_indent=" " * (8 + digits))
    if len(shown) < len(groups):
        rows.append(f"     and {len(groups) - len(shown):,} more{': ' if where else ''}{where}")
    return rows


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
