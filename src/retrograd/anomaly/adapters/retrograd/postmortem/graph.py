"""The graph behind a loss, read after the fact: nodes in creation order, and every value that can still be known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import FrameType
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.program.source_location import place_fields
from retrograd.anomaly.adapters.retrograd.births import as_array
from retrograd.anomaly.adapters.retrograd.elements import UNKNOWN, is_bad
from retrograd.anomaly.adapters.retrograd.postmortem.source import literal_operand, number_given
from retrograd.anomaly.adapters.retrograd.second_run.recording import Call, Recorder
from retrograd.anomaly.stack_frames import Position
from retrograd.core import sites
from retrograd.core.in_place import CopySlices
from retrograd.core.node import AccumulateGrad, Node, OpNode
from retrograd.core.op import Op
from retrograd.core.record import compute
from retrograd.core.saved import Packed, SavedList, Versioned
from retrograd.core.tensor import Edge, Tensor
from retrograd.core.views import replay


def raw(entry: Any) -> Any:
    """The array behind a saved entry, UNKNOWN if it was written to since; plain values unchanged."""
    entry = entry_of(entry)
    return entry if isinstance(entry, tuple) else as_array(entry)


def entry_of(entry: Any) -> Any:
    """The same, but under vmap with the samples hidden in it."""
    if type(entry) is Versioned:
        entry = UNKNOWN if entry[0]._version != entry[1] else entry[0]
    elif isinstance(entry, Tensor):
        entry = UNKNOWN if entry._version != 0 else entry
    elif type(entry) is Packed:
        try:
            entry = entry.value()
        except Exception:  # the user's hook cannot bring it back
            return UNKNOWN
    elif type(entry) is SavedList:
        return [entry_of(item) for item in entry]
    elif type(entry) is tuple and len(entry) == 3 and isinstance(entry[1], list):
        entry = entry[0] if entry[1][0] == entry[2] else UNKNOWN  # a result with its cell and version
    return entry._data if isinstance(entry, Tensor) else entry


class Graph:
    """The nodes behind some edges.

    Parameters
    ----------
    roots
        Where to begin.
    kept
        The saved values of nodes that have been freed since.
    recorder
        The recorder of the calls that made the nodes; None if there was none.
    supposed
        Values for arguments that are lost.
    frame
        Where to begin to look for variables whose numbers are lost.

    Attributes
    ----------
    nodes
        In the order of creation, leaves first.
    consumers
        For every node, those that used its result.
    """

    def __init__(
        self,
        roots: Iterable[Edge],
        kept: Mapping[Node, Any] | None = None,
        recorder: Recorder | None = None,
        supposed: Mapping[tuple[Node, str], Any] | None = None,
        frame: FrameType | None = None,
    ) -> None:
        self.roots = list(roots)
        self.recorder = recorder
        self._kept = kept or {}
        self._frame = frame
        self.consumers: dict[Node, list[Node]] = {edge[0]: [] for edge in self.roots}
        stack = list(self.consumers)
        while stack:
            node = stack.pop()
            for edge in node.next:
                if edge is None:
                    continue
                if edge[0] not in self.consumers:
                    self.consumers[edge[0]] = []
                    stack.append(edge[0])
                self.consumers[edge[0]].append(node)
        self.nodes = sorted(self.consumers, key=lambda node: -1 if node.is_leaf else node.seq)
        self._values: dict[Edge, Any] = {}
        self._supposed = supposed or {}
        self._arguments: dict[Node, dict[str, Any]] = {}
        for node in self.nodes:
            self._read(node)
        self._kept_values = set(self._values)
        for node in self.nodes:
            self._complete(node)

    # --- what is known --------------------------------------------------------------------------------------------

    def call(self, node: Node) -> Call | None:
        """The call that made a node, if recorded."""
        return None if self.recorder is None else self.recorder.by_node.get(node)

    def callers_of(self, node: Node) -> tuple[Position, ...]:
        """The program's instructions that led to where a node was made, if recorded."""
        call = self.call(node)
        return () if call is None else call.callers

    def place_of(self, node: Node) -> dict[str, Any]:
        """Where the operation of a node was called, as the fields of an event."""
        return place_fields(*sites.position_of(node), self.callers_of(node))

    def holder(self, node: Node | None) -> Node | None:
        """The node of this graph that represents ``node``: itself, or that of the view which it wrote to."""
        if node is None or node in self.consumers:
            return node
        return next((each for each in self.nodes if isinstance(each, CopySlices) and each.fn is node), None)

    def leaves(self) -> Iterator[AccumulateGrad]:
        for node in self.nodes:
            if isinstance(node, AccumulateGrad):
                yield node

    def value(self, edge: Edge | None) -> Any:
        """The array that went along an edge; UNKNOWN if it was not kept and cannot be recomputed."""
        return UNKNOWN if edge is None else self._values.get(edge, UNKNOWN)

    def results(self, node: Node) -> list[ndarray]:
        """The known results of a node."""
        return [self._values[node, nr] for nr in range(node.outputs) if (node, nr) in self._values]

    def edges(self, node: Node, param: str) -> list[Edge | None]:
        """The edges along which the gradients of an operation's argument go; none if it has no gradient."""
        if not isinstance(node, OpNode) or param not in node.op.differentiable:
            return []
        op = node.op
        length = len(node.next) - len(op.differentiable) + 1  # of the sequence, which comes first
        if param == op.sequence:
            return list(node.next[:length])
        position = op.differentiable.index(param)
        return [node.next[position if op.sequence is None else position + length - 1]]

    def saved(self, node: Node, read: Callable[[Any], Any] = raw) -> dict[str, Any]:
        """What a node saved for its rules, by name."""
        if not isinstance(node, OpNode):
            return {}
        saved = self._kept.get(node) if node.saved is None else node.saved
        if saved is None:
            return {}
        op = node.op
        mask = sum(
            1 << bit
            for bit, param in enumerate(op.differentiable)
            if any(edge is not None for edge in self.edges(node, param))
        )
        entries = zip(op.slots, saved, op.plan(mask), strict=False)
        return {slot: read(entry) for slot, entry, wanted in entries if wanted}

    def arguments(self, node: Node) -> dict[str, Any]:
        """The arguments of a node's operation by name; UNKNOWN among them are those that are lost."""
        known = self._arguments.get(node)
        if known is None:
            known = self._arguments[node] = self._gather(node)
        return known

    def constants(self) -> Iterator[tuple[Node, str, ndarray]]:
        """The arrays among the arguments without a gradient, with the node and the parameter's name."""
        for node in self.nodes:
            writer, first = (node.fn, 1) if isinstance(node, CopySlices) else (node, 0)  # skip the earlier content
            for param, value in list(self.arguments(writer).items())[first:]:
                items = value if isinstance(value, list) else [value]
                for item, edge in zip_longest(items, self.edges(writer, param)):
                    if edge is None and isinstance(item, ndarray):
                        yield node, param, item

    def given(self) -> Iterator[tuple[Node, ndarray]]:
        """The arguments of transformed functions that were not computed outside, with the nodes where they enter."""
        for node in self.nodes:
            array = getattr(node, "array", None)
            if isinstance(array, ndarray) and not any(node.next):
                yield node, array

    def lost(self) -> Iterator[tuple[OpNode, str]]:
        """The arguments that were not kept and have no gradient, with their nodes: data, or a number."""
        for node in self.nodes:
            if isinstance(node, OpNode):
                yield from ((node, param) for param in self.lost_by(node))

    def lost_by(self, node: Node) -> Iterator[str]:
        """The lost arguments of one operation."""
        for param in node.op.differentiable if isinstance(node, OpNode) else ():
            value = self.arguments(node)[param]
            items = value if isinstance(value, list) else [value]
            if any(item is UNKNOWN and edge is None for item, edge in zip_longest(items, self.edges(node, param))):
                yield param

    def supposing(self, node: Node, param: str, value: ndarray | float) -> Graph:
        """The same graph with ``value`` in place of a lost argument."""
        return Graph(self.roots, self._kept, self.recorder, {**self._supposed, (node, param): value}, self._frame)

    def is_consistent_after(self, node: Node) -> bool:
        """Whether values computed from the result of a node agree with those that were kept."""
        after = {node}
        for each in self.nodes:
            if each in after:
                after.update(self.consumers[each])
                computed = self.compute(each) if (each, 0) in self._kept_values else []
                kept = [self._values[each, nr] for nr in range(len(computed))]
                if not all(np.allclose(a, b, rtol=1e-2, equal_nan=True) for a, b in zip(computed, kept, strict=True)):
                    return False
        return bool(self.results(node))

    def _gather(self, node: Node) -> dict[str, Any]:
        if not isinstance(node, OpNode):
            return {}
        call = self.call(node)
        if call is not None:
            return {param: self._as_given(node, param, value) for param, value in call.arguments.items()}
        op, saved = node.op, self.saved(node)
        found: dict[str, Any] = {}
        for param, default in zip(op.params, op.defaults, strict=True):
            edges = self.edges(node, param)
            if param in saved and not any(edge is not None for edge in edges):
                found[param] = saved[param]
            elif param == op.sequence:
                items = saved.get(param) or [UNKNOWN] * len(edges)
                found[param] = [
                    item if edge is None else self.value(edge) for item, edge in zip(items, edges, strict=True)
                ]
            elif edges and edges[0] is None and param == "bias":
                found[param] = None  # a layer has none, or a trainable one
            elif edges:
                found[param] = self.value(edges[0])
            else:
                found[param] = _told_by_result(node, param, default)
            is_lost = found[param] is UNKNOWN and not any(edge is not None for edge in edges)
            if is_lost and (number := number_given(node, param, self._frame)) is not None:
                found[param] = number
            if (node, param) in self._supposed:
                found[param] = filled(found[param], self._supposed[node, param])
        return found

    def _as_given(self, node: OpNode, param: str, value: Any) -> Any:
        """The number that the line of a call passes, if it was converted to a tensor on the way."""
        made = isinstance(value, ndarray) and value.ndim == 0 and is_bad(value)
        number = number_given(node, param, self._frame) if made and self.edges(node, param) in ([], [None]) else None
        return value if number is None else number

    def _read(self, node: Node) -> None:
        """Note the values of edges that a node has saved."""
        if isinstance(node, AccumulateGrad):
            self._values[node, 0] = as_array(node.variable)
            return
        if isinstance(given := getattr(node, "array", None), ndarray):  # where a transformed function begins
            self._values[node, 0] = given
            return
        call = self.call(node)
        if call is not None:
            self._values.update({(node, nr): result for nr, result in enumerate(call.results)})
        for slot, value in self.saved(node).items():
            if not isinstance(node, OpNode):
                return
            edges = self.edges(node, slot)
            items = value if isinstance(value, list) else [value]
            if slot in node.op.results:
                first = max(node.op.results.index(slot) - 1, 0)
                edges = [(node, nr) for nr in range(first, first + len(items))]
            for edge, item in zip(edges, items, strict=False):
                if edge is not None and isinstance(item, ndarray):
                    self._values.setdefault(edge, item)

    # --- what follows ---------------------------------------------------------------------------------------------

    def _complete(self, node: Node) -> None:
        """Compute the results of a node that are missing, or else a lost argument from the result."""
        if node.is_leaf:
            return
        if len(self.results(node)) < node.outputs:
            for nr, result in enumerate(self.compute(node)):
                self._values.setdefault((node, nr), result)  # some of them may have been saved
        if (node, 0) in self._values:
            self._recover(node)
            self._recover_chosen(node)

    def compute(self, node: Node, arguments: Mapping[str, Any] | None = None) -> list[ndarray]:
        """The results of a node's operation from its known arguments; none if these do not suffice."""
        if isinstance(node, CopySlices):
            return self._written(node, self.value(node.next[0]))
        if not isinstance(node, OpNode):
            return []
        given = arguments or self.arguments(node)
        if not given or any(each is UNKNOWN or _lacks(each) for each in given.values()):
            return []
        operands = [_as_operand(node.op, param, each) for param, each in given.items()]
        results = evaluate(node.op, operands)
        shapes, dtypes = (node.shape, node.dtype) if node.outputs != 1 else ([node.shape], [node.dtype])
        same = len(results) == len(shapes) and all(
            result.shape == shape and result.dtype == dtype
            for result, shape, dtype in zip(results, shapes, dtypes, strict=True)
        )
        return results if same else []

    def _written(self, node: CopySlices, base: Any, lost: Any = UNKNOWN) -> list[ndarray]:
        """The base of a view after it was written to, with ``lost`` in place of lost arguments."""
        if not isinstance(base, ndarray) or not isinstance(node.fn, OpNode):
            return []
        arguments = {name: filled(value, lost) for name, value in self._gather(node.fn).items()}
        target = node.fn.op.params[0]
        result = base.copy()
        part = replay(result, node.steps)
        arguments[target] = part.copy()
        values = self.compute(node.fn, arguments)
        if not values:
            return []
        part[...] = values[0]
        return [result]

    def _recover(self, node: Node) -> None:
        """Recover a lost addend: the difference between the result and the other one."""
        if not isinstance(node, OpNode) or node.op.name not in _ADDENDS or self.call(node) is not None:
            return
        arguments = self.arguments(node)
        lost = [name for name in ("input", "other") if arguments.get(name) is UNKNOWN]
        other = arguments.get("other" if lost == ["input"] else "input")
        result = self.value((node, 0))
        if len(lost) == 1 and isinstance(other, ndarray) and isinstance(result, ndarray):
            with np.errstate(all="ignore"):
                difference = _ADDENDS[node.op.name][lost[0]](result, other)
            if is_bad(difference):  # it was bad itself, and what made it so is still to be found; or the other one was
                return
            arguments[lost[0]] = _simplest(difference, np.maximum(abs(result), abs(other)), literal_operand(node))

    def _recover_chosen(self, node: Node) -> None:
        """Recover a lost number: the result wherever a condition has chosen it."""
        if not isinstance(node, OpNode) or node.op.name not in _CHOSEN or self.call(node) is not None:
            return
        condition, chosen_by = _CHOSEN[node.op.name]
        arguments = self.arguments(node)
        result = self.value((node, 0))
        for name, choice in chosen_by.items():
            if arguments[name] is UNKNOWN and isinstance(arguments[condition], ndarray) and isinstance(result, ndarray):
                values = result[np.broadcast_to(arguments[condition], result.shape) == choice]
                if values.size and np.array_equal(values, values[:1].repeat(values.size), equal_nan=True):
                    arguments[name] = values[0].item()

    # --- ways -----------------------------------------------------------------------------------------------------

    def leading_to(self, *goals: Node) -> set[Node]:
        """The nodes from which gradients reach any of some nodes, including these."""
        return _reached(goals, lambda node: self.consumers.get(node, ()))

    def behind(self, start: Node) -> set[Node]:
        """The nodes that gradients from a node reach, including itself."""
        return _reached([start], lambda node: (edge[0] for edge in node.next if edge is not None))

    def earlier_runs(self, node: Node) -> int:
        """How many runs of the same instruction of the program its operands were computed from."""
        place = sites.position_of(node)
        same = (each for each in self.behind(node) if each is not node and not each.is_leaf)
        return sum(each.name() == node.name() and sites.position_of(each) == place for each in same)

    def way(self, start: Node, *goals: Node, open_at: Callable[[Node, int], bool] | None = None) -> list[Node] | None:
        """The shortest path of gradients from a node to one of some others; None if there is none.

        ``open_at`` tells for a later node and one of its edges whether the value in question may have passed there.
        """
        before: dict[Node, Node | None] = {start: None}
        steps = {start: 0}
        queue, wanted = [start], set(goals)
        nearest: set[Node] = set()
        for node in queue:
            if nearest and steps[node] > steps[next(iter(nearest))]:
                break
            if node in wanted:
                nearest.add(node)
            for nr, edge in enumerate(node.next):
                passes = open_at is None or node is start or open_at(node, nr)
                if edge is not None and edge[0] not in before and passes:
                    before[edge[0]], steps[edge[0]] = node, steps[node] + 1
                    queue.append(edge[0])
        return next((_traced(before, goal) for goal in goals if goal in nearest), None)

    def path(self, node: Node) -> list[Node]:
        """From a node to a root, along its consumers."""
        for edge in self.roots:
            way = self.way(edge[0], node)
            if way is not None:
                return way[::-1]
        return [node]

    def spreads(self, start: Node, bad: Sequence[Any] = (), among: Container[Node] | None = None) -> list[Node] | None:
        """The path on which a non-finite result of ``start`` came through to a root; None if it was stopped.

        A node has stopped it if its own result is finite. If a result is unknown, it is computed from the bad operand,
        with ones in place of lost operands; if that is impossible, the value is assumed to have passed. The path is
        restricted to the nodes ``among``, if given.
        """
        roots = {edge[0] for edge in self.roots}
        poisoned: dict[Node, Sequence[Any]] = {start: bad}
        before: dict[Node, Node | None] = {start: None}
        queue = [start]
        for node in queue:
            if node in roots:
                return _traced(before, node)
            for consumer in self.consumers[node]:
                if consumer in poisoned or (among is not None and consumer not in among):
                    continue
                results = self.results(consumer)
                if len(results) < consumer.outputs:
                    results = self._supposing(consumer, node, poisoned[node])
                if results and not any(map(is_bad, results)):
                    continue
                poisoned[consumer] = results
                before[consumer] = node
                queue.append(consumer)
        return None

    def _supposing(self, node: Node, source: Node, bad: Sequence[Any]) -> list[ndarray]:
        """The results of ``node`` for bad operands, with ones in place of lost operands."""
        if len(bad) < source.outputs:
            return []
        one = np.ones((), bad[0].dtype)
        if isinstance(node, CopySlices):
            return self._written(node, bad[0], one) if _is_written_to(source, node) else []
        if not isinstance(node, OpNode):
            return []
        op, arguments = node.op, dict(self.arguments(node))
        for param in op.differentiable:
            value = arguments[param]
            items = [
                bad[edge[1]] if edge is not None and edge[0] is source else one if item is UNKNOWN else item
                for edge, item in zip(self.edges(node, param), value if param == op.sequence else [value], strict=False)
            ]
            arguments[param] = items if param == op.sequence else items[0]
        return self.compute(node, arguments)


