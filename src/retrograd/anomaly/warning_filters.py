"""Warning filters that are installed temporarily.

They are inserted directly: with the functions of ``warnings``, including ``catch_warnings``, Python would forget which
warnings it has shown, and show the program's own again.
"""

from __future__ import annotations

import re
import warnings
from typing import Any


class Filter:
    """A filter in front of all others, for warnings whose module has a name that begins with ``module``."""

    def __init__(self, action: str, module: str) -> None:
        self._filter = (action, None, Warning, re.compile(re.escape(module)), 0)  # as Python has them

    def put(self) -> None:
        _filters().insert(0, self._filter)

    def remove(self) -> None:
        filters = _filters()
        if self._filter in filters:
            filters.remove(self._filter)


def _filters() -> Any:
    """The active filters: from Python 3.14 on, ``catch_warnings`` may have put them in the thread's context."""
    of_context = getattr(warnings, "_get_filters", None)
    return warnings.filters if of_context is None else of_context()
