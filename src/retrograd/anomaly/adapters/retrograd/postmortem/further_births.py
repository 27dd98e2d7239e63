"""Further births of a step: those that would do harm even if the first one had not happened."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.leaf_names import nameless
from retrograd.anomaly.adapters.retrograd.births import ADDITION, Birth
from retrograd.anomaly.adapters.retrograd.elements import UNKNOWN, is_bad, same
from retrograd.anomaly.adapters.retrograd.postmortem.describe import result_of
from retrograd.anomaly.adapters.retrograd.postmortem.rules import cleaned, passed_on, reaches
from retrograd.anomaly.event import MOST_ALSO, NaNEvent, context_of, is_certain, is_to_come, with_context
from retrograd.core import sites
from retrograd.core.node import AccumulateGrad, Node, OpNode

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.retrograd.postmortem.analysis import Analysis
    from retrograd.anomaly.adapters.retrograd.postmortem.gradients import GradientSearch
    from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph


def with_further_in_forward(analysis: Analysis, first: NaNEvent) -> NaNEvent:
    """The event of a bad loss, with further births in forward, and those that its backward would cause.

    If the first one turns out to be harmless by itself, such as the infinity of a mask in a row that is NaN anyway, the
    next one takes its place.
    """
    if not _is_of_this_step(first):
        return first
    alone = Alone(analysis.graph)
    found: list[NaNEvent | None] = []
    is_harmless = False
    for birth in _one_of_each_place(birth for birth in analysis.in_order() if _may_be_told(analysis, birth)):
        keepers = _keepers(analysis.graph, birth)
        event = analysis.came_through(_of_ordinary(birth)) if keepers else None
        if event is not None and not alone.comes_through(keepers):
            is_harmless |= _place(event) == _place(first)
            event = None
        found.append(event)
    others = [*_others(found, first), *_others(_to_come(analysis), first)]
    if is_harmless and others and not is_to_come(others[0]):
        first, *others = others
    return replace(first, also=tuple(others[:MOST_ALSO]))


def with_further_in_backward(
    analysis: Analysis, first: NaNEvent, search: GradientSearch, arrays: Sequence[ndarray]
) -> NaNEvent:
    """The event of bad gradients, with those of further births in backward.

    Those of births that have spoilt some of the ``arrays`` which nothing else reaches are among them.

    ``search`` is what has found the first one.
    """
    if not _is_of_this_step(first):
        return first
    graph, goals, starts = analysis.graph, set(search.leaves), [search.start]
    found: list[NaNEvent | None] = []
    for birth in analysis.births:
        node = birth.node
        if node not in graph.consumers or birth.op is not None or birth.inside is not None or birth.name == ADDITION:
            continue
        grads = passed_on(graph, node, [cleaned(birth.g)]) if _may_be_told(analysis, birth) else None
        if grads is not None and is_bad(grads) and reaches(graph, node, grads, goals):
            found.append(search.of_birth(birth))
            starts.append(node)
    while starts[-1] is not None and len(found) <= MOST_ALSO:
        reached = set().union(*(graph.behind(each) for each in starts if each is not None))
        left = [place for place, leaf in enumerate(search.leaves) if leaf not in reached]
        if not left:
            break
        other = search.of([search.leaves[place] for place in left])
        found.append(other.event([arrays[place] for place in left], ()))
        starts.append(other.start)
    return replace(first, also=tuple(_others(found, first)[:MOST_ALSO]))


def _is_of_this_step(first: NaNEvent) -> bool:
    """Whether the first event is not that of weights that were bad before, from which everything else would follow."""
    return first.kind != "leaf" or context_of(first).get("leaf") not in ("parameter", "buffer", "gradient")


def _may_be_told(analysis: Analysis, birth: Birth) -> bool:
    """Whether a birth is in this thread's step and not declared as intended; vmap's samples are not examined."""
    return not birth.excused and birth.thread is threading.current_thread() and not birth.hidden


def _one_of_each_place(births: Iterable[Birth]) -> Iterator[Birth]:
    """The first birth of each operation in the program, which may be in a loop."""
    seen = set()
    for birth in births:
        place = birth.code, birth.at, birth.name
        if place not in seen:
            seen.add(place)
            yield birth


def _others(found: Iterable[NaNEvent | None], first: NaNEvent) -> list[NaNEvent]:
    """The events of births from ordinary numbers at other places than the first one."""
    others: list[NaNEvent] = []
    seen = {_place(first)}
    for event in found:
        if event is None or event.lineno is None or not is_certain(event) or _place(event) in seen:
            continue
        if all(map(np.isfinite, event.operands.values())):
            seen.add(_place(event))
            others.append(event)
    return others


def _place(event: NaNEvent) -> tuple[object, ...]:
    return event.filename, event.lineno, event.col, event.op


# --- in forward ---------------------------------------------------------------------------------------------------


def _of_ordinary(birth: Birth) -> Birth:
    """A birth as if all operands had been ordinary numbers."""
    if birth.op is None or birth.inplace or not is_bad(list(birth.operands)):
        return birth
    birth = copy.copy(birth)
    birth.operands, birth.samples, birth.result = [cleaned(each) for each in birth.operands], (), None
    return birth


def _keepers(graph: Graph, birth: Birth) -> set[Node]:
    """The nodes whose results a birth has made bad: its own, or those that used its unrecorded result."""
    holder = graph.holder(birth.made_node(graph.nodes))
    if holder is not None:
        return {holder}
    result = result_of(birth)
    if result is None or not is_bad(result):
        return set()
    if graph.recorder is not None and birth.call is not None:
        return set(graph.recorder.users(birth.call, graph.consumers))
    return {node for node, _, constant in graph.constants() if same(constant, result)}


class Alone:
    """The forward pass once more, with ordinary numbers in place of the results of all births but one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._given_bad = {node for node, _, constant in graph.constants() if is_bad(constant)}

    def comes_through(self, keepers: Collection[Node]) -> bool:
        """Whether the roots are non-finite because of what some nodes made from ordinary numbers."""
        graph = self._graph
        values: dict[Node, list[ndarray]] = {}  # that differ from the original ones
        spoilt: set[Node] = set()  # by the keepers
        for node in graph.nodes if keepers else ():
            before = [edge[0] for edge in node.next if edge is not None]
            keeps, follows = node in keepers, not spoilt.isdisjoint(before)
            known = made = graph.results(node)
            if any(each in values for each in before) or (follows and node in self._given_bad):
                made = self._again(node, values, keeps)
                if keeps and not made:
                    return False  # its operands come from another birth
            if not (keeps or follows):
                made = cleaned(made or known)
            elif is_bad(made := made or known) or not made:
                spoilt.add(node)
            if made is not known:
                values[node] = made
        return any(edge[0] in spoilt for edge in graph.roots)

    def _again(self, node: Node, values: dict[Node, list[ndarray]], keeps: bool) -> list[ndarray]:
        """A node's results from the present values; none if they cannot be computed."""
        if not isinstance(node, OpNode):
            return []
        arguments = dict(self._graph.arguments(node))
        for param, value in arguments.items():
            edges = self._graph.edges(node, param)
            if not edges:
                arguments[param] = value if keeps or not isinstance(value, ndarray) else cleaned(value)
                continue
            items = value if param == node.op.sequence else [value]
            items = [
                (item if keeps or not isinstance(item, ndarray) else cleaned(item))
                if edge is None
                else _of(values, edge, item)
                for item, edge in zip(items, edges, strict=True)
            ]
            arguments[param] = items if param == node.op.sequence else items[0]
        return self._graph.compute(node, arguments)


