"""What the ``backward`` of a user-written Function returns, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrograd.core.tensor import Edge, Tensor
from retrograd.dtypes import from_numpy_dtype

if TYPE_CHECKING:
    from retrograd.autograd.function import FunctionCtx


def gradients_of_inputs(ctx: FunctionCtx, returned: Any) -> list[Any]:
    """The gradients of those arguments of ``forward`` that were tensors.

    Raises
    ------
    RuntimeError
        If there are too few or too many, or if one is no gradient of its argument.
    """
    name = ctx.name()
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    expected = len(ctx._is_tensor)
    if len(results) > expected and all(result is None for result in results[expected:]):
        results = results[:expected]
    if len(results) != expected:
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected {expected}, got {len(results)})"
        )
    edges = iter(ctx.next)
    gradients = []
    for position, (result, is_tensor) in enumerate(zip(results, ctx._is_tensor, strict=True)):
        if result is not None and not is_tensor:
            raise RuntimeError(
                f"function {name} returned a gradient different from None at position {position + 1}, "
                "but the corresponding forward input was not a Variable"
            )
        if result is not None and not isinstance(result, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(result).__name__}) from {name}")
        if is_tensor:
            edge = next(edges)
            if result is not None and edge is not None:
                _check_kind(name, position, result, edge)
            gradients.append(result)
    return gradients


def _check_kind(name: str, position: int, gradient: Tensor, edge: Edge) -> None:
    """Raise if a real argument got a complex gradient: half of what was computed would be lost without a word."""
    node, nr = edge
    dtype = node.dtype if node.outputs == 1 else node.dtype[nr]
    if gradient._data.dtype.kind == "c" and dtype.kind != "c":
        raise RuntimeError(
            f"function {name} returned a complex gradient ({gradient.dtype}) at position {position + 1}, but the "
            f"corresponding forward input is real ({from_numpy_dtype(dtype)}). "
            "The gradient of a real tensor is the .real part of it."
        )