def _reached(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The nodes reachable from some nodes, including these."""
    found = set(starts)
    queue = list(found)
    for node in queue:
        new = [each for each in following(node) if each not in found]
        found.update(new)
        queue += new
    return found


def _traced(before: Mapping[Node, Node | None], node: Node) -> list[Node]:
    """The path to a node from the start of a search that has noted each node's predecessor."""
    way = [node]
    while (earlier := before[way[-1]]) is not None:
        way.append(earlier)
    return way[::-1]


def _is_written_to(source: Node, node: CopySlices) -> bool:
    """Whether ``node`` has written to the result of ``source``, rather than written that result elsewhere."""
    return node.next[0] is not None and node.next[0][0] is source


_ADDENDS: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "add": {"input": lambda result, other: result - other, "other": lambda result, input: result - input},
    "sub": {"input": lambda result, other: result + other, "other": lambda result, input: input - result},
    "rsub": {"input": lambda result, other: other - result, "other": lambda result, input: result + input},
}

# Operations that choose between arguments: the condition, and the value at which it chooses each.
_CHOSEN: dict[str, tuple[str, dict[str, bool]]] = {
    "masked_fill": ("mask", {"value": True}),
    "where": ("condition", {"input": True, "other": False}),
}


def _simplest(values: ndarray, sizes: ndarray, literal: float | None) -> Any:
    """The number equal to all values up to rounding, preferably the one in the source; else the array."""
    known = np.isfinite(values) & np.isfinite(sizes)
    if not known.any() or values.dtype.kind != "f":
        return values
    slack = 4 * np.finfo(values.dtype).eps * sizes + np.finfo(values.dtype).smallest_subnormal
    place = np.argmin(np.where(known, sizes, np.inf))
    exact, room = float(values.flat[place]), float(slack.flat[place])
    shorter = (float(f"{exact:.{digits}g}") for digits in range(1, 18))
    number = literal if literal is not None else next(each for each in shorter if abs(each - exact) <= room)
    return number if (np.abs(values - number) <= slack)[known].all() else values


