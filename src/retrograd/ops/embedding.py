"""Rows of a table that are looked up by index, alone and in bags, and one-hot vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.batching import unbatched
from retrograd.core.blocks import block_size
from retrograd.core.calls import inplace
from retrograd.core.half import HALF
from retrograd.core.op import kernel, linear, op
from retrograd.core.registry import composite
from retrograd.core.size import as_int
from retrograd.core.state import set_grad_enabled
from retrograd.core.tensor import Tensor
from retrograd.gpu import take_within
from retrograd.ops._checks import check_tensors, first_where
from retrograd.ops._fused import sample_by_sample
from retrograd.ops._positions import add_picked, add_rows
from retrograd.ops._rows import parts
from retrograd.ops._rules import keep, somewhere
from retrograd.ops.indexing import add_at, index_

# --- arguments --------------------------------------------------------------------------------------------------------


def _check_indices(name: str, argument: str, indices: Any) -> None:
    if indices.dtype.name not in ("int64", "int32"):
        raise RuntimeError(
            f"{name}: Expected tensor for argument '{argument}' to have one of the following scalar types: Long, Int; "
            f"but got {indices.dtype} instead; convert it with .long()"
        )


def _check_bounds(name: str, indices: Any, rows: int, kind: type[Exception]) -> None:
    indices = unbatched(indices)
    # negative numbers are too large, too, as unsigned ones
    unsigned = indices.view(np.uint64 if indices.dtype == np.int64 else np.uint32)
    if int(np.maximum.reduce(unsigned, None, initial=0)) >= rows:
        wrong = indices[(indices < 0) | (indices >= rows)]
        if wrong.size:
            raise kind(f"{name}: index out of range: {wrong.flat[0]}, for a table of {rows} rows")


def _check_padding(padding_idx: int | None, rows: int, kind: type[Exception]) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise kind(
            f"Padding_idx must be within num_embeddings, from {-rows} to {rows - 1}, got {padding_idx} for {rows} rows"
        )
    return padding_idx % rows


def _scale_rows(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    used = np.unique(indices)
    rows = weight[used]
    norms = np.linalg.norm(rows, norm_type, axis=1, keepdims=True)
    large = norms[:, 0] > max_norm
    if large.any():
        weight[used[large]] = rows[large] * (max_norm / (norms[large] + 1e-7)).astype(rows.dtype)


@op(name="embedding_renorm", public=False, method=False, inplace=_scale_rows)
def _rows_scaled(weight, indices, max_norm: float, norm_type: float):
    """``weight`` with the rows that are looked up scaled down to a norm."""
    scaled = weight.copy()
    _scale_rows(scaled, indices, max_norm, norm_type)
    return scaled


_scale_rows_in_place = inplace(_rows_scaled.op, "embedding_renorm_")


def _renormalize(weight: Tensor, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up down to a norm, in place; this is not recorded in the history."""
    recorded = set_grad_enabled(False)
    try:
        _scale_rows_in_place(weight, indices, max_norm, norm_type)
    finally:
        set_grad_enabled(recorded)


# --- embedding --------------------------------------------------------------------------------------------------------


def _gradient_of_rows(g, weight_shape, input, padding_idx, scale_grad_by_freq):
    indices = input.reshape(-1)
    g = g.reshape((indices.size, weight_shape[1]))
    if padding_idx is not None:
        g = keep(g, (indices != padding_idx)[:, None])
    if scale_grad_by_freq:
        counts = add_at(np.ones_like(indices, dtype=g.dtype), weight_shape[:1], [indices])
        g = g / counts[indices][:, None]
    return add_at(g, weight_shape, [indices])


@linear(name="embedding", public=False, method=False, weight=_gradient_of_rows)
def _embedding(weight, input, padding_idx: int | None, scale_grad_by_freq: bool):
    _check_bounds("embedding", input, len(weight), IndexError)
    return take_within(weight, input)


