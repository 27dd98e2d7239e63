"""Calls that a remedy must not repeat: of layers, whose dropout would differ, and of the program's own functions."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np

from retrograd.anomaly.catalogue._imports import is_module
from retrograd.anomaly.catalogue._source_line import Line, Written, dotted
from retrograd.anomaly.operation_names import KNOWN, canonical

_NAMES = ("z", "h", "result", "given")


def named_instead(rewritten: str, line: str, others: Collection[str]) -> tuple[str, str, str] | None:
    """A rewritten line with a name for a call that the line itself does not make, but one of some ``others`` does.

    The result is the line, the name and the call. None if no call of theirs occurs more often than in the line that it
    replaces.
    """
    new, old = Line.parse(rewritten), Line.parse(line)
    before = Counter(old.text(each) for each in calls_of_own(old))
    after = Counter(new.text(each) for each in calls_of_own(new))
    again = (text for text in after if after[text] > before[text] and any(text in other for other in others))
    repeated = max(again, key=len, default=None)
    name = next((each for each in _NAMES if each not in {node.id for node in new.names()}), None)
    if repeated is None or name is None:
        return None
    nodes = [each for each in calls_of_own(new) if new.text(each) == repeated]
    renamed = new.replaced(dict.fromkeys(nodes, name))
    return None if renamed is None else (renamed, name, repeated)


def calls_of_own(line: Line) -> Iterator[ast.AST]:
    """The calls in a line of anything other than an operation of a library."""
    for written in line.operations:
        if isinstance(written.node, ast.Call) and not _is_operation(written, written.node.func):
            yield written.node
    yield from line.own_calls()


def _is_operation(written: Written, function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return hasattr(builtins, function.id) or canonical(function.id) in KNOWN or hasattr(np, function.id)
    base = dotted(function.value) if isinstance(function, ast.Attribute) else None
    if base is None or is_module(base.split(".")[0]):
        return True
    return written.op in KNOWN or hasattr(np, written.op) or hasattr(np.ndarray, written.op)
