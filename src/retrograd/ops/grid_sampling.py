"""Images sampled at given places, and grids of places made by affine maps.

Every element of the result is a sum of a few elements of the input, its taps, with weights. Where the taps are and what
they weigh follows from the place. The sum is linear in the elements and in the weights, and so are its derivatives.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from retrograd.core.blocks import block_size
from retrograd.core.op import kernel, op
from retrograd.core.registry import composite
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._checks import check_kind, check_tensors
from retrograd.ops._fused import gradient_of, sample_by_sample
from retrograd.ops._positions import combine_at
from retrograd.ops._rows import parts
from retrograd.ops.matmul import matmul
from retrograd.ops.norm_layers import in_single

# --- weighted sums of taps ----------------------------------------------------------------------------------------
#
# n numbers images, k the taps, p places; the input is flat, (N, C, S), and has its taps at index (N, K, P). All three
# functions are parts of one form: the sum over all of g[n, c, p] * weights[n, k, p] * input[n, c, index[n, k, p]].

_BLOCK = 1 << 16  # elements of all taps that are processed at a time, unless a single image has more


def _blocks(like: Any, index: Any) -> Iterator[slice]:
    """Parts of the images."""
    each = like.shape[1] * math.prod(index.shape[1:])
    return parts(len(index), block_size(_BLOCK, like) // max(each, 1))


def _positions(index: Any, channels: int, size: int) -> Any:
    """Where taps lie in the flattened input, ``(N, C, K, P)``."""
    firsts = np.arange(len(index) * channels).reshape(len(index), channels, 1, 1) * size
    return firsts + index[:, None]


def _tapped(input: Any, index: Any) -> Any:
    """The elements at all taps, ``(N, C, K, P)``."""
    images, channels, size = input.shape
    if images == 1:
        return np.take(input[0], index[0], axis=1)[None]
    return np.take(input.reshape(-1), _positions(index, channels, size))


@kernel(
    public=False,
    method=False,
    node_name="GridSamplerBackward0",
    input=lambda g, weights, index, input_shape: spread_taps(g, weights, index, input_shape[2]),
    weights=lambda g, input, index: weigh_taps(g, input, index),
    factors=("input", "weights"),
)
@sample_by_sample
def sum_taps(input, weights, index):
    """The weighted sums of taps, ``(N, C, P)``."""
    result = np.empty_like(input, shape=(*input.shape[:2], index.shape[2]), order="C")
    for part in _blocks(input, index):
        tapped = _tapped(input[part], index[part])
        tapped *= weights[part, None]
        np.add.reduce(tapped, 2, out=result[part])
    return result


@kernel(
    public=False,
    method=False,
    grad=lambda g, weights, index: sum_taps(g, weights, index),
    weights=lambda g, grad, index: weigh_taps(grad, g, index),
    factors=("grad", "weights"),
)
@sample_by_sample
def spread_taps(grad, weights, index, size: int):
    """The adjoint of :func:`sum_taps` for the input, ``(N, C, S)``."""
    channels = grad.shape[1]
    result = np.zeros_like(grad, shape=(len(index), channels, size), order="C")
    for part in _blocks(grad, index):
        values = grad[part, :, None] * weights[part, None]
        combine_at(np.add, result[part], _positions(index[part], channels, size), values)
    return result


@kernel(
    public=False,
    method=False,
    grad=lambda g, input, index: sum_taps(input, g, index),
    input=lambda g, grad, index, input_shape: spread_taps(grad, g, index, input_shape[2]),
    factors=("grad", "input"),
)
@sample_by_sample
def weigh_taps(grad, input, index):
    """The adjoint of :func:`sum_taps` for the weights, ``(N, K, P)``."""
    result = np.empty_like(grad, shape=index.shape, order="C")
    for part in _blocks(input, index):
        tapped = _tapped(input[part], index[part])
        tapped *= grad[part, :, None]
        np.add.reduce(tapped, 1, out=result[part])
    return result


# --- places -------------------------------------------------------------------------------------------------------
#
# These functions compute with arrays, and with Tensors where second derivatives are wanted.


def _reflected(places: Any, size: int, align_corners: bool) -> tuple[Any, Any]:
    """Places reflected at both ends, and whether they move in the opposite direction there."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return places * 0, places < low
    away = np.abs(places - low)
    odd = np.floor(away / span) % 2 == 1
    rest = np.fmod(away, span)
    return np.where(odd, span - rest, rest) + low, odd != (places < low)


