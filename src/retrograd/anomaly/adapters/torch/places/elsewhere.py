"""Nodes that autograd has made in a thread of its own, as on a GPU, where a derivative is to be differentiated again.

Sequence numbers are given by thread: such a node's may be that of an operation of the program's. So it is given a place
between those of the program, where the derivative was computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_KEY = "retrograd's place"  # in what torch lets one keep with a node

_known = False  # as long as there is none, nobody is asked
_ends: list[int] = []  # the numbers before which derivatives are being computed


def place_of(node: Any) -> float | None:
    """The place of a node between the sequence numbers of the program's thread; None if it was made there."""
    return node.metadata.get(_KEY) if _known else None


def begin(end: int) -> None:
    """A backward pass begins, the next number of the program's thread being ``end``."""
    _ends.append(end)


def end() -> None:
    _ends.pop()


def put_between(nodes: Iterable[Any], end: int) -> None:
    """Give nodes that were made elsewhere their places, before the number ``end``, in their own order."""
    global _known
    made = sorted((each for each in nodes if _KEY not in each.metadata), key=lambda each: each._sequence_nr())
    _known = _known or bool(made)
    for number, node in enumerate(made, 1):
        node.metadata[_KEY] = first_place(end) + number / (len(made) + 1) / 2


def present_place() -> float | None:
    """Where what is made elsewhere belongs now."""
    return first_place(_ends[-1]) if _ends else None


def first_place(end: int) -> float:
    """Before all places that nodes are given, and behind the number before ``end``."""
    return end - 0.75
