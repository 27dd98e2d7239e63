"""Placing values at rows, masks, flat positions and slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.layout import dense_copy, row_major
from retrograd.core.op import kernel, linear
from retrograd.core.registry import add_method, composite, method
from retrograd.core.size import checked_dim
from retrograd.core.tensor import Tensor
from retrograd.core.tensor import wrap as wrap_array
from retrograd.ops._checks import check_tensors
from retrograd.ops._positions import ALL, add_picked, along, apart, combine_at
from retrograd.ops._rules import choose, is_tensor, keep, normalize_dim
from retrograd.ops.arithmetic import as_alpha
from retrograd.ops.copying import number_to_fill
from retrograd.ops.indexing import add_at, blank_at, index_, place
from retrograd.ops.scatter import reduced_at
from retrograd.ops.selecting import check_mask, check_vector, flat_elements_at, rows_at, same_dtype

if TYPE_CHECKING:
    from retrograd.core.annotations import TensorOrArray


# --- at positions of a dimension ----------------------------------------------------------------------------------


def _rows(dim: int, ndim: int, index: Any) -> tuple[Any, ...]:
    return (*(ALL,) * normalize_dim(dim, ndim), index.reshape(-1))


def _check_source(
    name: str,
    input: Any,
    dim: int,
    index: Any,
    source: Any,
    *,
    outside: type[Exception] = IndexError,
    unequal: type[Exception] = RuntimeError,
) -> tuple[Any, Any]:
    """The index as a vector and the source with as many positions in ``dim``."""
    same_dtype(name, input, source, "source")
    dim = normalize_dim(dim, input.ndim)
    index = check_vector(name, index, dim, input.shape, kind=outside)
    if source.ndim == 0 and input.ndim == 1:
        source = source.reshape(1)
    if input.ndim == 0:
        if index.size != source.size:
            raise unequal(
                f"{name}(): Number of indices ({index.size}) should be equal to source.numel(): {source.size}"
            )
        return index, source.reshape(-1)
    if source.ndim != input.ndim or _without(source.shape, dim) != _without(input.shape, dim):
        raise (RuntimeError if source.ndim == input.ndim else unequal)(
            f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    if source.shape[dim] != index.size:
        raise unequal(
            f"{name}(): Number of indices ({index.size}) should be equal to source.size(dim): ({source.shape[dim]}), "
            f"for dim: {dim}"
        )
    return index, source


def _without(shape: Sequence[int], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], *shape[dim + 1 :])


def _index_add(input: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> None:
    outside = RuntimeError if input.ndim > 1 else IndexError  # as in torch
    index, source = _check_source("index_add", input, dim, index, source, outside=outside)
    added = source if alpha == 1 else source * as_alpha("index_add", alpha, input.dtype)
    target = input.reshape(1) if input.ndim == 0 else input
    add_picked(target, _rows(dim, input.ndim, index), added)


@linear(
    inplace=_index_add,
    input=lambda g: g,
    source=lambda g, dim, index, source_shape, alpha: rows_at(g, dim, index).reshape(source_shape) * alpha,
)
def index_add(input, dim: int, index, source, alpha: float = 1):
    """Add ``alpha`` times each position of ``source`` to the position of ``dim`` given by ``index``."""
    result = input.copy()
    _index_add(result, dim, index, source, alpha)
    return result


def _index_copy(input: Any, dim: int, index: Any, source: Any) -> None:
    index, source = _check_source("index_copy", input, dim, index, source, unequal=IndexError)
    target = input.reshape(1) if input.ndim == 0 else input
    target[_rows(dim, input.ndim, index)] = source


@linear(
    inplace=_index_copy,
    input=lambda g, dim, index: _blank_rows(g, dim, index),
    source=lambda g, dim, index, source_shape: rows_at(g, dim, index).reshape(source_shape),
)
def index_copy(input, dim: int, index, source):
    """Put each position of ``source`` at the position of ``dim`` given by ``index``."""
    result = input.copy()
    _index_copy(result, dim, index, source)
    return result


def _blank_rows(g: Any, dim: int, index: Any) -> Any:
    return blank_at(g, _rows(dim, g.ndim, index)) if g.ndim else g * (index.size == 0)


def _fill_rows(input: Any, dim: int, index: Any, value: Any) -> None:
    value = number_to_fill("index_fill", value, input.dtype)
    index = check_vector("index_fill", index, normalize_dim(dim, input.ndim), input.shape, negative=True)
    target = input.reshape(1) if input.ndim == 0 else input
    target[_rows(dim, input.ndim, index)] = value


@linear(
    inplace=_fill_rows,
    node_name=lambda value: f"IndexFillBackward{int(is_tensor(value))}",
    input=lambda g, dim, index: _blank_rows(g, dim, index),
    value=lambda g, dim, index: np.where(_blank_rows(np.ones_like(g, dtype=bool), dim, index), 0, g),
)
def index_fill(input, dim: int, index, value):
    """Put ``value``, a number or a 0-d tensor, at the positions ``index`` of ``dim``."""
    result = dense_copy(input)
    _fill_rows(result, dim, index, value)
    return result


def _each(name: str, input: Any, dim: int, index: Any, source: Any, reduce: str) -> tuple[Any, Any]:
    """A vector of positions along ``dim`` as an index for :func:`gather`, and the source to write there."""
    check_tensors(name, input=input, index=index, source=source)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"{name}(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if input.ndim:
        checked_dim(name, dim, input.ndim)
    _check_source(name, input._data, dim, index._data, source._data)
    if not source.ndim:
        source = source.reshape((1,))
    line = [1] * source.ndim
    line[normalize_dim(dim, source.ndim)] = -1
    return index.reshape(line).expand(source.shape), source


@composite(out=True)
def index_reduce(input, dim: int, index, source, reduce: str, *, include_self: bool = True) -> Tensor:
    """Reduce each position of ``source`` into the position of ``dim`` given by ``index``, by :func:`scatter_reduce`."""
    return reduced_at(input, dim, *_each("index_reduce", input, dim, index, source, reduce), reduce, include_self)


def index_reduce_(
    input: Tensor, dim: int, index: TensorOrArray, source: TensorOrArray, reduce: str, *, include_self: bool = True
) -> Tensor:
    """In-place form of :func:`retrograd.index_reduce`."""
    return input.scatter_reduce_(dim, *_each("index_reduce_", input, dim, index, source, reduce), reduce, include_self)


add_method("index_reduce_", index_reduce_)

# --- where a mask is true -----------------------------------------------------------------------------------------


def _fill_masked(input: Any, mask: Any, value: Any) -> None:
    check_mask("masked_fill", mask)
    np.copyto(input, number_to_fill("masked_fill", value, input.dtype), where=mask, casting="unsafe")


def _unfilled(g, mask):
    return keep(g, np.logical_not(mask)) if mask.size >= _MANY else np.where(mask, 0, g)


_MANY = 1 << 13  # elements of a mask, from which on that takes less time (measured)


@linear(
    inplace=_fill_masked,
    node_name=lambda value: f"MaskedFillBackward{int(is_tensor(value))}",
    input=_unfilled,
    value=lambda g, mask: keep(g, mask),
)
def masked_fill(input, mask, value):
    """Put ``value``, a number or a 0-d tensor, where ``mask`` (broadcast with ``input``) is true."""
    check_mask("masked_fill", mask)
    number = number_to_fill("masked_fill", value, input.dtype).astype(input.dtype)
    return row_major(choose(mask, number, input))


@method
def fill_diagonal_(input: Tensor, fill_value: complex, wrap: bool = False) -> Tensor:
    """Put ``fill_value`` on the main diagonal, in place; with ``wrap`` a tall matrix gets several, one below the other.

    Raises
    ------
    RuntimeError
        If there are fewer than two dimensions, or more of different lengths.
    """
    shape = tuple(input.shape)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise RuntimeError(
            f"fill_diagonal_: dimensions must be at least 2, and of equal length if there are more: {list(shape)}"
        )
    mask = np.zeros(shape, bool)
    np.fill_diagonal(mask, True, wrap)
    return input.masked_fill_(wrap_array(mask), fill_value)


def _scatter_masked(input: Any, mask: Any, source: Any) -> None:
    check_mask("masked_scatter", mask)
    same_dtype("masked_scatter", input, source, "source")
    mask = np.broadcast_to(mask, input.shape)
    count = np.count_nonzero(mask)
    if source.size < count:
        raise RuntimeError(
            f"masked_scatter: Number of elements of source < number of ones in mask ({source.size} < {count})"
        )
    input[mask] = apart(source, input).reshape(-1)[:count]


def _scatter_masked_source(g: Any, mask: Any, source_shape: tuple[int, ...]) -> Any:
    size = int(np.prod(source_shape))
    mask = np.broadcast_to(mask, g.shape)
    if type(mask) is not BatchedArray:
        picked = index_(g, (mask,))
        return place(picked, (size,), (slice(picked.shape[0]), ...)).reshape(source_shape)
    # samples pick different numbers of elements: the elements not picked are sent to a place behind the end
    mask = mask.reshape(-1)
    places = np.where(mask, np.cumsum(mask) - 1, size)
    return add_at(g.reshape(-1), (size + 1,), [places])[:size].reshape(source_shape)


@linear(
    inplace=_scatter_masked,
    input=lambda g, mask: np.where(mask, 0, g),
    source=_scatter_masked_source,
)
def masked_scatter(input, mask, source):
    """Put the elements of ``source``, one after the other, where ``mask`` (broadcast with ``input``) is true."""
    check_mask("masked_scatter", mask)
    result = np.copy(np.broadcast_to(input, np.broadcast_shapes(input.shape, mask.shape)), order="C")
    _scatter_masked(result, mask, source)
    return result


# --- at flat positions --------------------------------------------------------------------------------------------


def _put(input: Any, index: Any, source: Any, accumulate: bool = False) -> None:
    same_dtype("put", input, source, "source")
    if index.dtype.name not in ("int64", "int32"):
        raise RuntimeError(f"put(): Expected a long tensor for index, but got {index.dtype}")
    if index.size != source.size:
        raise IndexError(
            "put(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    if index.size and not -input.size <= index.min() <= index.max() < input.size:
        raise IndexError(
            f"put(): index out of range: {index.min()} to {index.max()} on a tensor of {input.size} elements."
        )
    positions, values = index.reshape(-1), source.reshape(-1)
    if accumulate:
        combine_at(np.add, input, positions % max(input.size, 1), values)
    else:
        input.flat[apart(positions, input)] = apart(values, input)


def _flat_blank(g: Any, index: Any) -> Any:
    return blank_at(g.reshape(-1), (index.reshape(-1),)).reshape(g.shape)


@linear(
    inplace=_put,
    input=lambda g, index, accumulate: g if accumulate else _flat_blank(g, index),
    source=lambda g, index, source_shape: flat_elements_at(g, index).reshape(source_shape),
)
def put(input, index, source, accumulate: bool = False):
    """Put the elements of ``source`` at positions ``index`` of the flattened tensor, or add them there."""
    result = dense_copy(input)
    _put(result, index, source, accumulate)
    return result


# --- at slices ----------------------------------------------------------------------------------------------------


@kernel(public=False, method=False, grad=lambda g, index: blank(g, index))
def blank(grad, index: tuple[Any, ...]):
    """``grad`` with zeros at a basic index."""
    result = np.copy(grad)
    result[index] = 0
    return result


def _embedded(name: str, input: Any, src: Any, index: tuple[Any, ...]) -> Any:
    if not input.ndim:
        raise IndexError(f"{name}() cannot be applied to a 0-dim tensor.")
    result = dense_copy(input)
    part = result[index]
    if part.shape != src.shape:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(part.shape)}"
        )
    part[...] = src
    return result


@linear(
    input=lambda g, dim, index: blank(g, along(normalize_dim(dim, g.ndim), index)),
    src=lambda g, dim, index: g[along(normalize_dim(dim, g.ndim), index)],
)
def select_scatter(input, src, dim: int, index: int):
    """Return ``input`` with ``src`` at position ``index`` of ``dim``."""
    dim = normalize_dim(dim, input.ndim)
    if input.ndim and not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(
            f"select_scatter(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    return _embedded("select_scatter", input, src, along(dim, index))


@linear(
    input=lambda g, dim, start, end, step: blank(g, along(normalize_dim(dim, g.ndim), slice(start, end, step))),
    src=lambda g, dim, start, end, step: g[along(normalize_dim(dim, g.ndim), slice(start, end, step))],
)
def slice_scatter(input, src, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1):
    """Return ``input`` with ``src`` at a slice of ``dim``."""
    if step <= 0:
        raise RuntimeError(f"slice_scatter: slice step must be positive, but is {step}")
    return _embedded("slice_scatter", input, src, along(normalize_dim(dim, input.ndim), slice(start, end, step)))
