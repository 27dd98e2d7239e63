"""Which nodes a backward reaches, and how many gradients each of them has to wait for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

from retrograd.core.node import Node
from retrograd.core.tensor import Edge, Tensor


def dependencies(roots: Sequence[tuple[Edge, Tensor]], executed: set[Node] | None) -> dict[Node, int]:
    """How many gradients each node that the roots reach, through nodes that run, has to wait for."""
    counts: dict[Node, int] = {edge[0]: 0 for edge, _ in roots}
    stack = list(counts)
    pop, push = stack.pop, stack.append
    while stack:
        node = pop()
        if executed is not None and node not in executed:
            continue
        for edge in node.next:
            if edge is not None:
                node = edge[0]
                if node in counts:
                    counts[node] += 1
                else:
                    counts[node] = 1
                    push(node)
    return counts


def if_all_end_in(targets: Collection[Node], roots: Sequence[tuple[Edge, Tensor]]) -> dict[Node, int] | None:
    """What :func:`dependencies` finds, if every path from the roots ends in a target; None as soon as one does not.

    All paths do if gradients are requested for everything that was recorded, as nearly always in :mod:`retrograd.func`.
    """
    if any(node.plain or any(node.next) for node in targets):
        return None
    oldest = _oldest(targets)
    counts: dict[Node, int] = {edge[0]: 0 for edge, _ in roots}
    stack = list(counts)
    pop, push = stack.pop, stack.append
    while stack:
        node = pop()
        ends = True
        for edge in node.next:
            if edge is not None:
                ends = False
                source = edge[0]
                if source in counts:
                    counts[source] += 1
                elif source.seq < oldest:
                    return None
                else:
                    counts[source] = 1
                    push(source)
        if ends and node not in targets:
            return None
    return counts


def leading_to(roots: Sequence[tuple[Edge, Tensor]], targets: Collection[Node]) -> set[Node]:
    """The nodes reachable from ``roots`` that have a target behind them."""
    oldest = _oldest(targets)
    reached = {edge[0] for edge, _ in roots}
    stack = list(reached)
    while stack:
        for edge in stack.pop().next:
            if edge is not None and edge[0] not in reached and edge[0].seq >= oldest:
                reached.add(edge[0])
                stack.append(edge[0])
    leading: set[Node] = set()
    for node in sorted(reached, key=_age):  # the nodes behind a node come before it
        for edge in node.next:
            if edge is not None and (edge[0] in targets or edge[0] in leading):
                leading.add(node)
                break
    return leading


def _oldest(targets: Collection[Node]) -> int:
    """The sequence number from which on nodes may have a target behind them; apart from leaves, no older node does."""
    return min((0 if node.is_leaf else node.seq for node in targets), default=0)


_age = attrgetter("seq")
