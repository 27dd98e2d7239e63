"""What a stream can show: colours, box drawing, how many columns."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import IO

_CODES = {"bad": "1;31", "good": "32", "strong": "1", "mark": "1;33", "dim": "2"}
NARROWEST, WIDEST, UNKNOWN = 40, 100, 80
_ESCAPES = 4  # ENABLE_VIRTUAL_TERMINAL_PROCESSING


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

    ``FORCE_COLOR`` asks for colours even without a terminal. https://no-color.org, https://force-color.org
    """
    terminal = bool(getattr(stream, "isatty", bool)())  # an object with nothing but write() may serve as a stream
    shows = terminal and os.environ.get("TERM") != "dumb" and _reads_escapes(stream)
    color = (shows or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")
    return Style(color, color and _can_encode(stream, "─→│▁█"), _width(stream, terminal))


def _reads_escapes(stream: IO[str]) -> bool:
    """Whether a terminal interprets escape sequences; a Windows console does once it has been asked to."""
    if sys.platform != "win32":
        return True
    import ctypes
    import msvcrt

    try:
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(stream.fileno()))
    except (AttributeError, OSError, ValueError):
        return False
    console, mode = ctypes.windll.kernel32, ctypes.c_ulong()
    if not console.GetConsoleMode(handle, ctypes.byref(mode)):  # the null device counts as a terminal, too
        return False
    return bool(mode.value & _ESCAPES or console.SetConsoleMode(handle, mode.value | _ESCAPES))


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
        except (AttributeError, OSError, ValueError):
            columns = UNKNOWN
    return min(max(columns, NARROWEST), WIDEST)