@composite(method=False, reported=False)
def embedding(
    input,
    weight,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of ``weight`` at the indices ``input``.

    Shapes: ``(...), (V, D) -> (..., D)``.

    Parameters
    ----------
    padding_idx
        The row of this index gets no gradient.
    max_norm
        Rows that are looked up are first scaled down to this norm, in place.
    norm_type
        The order of that norm.
    scale_grad_by_freq
        Divide the gradient of a row by the number of times its index occurs.
    sparse
        Accepted for compatibility; gradients are dense.

    Raises
    ------
    IndexError
        If an index is out of range.
    RuntimeError
        For indices that are no integers, or a weight that is no matrix.

    Examples
    --------
    >>> rg.nn.functional.embedding(rg.tensor([2, 0]), rg.tensor([[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]]))
    tensor([[2.0000, 2.1000],
            [0.0000, 0.1000]])
    """
    check_tensors("embedding", input=input, weight=weight)
    _check_indices("embedding", "input", input)
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got {list(weight.shape)}")
    padding_idx = _check_padding(padding_idx, len(weight), AssertionError)
    if max_norm is not None:
        _check_bounds("embedding", input._data, len(weight), IndexError)
        _renormalize(weight, input._data, max_norm, norm_type)
    return _embedding(weight, input, padding_idx, scale_grad_by_freq)


# --- bags -------------------------------------------------------------------------------------------------------------


def _bags(offsets: Any, count: int, include_last_offset: bool) -> tuple[Any, int]:
    """The bag of every index, and how many bags there are."""
    first = first_where(offsets[:1] != 0, offsets[:1])
    if first is not None:
        raise RuntimeError(
            "embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {first}"
        )
    last = first_where(offsets[-1:] > count, offsets[-1:])
    if last is not None:
        raise RuntimeError(
            f"embedding_bag: offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {last}"
        )
    decreases = offsets[1:] < offsets[:-1]
    if somewhere(decreases):
        raise RuntimeError(
            f"embedding_bag: offsets must not decrease, but {first_where(decreases, offsets[1:])} follows "
            f"{first_where(decreases, offsets[:-1])}, the offset of bag {np.argwhere(unbatched(decreases))[0][-1]}; "
            "sort them"
        )
    starts = offsets[:-1] if include_last_offset else offsets  # what lies behind the last one belongs to the bag before
    # of bags with the same start, all but the last are empty; if there are no bags, bag 0 is never read
    bag_of = np.searchsorted(starts, np.arange(count, like=offsets), side="right") - 1
    return np.maximum(bag_of, 0), len(starts)


def _length_of_all(bag_of: Any, number: int) -> int:
    """How many elements every bag has if the bags are consecutive and of equal length; else 0."""
    length = bag_of.size // max(number, 1)
    alike = length * number == bag_of.size and np.array_equal(bag_of, np.repeat(np.arange(number), length))
    return length if alike else 0


@kernel(
    public=False,
    method=False,
    node_name="EmbeddingBagBackward0",
    rows=lambda g, rows_shape, source, to: sums_of_rows(g, to, source, rows_shape[0]),
)
def sums_of_rows(rows, source, to, count: int):
    """A matrix whose row ``to[k]`` is the sum of all ``rows[source[k]]``; its adjoint swaps ``source`` and ``to``."""
    shape = (count, rows.shape[1])
    if not type(rows) is type(source) is type(to) is np.ndarray or rows.dtype == HALF:
        return add_at(take_within(rows, source), shape, [to])
    length = _length_of_all(to, count)
    if length:
        first, *others = source.reshape(count, length).T
        result = rows.take(first, 0)
        for other in others:
            result += rows.take(other, 0)
        return result
    result = np.zeros(shape, rows.dtype)
    if not add_rows(result, to, rows, source):
        for part in parts(to.size, _BLOCK // max(shape[1], 1)):
            add_picked(result, [to[part]], rows.take(source[part], 0))
    return result


_BLOCK = 1 << 16  # elements whose positions are computed at a time


@sample_by_sample
def _largest(weight: Any, indices: Any, bag_of: Any, number: int) -> tuple[Any, Any]:
    """For every bag and column the position of the largest row, the first of several, and which bags have one.

    Rows of bag ``number`` are left out.
    """
    counted = np.flatnonzero(bag_of < number)
    present, starts, lengths = np.unique(bag_of[counted], return_index=True, return_counts=True)
    first = np.zeros((number, weight.shape[1]), np.int64, like=bag_of)
    for length in np.unique(lengths).tolist():
        alike = np.flatnonzero(lengths == length)
        for part in parts(len(alike), block_size(_BLOCK, bag_of) // max(length * weight.shape[1], 1)):
            bags = alike[part]
            positions = counted[starts[bags][:, None] + np.arange(length, like=bag_of)]
            first[present[bags]] = np.take_along_axis(positions, weight[indices[positions]].argmax(1), 1)
    return first, np.isin(np.arange(number), present)


def _check_bags(input: Any, weight: Any, offsets: Any, per_sample_weights: Any, mode: str) -> None:
    """Raise for shapes and options that do not fit each other."""
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have "
            f"the same shape as the input ({list(input.shape)})"
        )
    if weight.ndim != 2:
        raise ValueError(f"embedding_bag: weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim not in (1, 2):
        raise ValueError(f"embedding_bag: input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "embedding_bag: if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
            f"length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        got = "None" if offsets is None else f"shape {list(offsets.shape)}"
        raise ValueError(f"embedding_bag: offsets has to be a 1D Tensor but got {got}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max, got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights is only supported for mode='sum' (got mode='{mode}')."
        )


@composite(method=False)
def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights=None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return sums, means or maxima of the rows of ``weight`` at bags of indices; an empty bag gives zeros.

    Parameters
    ----------
    input
        A matrix, every row of which is a bag, or a vector of indices.
    offsets
        Where the bags start in a vector of indices.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As of :func:`embedding`.
    mode
        ``"sum"``, ``"mean"`` or ``"max"``.
    per_sample_weights
        The factors of the rows before they are summed up.
    include_last_offset
        Whether the offsets end with the number of indices.
    padding_idx
        Indices with this value have no part in it.

    Raises
    ------
    ValueError
        If shapes or options do not fit.
    RuntimeError
        For indices or offsets out of range.

    Examples
    --------
    >>> table = rg.tensor([[1.0], [10.0], [100.0]])
    >>> rg.nn.functional.embedding_bag(rg.tensor([0, 1, 2]), table, rg.tensor([0, 2]), mode="sum")
    tensor([[ 11.],
            [100.]])
    """
    name = "embedding_bag"
    check_tensors(name, input=input, weight=weight)
    _check_bags(input, weight, offsets, per_sample_weights, mode)
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"embedding_bag: max mode does not support {what}")
    _check_indices(name, "input", input)
    if offsets is not None:
        _check_indices(name, "offsets", offsets)
    padding_idx = _check_padding(padding_idx, len(weight), RuntimeError)

    index = input.reshape(-1)  # a view, so that a write to ``input`` before the backward is noticed
    indices = index._data
    _check_bounds(name, indices, len(weight), RuntimeError)
    if input.ndim == 2:
        number = len(input)
        bag_of = np.repeat(np.arange(number, like=indices), input.shape[1])
    else:
        bag_of, number = _bags(offsets._data, len(indices), include_last_offset)
    if max_norm is not None:
        _renormalize(weight, indices, max_norm, norm_type)
    counted = None
    if padding_idx is not None:  # padding is in a separate bag, which is never read
        counted = indices != padding_idx
        bag_of = np.where(counted, bag_of, number)
    if mode == "max":
        first, present = _largest(weight._data, indices, bag_of, number)
        picked = index_(indices, [first]) if indices.size else first
        largest = index_(weight, [picked, np.broadcast_to(np.arange(weight.shape[1]), picked.shape)])
        return np.where(present[:, None], largest, 0.0)  # type: ignore[return-value]
    bags = number if counted is None and number else number + 1
    if per_sample_weights is None and not scale_grad_by_freq:
        sums = sums_of_rows(weight, index, bag_of, bags)
    else:
        rows = _embedding(weight, index, None, scale_grad_by_freq)
        if per_sample_weights is not None:
            if counted is not None:
                rows = keep(rows, counted[:, None])
            rows = rows * per_sample_weights.reshape((-1, 1))
        sums = add_at(rows, (bags, weight.shape[1]), [bag_of])
    if bags > number:
        sums = sums[:number]
    if mode == "sum":
        return sums
    sizes = add_at(np.ones_like(bag_of), (number + 1,), [bag_of])[:number]
    return sums / np.maximum(sizes, 1).astype(weight._data.dtype)[:, None]


