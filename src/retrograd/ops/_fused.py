"""Second derivatives of fused operations.

A fused operation computes its result, and its rules the gradients, in as few passes over memory as it takes, on arrays.
Where the gradients need a history of their own, they come from the same function composed of ordinary operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from retrograd.batching import holds_batch
from retrograd.batching.per_sample import in_front, over_rows, per_sample
from retrograd.core.engine import run
from retrograd.core.node import Node
from retrograd.core.op import linear
from retrograd.core.state import local, set_grad_enabled
from retrograd.core.tensor import Tensor


def sample_by_sample(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that writes into arrays it allocates work in a batch, too, one sample at a time."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return per_sample(function, args, {}) if holds_batch(args) else function(*args)

    return call


def samples_in_front(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that takes leading dimensions for a batch work in a batch of hidden axes, too."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return in_front(function, args) if holds_batch(args) else function(*args)

    return call


def all_samples_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of the rows of matrices work in a batch, too, on the rows of all samples."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return over_rows(function, args) if holds_batch(args) else function(*args)

    return call


@linear(public=False, method=False, input=lambda g: g)
def _apart(input):
    """The same tensor as a separate node of the graph."""
    return input


def gradients_of(composed: Callable[..., Any], g: Any, operands: list[Any], wanted: tuple[int, ...]) -> list[Any]:
    """Gradients of a function composed of operations, as Tensors that can be differentiated in turn.

    Parameters
    ----------
    composed
        The function.
    g
        The gradient of its result; a list of them, if there are several results.
    operands
        Its arguments; those at ``wanted`` are Tensors.
    wanted
        The positions of the arguments whose gradients are returned.
    """
    recorded = set_grad_enabled(True)
    try:
        # so that the paths from the result to different operands stay separate
        apart = [_apart(operand) if isinstance(operand, Tensor) else operand for operand in operands]
        for position in wanted:
            alias = apart[position]
            if alias._edge is None:
                alias._edge = (Node((), alias._data.shape, alias._data.dtype), 0)
        result = composed(*apart)
    finally:
        set_grad_enabled(recorded)
    several = isinstance(result, (list, tuple))
    edges = [each._resolve_edge() for each in (result if several else [result])]
    return run(
        [(edge, each) for edge, each in zip(edges, g if several else [g], strict=True) if edge is not None],
        retain_graph=recorded,
        create_graph=local.grad_enabled,
        inputs=[apart[position]._edge for position in wanted],
        accumulate=False,
        notify=False,
    )


def gradient_of(composed: Callable[..., Tensor], g: Tensor, operands: list[Any], wanted: int) -> Any:
    """The same for one argument."""
    return gradients_of(composed, g, operands, (wanted,))[0]
