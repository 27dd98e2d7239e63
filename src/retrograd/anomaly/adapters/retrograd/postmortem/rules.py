"""Running the rules of nodes without the engine: no hooks are called, and nothing is freed or kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.births import as_array
from retrograd.anomaly.adapters.retrograd.elements import UNKNOWN, is_bad
from retrograd.batching import BatchedArray
from retrograd.core.in_place import CopySlices
from retrograd.core.node import MultiOpNode, Node, OpNode
from retrograd.core.op import Op
from retrograd.core.unbroadcast import fit
from retrograd.core.views import replay

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph

CompiledRule = tuple[Callable[..., Any], tuple[int, ...]]

_ORDINARY = 1.25  # in place of non-finite numbers


def cleaned(value: Any) -> Any:
    """Numbers with non-finite ones replaced by ordinary ones of the same sign."""
    if not is_bad(value):
        return value
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    if not isinstance(value, ndarray):
        return _ORDINARY
    if value.dtype.kind == "c":
        return np.where(np.isfinite(value), value, _ORDINARY).astype(value.dtype)
    return np.nan_to_num(value, nan=_ORDINARY, posinf=_ORDINARY, neginf=-_ORDINARY)


def passed_on(graph: Graph, node: Node, g: Sequence[Any]) -> list[Any] | None:
    """The gradients a node passes on along its edges, given those that arrived for its results; None if unknown.

    Non-finite saved values are replaced by ordinary ones.
    """
    if isinstance(node, CopySlices):
        return _through_write(graph, node, g[0])
    if not isinstance(node, OpNode):
        return None
    saved = graph.saved(node)
    if not saved and any(slots for _, slots in node.rules):
        return None
    return _fitted(node, _ran(node, g, saved))


def _ran(node: OpNode, g: Sequence[Any], saved: Mapping[str, Any]) -> list[Any] | None:
    saved = {name: cleaned(value) for name, value in saved.items()}
    shapes = [node.shape_and_dtype(nr) for nr in range(node.outputs)]
    g = [np.zeros(*each) if one is None else one for one, each in zip(g, shapes, strict=True)]
    made: list[Any] = []
    for number, param in enumerate(node.op.differentiable):
        is_list = param == node.op.sequence
        wanted = is_list or node.next[len(made)] is not None
        grads: Any = from_rule(node.op, node.rules[number], g, saved) if wanted else None
        if grads is UNKNOWN:
            return None
        made += grads if is_list else [grads]
    return made if len(made) == len(node.next) else None


def from_rule(op: Op, compiled: CompiledRule, g: Sequence[Any], saved: Mapping[str, Any]) -> Any:
    """The result of one rule for the gradients that arrived: a gradient, or a list; UNKNOWN if a value is lost.

    Parameters
    ----------
    op, compiled
        The operation, and one of its rules with the slots of the values that it refers to.
    g
        The gradients that arrived, without gaps.
    saved
        The values that the rule may refer to.
    """
    if any(type(each) is BatchedArray for each in (*g, *saved.values())):
        return UNKNOWN
    rule, slots = compiled
    arrived = list(g) if issubclass(op.node_class, MultiOpNode) else g[0]
    try:
        with np.errstate(all="ignore"):
            grads = rule(arrived, *(saved.get(op.slots[slot]) for slot in slots))
    except Exception:  # a value that the rule needs is lost
        return UNKNOWN
    return list(map(as_array, grads)) if isinstance(grads, (list, tuple)) else as_array(grads)


def _fitted(node: Node, grads: list[Any] | None) -> list[Any] | None:
    """The gradients as they are delivered."""
    if grads is None:
        return None
    found: list[Any] = []
    for edge, grad in zip(node.next, grads, strict=True):
        if edge is None or grad is None:
            found.append(None)
            continue
        try:
            with np.errstate(all="ignore"):
                found.append(np.asarray(fit(np.asarray(grad), *edge[0].shape_and_dtype(edge[1]), node.name(), 0)))
        except RuntimeError:
            return None
    return found


def _through_write(graph: Graph, node: CopySlices, g: ndarray) -> list[Any] | None:
    """The gradients passed on by a tensor to a part of which an operation has written."""
    if not isinstance(node.fn, OpNode):
        return None
    rest = np.array(g)
    part = replay(rest, node.steps)
    grads = _ran(node.fn, [part.copy()], graph.saved(node.fn))
    if grads is None or not np.shares_memory(rest, part):
        return None
    part[...] = 0 if grads[0] is None else grads[0]
    return _fitted(node, [rest, *grads[1:]])


def reaches(graph: Graph, start: Node, grads: Sequence[Any], goals: Collection[Node]) -> bool:
    """Whether any non-finite gradient that a node passes on reaches one of some nodes and is still non-finite there.

    A node whose result is unknown is assumed to pass it on.
    """
    arrived: dict[Node, list[Any]] = {}
    _deliver(start, grads, arrived)
    for node in [node for node in reversed(graph.nodes) if node.is_leaf or node.seq < start.seq]:
        g = arrived.pop(node, None)
        if g is None:
            continue
        if node in goals:
            return True
        if not node.is_leaf:
            zeros = [np.zeros(*node.shape_and_dtype(nr)) if each is None else each for nr, each in enumerate(g)]
            made = passed_on(graph, node, zeros)
            _deliver(node, _all_bad(node) if made is None else made, arrived)
    return False


def _deliver(node: Node, grads: Sequence[Any], arrived: dict[Node, list[Any]]) -> None:
    """Add the bad gradients that a node passes on to those that have arrived."""
    for edge, grad in zip(node.next, grads, strict=True):
        if edge is not None and grad is not None and is_bad(grad):
            places = arrived.setdefault(edge[0], [None] * edge[0].outputs)
            before = places[edge[1]]
            places[edge[1]] = grad if before is None else before + grad


def _all_bad(node: Node) -> list[Any]:
    shapes = [None if edge is None else edge[0].shape_and_dtype(edge[1]) for edge in node.next]
    return [None if each is None else np.full(each[0], np.nan, each[1]) for each in shapes]
