"""Why gradients are not finite although the loss is: the first birth that reached one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.leaf_names import nameless
from retrograd.anomaly.adapters.retrograd.births import ADDITION, Birth, as_array
from retrograd.anomaly.adapters.retrograd.elements import flat, holds_nan, is_bad, same
from retrograd.anomaly.adapters.retrograd.postmortem.describe import result_of
from retrograd.anomaly.adapters.retrograd.postmortem.unrecorded_operations import is_of_arrays
from retrograd.anomaly.adapters.retrograd.postmortem.unsaved_data import unsaved_data
from retrograd.anomaly.event import NaNEvent
from retrograd.core.node import AccumulateGrad, Node, OpNode

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.retrograd.postmortem.analysis import Analysis


class GradientSearch:
    """Searches for the cause of bad gradients of leaves, or of returned gradients if there are no leaves.

    Parameters
    ----------
    analysis
        What is known about the step.
    leaves
        Whose gradients are not finite.

    Attributes
    ----------
    leaves
        The same.
    start
        Where the path of the found cause begins, if known.
    """

    def __init__(self, analysis: Analysis, leaves: Sequence[AccumulateGrad]) -> None:
        self._analysis = analysis
        self._graph = analysis.graph
        self._describer = analysis.describer
        self.leaves = leaves
        self.start: Node | None = None

    def event(self, arrays: Sequence[ndarray], given: Iterable[ndarray]) -> NaNEvent | None:
        """The event, if it can be found, of gradients in a backward that was started with the ``given`` ones."""
        bad = next(filter(is_bad, given), None)
        if bad is not None:
            path = [edge[0] for edge in self._graph.roots]
            return self._describer.leaf(bad, "gradient", "gradient", path, harmed=self.harmed())
        for birth in self._analysis.likeliest_first(self._analysis.births):
            event = self.of_birth(birth)
            if event is not None:
                return self._meeting(event, birth) or event
        event = self._spoilt()
        if event is None and any(map(holds_nan, arrays)):
            event = self._hidden((each for each in self._analysis.births if not each.is_backward), holds_nan)
        event = event or self._lost() or self._product(arrays[0])
        return event or self._hidden(self._analysis.in_order(), is_bad) or self._only_lost()

    def of(self, leaves: Sequence[AccumulateGrad]) -> GradientSearch:
        """The same for other leaves."""
        return GradientSearch(self._analysis, leaves)

    def of_birth(self, birth: Birth) -> NaNEvent | None:
        """The event of a birth in backward, if there is a path from it to one of the leaves."""
        way = self._way(birth.node) if birth.node in self._graph.consumers else None
        if way is None:
            return None
        harmed = self.harmed(way)
        return self._origin(birth, way, harmed) or self._describer.backward(birth, way, harmed=harmed)

    def _meeting(self, event: NaNEvent, infinite: Birth) -> NaNEvent | None:
        """The sum on the path of an infinity that became NaN because it met the opposite infinity."""
        source = infinite.node
        way = None if event.nan_count or source is None else self._way(source)
        if way is None or source is None:
            return None
        for birth in self._analysis.births:
            if birth.name == ADDITION and birth.node in way[1:] and holds_nan(birth.result):
                makers = [
                    each
                    for each in self._analysis.births
                    if each.node is not None and each.name != ADDITION and self._way_to(each.node, birth.node)
                ]
                of_one = self._graph.behind(source)
                if all(each.node in of_one for each in makers):
                    return None  # one birth has made both infinities
                rest = way[way.index(birth.node) :]
                return self._describer.backward(birth, rest, harmed=self.harmed(way), makers=makers[:2])
        return None

    def _way_to(self, node: Node, goal: Node) -> list[Node] | None:
        return self._graph.way(node, goal) if node in self._graph.consumers else None

    def _product(self, data: ndarray) -> NaNEvent | None:
        """The last matrix product that all bad gradients came through.

        A BLAS library may raise no flags; all other births have been reported, except those in hooks.
        """
        if not self.leaves or any(node.extras is not None for node in self._graph.nodes):
            return None
        both = self._graph.leading_to(self.leaves[0]) & self._graph.leading_to(self.leaves[-1])
        for node in (each for each in self._graph.nodes if each in both and _is_product(each)):
            if self._graph.behind(node).issuperset(self.leaves):
                way = self._graph.way(node, self.leaves[0]) or []
                return self._describer.product(node, data, way, harmed=self.harmed())
        return None

    def _spoilt(self) -> NaNEvent | None:
        """A leaf that was itself non-finite, so that no flag is raised because of it."""
        for leaf in self._graph.leaves():
            data = as_array(leaf.variable)
            for node in self._graph.consumers[leaf] if is_bad(data) else ():
                way = self._way(node)
                if way is not None:
                    return self._describer.leaf(data, "parameter", None, way, harmed=self.harmed())
        return None

    def _hidden(self, births: Iterable[Birth], condition: Callable[[Any], bool]) -> NaNEvent | None:
        """The birth of a value that was removed from the loss after an operation had saved it for its derivative.

        Zero times NaN is NaN, and raises no flag.
        """
        for birth in self._analysis.likeliest_first(births):
            made = self._graph.holder(birth.made_node(self._graph.nodes))
            if made is not None and condition(result_of(birth)) and (path := self._path_of_saved(made)) is not None:
                return self._describer.forward(birth, made, path, harmed=self.harmed())
        return None

    def _path_of_saved(self, made: Node) -> list[Node] | None:
        """The path of a result to an operation that saved what came of it, and from there to a bad gradient."""
        spoilt = self._graph.leading_to(*self.leaves) if self.leaves else set(self._graph.nodes)
        after = self._graph.leading_to(made) & spoilt
        for node in (each for each in self._graph.nodes if each in after and _saves_numbers(each)):
            back, way = self._graph.way(node, made), self._way(node)
            if back is not None and way is not None:
                return [*back[:0:-1], *way]
        return None

    def _only_lost(self) -> NaNEvent | None:
        """The only argument that was not kept of the first operation that gave NaN, hidden from the loss since."""
        first = next((node for node in self._graph.nodes if any(map(holds_nan, self._graph.results(node)))), None)
        lost = [(node, param) for node, param in self._graph.lost() if node is first]
        for node, param in lost if len(lost) == 1 else ():
            trial = self._graph.supposing(node, param, np.nan)
            path = self._path_of_saved(node)
            return self._analysis.of_supposed(trial, node, param, path, harmed=self.harmed())
        return None

    def _lost(self) -> NaNEvent | None:
        """A variable of the program that held NaN, which a later mask has hidden from the loss."""
        for lost in unsaved_data(self._graph, self._analysis.names, holds_nan):
            holder = self._graph.holder(lost.node)
            way = None if holder is None else self._way(holder)
            if way is not None:
                harmed = self.harmed(way)
                event = self._analysis.made_unrecorded(lost.node, lost.data, way, harmed)
                return event or self._analysis.leaf_of(lost, self._describer, way, harmed)
        return None

    def _way(self, node: Node) -> list[Node] | None:
        """The shortest path of a gradient from a node to one of the leaves."""
        recorder = self._graph.recorder
        passes = None if recorder is None else recorder.passes
        way = self._graph.way(node, *self.leaves, open_at=passes) if self.leaves else [node]
        self.start = node if way is not None else self.start
        return way

    def _origin(self, birth: Birth, way: list[Node], harmed: str) -> NaNEvent | None:
        """The forward birth, leaf or data behind a non-finite operand that a node had saved.

        An operand that was not saved counts if it is NaN: then the result was, too.
        """
        node = birth.node
        if not isinstance(node, OpNode) or birth.op is not None:
            return None
        unsaved = {param: value for param, value in self._graph.arguments(node).items() if holds_nan(value)}
        for param, value in {**unsaved, **self._describer.saved_by(birth, node)}.items():
            if param in node.op.results or not is_bad(value):
                continue
            for edge in self._graph.edges(node, param):
                if edge is not None and isinstance(edge[0], AccumulateGrad):
                    return self._describer.leaf(value, "parameter", None, way, harmed=harmed)
                for other in self._analysis.births if edge is not None else ():
                    made = None if other.is_backward else other.made_node(self._graph.nodes)
                    made = self._graph.holder(made)
                    back = None if made is None or made is node else self._graph.way(edge[0], made)  # type: ignore[index]
                    if back is not None:
                        return self._describer.forward(other, made, [*back[::-1], *way], harmed=harmed)
                if not holds_nan(value):
                    continue
                if edge is None and param in node.op.differentiable:
                    return self._came_in(node, param, value, way, harmed)
                if edge is not None and (event := self._upstream(edge[0], way, harmed)) is not None:
                    return event
        return self._infinite_array(birth, node, way, harmed)

    def _infinite_array(self, birth: Birth, node: OpNode, way: list[Node], harmed: str) -> NaNEvent | None:
        """The event of plain arrays computed to be infinite that made what a node had saved infinite.

        Not for minus infinity, which masks are made of.
        """
        saved = [each for each in flat(self._describer.saved_by(birth, node).values()) if isinstance(each, ndarray)]
        infinite = next((each for each in saved if (each.real == np.inf).any()), None)
        if infinite is None:
            return None
        kept = [(other, data) for other, _, data in self._graph.constants() if np.isinf(data).any()]
        for other, data in [*kept, *((other, infinite) for other, _ in self._graph.lost())]:
            back = self._graph.way(node, other)
            event = None if back is None else self._analysis.made_unrecorded(other, data, [*back[::-1], *way], harmed)
            if event is not None and is_of_arrays(event):
                return event
        return None

    def _upstream(self, made: Node, way: list[Node], harmed: str) -> NaNEvent | None:
        """The event of a NaN in data from which a node made what another one had saved."""
        for node, param, data in self._graph.constants():
            back = self._graph.way(made, node) if holds_nan(data) else None
            if back is not None:
                return self._came_in(node, param, data, [*back[::-1], *way], harmed)
        return None

    def _came_in(self, node: Node, param: str, data: ndarray, way: list[Node], harmed: str) -> NaNEvent | None:
        """The event of a NaN without a gradient: in data, or from an unrecorded operation."""
        for birth in self._analysis.unrecorded:
            if same(result_of(birth), data):
                return self._describer.forward(birth, None, way, harmed=harmed)
        event = self._analysis.made_unrecorded(node, data, way, harmed)
        if event is not None:
            return event
        source = self._analysis.from_outside(data)
        if source is None:
            return None
        if isinstance(source, Birth):
            return self._describer.forward(source, None, way, harmed=harmed)
        role = "target" if param == "target" else "batch"
        return self._describer.leaf(source, role, param, way, harmed=harmed)

    def harmed(self, way: Sequence[Node] = ()) -> str:
        """The non-finite gradient, for an event; the one that a path leads to, if that is one of them."""
        for leaf in [leaf for leaf in self.leaves if leaf in way[-1:]] or self.leaves:
            name = self._analysis.names.array(leaf.variable._data)
            if name is not None:
                return f"the gradient of {name}"
        if self.leaves:
            return f"the gradient of {nameless(self.leaves[0].variable)}"
        return "a returned gradient"


def _is_product(node: Node) -> bool:
    """Whether its operation is computed by BLAS."""
    return isinstance(node, OpNode) and bool(node.op.factors) and node.op.kind != "elementwise"


def _saves_numbers(node: Node) -> bool:
    """Whether a node's derivative depends on the values of its operands or results, not just on their positions."""
    return isinstance(node, OpNode) and any(
        slot in node.op.differentiable or slot in node.op.results for slot in node.op.slots
    )