# --- one-hot vectors --------------------------------------------------------------------------------------------------


@composite(method=False)
def one_hot(tensor, num_classes: int = -1) -> Tensor:
    """Return vectors of zeros with a one at the classes in ``tensor``.

    Shapes: ``(...) -> (..., num_classes)``; by default there is one class more than the largest.

    Raises
    ------
    RuntimeError
        If a class is negative or too large.

    Examples
    --------
    >>> rg.nn.functional.one_hot(rg.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    check_tensors("one_hot", tensor=tensor)
    num_classes = as_int("one_hot", "num_classes", num_classes)
    if tensor.dtype.name != "int64":
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}.")
    classes = unbatched(tensor._data)  # of all samples together
    if not classes.size:
        if num_classes == -1:
            raise RuntimeError("one_hot: Can not infer total number of classes from empty tensor; give num_classes.")
        if num_classes <= 0:
            raise RuntimeError(f"one_hot: Can not have {num_classes} classes for an empty tensor.")
    else:
        lowest, highest = int(classes.min()), int(classes.max())
        if num_classes == -1:
            num_classes = int(tensor.max().item()) + 1  # which `vmap` refuses, as it may differ between samples
        if lowest < 0:
            raise RuntimeError(f"one_hot: Class values must be non-negative, got {lowest}.")
        if highest >= num_classes:
            raise RuntimeError(f"one_hot: Class values must be smaller than num_classes, {num_classes}, got {highest}.")
    return (tensor.contiguous().unsqueeze(-1) == np.arange(num_classes)).long()
