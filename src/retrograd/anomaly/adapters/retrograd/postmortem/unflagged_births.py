"""Births without a flag: numbers passed as arguments, and non-finite results of finite operands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.program.source_location import written_at
from retrograd.anomaly.adapters.retrograd.births import Birth, public_name
from retrograd.anomaly.adapters.retrograd.elements import UNKNOWN, flat, is_bad, is_born
from retrograd.anomaly.adapters.retrograd.postmortem.describe import module_of
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph
from retrograd.anomaly.operation_names import canonical
from retrograd.core import sites
from retrograd.core.in_place import CopySlices
from retrograd.core.node import AccumulateGrad, Node, OpNode
from retrograd.core.op import Op


def without_flag(graph: Graph, node: Node) -> Birth | None:
    """The birth of a node's non-finite result, if its operands were finite, or a number among them was NaN."""
    made = _operation(graph, node)
    if made is None:
        return None
    op, operands = made
    results = graph.results(node)
    if not results and _ends_a_logdet(graph, node):
        operands = [np.nan if each is UNKNOWN else each for each in operands]
        results = graph.compute(node, dict(zip(op.params, operands, strict=False)))
    bad = next(filter(is_bad, results), None)
    if bad is None or any(each is UNKNOWN for each in flat(operands)) or not is_born(op, bad, operands):
        return None
    return _birth(graph, node, op, operands, bad)


def birth_in(graph: Graph, node: Node, held: ndarray | None) -> Birth | None:
    """A node's result, bad or not, as if it had been born there; None if unknown.

    ``held`` is the result as held by a variable, if any.
    """
    made = _operation(graph, node)
    result = held if held is not None else next(iter(graph.results(node)), None)
    return None if made is None or result is None else _birth(graph, node, *made, result)


def given_numbers(graph: Graph) -> Iterator[tuple[Node, Birth]]:
    """The nodes with a non-finite number as an argument, with the births of their results."""
    for node in graph.nodes:
        made = _operation(graph, node)
        if made is not None and any(isinstance(each, float) and is_bad(each) for each in made[1]):
            results = graph.results(node)
            if is_bad(results):
                yield node, _birth(graph, node, *made, results[0])


def told_of_hooks(graph: Graph) -> str:
    """A sentence about the hooks that backward has called with gradients of tensors; empty if there are none."""
    found = []
    for node in graph.nodes:
        hooks = [] if node.extras is None else list(node.extras.tensor_hooks.values())
        meta = node.variable._meta if isinstance(node, AccumulateGrad) else None
        if meta is not None and meta.hooks is not None:
            hooks.append(meta.hooks)
        for hook in (each for several in hooks for each in several.values()):
            code = getattr(hook, "__code__", None)
            line = "" if code is None else f" (line {code.co_firstlineno})"
            found.append(f"{getattr(hook, '__name__', type(hook).__name__)}{line}")
    names = " and ".join([*dict.fromkeys(found)][:3])
    return f"The results of hooks were not checked: look at {names} first. " if names else ""


def _operation(graph: Graph, node: Node) -> tuple[Op, list[Any]] | None:
    """The operation that made a node, with its operands; for a write to a view, without the earlier content."""
    if isinstance(node, CopySlices) and isinstance(node.fn, OpNode):
        return node.fn.op, [None, *list(graph.arguments(node.fn).values())[1:]]
    return (node.op, list(graph.arguments(node).values())) if isinstance(node, OpNode) else None


def _birth(graph: Graph, node: Node, op: Op, operands: list[Any], result: Any) -> Birth:
    code, at = sites.position_of(node)
    name = "setitem" if isinstance(written_at(code, at), ast.Subscript) else public_name(op)
    birth = Birth([], name, op=op, operands=operands, result=result, seq=node.seq, code=code, at=at)
    birth.callers = graph.callers_of(node)
    birth.made = lambda: node
    birth.modules = module_of(node)
    return birth


def _ends_a_logdet(graph: Graph, node: Node) -> bool:
    """Whether it chooses between the logarithm of a determinant and NaN, a number that is not kept."""
    made = graph.edges(node, "other")
    source = made[0][0] if made and made[0] is not None else None
    is_choice = isinstance(node, OpNode) and node.op.name == "where"
    return is_choice and isinstance(source, OpNode) and canonical(source.op.label) == "slogdet"
