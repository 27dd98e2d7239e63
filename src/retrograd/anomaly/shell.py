"""Commands to be copied, in the syntax of the system's own shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence


def command_line(words: Sequence[str]) -> str:
    """Return a command as it is typed: quoted for a POSIX shell, or on Windows as programs there parse it."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def with_environment(settings: Mapping[str, str], words: Sequence[str]) -> str:
    """Return a command that runs with variables set, and leaves them as they are for the commands that follow.

    The form for Windows works in PowerShell, too.
    """
    if sys.platform == "win32":
        sets = "".join(f"set {name}={value}&& " for name, value in settings.items())
        return f'cmd /c "{sets}{command_line(words)}"'
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in settings.items()), command_line(words)])
