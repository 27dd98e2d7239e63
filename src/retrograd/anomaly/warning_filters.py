"""Filters of warnings that are put up for a while.

That is done directly: by the functions of ``warnings`` for it, ``catch_warnings`` among them, Python would forget which
warnings it has shown, and show those of the program once more.
"""

from __future__ import annotations

import re
import warnings
from typing import Any


class Filter:
    """A filter in front of all others: what is done about warnings whose module has a name that begins so."""

    def __init__(self, action: str, module: str) -> None:
        self._filter = (action, None, Warning, re.compile(re.escape(module)), 0)  # as Python has them

    def put(self) -> None:
        _filters().insert(0, self._filter)

    def remove(self) -> None:
        filters = _filters()
        if self._filter in filters:
            filters.remove(self._filter)


def _filters() -> Any:
    """The filters that hold here: from Python 3.14 on, ``catch_warnings`` may have put them in the thread's context."""
    of_context = getattr(warnings, "_get_filters", None)
    return warnings.filters if of_context is None else of_context()
