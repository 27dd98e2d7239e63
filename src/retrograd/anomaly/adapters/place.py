"""A place in the user's program, as the fields of an event."""

from __future__ import annotations

import linecache
from types import CodeType
from typing import Any

from retrograd.core import sites


def place_fields(code: CodeType | None, at: int) -> dict[str, Any]:
    """The file, the line with the columns of the instruction in it, and the function.

    A statement of several lines is given as one, the lines joined by spaces.
    """
    if code is None:
        return {}
    site = sites.site(code, at)
    last = site.end_lineno or site.lineno
    lines = [linecache.getline(site.filename, number) for number in range(site.lineno, last + 1)]
    fields: dict[str, Any] = {"filename": site.filename, "lineno": site.lineno, "function": site.function}
    if not any(lines):
        return fields
    fields["code_line"] = " ".join(line.strip() for line in lines)
    if site.col is not None and site.end_col is not None:
        indent = len(lines[0]) - len(lines[0].lstrip())
        rest = len(lines[-1].encode()[site.end_col :].decode().rstrip())
        fields["col"] = len(lines[0].encode()[: site.col].decode()) - indent
        fields["end_col"] = len(fields["code_line"]) - rest
    return fields
