"""What the stream at hand can show: colours, box drawing, how many columns."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import IO

_CODES = {"bad": "1;31", "good": "32", "strong": "1", "mark": "1;33", "dim": "2"}
NARROWEST, WIDEST, UNKNOWN = 40, 100, 80


@dataclass(frozen=True)
class Style:
    """How to write to a terminal.

    Attributes
    ----------
    color : whether to use ANSI colours.
    unicode : whether to use box drawing and block characters; ASCII otherwise.
    width : columns to fill.
    """

    color: bool = False
    unicode: bool = False
    width: int = UNKNOWN

    def paint(self, text: str, role: str) -> str:
        return f"\x1b[{_CODES[role]}m{text}\x1b[0m" if self.color and text else text

    @property
    def rule(self) -> str:
        return "─" if self.unicode else "-"

    @property
    def arrow(self) -> str:
        return "→" if self.unicode else "->"

    @property
    def bar(self) -> str:
        return "│" if self.unicode else "|"


def style_of(stream: IO[str]) -> Style:
    """Return what ``stream`` can show: plain ASCII unless it is a terminal, and with ``NO_COLOR`` or ``TERM=dumb``.

    ``FORCE_COLOR`` asks for colours where there is no terminal. https://no-color.org, https://force-color.org
    """
    terminal = stream.isatty()
    wanted = (terminal and os.environ.get("TERM") != "dumb") or bool(os.environ.get("FORCE_COLOR"))
    color = wanted and not os.environ.get("NO_COLOR")
    return Style(color, color and _can_encode(stream, "─→│▁█"), _width(stream, terminal))


def _can_encode(stream: IO[str], text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _width(stream: IO[str], terminal: bool) -> int:
    columns = UNKNOWN
    if "COLUMNS" in os.environ:
        columns = shutil.get_terminal_size((UNKNOWN, 24)).columns
    elif terminal:
        try:
            columns = os.get_terminal_size(stream.fileno()).columns or UNKNOWN
        except (OSError, ValueError):
            columns = UNKNOWN
    return min(max(columns, NARROWEST), WIDEST)
