"""Windows of images as the columns of a matrix, and back; and channels exchanged for space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.op import kernel
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind
from retrograd.ops._fused import sample_by_sample
from retrograd.ops._tuples import per_dimension
from retrograd.ops._windows import Windows, count_windows, each_element

IntOrInts = int | Sequence[int]
Axes = tuple[Windows, ...]

# --- columns ------------------------------------------------------------------------------------------------------


@kernel(
    node_name="Im2ColBackward0",
    public=False,
    method=False,
    input=lambda g, axes: col2im(g, axes),
    factors=("input",),
)
@sample_by_sample
def im2col(input, axes: Axes):
    """The windows over the last dimensions as columns: ``(..., C, H, W) -> (..., C * window, number of windows)``."""
    n = len(axes)
    counts = tuple(axis.number for axis in axes)
    elements = math.prod(axis.kernel for axis in axes)
    lead = input.shape[:-n]
    columns: Any = np.zeros_like(input, shape=(*lead, elements, *counts), order="C")
    at = (slice(None),) * len(lead)
    for element, (windows, places) in enumerate(each_element(axes)):
        columns[(*at, element, *windows)] = input[(*at, *places)]
    return columns.reshape((*lead[:-1], lead[-1] * elements, math.prod(counts)))


@kernel(
    node_name="Col2ImBackward0",
    public=False,
    method=False,
    input=lambda g, axes: im2col(g, axes),
    factors=("input",),
)
@sample_by_sample
def col2im(input, axes: Axes):
    """The sums over all windows that contain an element: the adjoint of :func:`im2col`."""
    counts = tuple(axis.number for axis in axes)
    elements = math.prod(axis.kernel for axis in axes)
    lead = (*input.shape[:-2], input.shape[-2] // elements)
    columns = input.reshape((*lead, elements, *counts))
    result = np.zeros_like(input, shape=(*lead, *(axis.size for axis in axes)), order="C")
    at = (slice(None),) * len(lead)
    for element, (windows, places) in enumerate(each_element(axes)):
        result[(*at, *places)] += columns[(*at, element, *windows)]
    return result


def _axes(
    name: str, sizes: tuple[int, ...], kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Windows, ...]:
    kernels, dilations, paddings, strides = (
        per_dimension(name, parameter, value, 2)
        for parameter, value in (
            ("kernel_size", kernel_size),
            ("dilation", dilation),
            ("padding", padding),
            ("stride", stride),
        )
    )
    for parameter, values in (("kernel_size", kernels), ("dilation", dilations), ("stride", strides)):
        if min(values) <= 0:
            raise RuntimeError(f"{name}(): {parameter} should be greater than zero, but got {list(values)}")
    if min(paddings) < 0:
        raise RuntimeError(f"{name}(): padding should be non-negative, but got {list(paddings)}")
    counts = tuple(map(count_windows, sizes, kernels, strides, dilations, paddings))
    if min(counts) < 1:
        raise RuntimeError(
            f"{name}(): Given spatial size {sizes}, kernel_size={kernels}, dilation={dilations}, padding={paddings}, "
            f"calculated shape of the array of sliding blocks as {counts}, but its components must be at least one."
        )
    return tuple(map(Windows, sizes, kernels, strides, dilations, paddings, counts))


@composite(method=False, name="nn.functional.unfold")  # Tensor.unfold is another operation
def unfold(
    input, kernel_size: IntOrInts, dilation: IntOrInts = 1, padding: IntOrInts = 0, stride: IntOrInts = 1
) -> Tensor:
    """Return the windows of images as columns.

    Shapes: ``(N, C, H, W) -> (N, C * kH * kW, number of windows)``, or without ``N``.

    Parameters
    ----------
    kernel_size, dilation, padding, stride
        One number, or one for each dimension.

    Raises
    ------
    RuntimeError
        If there is no window.

    Examples
    --------
    >>> rg.nn.functional.unfold(rg.ones(1, 3, 5, 5), 3).shape
    retrograd.Size([1, 27, 9])
    """
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "unfold(): Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            f"for input, but got: {list(input.shape)}"
        )
    check_kind("unfold", "bfc", input)
    return im2col(input, _axes("unfold", tuple(input.shape[-2:]), kernel_size, dilation, padding, stride))


@composite(method=False)
def fold(
    input,
    output_size: IntOrInts,
    kernel_size: IntOrInts,
    dilation: IntOrInts = 1,
    padding: IntOrInts = 0,
    stride: IntOrInts = 1,
) -> Tensor:
    """Add up columns at the places of the windows of :func:`unfold` that they represent.

    Shapes: ``(N, C * kH * kW, number of windows) -> (N, C, H, W)``, or without ``N``.

    Parameters
    ----------
    output_size
        ``H`` and ``W``, or one number for both.
    kernel_size, dilation, padding, stride
        Those of the windows.

    Raises
    ------
    RuntimeError
        If there are not as many columns as windows, or not a row for each element of a window.

    Examples
    --------
    >>> rg.nn.functional.fold(rg.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "fold(): Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    check_kind("fold", "bfc", input)
    sizes = per_dimension("fold", "output_size", output_size, 2)
    axes = _axes("fold", sizes, kernel_size, dilation, padding, stride)
    kernels = tuple(axis.kernel for axis in axes)
    rows, columns = input.shape[-2:]
    if rows % math.prod(kernels):
        raise RuntimeError(
            f"fold(): Expected size of input's dimension {input.ndim - 2} to be divisible by the product of "
            f"kernel_size, but got input.size({input.ndim - 2})={rows} and kernel_size={kernels}."
        )
    counts = [axis.number for axis in axes]
    if columns != math.prod(counts):
        raise RuntimeError(
            f"fold(): Given output_size={sizes} and kernel_size={kernels}, expected size of input's dimension "
            f"{input.ndim - 1} to match the calculated number of sliding blocks {counts[0]} * {counts[1]} = "
            f"{math.prod(counts)}, but got input.size({input.ndim - 1})={columns}."
        )
    return col2im(input, axes)


# --- channels and space -------------------------------------------------------------------------------------------


def _check_image(name: str, input: Any) -> None:
    if input.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )


