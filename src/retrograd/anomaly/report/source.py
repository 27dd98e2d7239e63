"""The user's source around a birth, and the part of it that is guilty."""

from __future__ import annotations

import linecache
import unicodedata
from dataclasses import dataclass
from itertools import takewhile

from retrograd.anomaly.catalogue._source_line import Line
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.parsing import indentation_of


@dataclass(frozen=True)
class SourceLine:
    """One line of source with its number."""

    lineno: int
    text: str


def excerpt(event: NaNEvent, before: int = 1) -> tuple[SourceLine, ...]:
    """Return the user's statement with the line before it, or alone if the file is gone or has changed since.

    Nothing if the event does not have the statement: the file may have different code there by now.
    """
    if event.lineno is None or not event.code_line:
        return ()
    statement = event.code_line.split("\n")
    if event.filename:
        linecache.checkcache(event.filename)
        lines = [line.rstrip("\r\n") for line in linecache.getlines(event.filename)]
        there = lines[event.lineno - 1 : event.lineno - 1 + len(statement)]
        if [s.strip() for s in statement] == [t.strip() for t in there]:
            first = max(1, event.lineno - before)
            return tuple(SourceLine(n, lines[n - 1]) for n in range(first, event.lineno + len(there)))
    return tuple(SourceLine(n, text) for n, text in enumerate(statement, event.lineno))


def lines_of(filename: str | None, lineno: int, statement: str | None) -> str:
    """The line numbers of a statement that an event holds as a single line: ``"line 8"``, ``"lines 8 to 10"``."""
    rest, last = "".join((statement or "").split()), lineno
    for number, line in enumerate(linecache.getlines(filename)[lineno - 1 :] if filename else (), lineno):
        there = "".join(line.split())
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(there, rest, strict=False)))
        if common < len(there) and there[common] not in "#\\":  # comments and continuations are left out between lines
            break
        rest = rest[common:]
        if not rest:
            last = number
            break
    return f"line {lineno}" if last == lineno else f"lines {lineno} to {last}"


def guilty_span(event: NaNEvent, text: str) -> tuple[int, int] | None:
    """Return which characters of ``text``, the user's line, are guilty.

    If the event does not say, it is the only call of the operation, or the only operator; None if there are several.
    """
    if event.col is not None and event.code_line is not None:
        # The event's columns refer to its own copy of the line, which may be indented differently.
        shift = indentation_of(text) - indentation_of(event.code_line)
        end = len(event.code_line) if event.end_col is None or event.end_col <= event.col else event.end_col
        span = event.col + shift, min(end + shift, len(text))
        if 0 <= span[0] < span[1]:
            return span
    line = Line.parse(text)
    written = line.only(canonical(event.op))
    if not written:
        return None
    start = indentation_of(text) + line.column(written.node)
    return start, start + len(line.text(written.node))


def display_width(text: str) -> int:
    """The columns that ``text`` takes in a terminal: two for a wide character, none for a combining one."""
    return sum(map(_columns, text))


def fitting(text: str, width: int) -> int:
    """How many of the first characters of ``text`` go into that many columns."""
    for number, character in enumerate(text):
        width -= _columns(character)
        if width < 0:
            return number
    return len(text)


def _columns(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    # marks above and below, many without a combining class, and joiners; but the soft hyphen is shown
    return character == "\xad" or unicodedata.category(character) not in ("Mn", "Me", "Cf")
