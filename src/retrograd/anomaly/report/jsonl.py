"""Events on disk: one line of JSON each, whole or not there at all, also when the process is killed."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from retrograd.anomaly import _json
from retrograd.anomaly.event import RECORDS, GradEvent, NaNEvent
from retrograd.anomaly.messages import GROWING, check_max_events
from retrograd.anomaly.report.source import SourceLine, excerpt
from retrograd.anomaly.report.summary import birthplace, step_of
from retrograd.anomaly.report.training_history import History
from retrograd.anomaly.stack_frames import depth_of_user

MAX_EVENTS = 1000
MANY = 10  # updates skipped in a row, from which on skipping them is no solution


class ReportError(ValueError):
    """A file is not a recording that can be shown."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """The first line of every run."""

    command: tuple[str, ...] = ()
    time: str = ""
    rank: str | None = None
    version: int = 1


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One event and what was known in addition.

    Attributes
    ----------
    event : NaNEvent or GradEvent
    outcome : str
        What became of the step.
    history : tuple of dicts
        The last steps, oldest first: ``{"step": 7, "loss": 0.3}``.
    lines : tuple of SourceLine
        The source around the birth as it was then.
    time : str
        When it was written (ISO 8601).
    """

    event: NaNEvent | GradEvent
    outcome: str = ""
    history: History = ()
    lines: tuple[SourceLine, ...] = ()
    time: str = ""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A remark about the recording itself.

    Attributes
    ----------
    text : str
        What a reader should know.
    stalled : tuple of int, optional
        The first and the last of the updates with which the recording ends and that were all skipped, including those
        whose events were not kept.
    """

    text: str
    stalled: tuple[int, ...] | None = None


class Stall:
    """Updates skipped in a row, up to now.

    Attributes
    ----------
    steps : tuple of int
        The first and the last; empty if the latest event was about something else.
    """

    def __init__(self) -> None:
        self.steps: tuple[int, ...] = ()

    def note(self, event: NaNEvent | GradEvent, outcome: str) -> None:
        """Take account of the next event."""
        step = step_of(event)
        if step is None or not outcome.startswith("update skipped"):
            self.steps = ()
        elif not self.steps or step - self.steps[1] > 1:
            self.steps = step, step
        else:
            self.steps = self.steps[0], step


_RECORDS = {**RECORDS, **{record.__name__: record for record in (Start, Entry, Note, SourceLine)}}


@dataclass
class Run:
    """What one run of a program has recorded.

    Attributes
    ----------
    start : Start or None
        The program, and when it began; None if that line is lost.
    entries : list of Entry
        What was found, the earliest first.
    notes : list of str
        Remarks about the recording.
    torn : int
        How many lines of it cannot be read.
    stalled : tuple of int, optional
        See :class:`Note`; None if all events were kept.
    """

    start: Start | None = None
    entries: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    torn: int = 0
    stalled: tuple[int, ...] | None = None

    @property
    def events(self) -> list[NaNEvent | GradEvent]:
        """The events alone."""
        return [entry.event for entry in self.entries]

    def first_entries(self) -> list[Entry]:
        """The first entry of each birthplace, the earliest first."""
        firsts: dict[Hashable, Entry] = {}
        for entry in self.entries:
            firsts.setdefault(birthplace(entry.event), entry)
        return list(firsts.values())

    @property
    def nothing(self) -> str:
        """What to say where there is no event."""
        return "No event can be read" if self.torn else "No anomaly was recorded"

    @property
    def remarks(self) -> list[str]:
        """What a reader should know about the run as a whole, and about the recording itself."""
        remarks = [*self._stalled(), *self.notes]
        if self.entries and all(isinstance(event, GradEvent) for event in self.events):
            remarks.insert(0, GROWING)
        if self.torn:
            lines = "1 line" if self.torn == 1 else f"{self.torn:,} lines"
            remarks.append(f"{lines} of the recording cannot be read: the program ended while writing")
        return remarks

    def _stalled(self) -> list[str]:
        """The remark that training stalled, if many updates in a row were skipped and the recording ends with them."""
        stall = Stall()
        for entry in self.entries:
            stall.note(entry.event, entry.outcome)
        steps = stall.steps if self.stalled is None else self.stalled
        if len(steps) != 2 or steps[1] - steps[0] + 1 < MANY:
            return []
        first, last = steps
        return [f"every update from step {first:,} to step {last:,} was skipped: nothing was learned in these steps"]


class Recorder:
    """Append events to a file, one line of JSON each, which is on disk when ``write`` returns.

    An existing file is continued, below a line that starts the new run. Several threads, and processes forked from
    this one, may write. If the disk is full, there is one warning, and events are kept in memory: a program is not
    ended because its report cannot be written.

    Parameters
    ----------
    path : path-like, optional
        The file; its directory is created if necessary. None keeps the events in memory only.
    max_events : int
        How many events to keep. The first ones show the births; later ones are only counted.
    rank : int, optional
        The rank of the process, if ``RANK`` is not set.

    Attributes
    ----------
    run : Run
        What has been written.
    dropped : int
        How many events came after the last one that was kept.

    Examples
    --------
    >>> import tempfile, os
    >>> from retrograd.anomaly.event import NaNEvent
    >>> from retrograd.anomaly.report import Recorder, read_runs
    >>> path = os.path.join(tempfile.mkdtemp(), "events.jsonl")
    >>> with Recorder(path) as recorder:
    ...     recorder.write(NaNEvent(kind="divide", op="log", lineno=41), outcome="update withheld")
    >>> [run] = read_runs(path)
    >>> run.entries[0].event.op, run.entries[0].outcome
    ('log', 'update withheld')
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, max_events: int = MAX_EVENTS, rank: int | None = None
    ) -> None:
        check_max_events(max_events)
        self.path = None if path is None else Path(path)
        self.max_events = max_events
        self.dropped = 0
        self.run = Run(Start(command=tuple(sys.orig_argv), time=_now(), rank=rank_of(rank)))
        self._stall = Stall()
        self._lock = threading.RLock()
        self._has_failed = False
        self._is_torn = False  # whether the next write follows a possibly incomplete line
        self._file = None if self.path is None else _open(self.path)
        self._append(self.run.start)

    def write(self, event: NaNEvent | GradEvent, *, outcome: str = "", history: History = ()) -> None:
        """Write one event.

        Parameters
        ----------
        event : NaNEvent or GradEvent
        outcome : str
            What became of the step, such as ``"update withheld, weights are clean"``.
        history : sequence of mappings
            The last steps, oldest first: ``{"step": 7, "loss": 0.3, "grad_norm": 1.2}``.
        """
        with self._lock:
            self._stall.note(event, outcome)
            if len(self.run.entries) >= self.max_events:
                self.dropped += 1
                return
            lines = excerpt(event) if isinstance(event, NaNEvent) else ()
            rows = tuple(dict(row) for row in history)
            entry = Entry(event=event, outcome=outcome, history=rows, lines=lines, time=_now())
            self.run.entries.append(entry)
            self._append(entry)

    def close(self) -> None:
        """Note how many events were left out, and close the file. Closing twice is fine."""
        with self._lock:
            if self.dropped:
                were = "event was" if self.dropped == 1 else "events were"
                self.run.notes.append(
                    f"only the first {self.max_events:,} events were kept; {self.dropped:,} later {were} not"
                )
                self.run.stalled = self._stall.steps
                self._append(Note(text=self.run.notes[-1], stalled=self.run.stalled))
                self.dropped = 0
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _append(self, record: Any) -> None:
        if self._file is None:
            return
        line = memoryview(b"\n" * self._is_torn + _json.dumps(record).encode() + b"\n")
        self._is_torn = True
        try:
            while line:  # one write, unless the disk is almost full
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                self.run.notes.append(f"not everything could be written to {self.path}: {error.strerror}")
                warn_unwritten(self.path, error)
            return
        self._is_torn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def warn_unwritten(path: Path | None, error: OSError) -> None:
    """Say that a file could not be written, which is no reason to end a program."""
    warnings.warn(
        f"{path} could not be written ({error.strerror}); what was found is kept in memory",
        RuntimeWarning,
        stacklevel=depth_of_user(),
    )