def _of(values: dict[Node, list[ndarray]], edge: Any, known: Any) -> Any:
    """The value that came along an edge."""
    made = values.get(edge[0])
    return known if made is None else made[edge[1]] if edge[1] < len(made) else UNKNOWN


# --- in the backward that did not happen --------------------------------------------------------------------------


_MOST_TRIED = 4  # poles per operation in the program, as in a loop: each is followed through the whole graph


def _to_come(analysis: Analysis) -> Iterator[NaNEvent | None]:
    """The births that backward would still cause if the loss were finite: at poles of derivatives."""
    graph = analysis.graph
    arrived: dict[Node, list[Any]] = {}
    for node, nr in graph.roots:
        shape, dtype = node.shape_and_dtype(nr)
        arrived.setdefault(node, [None] * node.outputs)[nr] = np.ones(shape, dtype)
    goals = set(graph.leaves())
    tried: Counter[Any] = Counter()  # by the operation of the program
    for node in reversed(graph.nodes):
        g = arrived.pop(node, None)
        grads = None if g is None or node.is_leaf else passed_on(graph, node, g)
        if g is None or grads is None:
            continue
        if is_bad(grads) and isinstance(node, OpNode) and node.outputs == 1:
            place = sites.position_of(node), node.name()
            known = [*graph.saved(node).values(), *graph.results(node)]
            if tried[place] < _MOST_TRIED and not is_bad(known):
                tried[place] += 1
                way = graph.way(node, *goals) if reaches(graph, node, grads, goals) else None
                birth = Birth([], node.name(), node=node, g=g[0], saved=node.saved)
                event = None if way is None else analysis.describer.backward(birth, way, harmed=_harmed(analysis, way))
                if event is not None and event.kind != "overflow":
                    yield with_context(event, to_come=True)
        for edge, grad in zip(node.next, cleaned(grads), strict=True):
            if edge is not None and grad is not None:
                places = arrived.setdefault(edge[0], [None] * edge[0].outputs)
                before = places[edge[1]]
                places[edge[1]] = grad if before is None else before + grad


def _harmed(analysis: Analysis, way: Sequence[Node]) -> str:
    """The gradient that a path leads to, for an event."""
    leaf = way[-1]
    assert isinstance(leaf, AccumulateGrad)
    return f"the gradient of {analysis.names.array(leaf.variable._data) or nameless(leaf.variable)}"
