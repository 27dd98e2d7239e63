"""Cells of a notebook, or of IPython in a terminal: which one a line is in, and which frames are the user's."""

from __future__ import annotations

import linecache
import os.path
import sys
from types import CodeType
from typing import Any


def shown_name(filename: str) -> str:
    """Return the name that IPython shows for a cell, "Cell In[3]", in place of the temporary file it pretends to be.

    Any other name comes back as it is. The lines are in ``linecache`` under the name that is returned.
    """
    shell = _shell()
    named = None if shell is None else shell.compile.format_code_name(filename)
    if named is None:
        return filename
    name = " ".join(named)
    if filename in linecache.cache:
        linecache.cache[name] = linecache.cache[filename]
    return name


def cells() -> list[str]:
    """The cells that have been run, by the names that are shown, in order of their first run."""
    shell = _shell()
    if shell is None:
        return []
    known = list(linecache.cache)
    return [shown_name(each) for each in known if shell.compile.format_code_name(each) is not None]


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def runs_cells(code: CodeType) -> bool:
    """Whether it is code of IPython, which runs the cells; frames outside it are never the user's."""
    return "IPython" in sys.modules and f"{os.sep}IPython{os.sep}" in code.co_filename
