"""Commands to be copied, in the words of the system's own shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence


def command_line(words: Sequence[str]) -> str:
    """Return a command as it is typed: quoted as a POSIX shell reads it, on Windows as programs there do."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def with_environment(settings: Mapping[str, str], words: Sequence[str]) -> str:
    """Return a command that runs with variables set, and leaves them as they are for the commands that follow.

    What Windows has for it is understood by PowerShell, too.
    """
    if sys.platform == "win32":
        sets = "".join(f"set {name}={value}&& " for name, value in settings.items())
        return f'cmd /c "{sets}{command_line(words)}"'
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in settings.items()), command_line(words)])
