"""Births that the backward of a bad loss would still cause if the loss were finite: at poles of derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.postmortem.origin import Origin
from retrograd.anomaly.adapters.torch.records.backward import saved_arguments
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, bad, is_bad
from retrograd.anomaly.adapters.torch.records.graph import may_be_called, nodes_behind, saved_by
from retrograd.anomaly.adapters.torch.records.partial_writes import writes_to_part
from retrograd.anomaly.event import MOST_ALSO

Grads = Sequence[Tensor | None]


def births_to_come(roots: Sequence[Tensor], call_of: Callable[[Any], Call | None]) -> Iterator[tuple[Origin, Tensor]]:
    """The births in backward that have other causes than the bad loss, each with a leaf whose gradient it spoils.

    The nodes are called one by one without the engine, so that no hook is called and nothing is freed.

    Parameters
    ----------
    roots
        The losses, whose graph is alive.
    call_of
        Returns the operation that made a node, if known.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():  # nodes may wait for other processes
        return
    nodes = nodes_behind([root.grad_fn for root in roots])
    arrived: dict[Any, list[Tensor | None]] = {}
    for root in roots:
        if root.grad_fn is not None:
            _places(arrived, root.grad_fn)[root.output_nr] = torch.ones_like(root)
    found = 0
    for node in reversed(nodes):
        grads = _passed_on(node, arrived.pop(node, None)) if found < MOST_ALSO else None
        if grads is None:
            continue
        made, given = grads
        if any(map(is_bad, made)):
            leaf = _spoilt(nodes, node, made)
            origin = None if leaf is None else _origin(node, made, given, call_of(node))
            if origin is not None and leaf is not None:
                found += 1
                yield origin, leaf
            made = [None if each is None else torch.nan_to_num(each, 1.0, 1.0, -1.0) for each in made]
        _deliver(node, made, arrived)


def _origin(node: Any, made: Grads, given: Grads, forward: Call | None) -> Origin | None:
    """The birth in a node's backward, if the arguments and results of its operation were finite."""
    if forward is None or forward.code is None or any(map(is_bad, forward.outputs)) or writes_to_part(node):
        return None
    saved = saved_by(node, unpacked=False)
    if any(is_bad(each) for value in saved.values() for each in (value if isinstance(value, list) else [value])):
        return None
    grads = [Argument("grad", each) for each in given if each is not None]
    call = Call(
        node.name(),
        grads + saved_arguments(saved, forward),
        list(made),
        forward.order + 1,
        pointwise=forward.pointwise,
        forward=forward,
        code=forward.code,
        at=forward.at,
        callers=forward.callers,
        modules=forward.modules,
        is_backward=True,
        thread=forward.thread,
    )
    number = next(number for number, each in enumerate(made) if is_bad(each))
    return Origin(call, number, bad(made[number]), path=(call,))


def _spoilt(nodes: Sequence[Any], start: Any, made: Grads) -> Tensor | None:
    """A leaf that gradients passed on by a node reach, non-finite."""
    arrived: dict[Any, list[Tensor | None]] = {}
    _deliver(start, [each if is_bad(each) else None for each in made], arrived)
    for node in reversed(nodes):
        given = arrived.pop(node, None)
        if given is None:
            continue
        if hasattr(node, "variable"):
            leaf: Tensor = node.variable
            return leaf
        passed = _passed_on(node, given)
        _deliver(node, [each if is_bad(each) else None for each in passed[0]] if passed else (), arrived)
    return None


def _passed_on(node: Any, given: list[Tensor | None] | None) -> tuple[Grads, Grads] | None:
    """The gradients a node passes on for some incoming ones, and these without gaps; None if it must not be called."""
    if given is None or hasattr(node, "variable"):
        return None
    try:
        if not may_be_called(node):
            return None
        grads = [_zeros(meta) if each is None else each for each, meta in zip(given, node._input_metadata, strict=True)]
        made = node(*grads)
    except Exception:  # its saved tensors are freed or overwritten, or memory has run out
        return None
    return made if isinstance(made, tuple) else (made,), grads


def _zeros(meta: Any) -> Tensor:
    return torch.zeros(meta.shape, dtype=meta.dtype, device=meta.device)


def _places(arrived: dict[Any, list[Tensor | None]], node: Any) -> list[Tensor | None]:
    return arrived.setdefault(node, [None] * max(len(node._input_metadata), 1))


def _deliver(node: Any, made: Grads, arrived: dict[Any, list[Tensor | None]]) -> None:
    """Add gradients to those that have arrived at the next nodes."""
    for (following, place), grad in zip(node.next_functions, made, strict=False):
        if following is None or grad is None:
            continue
        places = _places(arrived, following)
        before = places[place]
        places[place] = grad if before is None else before + grad
