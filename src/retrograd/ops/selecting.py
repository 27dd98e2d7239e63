"""Picking elements by index tensors and masks: gather, index_select, take, masked_select, nonzero."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from retrograd.batching import unbatched
from retrograd.core.errors import no_tensor
from retrograd.core.layout import row_major
from retrograd.core.op import kernel, linear, op
from retrograd.core.record import settle
from retrograd.core.registry import composite, for_users
from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor, wrap
from retrograd.gpu import take_within
from retrograd.ops._checks import check_tensors
from retrograd.ops._positions import ALL, add_along, add_picked, along, along_dim, index_of_rows
from retrograd.ops._rules import normalize_dim
from retrograd.ops.indexing import add_at, slice_

# --- parts --------------------------------------------------------------------------------------------------------


@composite()
def narrow(input, dim: int, start: int | Tensor, length: int) -> Tensor:
    """Return the view of ``length`` positions of dimension ``dim``, beginning with ``start``."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start.ndim or start._data.dtype.kind not in "iu"):
        raise RuntimeError(f"narrow(): start must be an integer or a 0-dim tensor of integers, but got {start}")
    start, length = as_int("narrow", "start", start), as_int("narrow", "length", length)
    dim = normalize_dim(dim, input.ndim)
    size = input.shape[dim]
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, but is {length}.")
    if not -size <= start <= size:
        raise IndexError(f"narrow(): Dimension out of range: start {start} of dimension {dim} with size {size}")
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"narrow(): start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice_(input, along(dim, slice(start, start + length)))


@composite(out=True)
def narrow_copy(input, dim: int, start: int | Tensor, length: int) -> Tensor:
    """Return what :func:`narrow` returns, as a copy."""
    return narrow(input, dim, start, length).clone()


@composite(method=False)
def unravel_index(indices, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return, for positions in a flattened tensor of ``shape``, the index in every dimension.

    >>> rg.unravel_index(rg.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    check_tensors("unravel_index", indices=indices)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"unravel_index(): expected 'indices' to be integer dtype, but got {indices.dtype}")
    try:
        lengths = tuple(map(operator.index, (shape,) if hasattr(shape, "__index__") else shape))
    except TypeError:
        raise TypeError(
            f"unravel_index(): expected 'shape' to be an int or a sequence of ints, not {shape!r}"
        ) from None
    if any(length < 0 for length in lengths):
        raise ValueError(f"unravel_index(): 'shape' cannot have negative values, but got {lengths}")
    left, found = indices._data.astype(np.int64, copy=False), []
    for length in reversed(lengths):
        found.append(wrap(settle(left % length)))
        left = left // length
    return tuple(found[::-1])


# --- along a dimension --------------------------------------------------------------------------------------------


def check_bounds(
    name: str,
    index: Any,
    dim: int,
    size: int,
    *,
    negative: bool = False,
    kind: type[Exception] = RuntimeError,  # torch's exception classes differ by function
) -> None:
    """Raise where an index lies outside of ``size`` positions; IndexError where negative ones count from the end."""
    index = unbatched(index)  # for the samples of a batch together, which need not agree
    if not index.size:
        return
    # one comparison decides the usual case: read as unsigned, a negative index is larger than any size
    if int(np.maximum.reduce(index.view(f"u{index.itemsize}"), None)) < size:
        return
    low, high = np.minimum.reduce(index, None), np.maximum.reduce(index, None)
    if low < -size or high >= size or not negative:
        wrong = int(high if high >= size else low)
        raise (IndexError if negative else kind)(
            f"{name}(): index {wrong} is out of bounds for dimension {dim} with size {size}"
        )


_INDEX_DTYPES = frozenset((np.dtype(np.int64), np.dtype(np.int32)))


def check_index(name: str, index: Any) -> None:
    """Raise unless an index consists of integers."""
    if not hasattr(index, "dtype"):
        raise no_tensor(name, "argument 'index'", index)
    if index.dtype not in _INDEX_DTYPES and index.size:
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index, but got {index.dtype}")


def same_dtype(name: str, input: Any, src: Any, what: str) -> None:
    """Raise unless ``src`` is a tensor of the dtype of ``input``."""
    if not hasattr(src, "dtype"):
        raise no_tensor(name, f"argument '{what}'", src)
    if src.dtype != input.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to {what}.dtype, but got {input.dtype} and {src.dtype}; "
            f"convert it with {what}.to(input.dtype)"
        )


