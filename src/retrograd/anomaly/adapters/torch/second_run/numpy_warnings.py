"""What NumPy has warned of: where it met a division by 0 or the like, which may have spoilt data that come in bad."""

from __future__ import annotations

import linecache
import re
from typing import Any

_MOST = 32  # lines
_WARNED = re.compile(r"(divide by zero|invalid value|overflow) encountered in ")
_KINDS = {
    "divide by zero": "a division by 0",
    "invalid value": "an invalid operation, such as 0/0",
    "overflow": "an overflow",
}


class NumpyWarnings:
    """Notes the lines about which NumPy's floating-point warnings are shown; by default each is, once."""

    def __init__(self) -> None:
        self._met: dict[tuple[str, int], str] = {}

    def hear(self, message: Any) -> None:
        """A warning is shown."""
        said = _WARNED.match(str(message.message)) if issubclass(message.category, RuntimeWarning) else None
        if said is not None and len(self._met) < _MOST:
            self._met.setdefault((message.filename, message.lineno), said[1])

    def told(self) -> str | None:
        """Where NumPy met such an operation first, as a remark; None if it did not."""
        if not self._met:
            return None
        (filename, lineno), kind = next(iter(self._met.items()))
        return f"NumPy has met {met_at(kind, filename, lineno)}: see whether these numbers come from there."


def met_at(kind: str, filename: str, lineno: int) -> str:
    """What NumPy met, by the words of its warning, and where."""
    line = linecache.getline(filename, lineno).strip()
    return f"{_KINDS.get(kind, kind)} at {filename}:{lineno}, `{line}`"
