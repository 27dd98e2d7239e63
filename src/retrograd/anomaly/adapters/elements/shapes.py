"""Which elements of an operand contribute to an element of a result, as far as shapes tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Index = tuple[int, ...]


def broadcasts(own: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether an operand of shape ``own`` can be broadcast to ``shape``."""
    tail = shape[len(shape) - len(own) :] if len(own) <= len(shape) else None
    return tail is not None and all(size in (1, whole) for size, whole in zip(own, tail, strict=True))


def inner_index(index: Index | None, shape: Sequence[int], own: Sequence[int] | None) -> Index | None:
    """The element of an operand of shape ``own`` that is broadcast to the one at ``index`` of ``shape``.

    An index with more dimensions than the shape starts with the sample under vmap. None if unknown, or if the operand
    is not broadcast.

    Examples
    --------
    >>> from retrograd.anomaly.adapters.elements.shapes import inner_index
    >>> inner_index((4, 2), (5, 3), (1, 3))
    (0, 2)
    """
    if index is None or own is None or len(index) < len(shape) or not broadcasts(own, shape):
        return None
    return tuple(0 if size == 1 else i for size, i in zip(own, index[len(index) - len(own) :], strict=True))


def selection_along(dim: Any, index: Index | None, shape: Sequence[int], own: Sequence[int]) -> tuple[Any, ...]:
    """The index of all elements that an element of a reduction, or of a softmax, was made from.

    Parameters
    ----------
    dim
        The dimension or dimensions along which the operation works; None if it has no such parameter.
    index, shape
        The element, and the shape of the result. In backward the element may be one of the operand's gradient.
    own
        The operand's shape.

    Returns
    -------
    tuple
        What to index the operand with; ``(...,)``, the whole operand, if the shapes tell no more.
    """
    ndim = len(own)
    if dim is None or index is None or not ndim:
        return (...,)
    dims = {d % ndim for d in ((dim,) if isinstance(dim, int) else dim)}
    if len(shape) == ndim or (len(index) != len(shape) and len(index) == ndim):
        return tuple(slice(None) if d in dims else index[d] for d in range(ndim))
    if len(shape) == ndim - len(dims):
        rest = iter(index)
        return tuple(slice(None) if d in dims else next(rest) for d in range(ndim))
    return (...,)
