"""Nodes of derivatives to be differentiated again that autograd has made in a thread of its own, as on a GPU.

Sequence numbers are counted per thread: such a node's may equal that of an operation in the program. So it is given a
place between the program's numbers, where the derivative was computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_KEY = "retrograd's place"  # in a node's metadata

_known = False  # while there is none, nodes are not queried
_ends: list[int] = []  # the numbers before which derivatives are being computed


def place_of(node: Any) -> float | None:
    """The place of a node between the sequence numbers of the program's thread; None if it was made there."""
    return node.metadata.get(_KEY) if _known else None


def begin(end: int) -> None:
    """Called when a backward pass begins; ``end`` is the next number of the program's thread."""
    _ends.append(end)


def end() -> None:
    _ends.pop()


def put_between(nodes: Iterable[Any], end: int) -> None:
    """Give nodes that were made elsewhere places before the number ``end``, in their own order."""
    global _known
    made = sorted((each for each in nodes if _KEY not in each.metadata), key=lambda each: each._sequence_nr())
    _known = _known or bool(made)
    for number, node in enumerate(made, 1):
        node.metadata[_KEY] = first_place(end) + number / (len(made) + 1) / 2


def present_place() -> float | None:
    """The place of nodes that are made elsewhere now."""
    return first_place(_ends[-1]) if _ends else None


def first_place(end: int) -> float:
    """A place before all those given to nodes, and after the number before ``end``."""
    return end - 0.75
