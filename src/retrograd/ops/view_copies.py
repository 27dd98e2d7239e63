"""Views as new tensors: each is a view, copied row by row, and differentiable as the view is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._positions import along
from retrograd.ops._rules import normalize_dim
from retrograd.ops.complex import view_as_complex, view_as_real
from retrograd.ops.diagonals import diagonal
from retrograd.ops.indexing import select
from retrograd.ops.joining import split, split_with_sizes, unbind
from retrograd.ops.shape import expand, permute, reshape, squeeze, t, transpose, unsqueeze, view
from retrograd.ops.windows import as_strided, unfold

if TYPE_CHECKING:
    from retrograd.core.annotations import DTypeLike


def _copied(shown: Any) -> Any:
    """A copy of a view, or of each of several."""
    return tuple(map(_copied, shown)) if isinstance(shown, tuple) else shown.copy()


@composite(method=False, out=True)
def alias_copy(input) -> Tensor:
    """Return a copy of ``input``."""
    return _copied(input)


@composite(method=False, out=True)
def as_strided_copy(input, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return a copy of what :func:`as_strided` shows."""
    return _copied(as_strided(input, size, stride, storage_offset))


@composite(method=False, out=True)
def detach_copy(input) -> Tensor:
    """Return a copy of ``input`` without its history."""
    return _copied(input.detach())


@composite(method=False, out=True)
def diagonal_copy(input, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a copy of the diagonal that :func:`diagonal` shows."""
    return _copied(diagonal(input, offset, dim1, dim2))


@composite(method=False, out=True)
def expand_copy(input, size: Sequence[int]) -> Tensor:
    """Return ``input`` repeated to ``size``, as :meth:`expand` does without copying."""
    return _copied(expand(input, size))


@composite(method=False, out=True)
def permute_copy(input, dims: Sequence[int]) -> Tensor:
    """Return a copy with the dimensions in the order ``dims``."""
    return _copied(permute(input, dims))


@composite(method=False, out=True)
def select_copy(input, dim: int, index: int) -> Tensor:
    """Return a copy of the slice at ``index`` of dimension ``dim``."""
    return _copied(select(input, dim, index))


@composite(method=False, out=True)
def slice_copy(input, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Return a copy of what ``input[start:end:step]`` shows along ``dim``."""
    if step <= 0:
        raise RuntimeError(f"slice_copy(): slice step must be positive, but got {step}; flip the tensor instead")
    return _copied(input[along(normalize_dim(dim, input.ndim), slice(start, end, step))])


@composite(method=False, out=True)
def split_copy(tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of the chunks that :func:`split` shows."""
    return _copied(split(tensor, split_size, dim))


@composite(method=False, out=True)
def split_with_sizes_copy(input, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of the chunks of these lengths along ``dim``."""
    return _copied(split_with_sizes(input, split_sizes, dim))


@composite(method=False, out=True)
def squeeze_copy(input, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return a copy without the dimensions of length 1: all of them, or those among ``dim``."""
    return _copied(squeeze(input, dim))


@composite(method=False, out=True)
def t_copy(input) -> Tensor:
    """Return a copy of the transpose of a matrix."""
    return _copied(t(input))


@composite(method=False, out=True)
def transpose_copy(input, dim0: int, dim1: int) -> Tensor:
    """Return a copy with two dimensions swapped."""
    return _copied(transpose(input, dim0, dim1))


@composite(method=False, out=True)
def unbind_copy(input, dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of the slices along ``dim``."""
    return _copied(unbind(input, dim))


@composite(method=False, out=True)
def unfold_copy(input, dimension: int, size: int, step: int) -> Tensor:
    """Return a copy of the windows that :meth:`unfold` shows."""
    return _copied(unfold(input, dimension, size, step))


@composite(method=False, out=True)
def unsqueeze_copy(input, dim: int) -> Tensor:
    """Return a copy with a new dimension of length 1 at position ``dim``."""
    return _copied(unsqueeze(input, dim))


@composite(method=False, out=True)
def view_as_complex_copy(input) -> Tensor:
    """Return a complex tensor of the pairs of numbers in the last dimension, as a copy."""
    return _copied(view_as_complex(input))


@composite(method=False, out=True)
def view_as_real_copy(input) -> Tensor:
    """Return the real and imaginary parts in a new last dimension, as a copy."""
    return _copied(view_as_real(input))


@composite(method=False, out=True)
def view_copy(input, size: Sequence[int] | DTypeLike) -> Tensor:
    """Return a copy in the shape ``size``, or of the memory of ``input`` read as another dtype, if ``size`` is one."""
    return _copied(reshape(input, size) if isinstance(size, (tuple, list)) else view(input, size))


__all__ = [
    "alias_copy",
    "as_strided_copy",
    "detach_copy",
    "diagonal_copy",
    "expand_copy",
    "permute_copy",
    "select_copy",
    "slice_copy",
    "split_copy",
    "split_with_sizes_copy",
    "squeeze_copy",
    "t_copy",
    "transpose_copy",
    "unbind_copy",
    "unfold_copy",
    "unsqueeze_copy",
    "view_as_complex_copy",
    "view_as_real_copy",
    "view_copy",
]
