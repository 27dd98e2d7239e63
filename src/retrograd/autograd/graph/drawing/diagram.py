"""What a picture shows: boxes for leaves and operations, with the text in them, and the edges between them."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from retrograd.autograd._function_node import FunctionNode
from retrograd.core.node import AccumulateGrad, Node, OpNode
from retrograd.core.saved import Packed, SavedList, Versioned
from retrograd.core.sites import site_of
from retrograd.core.tensor import Edge, Tensor

_OUTPUTS_SHOWN = 3
_FREED = "saved tensors freed"
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclasses.dataclass
class Box:
    """A leaf, an operation, or a group of them.

    Attributes
    ----------
    kind
        ``"leaf"``, ``"operation"`` or ``"group"``.
    title
        The name of a leaf or an operation.
    outputs
        A line for each output: its name, dtype and shape.
    saved
        What is saved for backward, item by item.
    tooltip
        What else is known.
    is_result
        Whether it computes one of the tensors asked for.
    operations, leaves
        How many of them it stands for.
    """

    kind: str
    title: str
    outputs: list[str]
    saved: list[str] = dataclasses.field(default_factory=list)
    tooltip: str = ""
    is_result: bool = False
    operations: int = 0
    leaves: int = 0

    def saved_line(self) -> str:
        """All that is saved, in one line."""
        return _FREED if self.saved == [_FREED] else f"saves {', '.join(self.saved)}" if self.saved else ""


@dataclasses.dataclass
class Diagram:
    """Boxes in an order in which every one comes after those it is computed from, and edges as pairs of positions.

    An edge occurs as often as the value is used: twice for ``x * x``.
    """

    boxes: list[Box]
    edges: list[tuple[int, int]]
    saved_bytes: int = 0

    def caption(self) -> str:
        """Say how much there is, drawn or not."""
        operations = sum(box.operations for box in self.boxes)
        leaves = sum(box.leaves for box in self.boxes)
        parts = [_count(operations, "operation"), _count(leaves, "leaf", "leaves")]
        if self.saved_bytes:
            parts.append(f"{_size(self.saved_bytes)} saved for backward")
        return " · ".join(parts)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _size(number: int) -> str:
    if number < 1000:
        return _count(number, "byte")
    power = min(int(math.log10(number)) // 3, 4)
    return f"{number / 1000**power:.3g} {('KB', 'MB', 'GB', 'TB')[power - 1]}"


def read(roots: Sequence[Edge], names: Mapping[Edge, str], show_saved: bool) -> Diagram:
    """Make a diagram of the graph behind ``roots``.

    Parameters
    ----------
    roots
        Where to start.
    names
        Names of tensors, by their edges.
    show_saved
        Whether to show what is saved for backward.
    """
    nodes = _in_order([node for node, _ in roots])
    position = {node: number for number, node in enumerate(nodes)}
    results = {node for node, _ in roots}
    boxes = []
    arrays: dict[int, int] = {}
    for node in nodes:
        box = _leaf(node, names) if isinstance(node, AccumulateGrad) else _operation(node, names)
        box.is_result = node in results
        if show_saved and box.kind == "operation":
            box.saved = _saved(node, names, arrays)
        boxes.append(box)
    edges = [(position[edge[0]], position[node]) for node in nodes for edge in node.next if edge is not None]
    return Diagram(boxes, edges, sum(arrays.values()))


def _in_order(roots: Sequence[Node]) -> list[Node]:
    """All nodes behind ``roots``, as they were created; a leaf directly before its first use."""
    waiting: dict[Node, int] = dict.fromkeys(roots, 0)  # for how many consumers
    stack = list(waiting)
    while stack:
        for edge in stack.pop().next:
            if edge is not None:
                if edge[0] not in waiting:
                    waiting[edge[0]] = 0
                    stack.append(edge[0])
                waiting[edge[0]] += 1
    # backwards, the latest operation first; the number of a leaf is larger than any operation's
    ready = [(-node.seq, node) for node, consumers in waiting.items() if consumers == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        for edge in node.next:
            if edge is not None:
                waiting[edge[0]] -= 1
                if waiting[edge[0]] == 0:
                    heapq.heappush(ready, (-edge[0].seq, edge[0]))
    return order[::-1]


def _leaf(node: AccumulateGrad, names: Mapping[Edge, str]) -> Box:
    variable = node.variable
    title = names.get((node, 0)) or variable.name or "leaf"
    return Box("leaf", title, [_kind(node.dtype, node.shape)], tooltip=node.name(), leaves=1)


def _operation(node: Node, names: Mapping[Edge, str]) -> Box:
    title = node.op.label if isinstance(node, OpNode) else node.name().removesuffix("0").removesuffix("Backward")
    single = node.outputs == 1
    shapes, dtypes = ([node.shape], [node.dtype]) if single else (node.shape, node.dtype)
    outputs = []
    for nr, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
        name = names.get((node, nr))
        if shape is not None:
            outputs.append(f"{name}: {_kind(dtype, shape)}" if name else _kind(dtype, shape))
    tooltip = [node.name(), *outputs]
    place = site_of(node)
    if place is not None:
        tooltip.append(f"{place.filename}:{place.lineno} in {place.function}")
    if len(outputs) > _OUTPUTS_SHOWN:
        outputs[_OUTPUTS_SHOWN - 1 :] = [f"… {len(outputs) - _OUTPUTS_SHOWN + 1} more outputs"]
    return Box("operation", title, outputs, tooltip="\n".join(tooltip), operations=1)


def _kind(dtype: Any, shape: Sequence[int]) -> str:
    return f"{dtype} {list(shape)}"


def _saved(node: Node, names: Mapping[Edge, str], arrays: dict[int, int]) -> list[str]:
    """Name the tensors that a node saved, and add the sizes of their arrays to ``arrays``, by identity."""
    found = []
    for name, entry, edge in _entries(node):
        if entry is None:
            found.append(_FREED)
            continue
        array = _array(entry)
        if array is None:
            found.append(f"{name} (packed)")
            continue
        if edge is None or not edge[0].is_leaf:
            arrays[id(array)] = array.nbytes
        label = None if edge is None else names.get(edge)
        found.append(f"{name} = {label}" if label else name if name == "result" else f"{name} {list(array.shape)}")
    return [f"{item} {_TIMES}{count}" if count > 1 else item for item, count in Counter(found).items()]


def _entries(node: Node) -> Iterator[tuple[str, Any, Edge | None]]:
    """What a node saved: name, entry and edge of every tensor; one entry None if it was freed."""
    if isinstance(node, OpNode):
        if node.saved is None:
            yield "", None, None
            return
        for slot, (name, entry) in enumerate(zip(node.op.slots, node.saved, strict=False)):
            for part in entry if type(entry) is SavedList else (entry,):
                if _is_tensor(part, slot in node.result_slots):
                    tensor = part[0] if type(part) is Versioned else part
                    yield name, part, tensor._resolve_edge() if isinstance(tensor, Tensor) else None
    elif isinstance(node, FunctionNode):
        if node.entries is None:
            yield "", None, None
            return
        for entry in node.entries:
            if entry is not None:
                yield "saved", entry.kept, entry.edge


def _is_tensor(entry: Any, is_result: bool) -> bool:
    return isinstance(entry, (Tensor, Versioned, Packed)) or (type(entry) is tuple and is_result)


def _array(entry: Any) -> Any:
    """The array behind a saved entry; None if hooks have packed it."""
    if type(entry) is Packed:
        return None
    if isinstance(entry, tuple):  # Versioned, or a result with its cell and version
        entry = entry[0]
    return entry._data if isinstance(entry, Tensor) else entry