def _open(path: Path) -> int:
    """Open a file for appending, below the torn line that a killed writer may have left at its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = _is_torn(path)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    if torn:
        os.write(file, b"\n")
    return file


def _is_torn(path: Path) -> bool:
    """Whether the file ends in the middle of a line."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_runs(path: str | os.PathLike[str]) -> list[Run]:
    """Read what :class:`Recorder` has written: one :class:`Run` for each run of the program, the latest last.

    Lines that were cut off when a process was killed are counted and left out.

    Parameters
    ----------
    path : path-like
        The file, such as ``runs/7/events.jsonl``.

    Raises
    ------
    ReportError
        If there is no such file, if it is empty or if it holds something else.
    """
    path = Path(path)
    try:
        lines = list(filter(None, path.read_bytes().splitlines()))
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}") from error
    runs: list[Run] = []
    for line in lines:
        record = _parse(line)
        if record is not None and (isinstance(record, Start) or not runs):
            runs.append(Run())
        if not runs:
            continue
        run = runs[-1]
        if isinstance(record, Start):
            run.start = record
        elif isinstance(record, Entry):
            run.entries.append(record)
        elif isinstance(record, Note):
            run.notes.append(record.text)
            run.stalled = record.stalled
        else:
            run.torn += 1
    if not lines:
        raise ReportError(f"{path} is empty: nothing was recorded")
    if not runs:
        raise ReportError(f"{path} is not a retrograd recording: none of its lines can be read as an event")
    return runs