@composite(method=False)
def pixel_shuffle(input, upscale_factor: int) -> Tensor:
    """Move channels into space: ``(..., C * r * r, H, W) -> (..., C, H * r, W * r)`` for a factor ``r``.

    Examples
    --------
    >>> rg.nn.functional.pixel_shuffle(rg.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    _check_image("pixel_shuffle", input)
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    k = len(lead)
    split = input.reshape(*lead, channels // (r * r), r, r, height, width)
    moved = split.permute(*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return moved.reshape(*lead, channels // (r * r), height * r, width * r)


@composite(method=False)
def pixel_unshuffle(input, downscale_factor: int) -> Tensor:
    """Move space into channels: ``(..., C, H * r, W * r) -> (..., C * r * r, H, W)``; undoes :func:`pixel_shuffle`."""
    _check_image("pixel_unshuffle", input)
    r = downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    for what, dim, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({dim})={size} is "
                f"not divisible by {r}"
            )
    k = len(lead)
    split = input.reshape(*lead, channels, height // r, r, width // r, r)
    moved = split.permute(*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return moved.reshape(*lead, channels * r * r, height // r, width // r)


@composite(method=False)
def channel_shuffle(input, groups: int) -> Tensor:
    """Mix the channels of ``groups`` groups: the first of each, then the second of each, and so on.

    Shapes: ``(N, C, ...) -> (N, C, ...)``.
    """
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    images, channels, *rest = input.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    split = input.reshape(images, groups, channels // groups, *rest)
    return split.transpose(1, 2).reshape(input.shape)
