"""Views with arbitrary strides: sliding windows, and memory read in any pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.array_interface import storage_of, storage_offset_of
from retrograd.core.op import kernel, view
from retrograd.core.registry import composite, method
from retrograd.core.tensor import Tensor
from retrograd.core.views import Step
from retrograd.gpu import as_strided as strided
from retrograd.ops._positions import along
from retrograd.ops._rules import normalize_dim
from retrograd.ops.shape import become_view

# --- sliding windows ----------------------------------------------------------------------------------------------


def _count(length: int, size: int, step: int) -> int:
    return (length - size) // step + 1


def _windows(x: Any, dimension: int, size: int, step: int, writeable: bool = False) -> Any:
    if not x.ndim:
        return x.reshape((1,))[:size]
    windows = np.lib.stride_tricks.sliding_window_view(x, size, dimension, writeable=writeable)
    return windows[along(dimension, slice(0, _count(x.shape[dimension], size, step) * step, step))]


@kernel(public=False, method=False, grad=lambda g, dimension, size, step: _windows(g, dimension, size, step))
def fold_windows(grad, shape: tuple[int, ...], dimension: int, size: int, step: int):
    """Zeros of ``shape`` to which every window in ``grad`` is added where it was taken: the adjoint of unfold."""
    result = np.zeros_like(grad, shape=shape, order="C")
    if not shape:
        return grad.reshape(()) if size else result
    count = grad.shape[dimension]
    for k in range(size):
        result[along(dimension, slice(k, k + step * count, step))] += grad[..., k]
    return result


@view(
    input=lambda g, input_shape, dimension, size, step: fold_windows(
        g, input_shape, normalize_dim(dimension, len(input_shape)), size, step
    )
)
def unfold(input, dimension: int, size: int, step: int):
    """Return a view of all windows of ``size`` positions of ``dimension``, ``step`` apart, in a new last dimension.

    >>> rg.arange(5).unfold(0, 3, 2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    dimension = normalize_dim(dimension, input.ndim)
    length = input.shape[dimension] if input.ndim else 1
    if size < 0 or step <= 0:
        raise RuntimeError(f"unfold: size is {size} but must be >= 0, step is {step} but must be > 0")
    if size > length:
        raise RuntimeError(f"unfold: maximum size for tensor at dimension {dimension} is {length} but size is {size}")
    return _windows(input, dimension, size, step, writeable=input.flags.writeable and step >= size)


# --- any strides --------------------------------------------------------------------------------------------------

# A layout describes how a tensor lies in its storage: shape, strides and offset of the first element, in elements.
Layout = tuple[tuple[int, ...], tuple[int, ...], int]


def _element_strides(array: Any) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def _extent(layout: Layout) -> int:
    """How many elements of the storage it takes to hold a layout."""
    shape, strides, offset = layout
    return 0 if 0 in shape else offset + 1 + sum((n - 1) * max(step, 0) for n, step in zip(shape, strides, strict=True))


def _positions(layout: Layout) -> Any:
    """The position in the storage of every element."""
    shape, strides, offset = layout
    positions = np.array(offset)
    for length, step in zip(shape, strides, strict=True):
        positions = positions[..., None] + np.arange(length) * step
    return positions


@kernel(public=False, method=False, grad=lambda g, source, target: restride(g, target, source))
def restride(grad, source: Layout, target: Layout):
    """Put ``grad`` into a storage of zeros as ``source`` says, adding up what overlaps; read it as ``target`` says."""
    storage = np.zeros_like(grad, shape=max(_extent(source), _extent(target), 1), order="C")
    np.add.at(storage, _positions(source).reshape(-1), grad.reshape(-1))
    return storage.take(_positions(target))


def _may_overlap(layout: Layout) -> bool:
    """Whether elements may share a place in the storage."""
    reach = 0
    for step, length in sorted(zip(layout[1], layout[0], strict=True)):
        if length > 1 and step <= reach:
            return True
        reach += (length - 1) * step
    return False


def _as_strided_rule(g: Any, layout: Layout, input_layout: Layout) -> Any:
    """The gradient of a place in the storage is divided among the elements of the input that lie there."""
    result = restride(g, layout, input_layout)
    if 0 in input_layout[0] or not _may_overlap(input_layout):
        return result
    places = _positions(input_layout)
    return result / np.bincount(places.reshape(-1))[places].astype(g.dtype)


@view(name="as_strided", public=False, method=False, forms=1, input=_as_strided_rule)
def _as_strided(input, layout: Layout, input_layout: Layout):
    if type(input) is BatchedArray:
        return _each_strided(input, layout, input_layout)
    shape, strides, offset = layout
    # relative to the first element, because a gradient has the layout of the input but not its storage
    start = storage_offset_of(input) + offset - input_layout[2]
    storage = storage_of(input)
    length = storage.nbytes // input.itemsize
    if start < 0 or _extent((shape, strides, start)) > length:
        raise RuntimeError(
            f"as_strided: sizes {list(shape)}, strides {list(strides)}, storage offset {offset} are out of bounds for "
            f"a storage of {length} elements"
        )
    flat = strided(storage, (storage.size,), (storage.itemsize,)).view(input.dtype)
    result = strided(flat[start:], shape, [step * input.itemsize for step in strides])
    repeats = any(step == 0 and length > 1 for length, step in zip(shape, strides, strict=True))
    if repeats and type(result) is np.ndarray:
        result.flags.writeable = False
    return result


def _each_strided(input: BatchedArray, layout: Layout, input_layout: Layout) -> BatchedArray:
    """The same view of every sample; the samples stay as far apart in the storage as they are."""
    samples, (shape, strides, offset), hidden = input.array, layout, len(input.levels)
    steps, start = _element_strides(samples), storage_offset_of(samples)
    whole: Layout = (samples.shape[:hidden] + shape, steps[:hidden] + strides, start + offset - input_layout[2])
    return BatchedArray(_as_strided.op.forward(samples, whole, (samples.shape, steps, start)), input.levels)


def _check_sample(layout: Layout, own: Layout) -> None:
    """Raise unless a layout stays within the memory of a sample, whose own layout is ``own``."""
    elements, read = np.unique(_positions(own)), _positions(layout)
    if elements.size and elements[-1] - elements[0] >= elements.size:
        raise RuntimeError(
            "as_strided: inside vmap, a sample must be contiguous in memory, but other samples are between its "
            f"elements, at strides {list(own[1])}; call it on x.contiguous()"
        )
    if read.size and not (elements.size and elements[0] <= read.min() and read.max() <= elements[-1]):
        raise RuntimeError(
            f"as_strided: sizes {list(layout[0])}, strides {list(layout[1])}, storage offset {layout[2]} are out of "
            f"bounds for a sample of {elements.size} elements, the first of which is at {own[2]}"
        )


@composite()
def as_strided(input, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return a view of the storage of ``input``: element ``i, j`` is at ``storage_offset + i*stride[0] + j*stride[1]``.

    Parameters
    ----------
    storage_offset
        By default that of ``input``.
    """
    if len(size) != len(stride):
        raise RuntimeError(f"as_strided: mismatch in length of strides and shape: {list(stride)} and {list(size)}")
    if any(step < 0 for step in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    data = input._data
    own: Layout = (data.shape, _element_strides(data), storage_offset_of(data))
    layout = (tuple(size), tuple(stride), own[2] if storage_offset is None else storage_offset)
    if type(data) is BatchedArray:
        _check_sample(layout, own)
    return _as_strided(input, layout, own)


@method
def as_strided_(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """In-place form of :func:`retrograd.as_strided`: only the shape, the strides and the offset change."""
    return become_view(input, "as_strided_", lambda: as_strided(input, size, stride, storage_offset), _undone)


def _undone(step: Step) -> Step:
    op, (layout, own), number = step
    return op, [own, layout], number


@composite()
def as_strided_scatter(
    input, src, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return ``input`` with ``src`` where :func:`as_strided` with these arguments would look."""
    result = input.clone()
    part = as_strided(result, size, stride, storage_offset)
    if part.shape != src.shape:
        raise RuntimeError(
            "as_strided_scatter: expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(part.shape)}"
        )
    part.copy_(src)
    return result
