"""The variable in which NaN first appears, among those from which data was computed line by line.

Data without a gradient often comes from a chain of lines: rewards, returns, advantages. Where none of them can be
computed again, the variables of the chain that are still there tell which of the lines made the NaN.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any

from torch import Tensor

from retrograd.anomaly.adapters.program.assignments import last_given
from retrograd.anomaly.adapters.program.source_location import assignment_above, variables_read
from retrograd.anomaly.adapters.program.variables import local_variables, under_way
from retrograd.anomaly.adapters.torch.postmortem.origin import Origin
from retrograd.anomaly.adapters.torch.records.calls import has_nan
from retrograd.anomaly.parsing import module_of
from retrograd.core.sites import line_of


def first_with_nan(frame: FrameType | None, origin: Origin) -> tuple[str, Tensor] | None:
    """The one variable with NaN, computed from others without, from which the data of an origin was computed.

    Parameters
    ----------
    frame
        Where the program is; the function that used the data must still be running.
    origin
        An operation and what came in with it.

    Returns
    -------
    tuple or None
        The variable's name and value; None if the origin is no such data, if there are several such variables, if no
        formula has made it, or if the operation's line reads it itself.
    """
    call, data = origin.call, None if origin.leaf is None or origin.leaf.leaf is not None else origin.leaf.tensor
    running = under_way(frame, call.code)
    if running is None or data is None or data.requires_grad or not has_nan(data):
        return None
    search = _Search(running.f_code, local_variables(running), line_of(running.f_code, call.at))
    read = variables_read(call.code, call.at)
    found = {name for each in read for name in search.from_end(each)}
    name = found.pop() if len(found) == 1 else None
    if name is None or name in read or not search.is_formula(name):
        return None
    value = search.variables[name]
    return (name, value) if isinstance(value, Tensor) and not value.requires_grad else None


class _Search:
    """Follows assignments backwards from a line; in a loop, what an earlier round assigned is not followed."""

    def __init__(self, code: CodeType, variables: Mapping[str, Any], end: int) -> None:
        self.variables = variables
        self._code, self._end = code, end
        self._seen: set[tuple[str, int]] = set()

    def from_end(self, name: str) -> set[str]:
        """The variables with NaN from which a variable that is NaN now comes, and that come from none themselves."""
        return self._of(name, self._end) if self._has_nan(name) else set()

    def is_formula(self, name: str) -> bool:
        """Whether the line that assigned a variable computes a formula, rather than taking data from somewhere."""
        text, _ = assignment_above(self._code, self._end, name) or ("", 0)
        try:
            written = module_of(text).body
        except SyntaxError:  # a part of a statement
            return False
        return bool(written) and isinstance(getattr(written[0], "value", None), (ast.BinOp, ast.UnaryOp))

    def _has_nan(self, name: str) -> bool:
        value = self.variables.get(name)
        return math.isnan(value) if isinstance(value, float) else isinstance(value, Tensor) and has_nan(value)

    def _of(self, name: str, lineno: int) -> set[str]:
        """The same for the value that a variable had on a line."""
        given = last_given(self._code, name, lineno)
        if (name, lineno) in self._seen or given is None:
            return set()
        self._seen.add((name, lineno))
        behind: set[str] = set()
        for each in given[1]:
            if self._has_nan(each) or not self._is_present(each, given[0]):
                behind |= self._of(each, given[0])
        return behind or ({name} if self._is_present(name, lineno) else set())

    def _is_present(self, name: str, lineno: int) -> bool:
        """Whether a variable still has the value that it had on a line."""
        return last_given(self._code, name, lineno) == last_given(self._code, name, self._end)
