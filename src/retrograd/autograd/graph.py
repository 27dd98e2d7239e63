"""The graph itself: nodes, edges, and what is saved along them, as ``torch.autograd.graph`` has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from retrograd.core import state
from retrograd.core.node import Node
from retrograd.core.tensor import Tensor, bump


class GradientEdge(NamedTuple):
    """A place in the graph where gradients arrive; ``grad`` and ``backward`` take it in place of a tensor."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return where the gradient of ``tensor`` arrives.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    edge = tensor._resolve_edge()
    if edge is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge)


def increment_version(tensor: Tensor | list[Tensor] | tuple[Tensor, ...]) -> None:
    """Count a write that was made behind autograd's back, so that a later backward notices it."""
    for item in (tensor,) if isinstance(tensor, Tensor) else tensor:
        bump(item)


class saved_tensors_hooks:  # noqa: N801 (torch's name)
    """Inside this block, store what ``pack_hook`` makes of a tensor saved for backward, and unpack it when needed.

    Parameters
    ----------
    pack_hook
        Called with each tensor that an operation saves; it must not write to it. Whatever it returns is kept.
    unpack_hook
        Called in backward with what ``pack_hook`` returned; must return a tensor of the same content.

    Examples
    --------
    >>> names = []
    >>> def pack(x):
    ...     names.append(tuple(x.shape))
    ...     return x.numpy(force=True)
    >>> x = rg.ones(5, requires_grad=True)
    >>> with rg.autograd.graph.saved_tensors_hooks(pack, rg.from_numpy):
    ...     y = (x * x).sum()
    >>> names
    [(5,), (5,)]
    >>> y.backward()
    >>> x.grad
    tensor([2., 2., 2., 2., 2.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        local = state.local
        if local.saved_hooks_disabled is not None:
            raise RuntimeError(local.saved_hooks_disabled)
        local.saved_hooks = (*(local.saved_hooks or ()), (self.pack_hook, self.unpack_hook))
        state.refresh()

    def __exit__(self, *exc: object) -> None:
        local = state.local
        local.saved_hooks = (local.saved_hooks or ())[:-1] or None
        state.refresh()


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside this block, refuse :class:`saved_tensors_hooks` with the message given.

    Raises
    ------
    RuntimeError
        With that message, on entering the block inside hooks or hooks inside the block.
    """
    local = state.local
    if local.saved_hooks is not None:
        raise RuntimeError(error_message)
    previous, local.saved_hooks_disabled = local.saved_hooks_disabled, error_message
    try:
        yield
    finally:
        local.saved_hooks_disabled = previous


__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "saved_tensors_hooks",
]