def check_vector(
    name: str,
    index: Any,
    dim: int,
    shape: tuple[int, ...],
    *,
    negative: bool = False,
    kind: type[Exception] = RuntimeError,
) -> Any:
    """The index as a vector of positions of ``dim``."""
    check_index(name, index)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but has shape {list(index.shape)}")
    check_bounds(name, index, dim, shape[dim] if shape else 1, negative=negative, kind=kind)
    return index.reshape(-1)


@kernel(public=False, method=False, grad=lambda g, dim, index: rows_at(g, dim, index))
def add_rows(grad, shape: tuple[int, ...], dim: int, index):
    """Zeros of ``shape`` with ``grad`` added at positions ``index`` of ``dim``: the adjoint of index_select."""
    if not shape:
        return grad.reshape(())
    return add_at(grad, shape, (*(ALL,) * normalize_dim(dim, len(shape)), index.reshape(-1)))


@kernel(name="index_select", input=lambda g, input_shape, dim, index: add_rows(g, input_shape, dim, index))
def rows_at(input, dim: int, index):
    """Return the positions ``index``, a vector, of dimension ``dim``."""
    dim = normalize_dim(dim, input.ndim)
    # as in torch, where it looks rows up as an embedding does
    kind = IndexError if dim == 0 and input.size else RuntimeError
    index = check_vector("index_select", index, dim, input.shape, kind=kind)
    if not input.ndim:
        if index.size != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
        return input.copy()
    return row_major(input.take(index, 0) if dim == 0 else input[along(dim, index)])


index_select = for_users(rows_at)


def check_gather(
    name: str, index: Any, dim: int, shape: tuple[int, ...], src_shape: tuple[int, ...] | None = None
) -> int:
    """Raise where an index with an entry for each element does not fit; return the dimension counted from the front."""
    check_index(name, index)
    dim = normalize_dim(dim, len(shape))
    if not index.size:  # picks nothing, whatever its shape
        return dim
    if max(index.ndim, 1) != max(len(shape), 1) or (
        src_shape is not None and max(len(src_shape), 1) != max(index.ndim, 1)
    ):
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as input and src tensor, but the shapes "
            f"are {list(index.shape)}, {list(shape)}" + (f" and {list(src_shape)}" if src_shape is not None else "")
        )
    rest = slice(dim + 1, None)
    fits = (index.shape[:dim] == shape[:dim] and index.shape[rest] == shape[rest]) or all(
        n <= m for d, (n, m) in enumerate(zip(index.shape, shape, strict=False)) if d != dim
    )
    if src_shape is not None:
        fits = fits and all(n <= m for n, m in zip(index.shape, src_shape or (1,), strict=False))
    if not fits:
        raise RuntimeError(
            f"{name}(): Size does not match: expected index {list(index.shape)} to be no larger than self {list(shape)}"
            f" apart from dimension {dim}"
            + (f" and to be no larger than src {list(src_shape)}" if src_shape is not None else "")
        )
    check_bounds(name, index, dim, shape[dim] if shape else 1)
    return dim


@kernel(public=False, method=False, grad=lambda g, dim, index: elements_at(g, dim, index))
def scatter_zeros(grad, shape: tuple[int, ...], dim: int, index):
    """Zeros of ``shape`` with ``grad`` added where gather would pick: the adjoint of gather."""
    result = np.zeros_like(grad, shape=shape, order="C")
    dim = normalize_dim(dim, len(shape))
    if index.size and index.ndim > 1 and index.shape[dim] == 1:  # no position twice
        result.reshape(-1)[along_dim(index, shape, dim)] = grad
    else:
        add_along(result, index, dim, grad)
    return result


@kernel(name="gather", input=lambda g, input_shape, dim, index: scatter_zeros(g, input_shape, dim, index))
def elements_at(input, dim: int, index, sparse_grad: bool = False):
    """Pick an element of ``dim`` for each entry of ``index``; ``out[i, j] = input[i, index[i, j]]`` for ``dim=1``."""
    dim = check_gather("gather", index, dim, input.shape)
    rows = index_of_rows(index, input.shape, dim)
    if rows is not None:
        return take_within(input, rows)
    return take_within(input.reshape(-1), along_dim(index, input.shape, dim))


gather = for_users(elements_at)


