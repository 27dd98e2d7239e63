"""Pooling to a given output size, and putting maxima back to their positions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.blocks import block_size
from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._box import Spans
from retrograd.ops._checks import check_kind, check_tensor, check_tensors
from retrograd.ops._fused import samples_in_front
from retrograd.ops._rows import parts
from retrograd.ops._tuples import per_dimension
from retrograd.ops._windows import Windows
from retrograd.ops.pool import IntOrInts, max_of_rows, mean_operation, outer_product, to_places
from retrograd.ops.scatter import scatter

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

OutputSize = int | Sequence[int | None] | None

# --- where the windows are ----------------------------------------------------------------------------------------


def _check(name: str, input: Any, n: int) -> None:
    check_tensor(name, input)
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(input.shape)}")
    check_kind(name, "f", input)
    for dim in range(input.ndim - n, input.ndim):
        if input.shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {dim} being empty"
            )


def _output_size(name: str, output_size: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The requested output size, with None replaced by the size of the input."""
    n = len(sizes)
    wanted = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * n
    if len(wanted) != n:
        raise RuntimeError(f"{name}(): output_size must be one number or {n}, but got {list(wanted)}")
    filled = [size if item is None else item for item, size in zip(wanted, sizes, strict=True)]
    counts = per_dimension(name, "output_size", filled, n)
    if min(counts) < 0:
        raise RuntimeError(
            f"{name}(): elements of output_size must be greater than or equal to 0 but received {list(counts)}"
        )
    return counts


