"""Which elements of an operation's operands have gone into given elements of its results.

Its rules tell: numbers at the given elements are sent back through them like a gradient. An operation that moves values
passes each number to the element that it moved, a sum passes it to all its terms. All numbers differ, so that they
cannot cancel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.elements import UNKNOWN, flat, is_bad
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph
from retrograd.anomaly.adapters.retrograd.postmortem.rules import CompiledRule, cleaned, from_rule, passed_on
from retrograd.anomaly.adapters.retrograd.second_run.recording import Call
from retrograd.core.node import MultiOpNode, Node, OpNode
from retrograd.core.op import Op
from retrograd.core.record import compute
from retrograd.core.slots import (
    ARGUMENT,
    NEEDS,
    RESULT,
    RESULTS,
    SHAPE,
    meaning,
    shape_of,
)
from retrograd.core.tensor import Edge
from retrograd.core.unbroadcast import sum_to


class OperandElements(NamedTuple):
    """An operand of an operation, and which of its elements went into the given elements of the results.

    Attributes
    ----------
    edge, value
        The edge it came along, if it has a gradient, and the array.
    mask
        The elements; None if unknown.
    is_exact
        Whether these are all such elements, regardless of the operands' values.
    """

    edge: Edge | None
    value: Any
    mask: ndarray | None
    is_exact: bool


def operands_of_node(
    graph: Graph, node: Node, masks: Sequence[ndarray | None], constants: bool = False
) -> Iterator[OperandElements]:
    """The operands of a node, with the elements from which it made given elements of its results.

    Parameters
    ----------
    masks
        The given elements of each result; None for none.
    constants
        Whether to include operands without a gradient.
    """
    shapes = [node.shape_and_dtype(nr) for nr in range(node.outputs)]
    sent: list[Any] = [_numbers(mask, *each) for mask, each in zip(masks, shapes, strict=True)]
    if not isinstance(node, OpNode):
        grads = passed_on(graph, node, sent) or [None] * len(node.next)
        # A write to a part that moves values preserves the sum.
        is_exact = np.isclose(sum(map(_total, grads)), sum(map(_total, sent)), rtol=1e-6)
        for edge, grad in zip(node.next, grads, strict=True):
            yield OperandElements(edge, UNKNOWN, None if grad is None else grad != 0, bool(is_exact))
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
        given = _from_rule(op, node.rules[number], is_exact, sent, known)
        if param != op.sequence:
            value, given = [value], [given]
        for edge, item, grad in zip_longest(edges, value, given or ()):
            yield OperandElements(edge, item, _elements(grad, edge, item), is_exact)


def operands_of_call(call: Call, masks: Sequence[ndarray | None]) -> Iterator[OperandElements]:
    """The same for an operation that was not recorded for backward."""
    assert call.op is not None
    op, arguments = call.op, call.arguments
    sent = [
        _numbers(mask, result.shape, result.dtype if result.dtype.kind in "fc" else np.dtype(float))
        for mask, result in zip(masks, call.results, strict=True)
    ]
    known = {name: _told(op, name, value) for name, value in _slots(op, arguments, call.results).items()}
    known |= _byproducts(op, arguments) if op.byproducts else {}
    for number, param in enumerate(op.differentiable):
        is_exact = _is_exact(op, number)
        value, given = arguments[param], _from_rule(op, op.rules[number], is_exact, sent, known)
        if param != op.sequence:
            value, given = [value], [given]
        for item, grad in zip_longest(value, given or ()):
            yield OperandElements(None, item, _elements(grad, None, item), is_exact)


def _slots(op: Op, arguments: Mapping[str, Any], results: Sequence[ndarray]) -> dict[str, Any]:
    """The values that an operation's rules may refer to, except byproducts."""
    several = issubclass(op.node_class, MultiOpNode)
    values = list(arguments.values())
    found: dict[str, Any] = {}
    for name in op.slots:
        what, number = meaning(op, name) or (None, 0)
        if what == ARGUMENT:
            found[name] = values[number]
        elif what == SHAPE:
            is_list = op.params[number] == op.sequence
            found[name] = list(map(shape_of, values[number])) if is_list else shape_of(values[number])
        elif what in (RESULT, RESULTS):
            found[name] = results[number] if what == RESULT or not several else list(results)
        elif what == NEEDS:
            found[name] = (True,) * len(list(flat(values)))
    return found


def _from_rule(op: Op, compiled: CompiledRule, is_exact: bool, sent: Sequence[Any], known: Mapping[str, Any]) -> Any:
    """A rule's result for numbers that are sent back; for an elementwise operation, the same numbers."""
    _, names = compiled
    if op.kind == "elementwise" and not (is_exact and names):
        return sent[0]  # regardless of the factor, which may be zero, as it always is for round
    grads = from_rule(op, compiled, sent, known)
    return None if grads is UNKNOWN else grads


def _numbers(mask: ndarray | None, shape: tuple[int, ...], dtype: np.dtype) -> ndarray:
    """A different number at each element of ``mask``, and zero at all others."""
    if mask is None:
        return np.zeros(shape, dtype)
    return np.where(mask, np.linspace(1, 2, mask.size).reshape(shape), 0).astype(dtype)


def _total(numbers: ndarray | None) -> Any:
    return 0.0 if numbers is None else np.sum(numbers, dtype=np.result_type(numbers, float))


def _told(op: Op, name: str, value: Any) -> Any:
    """The stand-in for a value that a rule refers to: ordinary numbers, and ones for a factor, which may be zero."""
    ordinary = cleaned(value)
    return np.ones_like(ordinary) if name in op.factors and isinstance(ordinary, ndarray) else ordinary


def _byproducts(op: Op, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An operation's byproducts, recomputed from ordinary numbers, as bad values have spread in the original ones."""
    try:
        with np.errstate(all="ignore"):
            _, *made = compute(op, [cleaned(value) for value in arguments.values()])
    except Exception:  # one of its arguments is lost
        return {}
    return dict(zip(op.byproducts, made, strict=True))


def _is_exact(op: Op, number: int) -> bool:
    """Whether a rule finds all elements that went in, because it does not depend on their values."""
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
    except RuntimeError:  # it has all samples of vmap
        return None