@composite(out=True)
def take_along_dim(input, indices, dim: int | None = None) -> Tensor:
    """Pick elements along ``dim`` (of the flattened tensor, by default) as :func:`gather`, broadcasting the other ones.

    >>> x = rg.tensor([[3, 1, 2]])
    >>> rg.take_along_dim(x, x.argsort(1), 1).tolist()
    [[1, 2, 3]]
    """
    if indices.dtype.kind not in "iu":
        raise RuntimeError(f"take_along_dim(): dtype of indices should be Long but got {indices.dtype}")
    if dim is None:
        return elements_at(input.reshape(-1), 0, _counted_forward(indices.reshape(-1), 0, input.numel()))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = normalize_dim(dim, input.ndim)
    if not input.ndim:
        return elements_at(input, 0, indices)
    indices = _counted_forward(indices, dim, input.shape[dim])
    lengths = [max(n, m) if 0 not in (n, m) else 0 for n, m in zip(input.shape, indices.shape, strict=True)]
    wide = input.expand(*lengths[:dim], input.shape[dim], *lengths[dim + 1 :])
    return elements_at(wide, dim, indices.expand(*lengths[:dim], indices.shape[dim], *lengths[dim + 1 :]))


def _counted_forward(indices: Tensor, dim: int, size: int) -> Tensor:
    data = indices._data
    check_bounds("take_along_dim", data, dim, size, negative=True)
    return wrap(np.where(data < 0, data + size, data))


# --- anywhere -----------------------------------------------------------------------------------------------------


@kernel(name="take", input=lambda g, input_shape, index: take_back(g, input_shape, index))
def flat_elements_at(input, index):
    """Return the elements at positions ``index`` of the flattened tensor, in the shape of ``index``."""
    if index.dtype not in _INDEX_DTYPES and index.size:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype}")
    if index.size and not -input.size <= index.min() <= index.max() < input.size:
        raise IndexError(
            f"take(): index out of range: tried to access index {int(index.min())} to {int(index.max())} "
            f"on a tensor of {input.size} elements."
        )
    return input.take(index)


take = for_users(flat_elements_at)


@kernel(public=False, method=False, grad=lambda g, index: flat_elements_at(g, index))
def take_back(grad, shape: tuple[int, ...], index):
    """Zeros of ``shape`` with ``grad`` added at flat positions: the adjoint of take."""
    result = np.zeros_like(grad, shape=math.prod(shape))
    add_picked(result, (index,), grad)
    return result.reshape(shape)


def check_mask(name: str, mask: Any) -> Any:
    if not hasattr(mask, "dtype") or mask.dtype.kind != "b":
        kind = mask.dtype if hasattr(mask, "dtype") else type(mask).__name__
        raise (RuntimeError if hasattr(mask, "dtype") else TypeError)(
            f"{name}: only boolean masks are supported, but got {kind}"
        )
    return mask


@linear(input=lambda g, input_shape, mask: _unmasked(g, input_shape, mask))
def masked_select(input, mask):
    """Return the elements where ``mask`` (broadcast with ``input``) is true, as a vector."""
    check_mask("masked_select", mask)
    shape = np.broadcast_shapes(input.shape, mask.shape)
    return np.broadcast_to(input, shape)[np.broadcast_to(mask, shape)]


def _unmasked(g: Any, input_shape: tuple[int, ...], mask: Any) -> Any:
    shape = np.broadcast_shapes(input_shape, mask.shape)
    return add_at(g, shape, (np.broadcast_to(mask, shape),))


@op(name="nonzero", public=False, method=False)
def _nonzero(input):
    return np.argwhere(input)


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@composite(out=True)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Return the indices of the nonzero elements: one row each, or with ``as_tuple`` one vector per dimension."""
    if not as_tuple:
        return _nonzero(input)
    return tuple(wrap(row_major(index)) for index in np.atleast_1d(input._data).nonzero())


@op(name="nonzero_static", public=False, method=False)
def _nonzero_static(input, size: int, fill_value: int):
    found = np.argwhere(input)[:size]
    result = np.full((size, found.shape[1]), fill_value, like=found)
    result[: len(found)] = found
    return result


@composite(out=True)
def nonzero_static(input, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the first ``size`` rows of :func:`nonzero`, with rows of ``fill_value`` where it has fewer."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be a non-negative integer, but got {size}")
    return _nonzero_static(input, size, fill_value)


@composite()
def argwhere(input) -> Tensor:
    """Return the indices of the elements that are not zero, one row each."""
    return _nonzero(input)
