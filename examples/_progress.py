"""One progress bar for all examples: it redraws itself in a terminal and prints plain lines anywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import TextIO

BAR = 24


def clock(seconds: float) -> str:
    """Minutes and seconds, such as ``1:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """How far a run has come, with the figures of the moment.

    In a terminal a single line is drawn again and again. In a file or a pipe a line is printed where nothing else was
    for ``interval`` seconds, so that a log shows life and stays short.

    >>> with Progress(total=500) as progress:
    ...     for step in range(1, 501):
    ...         progress.update(step, f"loss {loss:.3f}")
    """

    def __init__(self, total: int, interval: float = 5.0, stream: TextIO | None = None) -> None:
        self.total = total
        self.interval = interval
        self.stream = sys.stdout if stream is None else stream
        self.drawn = 0  # characters of the bar that are on the screen now
        self.started = self.reported = time.perf_counter()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._erase()

    def update(self, done: int, figures: str = "") -> None:
        """Say that ``done`` of ``total`` steps are done."""
        now = time.perf_counter()
        terminal = self.stream.isatty()
        if now - self.reported < (0.1 if terminal else self.interval):
            return
        self.reported = now
        elapsed = now - self.started
        left = elapsed * (self.total - done) / max(done, 1)
        times = f"{clock(elapsed)} < {clock(left)}"
        if terminal:
            filled = BAR * done // self.total
            self._draw(f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{self.total}  {times}  {figures}")
        else:
            self._print(f"{done}/{self.total}  {times}  {figures}")

    def line(self, text: str) -> None:
        """Print a line that stays, above the bar."""
        self._erase()
        self._print(text)
        self.reported = time.perf_counter()

    def _print(self, text: str) -> None:
        print(text.rstrip(), file=self.stream, flush=True)

    def _draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]  # a line that wraps could not be drawn over
        print("\r" + text.ljust(self.drawn), end="", file=self.stream, flush=True)
        self.drawn = len(text)

    def _erase(self) -> None:
        if self.drawn:
            print("\r" + " " * self.drawn + "\r", end="", file=self.stream, flush=True)
            self.drawn = 0