def _confined(places: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    """Places confined as ``padding_mode`` says."""
    if padding_mode == "zeros":  # clipped to the distance beyond which no tap reaches the image
        return np.minimum(np.maximum(places, -4), size + 3)
    if padding_mode == "reflection":
        places, _ = _reflected(places, size, align_corners)
    return np.minimum(np.maximum(places, 0), size - 1)


def _slopes(places: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    """The derivative of the confined places with respect to the given ones."""
    if padding_mode == "zeros":
        return (places > -4) & (places < size + 3)
    reversing: Any = False
    if padding_mode == "reflection":
        places, reversing = _reflected(places, size, align_corners)
    return ((places > 0) & (places < size - 1)) * np.where(reversing, -1, 1)


@op(
    public=False,
    method=False,
    outputs=("places", "slopes"),
    differentiable_outputs=(0,),
    input=lambda g, slopes: g[0] * slopes,
)
def _move(input, size: int, padding_mode: str, align_corners: bool):
    """Places confined as ``padding_mode`` says, and their derivative with respect to the given ones."""
    functions = (_confined, _slopes)
    return tuple(of(input, size, padding_mode, align_corners).astype(input.dtype, copy=False) for of in functions)


def _in_pixels(coordinate: Any, size: int, align_corners: bool) -> Any:
    """From [-1, 1] to places in the image."""
    return (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2


# --- taps along one dimension -------------------------------------------------------------------------------------


class _Options(NamedTuple):
    """How to sample; see :func:`grid_sample`."""

    mode: str
    padding_mode: str
    align_corners: bool


class _Taps(NamedTuple):
    """The taps of places along one dimension.

    Attributes
    ----------
    fraction
        How far places are from the element before them, ``(N, 1, P)``.
    inside
        Which taps are in the image, ``(N, K, P)``; others have the weight 0.
    index
        Where taps are, ``(N, K, P)``.
    """

    fraction: Any
    inside: Any
    index: Any


_A = -0.75  # the parameter of cubic convolution (Keys, 1981)


def _near(x: Any) -> Any:
    """The weight of a tap at a distance below 1."""
    return ((_A + 2) * x - (_A + 3)) * x * x + 1


def _far(x: Any) -> Any:
    """The weight of a tap at a distance from 1 to 2."""
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _near_slope(x: Any) -> Any:
    return (3 * (_A + 2) * x - 2 * (_A + 3)) * x


def _far_slope(x: Any) -> Any:
    return (3 * _A * x - 10 * _A) * x + 8 * _A


def _weights(taps: _Taps, mode: str) -> Any:
    """The weights of taps, ``(N, K, P)``."""
    t = taps.fraction
    if mode == "bicubic":
        weights = [_far(t + 1), _near(t), _near(1 - t), _far(2 - t)]
    else:
        weights = [1 - t, t] if mode == "bilinear" else [1 - t]
    return (np.concatenate(weights, 1) if len(weights) > 1 else weights[0]) * taps.inside


def _weights_slopes(taps: _Taps, mode: str) -> Any:
    """The derivative of the weights with respect to the places, ``(N, K, P)``."""
    t = taps.fraction
    if mode == "bicubic":
        slopes = [_far_slope(t + 1), _near_slope(t), -_near_slope(1 - t), -_far_slope(2 - t)]
    else:
        slopes = [-np.ones_like(t), np.ones_like(t)]
    return np.concatenate(slopes, 1) * taps.inside


def _padding_of_places(options: _Options) -> str | None:
    """The padding mode that confines places; None if each tap is confined separately."""
    mode, padding_mode, _ = options
    if mode != "bicubic":
        return padding_mode
    return None if padding_mode == "reflection" else "zeros"


def _taps(coordinate: Any, size: int, options: _Options) -> _Taps:
    """The taps along one dimension of places ``(N, 1, P)``."""
    mode, padding_mode, align_corners = options
    places, padding = _in_pixels(coordinate, size, align_corners), _padding_of_places(options)
    if padding is not None and isinstance(places, Tensor):
        places, _ = _move(places, size, padding, align_corners)
    elif padding is not None:
        places = _confined(places, size, padding, align_corners)
    if mode == "nearest":
        places = np.round(places)
    floor = place = np.floor(places._data if isinstance(places, Tensor) else places)
    if mode == "bilinear":
        place = np.concatenate([floor, floor + 1], 1)
    elif mode == "bicubic":
        place = np.concatenate([floor - 1, floor, floor + 1, floor + 2], 1)
        if padding_mode != "zeros":
            place = _confined(place, size, padding_mode, align_corners)
    nearest = np.fmin(np.fmax(place, 0), size - 1)  # a place that is NaN has some tap, whose weight is NaN
    return _Taps(places - floor, nearest == place, nearest.astype(np.int64))


def _combined(each: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Values for each combination of one tap per dimension, from the values of the taps, ``(N, K, P)``."""

    def pair(a: Any, b: Any) -> Any:
        both = combine(a[:, :, None], b[:, None])
        return both.reshape((both.shape[0], a.shape[1] * b.shape[1], both.shape[3]))

    return functools.reduce(pair, each)


def _coordinates(grid: Any) -> list[Any]:
    """The coordinates of a grid along each dimension of the image, ``(N, 1, P)``."""
    shape = (grid.shape[0], 1, math.prod(grid.shape[1:-1]))
    return [grid[..., k].reshape(shape) for k in reversed(range(grid.shape[-1]))]


def _taps_of_grid(grid: Any, sizes: Sequence[int], options: _Options) -> list[_Taps]:
    """The taps along every dimension of an image of these sizes."""
    return [_taps(each, size, options) for each, size in zip(_coordinates(grid), sizes, strict=True)]


def _flat(x: Any) -> Any:
    """Images with all places in one dimension."""
    return x.reshape((*x.shape[:2], math.prod(x.shape[2:])))


# --- the operation ------------------------------------------------------------------------------------------------


def _weights_and_index(grid: Any, sizes: tuple[int, ...], options: _Options) -> tuple[Any, Any]:
    """The weights of all combinations of taps, and their positions in a flattened image."""
    taps = _taps_of_grid(grid, sizes, options)
    weights = _combined([_weights(each, options.mode) for each in taps], np.multiply)
    steps = [each.index * math.prod(sizes[dim + 1 :]) for dim, each in enumerate(taps)]
    return weights, _combined(steps, np.add)


def _sampled(input: Any, grid: Any, weights: Any, index: Any) -> Any:
    return sum_taps(_flat(input), weights, index).reshape((*input.shape[:2], *grid.shape[1:-1]))


def _compose_grid_sample(input: Any, grid: Any, options: _Options) -> Any:
    return _sampled(input, grid, *_weights_and_index(grid, tuple(input.shape[2:]), options))


def _sample_input(g, input_shape, grid, options, weights, index):
    sizes = input_shape[2:]
    if index is None:
        weights, index = _weights_and_index(grid, sizes, options)
    else:
        (g,) = in_single(g)
    return spread_taps(_flat(g), weights, index, math.prod(sizes)).reshape(input_shape)


def _sample_grid(g, input, grid, options, index):
    if index is None:
        return gradient_of(_compose_grid_sample, g, [input, grid, options], 1)
    if options.mode == "nearest":
        return np.zeros_like(grid)
    g, input, whole = in_single(g, input, grid)
    sizes = input.shape[2:]
    taps = _taps_of_grid(whole, sizes, options)
    products = weigh_taps(_flat(g), _flat(input), index)
    products = products.reshape((len(products), *[each.index.shape[1] for each in taps], products.shape[2]))
    weights, slopes = ([of(each, options.mode) for each in taps] for of in (_weights, _weights_slopes))
    found = []
    for dim, (coordinate, size) in enumerate(zip(_coordinates(whole), sizes, strict=True)):
        part = products
        for other in reversed(range(len(sizes))):  # the taps of the last dimension that is left are summed up
            factor = slopes[other] if other == dim else weights[other]
            part = np.add.reduce(part * factor.reshape((len(factor), *(1,) * other, *factor.shape[1:])), other + 1)
        part *= (size - 1 if options.align_corners else size) / 2
        padding = _padding_of_places(options)
        if padding is not None:
            pixels = _in_pixels(coordinate, size, options.align_corners)
            part *= _slopes(pixels, size, padding, options.align_corners)[:, 0]
        found.append(part)
    return np.stack(found[::-1], -1).reshape(grid.shape)


@op(
    name="grid_sample",
    public=False,
    method=False,
    node_name="GridSamplerBackward0",
    byproducts=("weights", "index"),
    input=_sample_input,
    grid=_sample_grid,
)
def _grid_sample(input, grid, options: _Options):
    dtype = input.dtype
    input, grid = in_single(input, grid)
    weights, index = _weights_and_index(grid, input.shape[2:], options)
    return _sampled(input, grid, weights, index).astype(dtype, copy=False), weights, index


# --- the functions users call -------------------------------------------------------------------------------------

_MODES = ("bilinear", "nearest", "bicubic")
_PADDING_MODES = ("zeros", "border", "reflection")


def _check_grid(input: Any, grid: Any, mode: str, padding_mode: str) -> None:
    name = "grid_sample"
    check_tensors(name, input=input, grid=grid)
    for parameter, value, known in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDING_MODES)):
        if value not in known:
            raise ValueError(f"{name}(): expected {parameter} to be one of {', '.join(known)}, but got: {value!r}")
    got = f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.ndim not in (4, 5) or grid.ndim != input.ndim:
        raise RuntimeError(f"{name}(): expected 4D or 5D input and grid with same number of dimensions, {got}")
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(f"{name}(): expected grid and input to have same batch size, {got}")
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(f"{name}(): expected grid to have size {input.ndim - 2} in last dimension, {got}")
    if 0 in input.shape[2:]:
        raise RuntimeError(f"{name}(): expected input to have non-empty spatial dimensions, {got}")
    if mode == "bicubic" and input.ndim != 4:
        raise RuntimeError(f"{name}(): bicubic interpolation only supports 4D input, {got}")
    check_kind(name, "f", input)
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"{name}(): expected scalar type {input.dtype.name} but found {grid.dtype.name}: input and grid must have "
            "the same dtype; convert the grid with grid.to(input.dtype)"
        )


def _say_default(name: str) -> None:
    warn_user(
        f"{name}(): align_corners defaults to False, but defaulted to True in torch before 1.3.0. Pass it explicitly."
    )


@composite(method=False)
def grid_sample(
    input, grid, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Return images sampled at the places of a grid, as in spatial transformer networks (Jaderberg et al., 2015).

    Shapes: ``(N, C, H, W), (N, h, w, 2) -> (N, C, h, w)`` and ``(N, C, D, H, W), (N, d, h, w, 3) -> (N, C, d, h, w)``.
    A place that is NaN gives NaN.

    Parameters
    ----------
    grid
        Places ``(x, y)`` or ``(x, y, z)``, where -1 and 1 are the left and right end (of the width, for x).
    mode
        ``"bilinear"`` (trilinear for volumes), ``"nearest"``, or ``"bicubic"`` for images only.
    padding_mode
        What is outside of the image: ``"zeros"``, ``"border"`` (the nearest element inside) or ``"reflection"``.
    align_corners
        Whether -1 and 1 are the centres of the elements at the corners, rather than their outer edges. False by
        default, with a warning.

    Raises
    ------
    ValueError
        If a mode is unknown.
    RuntimeError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> image = rg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> middle = rg.zeros(1, 1, 1, 2)
    >>> rg.nn.functional.grid_sample(image, middle, align_corners=False)
    tensor([[[[2.5000]]]])
    """
    _check_grid(input, grid, mode, padding_mode)
    if align_corners is None:
        _say_default("grid_sample")
    return _grid_sample(input, grid, _Options(mode, padding_mode, bool(align_corners)))


@composite(method=False)
def affine_grid(theta, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid for :func:`grid_sample` that affine maps make of the places of an output.

    Shapes: ``(N, 2, 3) -> (N, H, W, 2)`` and ``(N, 3, 4) -> (N, D, H, W, 3)``.

    Parameters
    ----------
    theta
        The maps, each as a matrix whose last column is the shift.
    size
        The size of the output, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
    align_corners
        As for :func:`grid_sample`.

    Raises
    ------
    ValueError
        If ``theta`` does not consist of floating-point numbers or does not fit, or if ``size`` is not positive.
    NotImplementedError
        If ``size`` has neither 4 nor 5 numbers.

    Examples
    --------
    >>> flip = rg.tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> grid = rg.nn.functional.affine_grid(flip, (1, 1, 2, 2), align_corners=False)
    >>> image = rg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> rg.nn.functional.grid_sample(image, grid, align_corners=False)
    tensor([[[[2., 1.],
              [4., 3.]]]])
    """
    check_tensors("affine_grid", theta=theta)
    if align_corners is None:
        _say_default("affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {list(size)}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {list(size)}. "
            f"Got {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {list(size)}")
    if size[0] != theta.shape[0]:
        raise RuntimeError(f"affine_grid(): expected {size[0]} matrices for size {list(size)}, got {theta.shape[0]}")
    if align_corners and min(size[2:]) == 1:
        warn_user(
            f"affine_grid(): a dimension of size 1, as in {list(size)}, has no two corners to align; its only position "
            "is the middle, 0. Use align_corners=False."
        )
    axes = [_steps(length, bool(align_corners)) for length in size[2:]]
    ones = np.ones(tuple(size[2:]))
    corners = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), ones], -1).astype(theta._data.dtype)
    grid = matmul(wrap(np.asarray(corners.reshape(-1, n + 1), like=theta._data)), theta.mT)
    return grid.reshape(size[0], *size[2:], n)


def _steps(length: int, align_corners: bool) -> Any:
    """The places of the elements of an image along one dimension."""
    if length == 1:
        return np.zeros(1)
    ends = np.linspace(-1, 1, length)
    return ends if align_corners else ends * (length - 1) / length