def filled(value: Any, missing: Any) -> Any:
    """An argument, or a list of them, with ``missing`` in place of lost ones."""
    if isinstance(value, list):
        return [filled(item, missing) for item in value]
    return missing if value is UNKNOWN else value


def _told_by_result(node: OpNode, param: str, default: Any) -> Any:
    """A plain argument that was not saved, because the result tells it or does not depend on it."""
    if param == "dtype" and node.outputs == 1:
        return node.dtype
    if param in ("shape", "size", "kernel") and node.outputs == 1:
        return node.shape[2:] if node.op.factors else node.shape  # convolutions leave out samples and channels
    # rerunning would draw other numbers
    return UNKNOWN if param == "generator" or default is inspect.Parameter.empty else default


def _as_operand(op: Op, param: str, value: Any) -> Any:
    """An argument in the form the operation takes: numbers in place of tensors as arrays, except for ufuncs."""
    is_number = isinstance(value, float) and param in op.differentiable and op.kind != "elementwise"
    return np.asarray(value, np.float32) if is_number else value


def _lacks(value: Any) -> bool:
    return isinstance(value, list) and any(each is UNKNOWN for each in value)


def evaluate(op: Op, operands: Iterable[Any]) -> list[ndarray]:
    """The results of an operation's plain function, run once more without warnings; none if it fails."""
    bound = list(operands)
    try:
        with np.errstate(all="ignore"):
            result = compute(op, bound)
    except Exception:
        return []
    if op.byproducts:
        result, *_ = result
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(as_array(each)) for each in results]