def _spans(size: int, count: int) -> Spans:
    """Windows of sizes as equal as possible, which overlap where necessary."""
    starts = tuple(i * size // count for i in range(count))
    stops = tuple(-(-(i + 1) * size // count) for i in range(count))
    return Spans(size, starts, stops)


# --- means --------------------------------------------------------------------------------------------------------

_ADAPTIVE_AVG_POOL = {n: mean_operation("adaptive_avg_pool", n) for n in (1, 2, 3)}


def _adaptive_avg_pool(n: int, input: Any, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{n}d"
    _check(name, input, n)
    sizes = tuple(input.shape[-n:])
    return _ADAPTIVE_AVG_POOL[n](input, *_windows_and_lengths(sizes, _output_size(name, output_size, sizes)))


@functools.lru_cache(maxsize=16)  # there may be as many lengths as windows
def _windows_and_lengths(sizes: tuple[int, ...], counts: tuple[int, ...]) -> tuple[tuple[Windows | Spans, ...], Any]:
    axes: list[Windows | Spans] = []
    lengths = []
    for size, count in zip(sizes, counts, strict=True):
        spans = _spans(size, count)
        lengths.append([stop - start for start, stop in zip(spans.starts, spans.stops, strict=True)])
        even = count > 0 and size % count == 0
        axes.append(Windows(size, size // count, size // count, 1, 0, count) if even else spans)
    return tuple(axes), outer_product(lengths)


@composite(method=False, reported=False)
def adaptive_avg_pool1d(input, output_size: OutputSize) -> Tensor:
    """Return the means over ``output_size`` windows of ``(N, C, L)`` or ``(C, L)``; see :func:`adaptive_avg_pool2d`."""
    return _adaptive_avg_pool(1, input, output_size)


@composite(method=False, reported=False)
def adaptive_avg_pool2d(input, output_size: OutputSize) -> Tensor:
    """Return the means over as many windows of ``(N, C, H, W)`` or ``(C, H, W)`` as the result is to have elements.

    Parameters
    ----------
    output_size
        One number, or one for each dimension; None keeps that of the input. The windows are as equal as may be and
        overlap where the size of the input is no multiple.

    Examples
    --------
    >>> rg.nn.functional.adaptive_avg_pool2d(rg.ones(2, 8, 5, 7), 1).shape
    retrograd.Size([2, 8, 1, 1])
    """
    return _adaptive_avg_pool(2, input, output_size)


@composite(method=False, reported=False)
def adaptive_avg_pool3d(input, output_size: OutputSize) -> Tensor:
    """Return the means over ``output_size`` windows of ``(N, C, D, H, W)``; see :func:`adaptive_avg_pool2d`."""
    return _adaptive_avg_pool(3, input, output_size)


# --- maxima -------------------------------------------------------------------------------------------------------


_BLOCK = 1 << 16  # elements of windows, which stay in the cache


def _adaptive_max(input: Any, axes: tuple[Spans, ...]) -> tuple[Any, Any]:
    n = len(axes)
    rows = input.reshape(math.prod(input.shape[:-n]), math.prod(input.shape[-n:]))
    shape = len(rows), math.prod(axis.number for axis in axes)
    values: Any = np.empty_like(input, shape=shape, order="C")
    places: Any = np.empty_like(input, shape=shape, dtype=np.int64, order="C")
    for part in parts(len(rows), block_size(_BLOCK, input) // max(shape[1], rows.shape[1])) if shape[1] else ():
        values[part], places[part] = max_of_rows(rows[part], axes)
    shape = (*input.shape[:-n], *(axis.number for axis in axes))
    return values.reshape(shape), places.reshape(shape)


def _adaptive_max_operation(n: int) -> Callable[..., Any]:
    @op(
        name=f"adaptive_max_pool{n}d",
        node_name=f"AdaptiveMaxPool{n}DBackward0",
        public=False,
        method=False,
        outputs=("values", "indices"),
        differentiable_outputs=(0,),
        input=lambda g, input_shape, axes, indices: to_places(g[0], input_shape, indices, len(axes)),
    )
    @samples_in_front
    def adaptive_max_pool(input, axes: tuple[Spans, ...]):
        """The largest element of every window, and its flat position in the dimensions pooled over."""
        return _adaptive_max(input, axes)

    return adaptive_max_pool


_ADAPTIVE_MAX_POOL = {n: _adaptive_max_operation(n) for n in (1, 2, 3)}


def _adaptive_max_pool(n: int, input: Any, output_size: Any, return_indices: Truth) -> Any:
    name = f"adaptive_max_pool{n}d"
    _check(name, input, n)
    sizes = tuple(input.shape[-n:])
    axes = tuple(map(_spans, sizes, _output_size(name, output_size, sizes)))
    values, indices = _ADAPTIVE_MAX_POOL[n](input, axes)
    return (values, indices) if return_indices else values


@composite(method=False, reported=False)
def adaptive_max_pool1d(input, output_size: OutputSize, return_indices: Truth = False):
    """Return the maxima over ``output_size`` windows of ``(N, C, L)``; see :func:`adaptive_max_pool2d`."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


@composite(method=False, reported=False)
def adaptive_max_pool2d(input, output_size: OutputSize, return_indices: Truth = False):
    """Return the maxima over as many windows of ``(N, C, H, W)`` or ``(C, H, W)`` as the result is to have elements.

    Parameters
    ----------
    output_size
        One number, or one for each dimension; None keeps that of the input.
    return_indices
        Return where the maxima are, too, as positions in the flattened image.
    """
    return _adaptive_max_pool(2, input, output_size, return_indices)


@composite(method=False, reported=False)
def adaptive_max_pool3d(input, output_size: OutputSize, return_indices: Truth = False):
    """Return the maxima over ``output_size`` windows of ``(N, C, D, H, W)``; see :func:`adaptive_max_pool2d`."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


# --- the way back -------------------------------------------------------------------------------------------------


def _unpooled_size(
    sizes: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], wanted: Any
) -> tuple[int, ...]:
    n = len(sizes)
    usual = tuple((s - 1) * step + k - 2 * pad for s, k, step, pad in zip(sizes, kernel, stride, padding, strict=True))
    given = usual if wanted is None else tuple(wanted)
    size = given[2:] if len(given) == n + 2 else given
    if len(size) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
            f"'{len(given)}'"
        )
    for dim, (item, middle, step) in enumerate(zip(size, usual, stride, strict=True)):
        if not middle - step < item < middle + step:
            raise ValueError(
                f'invalid output_size "{size}" (dim {dim} must be between {middle - step} and {middle + step})'
            )
    if min(size) < 0:
        raise ValueError(
            f"max_unpool: the output would have the size {list(size)}; a kernel of {list(kernel)} with stride "
            f"{list(stride)} leaves nothing of {list(sizes)} for a padding of {list(padding)}"
        )
    return size


def _check_inside(name: str, indices: Any, volume: int, size: tuple[int, ...]) -> None:
    if type(indices) is BatchedArray:
        indices = indices.array
    wrong = indices[(indices < 0) | (indices >= volume)]
    if wrong.size:
        raise RuntimeError(
            f"{name}(): Found an invalid max index: {wrong[0]} (output volumes are of size {'x'.join(map(str, size))})"
        )


def _max_unpool(
    n: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    name = f"max_unpool{n}d"
    check_tensors(name, input=input, indices=indices)
    if indices._data.dtype != np.int64:
        raise RuntimeError(f"{name}(): elements in indices should be type int64 but got: {indices.dtype.name}")
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Input should be a {n + 1}d or {n + 2}d Tensor, but got a tensor with {input.ndim} dimensions."
        )
    if indices.shape != input.shape:
        raise RuntimeError(
            f"{name}(): Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but "
            f"got indices tensor with shape: {list(indices.shape)}"
        )
    kernel = per_dimension(name, "kernel_size", kernel_size, n)
    steps = kernel if stride is None else per_dimension(name, "stride", stride, n)
    paddings = per_dimension(name, "padding", padding, n)
    size = _unpooled_size(tuple(input.shape[-n:]), kernel, steps, paddings, output_size)
    lead, volume = tuple(input.shape[:-n]), math.prod(size)
    _check_inside(name, indices._data, volume, size)
    blank = input.detach().new_zeros((*lead, volume))
    flat = (*lead, math.prod(input.shape[-n:]))
    return scatter(blank, len(lead), indices.reshape(flat), input.reshape(flat)).reshape((*lead, *size))


@composite(method=False)
def max_unpool1d(
    input,
    indices,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima of :func:`max_pool1d` back to where they were; see :func:`max_unpool2d`."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@composite(method=False)
def max_unpool2d(
    input,
    indices,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima that :func:`max_pool2d` returned with their indices back to where they were, with zeros elsewhere.

    Parameters
    ----------
    kernel_size, stride, padding
        Those of the pooling.
    output_size
        The size of the result, with or without the dimensions in front, which the others do not determine.

    Raises
    ------
    RuntimeError
        If an index is not inside of the result.
    ValueError
        If ``output_size`` is not one from which the pooling could have come.

    Examples
    --------
    >>> largest, where = rg.nn.functional.max_pool2d(rg.eye(4)[None], 2, return_indices=True)
    >>> rg.nn.functional.max_unpool2d(largest, where, 2).sum()
    tensor(2.)
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@composite(method=False)
def max_unpool3d(
    input,
    indices,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima of :func:`max_pool3d` back to where they were; see :func:`max_unpool2d`."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
