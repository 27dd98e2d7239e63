"""Finding data that no node has kept among the variables of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from retrograd.anomaly.adapters.elements.shapes import broadcasts
from retrograd.anomaly.adapters.program.assignments import is_item_of
from retrograd.anomaly.adapters.program.source_location import variables_read
from retrograd.anomaly.adapters.retrograd.elements import UNKNOWN, is_bad
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph, filled
from retrograd.anomaly.adapters.retrograd.postmortem.source import text_given
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.core import sites
from retrograd.core.in_place import CopySlices
from retrograd.core.node import OpNode


class UnsavedData(NamedTuple):
    """An argument that a node has not kept, and the variable it was.

    ``is_read`` says whether the node's line reads it, ``item`` which bad number of it the argument was, if just one.
    """

    node: OpNode
    param: str
    name: str
    data: ndarray
    is_read: bool
    item: float | None = None

    @property
    def argument(self) -> ndarray | float:
        """What the node was given."""
        return self.data if self.item is None else self.item


def unsaved_data(graph: Graph, names: Names, condition: Callable[[Any], bool]) -> Iterator[UnsavedData]:
    """The variables with bad numbers that may have been arguments of a graph's nodes, in the order of creation.

    A variable that the node's line reads comes before all others; another one counts only if it is the only candidate
    and not a single number: there are many of those, such as the best loss so far.

    Parameters
    ----------
    graph
        The graph whose nodes lack arguments.
    names
        Where to look for variables.
    condition
        Tells which numbers are bad: all non-finite ones, or only NaN.
    """
    suspects = [(name, data) for name, data in names.data() if condition(data)]
    others, items = [], []
    for node, param in graph.lost() if suspects else ():
        read = variables_read(*sites.position_of(node))
        for name, data in suspects:
            if data.ndim and _is_given_items(node, param, name):
                item = next(each for each in data.flat if condition(each))
                items.append(UnsavedData(node, param, name, data, True, float(item)))
            if _fits(graph, node, param, data):
                found = UnsavedData(node, param, name, data, name in read)
                if found.is_read:
                    yield found
                elif data.ndim:
                    others.append(found)
    yield from items
    if len({id(each.data) for each in others}) == 1:
        yield others[0]
    if suspects:
        yield from _written_to_parts(graph, suspects)


def _is_given_items(node: OpNode, param: str, name: str) -> bool:
    """Whether a node's line passes single items of a variable as an argument."""
    code, _ = sites.position_of(node)
    text = text_given(node, param)
    return node.op.kind == "elementwise" and code is not None and text is not None and is_item_of(code, text, name)


def _written_to_parts(graph: Graph, suspects: Sequence[tuple[str, ndarray]]) -> Iterator[UnsavedData]:
    """The variables that a line writes to a part of a tensor: ``y[0:2] = data``."""
    for node in graph.nodes:
        writer = node.fn if isinstance(node, CopySlices) else None
        if not isinstance(writer, OpNode):
            continue
        for param in graph.lost_by(writer):
            written = text_given(writer, param)
            for name, data in suspects:
                if name == written and is_bad(graph.supposing(writer, param, data).results(node)):
                    yield UnsavedData(writer, param, name, data, True)


def _fits(graph: Graph, node: OpNode, param: str, data: ndarray) -> bool:
    """Whether an array may have been a node's argument: then the result has a fitting shape, and is bad."""
    known = graph.arguments(node)
    arguments = {**known, param: filled(known[param], data)}
    if any(value is UNKNOWN for value in arguments.values()):
        return node.op.kind == "elementwise" and node.outputs == 1 and broadcasts(data.shape, node.shape)
    results = graph.compute(node, arguments)
    return bool(results) and is_bad(results)
