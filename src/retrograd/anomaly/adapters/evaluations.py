"""NaN and infinity that the program reads while it computes no gradients, as of a validation loss.

No update is at stake. Many measures are NaN where they are undefined, such as the accuracy for a class that does not
occur, or infinite, such as the signal-to-noise ratio of a perfect copy. So such a number is reported only if a call of
a model made it, a weight or a running average holds it, or it was born in the program's own lines other than as a
quotient by zero, a level in decibels, or an average of nothing. An infinity that is written there is a start value, as
of the best loss so far; a negative one is the logarithm of what is impossible, as in a search.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from retrograd.anomaly.adapters.program.assignments import calls_behind, sources
from retrograd.anomaly.adapters.program.source_location import variables_read
from retrograd.anomaly.adapters.program.syntax import body
from retrograd.anomaly.adapters.program.variables import named_variables
from retrograd.anomaly.event import NaNEvent

HARMED = "a number that the program reads"
_PACKAGE = __name__.partition(".")[0]
_MOST_PLACES = 64
_RATIOS = frozenset(("div", "log10", "reciprocal", "rsqrt"))  # that are infinite if there is nothing to divide by
_AVERAGES = frozenset(("mean", "nanmean", "median", "std", "var", "var_mean", "std_mean", "corrcoef", "cov"))
_FILLS = frozenset(("fill", "full", "full_like", "index_fill", "masked_fill", "new_full", "scalar_tensor"))
_PASS_ON = frozenset(("cuda", "double", "enumerate", "float", "items", "iter", "next", "range", "to", "tqdm", "zip"))


class ReadingPlaces:
    """Where the program has read a NaN, and how often."""

    def __init__(self) -> None:
        self._counts: dict[tuple[CodeType, int], int] = {}

    def is_worth_a_look(self, frame: FrameType) -> bool:
        """Whether to search for the reason: at an instruction's first NaN, its second, fourth, eighth, and so on."""
        place = frame.f_code, frame.f_lasti
        if place not in self._counts and len(self._counts) >= _MOST_PLACES:
            return False
        self._counts[place] = count = self._counts.get(place, 0) + 1
        return count > 0 and count & (count - 1) == 0

    def is_told(self, frame: FrameType) -> None:
        """Note that the reason has been reported."""
        self._counts[frame.f_code, frame.f_lasti] = -(1 << 62)


def is_ours(frame: FrameType | None) -> bool:
    """Whether code of this package does the reading."""
    return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE


def kind_of(value: Any) -> str | None:
    """The kind of harm of a number that the program reads; None if it may well be meant."""
    if value != value:
        return "nan"
    return "inf" if value == math.inf else None


def is_meant(event: NaNEvent, kind: str) -> bool:
    """Whether it is a number that was written there, or born outside any model in a measure that does not apply."""
    if event.kind == "leaf":
        return kind == "inf"
    if event.module_type is not None:
        return False
    if event.op in _FILLS or (kind == "inf" and event.op in _RATIOS):
        return True
    return event.op in _AVERAGES or (event.op == "div" and not any(event.operands.values()))


def first_bad(frame: FrameType, is_bad: Callable[[Any], bool]) -> tuple[str, Any] | None:
    """The variable that came in non-finite of those from which a function has made what it reads now.

    None if the function has computed that variable itself, or called something for it: a model, for instance.
    """
    code, variables = frame.f_code, dict(named_variables(frame))
    found: list[str] = []
    behind: list[str] = list(variables_read(code, frame.f_lasti))
    while bad := [each for each in behind if each not in found and is_bad(variables.get(each))]:
        found.append(bad[0])
        behind = list(sources(code, bad[0]))
    return (found[-1], variables[found[-1]]) if found and not _is_computed(code, found[-1]) else None


def _is_computed(code: CodeType, name: str) -> bool:
    """Whether a function computes a variable, other than by moving data or iterating over it."""
    if any(each.rpartition(".")[2] not in _PASS_ON for each in calls_behind(code, name)):
        return True
    given = (
        each.value for each in body(code) if isinstance(each, ast.Assign) and name in map(ast.unparse, each.targets)
    )
    return any(isinstance(part, (ast.BinOp, ast.UnaryOp)) for value in given for part in ast.walk(value))
