"""Operations with their operands and the origins of these, for an event's surroundings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.elements.channels import channel_of
from retrograd.anomaly.adapters.elements.shapes import broadcasts, inner_index, selection_along
from retrograd.anomaly.adapters.program.source_location import written_where
from retrograd.anomaly.adapters.retrograd.elements import (
    UNKNOWN,
    extremes,
    first_not_finite,
)
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph, evaluate
from retrograd.anomaly.adapters.retrograd.postmortem.source import CONDITIONS, condition_of
from retrograd.anomaly.adapters.retrograd.second_run.recording import Call
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.surroundings import Operand, Operation
from retrograd.core import sites
from retrograd.core.node import Node, OpNode
from retrograd.core.op import Op
from retrograd.core.tensor import Edge

DEPTH = 6  # how many operations back, and on, the surroundings reach

Index = tuple[int, ...] | None


@dataclass
class _Run:
    """One run of an operation, examined at one element of its result."""

    op: Op | None
    node: Node | None
    arguments: Mapping[str, Any]
    index: Index
    shape: tuple[int, ...]
    depth: int
    hidden: int = 0  # axes of samples under vmap, in front

    def element_of(self, own: tuple[int, ...] | None) -> Index:
        """The element of an operand of shape ``own`` that went into it; None if several did."""
        op, index = self.op, self.index
        if own is None or index is None:
            return None
        channel = None if op is None else channel_of(op.label, index, self.shape, own)
        if channel is not None:
            return channel
        if op is not None and op.kind == "elementwise":
            return inner_index(index, self.shape, own)
        if op is not None and op.view:
            numbered = evaluate(op, [np.arange(math.prod(own)).reshape(own), *list(self.arguments.values())[1:]])
            # in vmap an index has one dimension more than its node knows of
            fits = numbered and numbered[0].shape == self.shape and len(index) == len(self.shape)
            return tuple(map(int, np.unravel_index(int(numbered[0][index]), own))) if fits else None
        if own != self.shape or len(index) != len(own):  # in backward it may be an element of a longer operand
            return None
        return index if op is None or len(op.differentiable) <= 1 else None

    @property
    def dim(self) -> Any:
        """The dimensions along which it combines elements, if it has a parameter for that."""
        dim = self.arguments.get("dim")
        if isinstance(dim, int):
            return self._of_sample(dim)
        if isinstance(dim, (tuple, list)) and all(isinstance(item, int) for item in dim):
            return tuple(map(self._of_sample, dim))
        return None

    def _of_sample(self, dim: int) -> int:
        return dim if dim < 0 else dim + self.hidden


class Operations:
    """Turns nodes and calls into operations.

    Parameters
    ----------
    graph
        Where the operands came from.
    names
        What the user calls tensors.
    """

    def __init__(self, graph: Graph, names: Names) -> None:
        self.graph = graph
        self.names = names

    def of_node(
        self,
        node: Node,
        index: Index = None,
        known: Mapping[str, Any] | None = None,
        depth: int = DEPTH,
        samples: tuple[int, ...] | None = None,
    ) -> Operation:
        """The operation that a node recorded, with its operands at one element of its result, and those before it.

        ``samples`` is the shape of the result under vmap, with that of all samples in front.
        """
        where = written_where(*sites.position_of(node))
        if not isinstance(node, OpNode):
            return Operation(op=node.name().removesuffix("Backward"), **where)
        arguments = {**self.graph.arguments(node), **(known or {})}
        shape = node.shape if node.outputs == 1 else ()
        run = _Run(node.op, node, arguments, index, shape, depth)
        if samples is not None and node.outputs == 1:
            run.shape, run.hidden = samples, len(samples) - len(shape)
        return Operation(op=node.op.label, args=self._operands(run), **where)

    def of_call(self, call: Call, index: Index = None, depth: int = DEPTH) -> Operation:
        """The same for a call that was not recorded."""
        shape = call.results[0].shape if call.results else ()
        run = _Run(call.op, None, call.arguments, index, shape, depth, call.hidden)
        name = call.name if call.op is None else call.op.label
        return Operation(op=name, args=self._operands(run), **written_where(call.code, call.at))

    def _operands(self, run: _Run) -> tuple[Operand, ...]:
        found = []
        for name, value in run.arguments.items():
            edges = [] if run.node is None else self.graph.edges(run.node, name)
            several = run.op is not None and name == run.op.sequence and isinstance(value, list)
            values = value if several else [value]
            for place, item in enumerate(values):
                found.append(self._operand(run, name, item, edges[place] if place < len(edges) else None))
        return tuple(found)

    def _operand(self, run: _Run, name: str, value: Any, edge: Edge | None) -> Operand:
        """One argument, with what made it."""
        if edge is None and not isinstance(value, ndarray):
            lost = condition_of(run.node) if run.node is not None and name in CONDITIONS else None
            known = value if _is_plain(value) else None
            return Operand(name=name, value=known, constant=value is not UNKNOWN and lost is None, producer=lost)
        if isinstance(value, ndarray):
            shape, dtype = value.shape, value.dtype
        else:
            source, nr = edge  # type: ignore[misc]
            shape, dtype = source.shape_and_dtype(nr)
        at = run.element_of(shape)
        low = high = number = called = None
        if isinstance(value, ndarray):
            called = self.names.array(value)
            if at is not None or value.ndim == 0:
                number = value[at or ()].item()
            elif value.size == 1:
                number = value.item()
            if number is None or run.dim is not None:
                low, high = extremes(value[selection_along(run.dim, run.index, run.shape, shape)])
        return Operand(
            name=name,
            value=number,
            min=low,
            max=high,
            shape=shape,
            dtype=str(dtype),
            requires_grad=edge is not None,
            producer=self._producer(run, name, value, edge, at) if run.depth > 0 else None,
            leaf_name=called,
            key=id(value) if edge is None else id(edge[0]) + edge[1],
        )

    def _producer(self, run: _Run, name: str, value: Any, edge: Edge | None, at: Index) -> Operation | None:
        if edge is not None:
            return None if edge[0].is_leaf else self.of_node(edge[0], at, depth=run.depth - 1)
        recorder = self.graph.recorder
        call = None if recorder is None else recorder.maker(value)
        if call is not None:
            return self.of_call(call, at, run.depth - 1)
        return condition_of(run.node) if run.node is not None and name in CONDITIONS else None

    def after(self, path: Sequence[Node], index: Index, shape: tuple[int, ...]) -> tuple[Operation, ...]:
        """The operations of a path that an element passes through, at the elements that it goes into."""
        found = []
        for node in path[:DEPTH]:
            if node.is_leaf:
                break
            index = self._went_into(node, index, shape)
            found.append(self.of_node(node, index))
            shape = node.shape if node.outputs == 1 else ()
        return tuple(found)

    def _went_into(self, node: Node, index: Index, shape: tuple[int, ...]) -> Index:
        """The element of a node's result that an element of one of its operands went into."""
        elementwise = isinstance(node, OpNode) and node.op.kind == "elementwise" and node.outputs == 1
        if elementwise and index is not None and broadcasts(shape, node.shape):
            spread = (0,) * (len(node.shape) - len(shape)) + index
            if len(spread) == len(node.shape):
                return spread
        results = self.graph.results(node)
        return first_not_finite(results[0]) if len(results) == 1 else None

    def before(self, node: Node, index: Index = None, shape: tuple[int, ...] = ()) -> tuple[Operation, ...]:
        """The operations through which a gradient came to a node, nearest first.

        Their operands are those at an element of its result, as long as elements keep their positions on the way.
        """
        found: list[Operation] = []
        if not _keeps_places(node, shape):
            index = None
        while self.graph.consumers.get(node) and len(found) < DEPTH:
            node = self.graph.consumers[node][0]
            if not _keeps_places(node, shape):
                index = None
            found.append(self.of_node(node, index))
        return tuple(found)


def _keeps_places(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether each element of a node depends on the same position of its operands, all of the same shape."""
    elementwise = isinstance(node, OpNode) and node.op.kind == "elementwise"
    return elementwise and node.outputs == 1 and node.shape == shape


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float, complex, str)) or (
        isinstance(value, (tuple, list)) and all(isinstance(item, (int, float)) for item in value)
    )
