"""Places in the graph, and the version counter of a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from retrograd.core.node import Node
from retrograd.core.tensor import Tensor, bump


class GradientEdge(NamedTuple):
    """A place in the graph where a gradient arrives; ``grad`` and ``backward`` take it in place of a tensor.

    Attributes
    ----------
    node : Node
        The node that receives the gradient.
    output_nr : int
        Which output of that node the gradient belongs to.
    ownership_token : Node or None
        torch's; always None here, where ``node`` itself keeps the graph alive.
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return where the gradient of ``tensor`` arrives.

    ``grad(loss, x)`` and ``grad(loss, get_gradient_edge(x))`` are the same, but the edge does not keep ``x`` alive.

    Parameters
    ----------
    tensor
        A tensor that requires grad: a leaf, a result, or a view.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x.exp()
    >>> edge = rg.autograd.graph.get_gradient_edge(y)
    >>> edge.node.name(), edge.output_nr
    ('ExpBackward0', 0)
    >>> rg.autograd.grad((y * y).sum(), edge)
    (tensor([ 5.4366, 14.7781]),)
    """
    edge = tensor._resolve_edge()
    if edge is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write that bypassed autograd, so that a later backward notices it.

    In-place operations count by themselves; this is for code that writes to the array, for example through
    ``x.detach().numpy()``. Inference tensors count no versions and are left as they are.

    Parameters
    ----------
    tensor
        The tensor that was written to, or several.

    Raises
    ------
    RuntimeError
        If it is neither a tensor nor an iterable of tensors.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x.exp()
    >>> y.detach().numpy()[0] = 0.0
    >>> rg.autograd.graph.increment_version(y)
    >>> y.sum().backward()
    Traceback (most recent call last):
        ...
    RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: ...
    """
    if isinstance(tensor, Tensor):
        tensor = (tensor,)
    elif not isinstance(tensor, Iterable):
        raise RuntimeError(
            f"increment_version expects a tensor or an iterable of tensors, but got {type(tensor).__name__}"
        )
    for item in tensor:
        if not isinstance(item, Tensor):
            raise RuntimeError(
                f"increment_version expects each element of the iterable to be a tensor, but got {type(item).__name__}"
            )
        bump(item)
