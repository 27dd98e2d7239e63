"""Which elements of what an operation was given, or has made, came through to what is not finite further on.

The harm's own elements are sent back through the rules of the nodes, as a gradient is: an operation that moves values
hands each of them to the one that it moved, a sum to all that it took. Numbers that differ from each other are sent, so
that none cancels another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile, zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.autopsy.graph import Graph
from retrograd.anomaly.adapters.retrograd.autopsy.rules import cleaned, from_rule, passed_on
from retrograd.anomaly.adapters.retrograd.elements import UNKNOWN, is_bad, same
from retrograd.core.fit import sum_to
from retrograd.core.inplace import CopySlices
from retrograd.core.node import Node, OpNode
from retrograd.core.op import Op
from retrograd.core.record import compute
from retrograd.core.tensor import Edge
from retrograd.core.views import replay


def came_through(graph: Graph, data: ndarray, source: Node | None, path: Sequence[Node]) -> ndarray:
    """Which elements of an array are not finite and came through on a path, as far as they can be told apart.

    Parameters
    ----------
    data
        The array.
    source
        The node that recorded it, with which the path begins; None if the path begins with the one that was given it.
    path
        The nodes from there to a harm.
    """
    bad = ~np.isfinite(data)
    if not path or np.count_nonzero(bad) < 2:
        return bad
    reached = _reached(graph, _end(graph, path))
    if source is None:
        mask = _given(graph, path[0], data, reached)
    else:
        mask = _made(graph, source, data, reached)
    if mask is None or mask.shape != bad.shape or not (bad & mask).any():
        return bad
    return bad & mask


def _end(graph: Graph, path: Sequence[Node]) -> Node:
    """The last node of a path to which it leads forwards, and through what may not be finite only."""
    following = takewhile(lambda pair: pair[1] in graph.consumers.get(pair[0], ()), pairwise(path))
    forwards = [path[0], *(node for _, node in following)]
    return [forwards[0], *takewhile(lambda node: is_bad(graph.results(node) or np.nan), forwards[1:])][-1]


def _made(graph: Graph, source: Node, data: ndarray, reached: dict[Edge, ndarray]) -> ndarray | None:
    """The elements that were reached of what a node has made; of the part that it has written to, if it is one."""
    if isinstance(source, CopySlices):
        mask = reached.get((source, 0))
        return None if mask is None else replay(mask, source.steps)
    found = [(source, nr) for nr in range(source.outputs) if same(graph.value((source, nr)), data)]
    return next((reached[edge] for edge in found or [(source, 0)] if edge in reached), None)


def _given(graph: Graph, user: Node, data: ndarray, reached: dict[Edge, ndarray]) -> ndarray | None:
    """The elements that were reached of an array without a gradient that a node was given."""
    if not isinstance(user, OpNode):
        return None
    masks = [reached.get((user, nr)) for nr in range(user.outputs)]
    given = (each for each in _operands(graph, user, masks, constants=True) if same(each.value, data))
    return next((each.mask for each in given), None)


def _reached(graph: Graph, end: Node) -> dict[Edge, ndarray]:
    """For the results of nodes, the elements that are not finite, as far as is known, and led to those of ``end``."""
    reached = {(end, nr): _bad(graph, (end, nr)) for nr in range(end.outputs)}
    for node in reversed(graph.nodes):
        masks = [reached.get((node, nr)) for nr in range(node.outputs)]
        if node.is_leaf or all(mask is None for mask in masks):
            continue
        for edge, _, known, is_exact in _operands(graph, node, masks):
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
    """Which elements of a result are not finite; all of them if it is not known."""
    shape, _ = edge[0].shape_and_dtype(edge[1])
    value = graph.value(edge)
    if not isinstance(value, ndarray) or value.shape != shape:  # or it is that of all samples of vmap
        return np.ones(shape, bool)
    return ~np.isfinite(value)


class _Operand(NamedTuple):
    """What a node was given, and which elements of it went into some of its result.

    Attributes
    ----------
    edge, value
        Where it came from, if a gradient goes there, and the array.
    mask
        The elements; None if they are not known.
    is_exact
        Whether these are all, whatever the numbers in the operands were.
    """

    edge: Edge | None
    value: Any
    mask: ndarray | None
    is_exact: bool


def _operands(
    graph: Graph, node: Node, masks: Sequence[ndarray | None], constants: bool = False
) -> Iterator[_Operand]:
    """The operands that a gradient goes to, or all, with the elements of which a node has made those that are meant."""
    shapes = [node.shape_and_dtype(nr) for nr in range(node.outputs)]
    sent = [_numbers(mask, *each) for mask, each in zip(masks, shapes, strict=True)]
    if not isinstance(node, OpNode):
        grads = passed_on(graph, node, sent) or [None] * len(node.next)
        for edge, grad in zip(node.next, grads, strict=True):
            yield _Operand(edge, UNKNOWN, None if grad is None else grad != 0, False)
        return
    op = node.op
    arguments, saved = graph.arguments(node), graph.saved(node)
    known = {name: _told(op, name, value) for name, value in {**arguments, **saved}.items() if value is not UNKNOWN}
    if any(is_bad(saved.get(name)) for name in op.byproducts):
        known |= _byproducts(op, arguments)
    for number, param in enumerate(op.differentiable):
        edges = graph.edges(node, param)
        if not constants and not any(edges):
            continue
        is_exact = _is_exact(op, number)
        value = arguments.get(param, UNKNOWN)
        if op.kind == "elementwise" and not is_exact:
            given: Any = sent[0]  # whatever its factor is, which may be zero
        else:
            given = from_rule(node, number, sent, known)
        if param != op.sequence:
            value, given = [value], [given]
        for edge, item, grad in zip_longest(edges, value, given or ()):
            yield _Operand(edge, item, _elements(grad, edge, item), is_exact)


def _numbers(mask: ndarray | None, shape: tuple[int, ...], dtype: np.dtype) -> ndarray:
    """Numbers in the place of the elements that are meant, each another one, and zeros in that of all others."""
    if mask is None:
        return np.zeros(shape, dtype)
    return np.where(mask, np.linspace(1, 2, mask.size).reshape(shape), 0).astype(dtype)


def _told(op: Op, name: str, value: Any) -> Any:
    """What a rule is given for something that it names: ordinary numbers, and ones for a factor, which may be zero."""
    ordinary = cleaned(value)
    return np.ones_like(ordinary) if name in op.factors and isinstance(ordinary, ndarray) else ordinary


def _byproducts(op: Op, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What an operation gives its rules, where it is given ordinary numbers: what was not finite has spread in it."""
    try:
        with np.errstate(all="ignore"):
            _, *made = compute(op, [cleaned(value) for value in arguments.values()])
    except Exception:  # something that it needs is lost
        return {}
    return dict(zip(op.byproducts, made, strict=True))


def _is_exact(op: Op, number: int) -> bool:
    """Whether a rule tells all the elements that went in, because it goes by no number that did."""
    names = {op.slots[slot] for slot in op.rules[number][1]}
    by_number = {*op.differentiable, *op.results, *op.byproducts}
    return names.isdisjoint(by_number.difference(op.factors if op.differentiable[number] in op.factors else ()))


def _elements(grad: Any, edge: Edge | None, value: Any) -> ndarray | None:
    """Which elements of an operand a gradient goes to."""
    if grad is None or (edge is None and not isinstance(value, ndarray)):
        return None
    shape = value.shape if edge is None else edge[0].shape_and_dtype(edge[1])[0]
    try:
        return np.asarray(sum_to(np.asarray(grad) != 0, shape)).astype(bool)
    except RuntimeError:  # it is of all samples of vmap
        return None
