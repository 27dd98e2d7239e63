"""Joining tensors and taking them apart."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from retrograd.core.layout import row_major
from retrograd.core.op import linear, view
from retrograd.core.registry import add_method, composite
from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import default_float, int64, result_dtype
from retrograd.ops._checks import check_tensor
from retrograd.ops._positions import along
from retrograd.ops._rules import normalize_dim
from retrograd.ops.rearranging import pad
from retrograd.ops.shape import atleast_1d, atleast_2d, atleast_3d, expand

if TYPE_CHECKING:
    from retrograd.core.annotations import TensorOrArray


# --- joining ------------------------------------------------------------------------------------------------------


def _common_dtype(tensors: Sequence[Any]) -> np.dtype:
    dtype = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != dtype:
            return result_dtype(*tensors)
    return dtype


def _cat_back(g: Any, tensors_shape: list[tuple[int, ...]], dim: int, needs: tuple[bool, ...]) -> list[Any]:
    dim %= g.ndim  # where all are of shape (0,), it may be any number
    grads: list[Any] = []
    start = 0
    for shape, needed in zip(tensors_shape, needs, strict=True):
        if shape == (0,):  # such a tensor may join tensors of any shape
            grads.append(np.zeros_like(g, shape=shape) if needed else None)
            continue
        stop = start + shape[dim]
        grads.append(g[along(dim, slice(start, stop))] if needed else None)
        start = stop
    return grads


@linear(
    sequence="tensors",
    method=False,
    tensors=_cat_back,
)
def cat(tensors: Sequence[Any], dim: int = 0):
    """Join tensors along an existing dimension. The other lengths must agree; tensors of shape (0,) are left out.

    >>> rg.cat([rg.zeros(2, 3), rg.ones(1, 3)]).shape
    retrograd.Size([3, 3])
    """
    if not tensors:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    dtype = _common_dtype(tensors)
    try:
        return _joined(tensors, dim, dtype)
    except ValueError:
        parts = _fitting(tensors, dim)
        return _joined(parts or tensors, dim if parts else 0, dtype)


def _joined(parts: Sequence[Any], dim: int, dtype: np.dtype) -> Any:
    """``np.concatenate``, lying row by row whatever the parts do, so that it can be viewed in other shapes."""
    return row_major(np.concatenate(parts, dim, dtype=dtype))


def _fitting(tensors: Sequence[Any], dim: int) -> Sequence[Any]:
    """The tensors without those of shape (0,); raises if they do not fit together."""
    for k, tensor in enumerate(tensors):
        if not tensor.ndim:
            raise RuntimeError(
                f"cat: zero-dimensional tensor (at position {k}) cannot be concatenated; use stack instead"
            )
    parts = [tensor for tensor in tensors if tensor.shape != (0,)]
    if not parts:
        return parts
    shape = parts[0].shape
    dim = normalize_dim(dim, len(shape))
    for k, part in enumerate(parts):
        if part.ndim != len(shape):
            raise RuntimeError(f"cat: Tensors must have same number of dimensions: got {len(shape)} and {part.ndim}")
        if part.shape[:dim] + part.shape[dim + 1 :] != shape[:dim] + shape[dim + 1 :]:
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {dim}. Expected a shape like {list(shape)} but "
                f"got {list(part.shape)} for tensor number {k} in the list."
            )
    return parts


def _stack_back(g: Any, dim: int, needs: tuple[bool, ...]) -> list[Any]:
    dim = normalize_dim(dim, g.ndim)
    return [g[along(dim, k)] if needed else None for k, needed in enumerate(needs)]


@linear(sequence="tensors", method=False, tensors=_stack_back)
def stack(tensors: Sequence[Any], dim: int = 0):
    """Join tensors of one shape along a new dimension.

    >>> rg.stack([rg.zeros(3), rg.ones(3)], dim=1).shape
    retrograd.Size([3, 2])
    """
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = tensors[0].shape
    for k, tensor in enumerate(tensors):
        if tensor.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(tensor.shape)} at entry {k}"
            )
    dim = normalize_axis_index(dim, tensors[0].ndim + 1)
    return _joined([tensor[along(dim, None)] for tensor in tensors], dim, _common_dtype(tensors))


concat = concatenate = cat


def _tensors(tensors: Any) -> list[Any]:
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else list(tensors)


def _at_least(name: str, tensors: Sequence[Any], least: Any) -> list[Any]:
    """The tensors, each with the dimensions it needs."""
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}; "
            f"put several in a list, as in {name}([a, b])"
        )
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return [least(tensor) for tensor in tensors]


@composite(method=False, out=True)
def hstack(tensors: Sequence[TensorOrArray]) -> Tensor:
    """Join tensors along the second dimension (vectors along their only one)."""
    parts = _at_least("hstack", tensors, atleast_1d)
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


@composite("row_stack", method=False, out=True)
def vstack(tensors: Sequence[TensorOrArray]) -> Tensor:
    """Join tensors along the first dimension, vectors as rows."""
    return cat(_at_least("vstack", tensors, atleast_2d), 0)


@composite(method=False, out=True)
def dstack(tensors: Sequence[TensorOrArray]) -> Tensor:
    """Join tensors along the third dimension."""
    return cat(_at_least("dstack", tensors, atleast_3d), 2)


@composite(method=False, out=True)
def column_stack(tensors: Sequence[TensorOrArray]) -> Tensor:
    """Join tensors along the second dimension, vectors as columns."""
    return cat(_at_least("column_stack", tensors, _as_columns), 1)


def _as_columns(tensor: Any) -> Any:
    return tensor if tensor.ndim > 1 else tensor.reshape(-1, 1)


row_stack = vstack


@composite(method=False)
def block_diag(*tensors: TensorOrArray) -> Tensor:
    """Return the matrix with the given matrices on its diagonal and zeros elsewhere; vectors count as rows."""
    blocks = [atleast_2d(check_tensor("block_diag", tensor)) for tensor in tensors]
    if not blocks:
        return wrap(np.zeros((1, 0), default_float()))
    for k, block in enumerate(blocks):
        if block.ndim > 2:
            raise RuntimeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has {block.ndim} dimensions"
            )
    width = sum(block.shape[1] for block in blocks)
    rows, start = [], 0
    for block in blocks:
        end = start + block.shape[1]
        rows.append(pad(block, (start, width - end)))
        start = end
    return cat(rows, 0)


@composite(method=False)
def meshgrid(*tensors: TensorOrArray | Sequence[TensorOrArray], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Expand vectors to the grids of their coordinates, as views.

    Parameters
    ----------
    indexing
        ``"ij"``: dimension ``k`` of every grid belongs to vector ``k``; ``"xy"``: the first two are swapped.
    """
    vectors = _tensors(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for vector in vectors:
        if vector.ndim > 1:
            raise RuntimeError(f"meshgrid: Expected 0D or 1D tensors, but got a tensor of shape {list(vector.shape)}")
        if vector.dtype != vectors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = [1, 0]
    shape = [1] * len(vectors)
    for place, vector in zip(places, vectors, strict=True):
        shape[place] = vector.numel()
    grids = []
    for place, vector in zip(places, vectors, strict=True):
        line = [1] * len(vectors)
        line[place] = -1
        grids.append(expand(vector.reshape(line), shape))
    return tuple(grids)


@composite(method=False)
def cartesian_prod(*tensors: TensorOrArray) -> Tensor:
    """Return the rows of all combinations of one element of each vector."""
    vectors = _tensors(tensors)
    for vector in vectors:
        if vector.ndim != 1:
            raise RuntimeError(f"cartesian_prod: Expect a 1D vector, but got shape {list(vector.shape)}")
    if len(vectors) == 1:
        return vectors[0]
    return stack([grid.reshape(-1) for grid in meshgrid(*vectors)], dim=1)


@composite()
def combinations(input, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return the rows of all combinations of ``r`` elements of a vector, as :mod:`itertools` orders them."""
    if input.ndim != 1:
        raise RuntimeError(f"combinations: Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: Expect a non-negative number, but got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if r == 0:
        return input[:0].detach()
    numbers = itertools.chain.from_iterable(choose(range(input.shape[0]), r))
    return input[np.fromiter(numbers, np.int64).reshape(-1, r)]


# --- taking apart -------------------------------------------------------------------------------------------------


@view(multi_view=True, input=lambda g, dim: np.stack(g, dim))
def unbind(input, dim: int = 0):
    """Return the views at every position of dimension ``dim``, as a tuple."""
    if not input.ndim:
        raise IndexError("unbind: Dimension specified as 0 but tensor has no dimensions")
    dim = normalize_dim(dim, input.ndim)
    return tuple(input[along(dim, k)] for k in range(input.shape[dim]))


def _pieces(input: Any, sizes: Sequence[int], dim: int) -> tuple[Any, ...]:
    ends = list(itertools.accumulate(sizes))
    return tuple(input[along(dim, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True))


def _count_or_places(value: Any) -> Any:
    """An int for an integer of any kind, a 0-d tensor included; a sequence as it is."""
    return value if isinstance(value, (list, tuple)) or getattr(value, "ndim", False) else operator.index(value)


def _split_with_sizes(input: Any, sizes: Sequence[int], dim: int) -> tuple[Any, ...]:
    dim = normalize_dim(dim, input.ndim)
    if any(size < 0 for size in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got {list(sizes)}"
        )
    if sum(sizes) != input.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {input.shape[dim]} (input tensor's size at "
            f"dimension {dim}), but got split_sizes={list(sizes)}"
        )
    return _pieces(input, sizes, dim)


def _split_name(split_size_or_sections: Any) -> str:
    return "SplitWithSizesBackward0" if isinstance(split_size_or_sections, Sequence) else "SplitBackward0"


@view(method=False, multi_view=True, node_name=_split_name, tensor=lambda g, dim: np.concatenate(g, dim))
def split(tensor, split_size_or_sections: int | Sequence[int], dim: int = 0):
    """Cut a tensor into views of one length along ``dim`` (the last may be shorter), or of the given lengths.

    >>> [part.tolist() for part in rg.split(rg.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    size = _count_or_places(split_size_or_sections)
    if not isinstance(size, int):
        return _split_with_sizes(tensor, size, dim)
    dim = normalize_dim(dim, tensor.ndim)
    length = tensor.shape[dim]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0:
        if length:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}; split_size=0"
            )
        return (tensor[...],)
    count = max(-(-length // size), 1)
    return _pieces(tensor, [min(size, length - k * size) for k in range(count)], dim)


def _split_method(self: Any, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Cut a tensor into views of length ``split_size`` along ``dim``, or of the given lengths; :func:`split`."""
    return split(self, split_size, dim)


add_method("split", _split_method)


@view(multi_view=True, input=lambda g, dim: np.concatenate(g, dim))
def split_with_sizes(input, split_sizes: Sequence[int], dim: int = 0):
    """Cut a tensor into views of the given lengths along ``dim``."""
    if not input.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    return _split_with_sizes(input, split_sizes, dim)


@composite()
def chunk(input, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Cut a tensor into at most ``chunks`` views of equal length along ``dim``; the last may be shorter."""
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    chunks = as_int("chunk", "chunks", chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    length = input.size(dim)
    return split_with_sizes(input, [0] * chunks, dim) if length == 0 else split(input, -(-length // chunks), dim)


def _apart(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple([part.clone() for part in parts])


@composite()
def unsafe_chunk(input, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return what :func:`chunk` does as tensors of their own, which may be written to in place."""
    return _apart(chunk(input, chunks, dim))


@composite()
def unsafe_split(tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return what :func:`split` does as tensors of their own, which may be written to in place."""
    return _apart(split(tensor, split_size, dim))


@composite()
def unsafe_split_with_sizes(input, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return what :func:`split_with_sizes` does as tensors of their own, which may be written to in place."""
    return _apart(split_with_sizes(input, split_sizes, dim))


@composite()
def tensor_split(input, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Cut a tensor along ``dim`` into that many views of nearly equal length, or at the given positions."""
    if not input.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    length = input.size(dim)
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.dtype != int64 or indices_or_sections.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be 0- or 1-dimensional of dtype int64"
            )
        indices_or_sections = indices_or_sections.tolist()
    sections = _count_or_places(indices_or_sections)
    if isinstance(sections, int):
        if sections <= 0:
            raise RuntimeError(f"tensor_split: number of sections must be larger than 0, got {sections}")
        whole, longer = divmod(length, sections)
        cuts = list(itertools.accumulate(whole + (k < longer) for k in range(sections - 1)))
    else:
        cuts = list(sections)
    dim = normalize_dim(dim, input.ndim)
    return tuple(input[along(dim, slice(start, stop))] for start, stop in zip([0, *cuts], [*cuts, length], strict=True))


def _check_ndim(name: str, input: Any, least: int) -> None:
    if input.ndim < least:
        dimensions = "dimension" if least == 1 else "dimensions"
        raise RuntimeError(f"{name} requires a tensor with at least {least} {dimensions}, but got {input.ndim}")


def _splitalong(name: str, input: Any, indices_or_sections: Any, dim: int) -> tuple[Any, ...]:
    _check_ndim(name, input, dim + 1)
    indices_or_sections = _count_or_places(indices_or_sections)
    if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or input.shape[dim] % indices_or_sections):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} is not "
            f"divisible by the split_size {indices_or_sections}!"
        )
    return tensor_split(input, indices_or_sections, dim)


@composite()
def hsplit(input, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Cut a tensor into views along its second dimension (a vector along its only one)."""
    _check_ndim("hsplit", input, 1)
    return _splitalong("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1)


@composite()
def vsplit(input, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Cut a tensor into views along its first dimension."""
    _check_ndim("vsplit", input, 2)
    return _splitalong("vsplit", input, indices_or_sections, 0)


@composite()
def dsplit(input, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Cut a tensor into views along its third dimension."""
    return _splitalong("dsplit", input, indices_or_sections, 2)
