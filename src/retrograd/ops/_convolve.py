"""Convolution of arrays, as matrix products.

A convolution, the gradient of its input and that of its weight are one trilinear form: the sum, over images, channels
and the elements of the windows, of input times weight times output. Each of the three functions here leaves out one of
them.

The input is unrolled block by block into a matrix (im2col; Chellapilla, Puri, Simard, 2006) that stays in the cache: a
row for each channel and element of a window, a column for each window. Where windows move by one row at a time, only
the columns within a row are unrolled, and a product is made for each row of the window: these products are shifted
against each other when they are added up (as in Vasudevan, Anderson, Gregg, 2017). That copies less, and the products
are of better shape.

Along one dimension, channels that each have a window of their own (depthwise) are shifted and added up, without
products of matrices.

On a GPU a block is as large as memory allows, and windows are unrolled whole: there, the number of calls matters most.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from retrograd.core.blocks import block_size, share_out, threads_for
from retrograd.core.scratch import scratch_like
from retrograd.gpu import as_strided
from retrograd.ops._windows import Windows, each_element

# The bytes of an unrolled block on the CPU, and the columns that a product needs to be worth its call (both measured).
_BLOCK_BYTES = 1 << 21
_FEWEST_COLUMNS = 256
# The number of multiplications from which on it is worth waking a thread (measured).
_FEWEST_PRODUCTS = 1 << 23
# How many multiplications take as long as unrolling one element, and as adding one up (measured).
_WRITING, _ADDING = 24, 12
# How many rows a block must have for each row that shifting computes needlessly.
_ROWS_PER_LOST_ROW = 7


class _Block(NamedTuple):
    """Some images, and some of the windows along the first dimension."""

    images: slice
    rows: slice
    axes: tuple[Windows, ...]  # the windows of the unrolled matrix


class _Unrolling:
    """How an input is unrolled for windows along ``axes``.

    Attributes
    ----------
    shifts
        How many rows of the window get a separate product; 1, if all of them are unrolled.
    shift
        By how many rows these products are shifted against each other.
    at_once
        Whether all elements of the windows are unrolled by one copy, instead of one by one.
    """

    def __init__(
        self,
        images: int,
        channels: int,
        out_channels: int,
        groups: int,
        axes: tuple[Windows, ...],
        itemsize: int,
        block_bytes: int,
        threads: int,
    ) -> None:
        self.groups = groups
        self.at_once = block_bytes > _BLOCK_BYTES
        self.inner = channels // groups
        self.outer = out_channels // groups
        self.images = images
        self.axes = axes
        first = axes[0]
        self.kernel = tuple(axis.kernel for axis in axes)
        self.shifts = self.shift = 1
        lost = (first.kernel - 1) * first.dilation
        unrolled = math.prod(self.kernel) * self.inner
        # for each window: elements that are unrolled, products that are computed, and those that are added up
        whole = unrolled * (_WRITING + self.outer)
        by_row = unrolled // first.kernel * _WRITING + unrolled * self.outer + first.kernel * self.outer * _ADDING
        rows = max(first.number, 1)
        if not self.at_once and first.stride == 1 and lost > 0 and by_row * (rows + lost) < whole * rows:
            self.shifts, self.shift = first.kernel, first.dilation
        else:
            lost = 0
        self.lost = lost
        self.elements = math.prod(self.kernel) // self.shifts
        width = math.prod(axis.number for axis in axes[1:])
        columns = max(_FEWEST_COLUMNS, block_bytes // max(self.elements * channels * itemsize, 1))
        of_image = max((first.number + lost) * width, 1)
        self.images_at_once = max(1, min(images, columns // of_image))
        products = images * of_image * unrolled * self.outer * groups
        if threads <= images and products >= threads * _FEWEST_PRODUCTS:
            # as many blocks for one thread as for another
            blocks = -(-images // self.images_at_once)
            self.images_at_once = -(-images // (-(-blocks // threads) * threads))
        self.rows_at_once = first.number
        if columns < of_image:
            self.rows_at_once = min(first.number, max(columns // max(width, 1) - lost, _ROWS_PER_LOST_ROW * lost, 1))

    def blocks(self) -> Iterator[_Block]:
        """The blocks that cover everything; those of the same rows are consecutive."""
        first, *others = self.axes
        for start in range(0, first.number, self.rows_at_once):
            stop = min(start + self.rows_at_once, first.number)
            part = first.part(start, stop)
            if self.shifts > 1:
                part = part._replace(kernel=1, number=part.number + self.lost)
            for image in range(0, self.images, self.images_at_once):
                images = slice(image, min(image + self.images_at_once, self.images))
                yield _Block(images, slice(start, stop), (part, *others))

    def of_images(self, array: Any, images: slice, channels: int) -> Any:
        """Images with their channels in groups, as ``(groups, channels, images, ...)``."""
        part = array[images]
        return part.reshape(part.shape[0], self.groups, channels, *part.shape[2:]).swapaxes(0, 1).swapaxes(1, 2)

    def columns(self, block: _Block, input: Any, buffers: dict[str, Any]) -> Any:
        """The unrolled input, as ``(groups, elements * channels, columns)``."""
        source = self.of_images(input, block.images, self.inner)
        counts = tuple(axis.number for axis in block.axes)
        if self.elements == 1 and source.shape[2] == 1 and all(_is_whole(axis) for axis in block.axes):
            return source.reshape(self.groups, self.inner, math.prod(counts))
        shape = (self.groups, self.elements, self.inner, source.shape[2], *counts)
        if self.at_once:
            unrolled = _windows_of(_padded(source, block.axes), block.axes)
            return unrolled.reshape(self.groups, self.elements * self.inner, source.shape[2] * math.prod(counts))
        # the padding is never overwritten: it is at the same place in blocks of the same shape and rows
        unrolled = _buffer(buffers, "columns", (shape, block.rows), shape, input)
        for element, (windows, places) in enumerate(each_element(block.axes)):
            unrolled[:, element][(..., *windows)] = source[(..., *places)]
        return unrolled.reshape(self.groups, self.elements * self.inner, source.shape[2] * math.prod(counts))

    def shifted(self, block: _Block, grad: Any, buffers: dict[str, Any]) -> Any:
        """The gradient once for each product, shifted like these, as ``(groups, shifts * channels, columns)``."""
        source = self.of_images(grad, block.images, self.outer)[:, :, :, block.rows]
        if self.shifts == 1:
            return source.reshape(self.groups, self.outer, math.prod(source.shape[2:]))
        rows = source.shape[3]
        counts = tuple(axis.number for axis in block.axes)
        shape = (self.groups, self.shifts, self.outer, source.shape[2], *counts)
        copies = _buffer(buffers, "shifted", shape, shape, grad)
        for k in range(self.shifts):
            copies[:, k, :, :, k * self.shift : k * self.shift + rows] = source
        return copies.reshape(self.groups, self.shifts * self.outer, math.prod(shape[3:]))

    def to_matrix(self, weight: Any) -> Any:
        """The weight as ``(groups, shifts * out_channels, elements * channels)``."""
        grouped = weight.reshape(self.groups, self.outer, self.inner, self.shifts, self.elements)
        matrix = grouped.transpose(0, 3, 1, 4, 2)
        return matrix.reshape(self.groups, self.shifts * self.outer, self.elements * self.inner)

    def from_matrix(self, matrix: Any) -> Any:
        """The weight from its transposed matrix."""
        grouped = matrix.reshape(self.groups, self.elements, self.inner, self.shifts, self.outer)
        return grouped.transpose(0, 4, 2, 3, 1).reshape(self.groups * self.outer, self.inner, *self.kernel)


def _padded(source: Any, axes: tuple[Windows, ...]) -> Any:
    """The part of ``(groups, channels, images, ...)`` that windows cover, with zeros beyond the ends of dimensions."""
    spans = [axis.span() for axis in axes]
    ((windows, places),) = each_element(tuple(spans))
    shape = (*source.shape[:3], *(span.number for span in spans))
    inside = source[(..., *places)]
    if inside.shape == shape:
        return inside
    padded: Any = np.zeros_like(source, shape=shape, order="C")
    padded[(..., *windows)] = inside
    return padded


def _windows_of(padded: Any, axes: tuple[Windows, ...]) -> Any:
    """A view of the elements that windows cover as ``(groups, *kernel, channels, images, *windows)``."""
    groups, channels, images, *lengths = padded.strides
    kernel = [(axis.kernel, axis.dilation * length) for axis, length in zip(axes, lengths, strict=True)]
    windows = [(axis.number, axis.stride * length) for axis, length in zip(axes, lengths, strict=True)]
    whole = zip(padded.shape[:3], (groups, channels, images), strict=True)
    first, *rest = whole
    shape, strides = zip(first, *kernel, *rest, *windows, strict=True)
    return as_strided(padded, shape, strides)


def _is_whole(axis: Windows) -> bool:
    """Whether every window is a single element of the dimension, and every element is in one window."""
    return axis.before == 0 and axis.stride == 1 and axis.number == axis.size


def _buffer(
    buffers: dict[str, Any], name: str, key: Any, shape: tuple[int, ...], like: Any, make: Any = np.zeros_like
) -> Any:
    """The buffer of this name, zeroed when it is first used for ``key``, unless ``make`` leaves it uninitialised."""
    found = buffers.get(name)
    if found is None or found[0] != key:
        found = buffers[name] = (key, make(like, shape=shape, order="C"))
    return found[1]


def _runs(blocks: Iterable[_Block], threads: int) -> list[tuple[list[_Block]]]:
    """The blocks for each thread, which are those of some of the images, divided as evenly as possible."""
    blocks = list(blocks)
    images = sorted({block.images.start for block in blocks})
    parts = min(threads, len(images))
    borders = [images[len(images) * part // parts] for part in range(parts)]
    thread = [bisect.bisect_right(borders, block.images.start) - 1 for block in blocks]
    return [([block for block, own in zip(blocks, thread, strict=True) if own == part],) for part in range(parts)]


def _plan(input: Any, channels: int, out_channels: int, axes: tuple[Windows, ...], groups: int) -> Any:
    """How arrays like ``input``, images, are unrolled, and the blocks for each thread."""
    block_bytes = block_size(_BLOCK_BYTES // 4, input) * 4
    threads = threads_for(input)
    return _planned(len(input), channels, out_channels, groups, axes, input.itemsize, block_bytes, threads)


@functools.lru_cache(maxsize=256)  # for small images they take as long as the products
def _planned(*sizes: Any) -> tuple[_Unrolling, list[tuple[list[_Block]]]]:
    """How an input is unrolled, and the blocks for each thread; ``sizes`` are those of :class:`_Unrolling`."""
    plan = _Unrolling(*sizes)
    return plan, _runs(plan.blocks(), sizes[-1])


# --- windows of one element -------------------------------------------------------------------------------------------
#
# Where every element is a window, nothing is unrolled: images already are matrices in memory.


def _is_pointwise(axes: tuple[Windows, ...]) -> bool:
    return all(axis.kernel == 1 and _is_whole(axis) for axis in axes)


def _as_matrices(images: Any, groups: int) -> Any:
    """Images as ``(N, groups, channels, places)``."""
    count, channels, *sizes = images.shape
    return images.reshape(count, groups, channels // groups, math.prod(sizes))


def _slices_for_threads(images: Any, out_channels: int) -> list[tuple[slice]]:
    """The images for each thread, which are matrices."""
    count, threads = len(images), threads_for(images)
    if count < threads or images.size * out_channels < threads * _FEWEST_PRODUCTS:
        threads = 1
    return [(slice(count * k // threads, count * (k + 1) // threads),) for k in range(threads)]


def _mix(input: Any, weight: Any, bias: Any, groups: int) -> Any:
    """Mix the channels of every place."""
    images, outer = _as_matrices(input, groups), len(weight) // groups
    matrix = weight.reshape(groups, outer, images.shape[2])
    result = np.empty_like(input, shape=(len(input), len(weight), *input.shape[2:]), order="C")
    mixed = _as_matrices(result, groups)

    def work(part: slice) -> None:
        np.matmul(matrix, images[part], out=mixed[part])
        if bias is not None:
            mixed[part] += bias.reshape(groups, outer, 1)

    share_out(work, _slices_for_threads(images, outer), products=True)
    return result


def _mix_weight(grad: Any, input: Any, groups: int) -> Any:
    """The gradient of the weights that channels are mixed with, ``(O, C / groups)``."""
    grad, images = _as_matrices(grad, groups), _as_matrices(input, groups)
    slices = _slices_for_threads(images, grad.shape[2])
    shape = (len(slices), groups, grad.shape[2], images.shape[2])
    totals = np.empty_like(input, shape=shape, order="C")

    def work(total: Any, part: slice) -> None:
        np.add.reduce(np.matmul(grad[part], images[part].mT), axis=0, out=total)

    share_out(work, [(total, *part) for total, part in zip(totals, slices, strict=True)], products=True)
    return np.add.reduce(totals, axis=0).reshape(groups * grad.shape[2], images.shape[2])


# --- one channel for each group, along one dimension ------------------------------------------------------------------
#
# There each product would be of a row and a matrix, and unrolling would write as much as is multiplied.

_BLOCK = 1 << 16  # elements, which stay in the cache


def _is_single(inner: int, outer: int, axes: tuple[Windows, ...], like: Any) -> bool:
    return inner == outer == len(axes) == 1 and like.dtype.kind == "f"


def _over(work: Callable[[slice, slice], None], images: Any) -> None:
    """Call ``work`` for some images and some of their channels at a time, until all of them are done."""
    number, channels, length = images.shape
    rows = block_size(_BLOCK, images) // max(length, 1)
    channels_at_once = min(max(rows, 1), max(channels, 1))
    images_at_once = max(rows // channels_at_once, 1)
    blocks = [
        (slice(image, image + images_at_once), slice(channel, channel + channels_at_once))
        for image in range(0, number, images_at_once)
        for channel in range(0, channels, channels_at_once)
    ]
    if threads_for(images) > 1:
        share_out(work, blocks, products=True)
    else:
        for block in blocks:
            work(*block)


def _correlate_single(input: Any, weight: Any, bias: Any, axes: tuple[Windows, ...]) -> Any:
    """Every channel with its own window: the input shifted by one element after the other, times its weight."""
    result = np.zeros_like(input, shape=(*input.shape[:2], axes[0].number), order="C")

    def work(*block: slice) -> None:
        source, target, weights = input[block], result[block], weight[block[1]]
        if bias is not None:
            target += bias[block[1], None]
        products = scratch_like(target)
        for k, (windows, places) in enumerate(map(axes[0].reached, range(axes[0].kernel))):
            target[..., windows] += np.multiply(source[..., places], weights[:, :, k], out=products[..., windows])

    _over(work, result)
    return result


def _correlate_weight_single(grad: Any, input: Any, axes: tuple[Windows, ...]) -> Any:
    sums = np.zeros_like(grad, shape=(*grad.shape[:2], axes[0].kernel), order="C")

    def work(*block: slice) -> None:
        incoming, source = grad[block], input[block]
        for k, (windows, places) in enumerate(map(axes[0].reached, range(axes[0].kernel))):
            np.vecdot(incoming[..., windows], source[..., places], out=sums[block][..., k])

    _over(work, grad)
    return np.add.reduce(sums, axis=0)[:, None]


# --- all windows ------------------------------------------------------------------------------------------------------


def correlate(input: Any, weight: Any, bias: Any, axes: tuple[Windows, ...], groups: int) -> Any:
    """Convolve ``(N, C, ...)`` with ``(O, C / groups, *kernel)``, to ``(N, O, ...)``."""
    if _is_pointwise(axes):
        return _mix(input, weight, bias, groups)
    if _is_single(weight.shape[1], len(weight) // groups, axes, input):
        return _correlate_single(input, weight, bias, axes)
    plan, runs = _plan(input, input.shape[1], len(weight), axes, groups)
    counts = tuple(axis.number for axis in axes)
    result = np.empty_like(input, shape=(len(input), len(weight), *counts), order="C")
    matrix = plan.to_matrix(weight)
    if bias is not None:
        bias = bias.reshape(groups, plan.outer, *(1,) * (1 + len(axes)))

    def work(blocks: list[_Block]) -> None:
        buffers: dict[str, Any] = {}
        for block in blocks:
            columns = plan.columns(block, input, buffers)
            target = plan.of_images(result, block.images, plan.outer)[:, :, :, block.rows]
            if plan.shifts == 1 and target.shape[2] == 1:
                np.matmul(matrix, columns, out=target.reshape(groups, plan.outer, columns.shape[-1]))
            else:
                shape = (groups, plan.shifts * plan.outer, columns.shape[-1])
                products = _buffer(buffers, "products", shape, shape, input, np.empty_like)
                _add_shifted(np.matmul(matrix, columns, out=products), target, plan)
            if bias is not None:
                target += bias

    share_out(work, runs, products=True)
    return result


def _add_shifted(products: Any, target: Any, plan: _Unrolling) -> None:
    """Add up the products of the rows of the window, each shifted to where its first row is."""
    _, _, images, rows, *others = target.shape
    products = products.reshape(plan.groups, plan.shifts, plan.outer, images, rows + plan.lost, *others)
    parts = [products[:, k, :, :, k * plan.shift : k * plan.shift + rows] for k in range(plan.shifts)]
    if len(parts) == 1:
        target[...] = parts[0]
        return
    np.add(parts[0], parts[1], out=target)
    for part in parts[2:]:
        target += part


def correlate_weight(grad: Any, input: Any, axes: tuple[Windows, ...], groups: int) -> Any:
    """The gradient of the weight, given the gradient ``grad`` of the result."""
    inner, outer = input.shape[1] // groups, grad.shape[1] // groups
    # otherwise the products of each image would be larger than the unrolled input
    if _is_pointwise(axes) and inner * outer <= (inner + outer) * math.prod(input.shape[2:]):
        return _mix_weight(grad, input, groups).reshape(outer * groups, inner, *(1,) * len(axes))
    if _is_single(inner, outer, axes, input):
        return _correlate_weight_single(grad, input, axes)
    plan, runs = _plan(input, input.shape[1], grad.shape[1], axes, groups)
    shape = (len(runs), groups, plan.elements * plan.inner, plan.shifts * plan.outer)
    totals = (np.empty_like if input.size else np.zeros_like)(grad, shape=shape, order="C")

    def work(total: Any, blocks: list[_Block]) -> None:
        buffers: dict[str, Any] = {}
        for number, block in enumerate(blocks):
            factors = plan.columns(block, input, buffers), plan.shifted(block, grad, buffers).swapaxes(1, 2)
            if number == 0:
                np.matmul(*factors, out=total)
            else:
                total += np.matmul(*factors)

    share_out(work, [(total, *run) for total, run in zip(totals, runs, strict=True)], products=True)
    return plan.from_matrix(totals[0] if len(totals) == 1 else np.add.reduce(totals, axis=0))


def correlate_input(grad: Any, weight: Any, bias: Any, axes: tuple[Windows, ...], groups: int) -> Any:
    """The gradient of the input, given the gradient ``grad`` of the result; ``bias`` is added to its channels."""
    if all(axis.stride == 1 for axis in axes):
        flipped = tuple(
            axis._replace(size=axis.number, number=axis.size, before=axis.dilation * (axis.kernel - 1) - axis.before)
            for axis in axes
        )
        return correlate(grad, _transposed(weight, groups), bias, flipped, groups)
    channels = weight.shape[1] * groups
    plan, runs = _plan(grad, channels, len(weight), axes, groups)
    result = np.zeros_like(grad, shape=(len(grad), channels, *(axis.size for axis in axes)), order="C")
    if bias is not None:
        result += bias.reshape(-1, *(1,) * len(axes))
    matrix = plan.to_matrix(weight).swapaxes(1, 2)

    def work(blocks: list[_Block]) -> None:
        buffers: dict[str, Any] = {}
        for block in blocks:
            columns = matrix @ plan.shifted(block, grad, buffers)
            target = plan.of_images(result, block.images, plan.inner)
            counts = tuple(axis.number for axis in block.axes)
            columns = columns.reshape(groups, plan.elements, plan.inner, target.shape[2], *counts)
            for element, (windows, places) in enumerate(each_element(block.axes)):
                reached = target[(..., *places)]
                reached += columns[:, element][(..., *windows)]

    share_out(work, runs, products=True)
    return result


def _transposed(weight: Any, groups: int) -> Any:
    """The weight with input and output channels exchanged and every window reversed."""
    turned = weight[(..., *(slice(None, None, -1),) * (weight.ndim - 2))]
    grouped = turned.reshape(groups, len(weight) // groups, *turned.shape[1:]).swapaxes(1, 2)
    return grouped.reshape(groups * grouped.shape[1], *grouped.shape[2:])