def read_latest(path: str | os.PathLike[str]) -> Run:
    """Read the latest run of a recording; a note says how many came before it.

    Parameters
    ----------
    path
        As of :func:`read_runs`.

    Raises
    ------
    ReportError
        As :func:`read_runs`.
    """
    *earlier, run = read_runs(path)
    if earlier:
        runs = "1 earlier run" if len(earlier) == 1 else f"{len(earlier):,} earlier runs"
        run.notes.append(f"{path} also holds {runs}; this is the latest")
    return run


def _parse(line: bytes) -> Start | Entry | Note | None:
    """The record of one line; None if it is torn or not one of ours."""
    try:
        record = _json.loads(line, _RECORDS)
    except ValueError:
        return None
    return record if _is_whole(record) else None


def _is_whole(record: Any) -> bool:
    """Whether a record's fields have types that can be shown; damage or a later version may have changed them."""
    if isinstance(record, Entry):
        lines = record.lines
        return (
            isinstance(record.event, NaNEvent | GradEvent)
            and isinstance(lines, tuple)
            and all(isinstance(line, SourceLine) and isinstance(line.text, str) for line in lines)
        )
    if isinstance(record, Start):
        return isinstance(record.command, tuple) and all(isinstance(word, str) for word in record.command)
    return isinstance(record, Note) and isinstance(record.stalled, tuple | None)


def rank_of(rank: int | None) -> str | None:
    """The rank of this process among several, as given or from the environment; None if it is alone."""
    return os.environ.get("RANK") if rank is None else str(rank)


def page_of(recording: Path) -> Path:
    """Where the page of a recording is: ``report.html`` beside ``events.jsonl``."""
    return recording.with_name(recording.name.replace("events", "report", 1)).with_suffix(".html")


def recordings(directory: str | os.PathLike[str]) -> list[Path]:
    """The recordings in a directory: one, or one per rank.

    Raises
    ------
    ReportError
        If there is none.
    """
    found = sorted(Path(directory).glob("events*.jsonl"), key=lambda path: (len(path.name), path.name))
    if not found:
        raise ReportError(f"{directory} holds no recording: there is no events.jsonl in it")
    return found
