"""What the ``backward`` of a user's Function may return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.core.errors import kind_name, to_be_made
from retrograd.core.tensor import Edge, Tensor


def gradients_of(
    name: str, returned: Any, are_tensors: Sequence[bool], edges: Sequence[Edge | None]
) -> list[Tensor | None]:
    """The gradients of those arguments that are tensors.

    Parameters
    ----------
    name
        The node's, for errors.
    returned
        What ``backward`` returned.
    are_tensors
        For every argument of ``forward``, whether it is a tensor.
    edges
        For every argument that is a tensor, where its gradient goes.

    Raises
    ------
    RuntimeError
        If there are too few or too many gradients, if one is no tensor or belongs to an argument that was none, or if
        the gradient of a real argument is complex.
    """
    results = list(returned) if isinstance(returned, tuple) else [returned]
    expected = len(are_tensors)
    if len(results) > expected and all(result is None for result in results[expected:]):
        results = results[:expected]
    if len(results) != expected:
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected {expected}, got {len(results)})"
        )
    for position, (result, is_tensor) in enumerate(zip(results, are_tensors, strict=True)):
        if result is not None and not is_tensor:
            raise RuntimeError(
                f"function {name} returned a gradient different from None at position {position + 1}, "
                "but the corresponding forward input was not a Variable"
            )
        if result is not None and not isinstance(result, Tensor):
            advice = "; return several gradients as a tuple" if isinstance(result, list) else to_be_made(result)
            raise RuntimeError(f"expected Variable or None (got {kind_name(result)}) from {name}{advice}")
    gradients = [result for result, is_tensor in zip(results, are_tensors, strict=True) if is_tensor]
    for gradient, edge in zip(gradients, edges, strict=True):
        if gradient is not None and edge is not None:
            _check_kind(name, gradient, edge)
    return gradients


def _check_kind(name: str, gradient: Tensor, edge: Edge) -> None:
    """Raise where the imaginary part of a gradient would be silently discarded."""
    node, nr = edge
    _, dtype = node.shape_and_dtype(nr)
    if gradient._data.dtype.kind == "c" and dtype.kind != "c":
        raise RuntimeError(
            f"function {name} returned a gradient of {gradient._data.dtype} for an input of {dtype}: "
            "return the real part (.real) of the gradient of a real input"
        )
