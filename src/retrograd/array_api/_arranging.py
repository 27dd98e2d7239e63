"""Functions about the order and place of elements, with the parameters of the standard."""

from __future__ import annotations

from collections.abc import Sequence

from retrograd.array_api._binary import promoted
from retrograd.core.tensor import Tensor
from retrograd.ops.joining import cat

__all__ = [
    "argsort",
    "concat",
    "reshape",
    "sort",
    "take_along_axis",
    "unstack",
]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements in ascending or descending order along an axis."""
    return x.sort(dim=axis, descending=descending, stable=stable).values if x.ndim else x.clone()


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort ``x`` along an axis."""
    return x.argsort(dim=axis, descending=descending, stable=stable)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Join tensors along an axis; with None as the axis, flattened ones."""
    if axis is None:
        arrays = [each.reshape(-1) for each in arrays]
    return cat(promoted(arrays), axis or 0)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts of ``x`` along an axis, without that axis."""
    return tuple(x.unbind(axis))


def reshape(x: Tensor, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """Return the elements in another shape: a view if that can be and ``copy`` is not True.

    Raises
    ------
    ValueError
        If ``copy`` is False and a copy would be needed.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as error:
            raise ValueError(f"reshape: the shape {shape} needs a copy, but copy=False forbids one") from error
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the elements at indices along an axis, as :func:`argsort` gives them."""
    return x.take_along_dim(indices, axis)
