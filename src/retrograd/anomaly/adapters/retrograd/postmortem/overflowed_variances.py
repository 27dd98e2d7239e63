"""Squares that overflow under the root of a normalisation: dividing by it gives 0, and no NaN ever appears."""

from __future__ import annotations

from retrograd.anomaly.adapters.retrograd.births import Birth
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph
from retrograd.anomaly.operation_names import canonical, is_normalisation
from retrograd.core.node import Node

_SQUARES = frozenset(("mean", "mul", "pow", "square", "sum", "var"))
_WAY = frozenset((*_SQUARES, "add", "clamp", "sqrt", "to", "unsqueeze"))
_STEPS = 6


def may_make_zeros(birth: Birth) -> bool:
    """Whether an overflow may be of squares in a normalisation, judging by the operation's name."""
    return not birth.is_backward and (is_normalisation(birth.name) or canonical(birth.name) in _SQUARES)


def makes_zeros(birth: Birth, graph: Graph) -> bool:
    """Whether something is divided by the root of squares that have overflowed, judging by their uses."""
    if is_normalisation(birth.name):
        return True
    node = birth.made_node(graph.nodes)
    waiting = [] if node is None else [(node, False, 0)]
    for each, is_reduced, steps in waiting:
        is_reduced |= canonical(each.name()) in ("mean", "sum", "var")
        for user in graph.consumers.get(each, ()):
            if _divides_by(user, each) and is_reduced:
                return True
            if canonical(user.name()) in _WAY and steps < _STEPS:
                waiting.append((user, is_reduced, steps + 1))
    return False


def _divides_by(user: Node, node: Node) -> bool:
    """Whether ``user`` divides by the root that ``node`` computes, or is the inverse root of its result."""
    name = canonical(user.name())
    second = user.next[1] if len(user.next) > 1 else None
    is_below = name == "div" and second is not None and second[0] is node
    return name == "rsqrt" or (is_below and canonical(node.name()) in ("sqrt", "add", "clamp"))
