"""Which elements of an operation's result or operand came through to a non-finite value further on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.elements import is_bad, same
from retrograd.anomaly.adapters.retrograd.postmortem.element_sources import (
    OperandElements,
    operands_of_call,
    operands_of_node,
)
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph
from retrograd.anomaly.adapters.retrograd.second_run.recording import Recorder
from retrograd.core.in_place import CopySlices
from retrograd.core.node import Node, OpNode
from retrograd.core.tensor import Edge
from retrograd.core.views import replay


class ElementPropagation:
    """Finds what came through to a harm, and which of its elements.

    Parameters
    ----------
    graph
        The nodes behind the harm.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Node, dict[Edge, ndarray]] = {}

    def path(self, start: Node, bad: Sequence[Any] = ()) -> list[Node] | None:
        """The path on which elements of a non-finite result of ``start`` came through to a root; None if none did."""
        path = self._graph.spreads(start, bad)
        if path is None:
            return None
        reached = {node for node, _ in self._reached(path[-1])}
        return self._graph.spreads(start, bad, reached) if start in reached else None

    def elements(self, data: ndarray, source: Node | None, path: Sequence[Node]) -> ndarray:
        """Which elements of an array are not finite and came through on a path, as far as they can be distinguished.

        Parameters
        ----------
        data
            The array.
        source
            The node that recorded it, with which the path begins; None if the path begins with a node that used it.
        path
            The nodes from there to a harm.
        """
        bad = ~np.isfinite(data)
        if not path or np.count_nonzero(bad) < 2:
            return bad
        reached = self._reached(_end(self._graph, path))
        if source is None:
            mask = _given(self._graph, path[0], data, reached)
        else:
            mask = _made(self._graph, source, data, reached)
        if mask is None or mask.shape != bad.shape or not (bad & mask).any():
            return bad
        return bad & mask

    def _reached(self, end: Node) -> dict[Edge, ndarray]:
        if end not in self._known:
            self._known[end] = _search(self._graph, end)
        return self._known[end]


def _end(graph: Graph, path: Sequence[Node]) -> Node:
    """The last node that a path reaches going forwards, and only through values that may be non-finite."""
    following = takewhile(lambda pair: pair[1] in graph.consumers.get(pair[0], ()), pairwise(path))
    forwards = [path[0], *(node for _, node in following)]
    return [forwards[0], *takewhile(lambda node: is_bad(graph.results(node) or np.nan), forwards[1:])][-1]


def _made(graph: Graph, source: Node, data: ndarray, reached: dict[Edge, ndarray]) -> ndarray | None:
    """The reached elements of a node's result, or of the part that it has written to."""
    if isinstance(source, CopySlices):
        mask = reached.get((source, 0))
        return None if mask is None else replay(mask, source.steps)
    found = [(source, nr) for nr in range(source.outputs) if same(graph.value((source, nr)), data)]
    return next((reached[edge] for edge in found or [(source, 0)] if edge in reached), None)


def _given(graph: Graph, user: Node, data: ndarray, reached: dict[Edge, ndarray]) -> ndarray | None:
    """The reached elements of an array without a gradient from which a node's operand was made."""
    if not isinstance(user, OpNode):
        return None
    masks = [reached.get((user, nr)) for nr in range(user.outputs)]
    given = list(operands_of_node(graph, user, masks, constants=True))
    for each in given:
        if same(each.value, data):
            return each.mask
    return None if graph.recorder is None else _behind(graph.recorder, given, data)


def _behind(recorder: Recorder, given: Sequence[OperandElements], data: ndarray) -> ndarray | None:
    """The elements of an array from which operations not recorded for backward have made some operands."""
    masks: dict[int, ndarray] = {}

    def note(operands: Iterable[OperandElements]) -> None:
        for each in operands:
            if isinstance(each.value, ndarray):
                mask = np.ones(each.value.shape, bool) if each.mask is None else each.mask
                known = masks.get(id(each.value))
                masks[id(each.value)] = mask if known is None else known | mask

    note(given)
    for call in reversed(recorder.calls):
        made = [masks.get(id(result)) for result in call.results]
        if call.op is not None and any(mask is not None for mask in made):
            note(operands_of_call(call, made))
    return masks.get(id(data))


def _search(graph: Graph, end: Node) -> dict[Edge, ndarray]:
    """For the results of nodes, the elements that may be non-finite and led to those of ``end``."""
    reached = {(end, nr): _bad(graph, (end, nr)) for nr in range(end.outputs)}
    for node in reversed(graph.nodes):
        masks = [reached.get((node, nr)) for nr in range(node.outputs)]
        if node.is_leaf or all(mask is None for mask in masks):
            continue
        for edge, _, known, is_exact in operands_of_node(graph, node, masks):
            if edge is None:
                continue
            bad = _bad(graph, edge)
            mask = bad if known is None else bad & known
            if not is_exact and not mask.any():
                mask = bad
            if mask.any():
                reached[edge] = reached[edge] | mask if edge in reached else mask
    return reached


def _bad(graph: Graph, edge: Edge) -> ndarray:
    """Which elements of a result are not finite; all of them if the result is unknown."""
    shape, _ = edge[0].shape_and_dtype(edge[1])
    value = graph.value(edge)
    if not isinstance(value, ndarray) or value.shape != shape:  # or it is that of all samples of vmap
        return np.ones(shape, bool)
    return ~np.isfinite(value)
