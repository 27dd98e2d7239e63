"""All findings of one run: in memory, and in a directory if one is wanted."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from retrograd.anomaly.event import GradEvent, NaNEvent
from retrograd.anomaly.report.jsonl import MAX_EVENTS, Recorder, Run, page_of, rank_of, warn_unwritten
from retrograd.anomaly.report.terminal import print_run
from retrograd.anomaly.report.training_history import History


class Report:
    """Collect the findings of a run, and keep them in a directory if there is one.

    Each event goes to ``events.jsonl`` at once; ``report.html`` is written when the report is closed. In a distributed
    run (``RANK`` is set) each rank has files of its own, such as ``events-rank1.jsonl``.

    Parameters
    ----------
    directory : path-like, optional
        Created if it does not exist. None keeps the findings in memory only.
    max_events : int
        How many events to keep; see :class:`Recorder`.
    rank : int, optional
        The rank of the process, if ``RANK`` is not set.

    Attributes
    ----------
    files : tuple of Path
        What is, or will be, in the directory: the recording and the page.

    Examples
    --------
    >>> import tempfile, os
    >>> from retrograd.anomaly.event import NaNEvent
    >>> from retrograd.anomaly.report import Report
    >>> directory = tempfile.mkdtemp()
    >>> with Report(directory) as report:
    ...     report.write(NaNEvent(kind="divide", op="log", lineno=41), outcome="update withheld")
    >>> sorted(os.listdir(directory))
    ['events.jsonl', 'report.html']
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        max_events: int = MAX_EVENTS,
        rank: int | None = None,
    ) -> None:
        self.files: tuple[Path, ...] = ()
        self._page: Path | None = None  # absolute: the program may have changed its working directory by then
        if directory is not None:
            own = rank_of(rank)
            recording = Path(directory, "events.jsonl" if own is None else f"events-rank{own}.jsonl")
            self.files = recording, page_of(recording)
            self._page = self.files[1].absolute()
        self._recorder = Recorder(self.files[0] if self.files else None, max_events=max_events, rank=rank)

    @property
    def run(self) -> Run:
        """What has been collected."""
        return self._recorder.run

    def write(self, event: NaNEvent | GradEvent, *, outcome: str = "", history: History = ()) -> None:
        """Write one event; if there is a directory, the event is on disk when this returns.

        The parameters are those of :meth:`Recorder.write`.
        """
        self._recorder.write(event, outcome=outcome, history=history)

    def close(self) -> None:
        """Finish the recording and write the page. Closing twice is fine."""
        self._recorder.close()
        if self._page is not None:
            from retrograd.anomaly.report.html import write_html  # needed at the end of a run only

            try:
                write_html(self._page, self.run)
            except OSError as error:
                warn_unwritten(self._page, error)

    def print(self, file: IO[str] | None = None) -> None:
        """Print the findings to ``file``, by default to the standard error; nothing if there are none."""
        if self.run.entries:
            print_run(self.run, files=self.files, file=file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
