"""Images sampled at given places, and grids of places that an affine map gives.

Every element of the result is a sum of a few elements of the input, its taps, with weights. Where the taps are and what
they weigh follows from the place. The sum is linear in the elements and in the weights, and so are its derivatives.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.core.op import kernel, op
from retrograd.core.registry import composite
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._checks import check_kind, check_tensors
from retrograd.ops._fused import sample_by_sample
from retrograd.ops._positions import combine_at
from retrograd.ops.conditional import where
from retrograd.ops.joining import stack
from retrograd.ops.matmul import matmul
from retrograd.ops.rounding import round as round_

# --- weighted sums of taps ----------------------------------------------------------------------------------------
#
# n numbers images, k the taps, p places; the input is flat, (N, C, S), and has its taps at index (N, K, P). All three
# functions are parts of one form: the sum over all of g[n, c, p] * weights[n, k, p] * input[n, c, index[n, k, p]].


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
    images, taps, places = index.shape
    result = np.zeros_like(input, shape=(images, input.shape[1], places), order="C")
    for n, k in itertools.product(range(images), range(taps)):
        result[n] += np.take(input[n], index[n, k], axis=1) * weights[n, k]
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
    images, taps, _ = index.shape
    channels = grad.shape[1]
    result = np.zeros_like(grad, shape=(images, channels, size), order="C")
    firsts = np.arange(channels)[:, None] * size
    for n, k in itertools.product(range(images), range(taps)):
        combine_at(np.add, result[n], firsts + index[n, k], grad[n] * weights[n, k])
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
    for n, k in itertools.product(*map(range, index.shape[:2])):
        np.einsum("cp,cp->p", grad[n], np.take(input[n], index[n, k], axis=1), out=result[n, k])
    return result


# --- places -------------------------------------------------------------------------------------------------------


def _reflected(places: Any, size: int, align_corners: bool) -> tuple[Any, Any]:
    """Places as mirrors at both ends show them, and the slopes, 1 or -1."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return places * 0, places * 0
    away = np.abs(places - low)
    times = np.floor(away / span)
    odd = times % 2 == 1
    rest = np.fmod(away, span)
    slopes = np.where(odd, -1, 1) * np.where(places < low, -1, 1)
    return np.where(odd, span - rest, rest) + low, slopes


def _confined(places: Any, size: int, padding_mode: str, align_corners: bool) -> tuple[Any, Any]:
    """Places as ``padding_mode`` has them, and how fast they follow those given."""
    if padding_mode == "zeros":  # not further away than from where no tap reaches the image
        return np.clip(places, -4, size + 3), (places > -4) & (places < size + 3)
    slopes: Any = 1
    if padding_mode == "reflection":
        places, slopes = _reflected(places, size, align_corners)
    inside = (places > 0) & (places < size - 1)
    return np.clip(places, 0, size - 1), np.where(inside, slopes, 0)


@op(
    public=False,
    method=False,
    outputs=("places", "slopes"),
    differentiable_outputs=(0,),
    input=lambda g, slopes: g[0] * slopes,
)
def _move(input, size: int, padding_mode: str, align_corners: bool):
    """Places as ``padding_mode`` has them, and how fast they follow those given."""
    return tuple(part.astype(input.dtype) for part in _confined(input, size, padding_mode, align_corners))


def _in_pixels(coordinate: Tensor, size: int, align_corners: bool) -> Tensor:
    """From [-1, 1] to places in the image."""
    return (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2


# --- taps along one dimension -------------------------------------------------------------------------------------


def _keys_weights(t: Tensor) -> list[Tensor]:
    """The kernel of cubic convolution (Keys, 1981) at distances ``1 + t, t, 1 - t, 2 - t``, with a = -3/4."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _taps(places: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool) -> tuple[Tensor, Any]:
    """Weights and indices ``(N, K, P)`` of the taps along one dimension; taps outside weigh nothing."""
    if mode != "bicubic":
        places, _ = _move(places, size, padding_mode, align_corners)
    elif padding_mode != "reflection":  # the taps are padded later, each by itself
        places, _ = _move(places, size, "zeros", align_corners)
    if mode == "nearest":
        places = round_(places)
    data = places._data
    floor = np.floor(data)
    fraction = places - wrap(floor)
    lost = ~np.isfinite(data)
    if mode == "bicubic":
        weights, first = _keys_weights(fraction), -1
    else:
        weights, first = [1 - fraction, fraction], 0
    if mode == "nearest":
        del weights[1]
    indices, inside = [], []
    for offset in range(first, first + len(weights)):
        place = np.where(lost, 0, floor + offset)
        if mode == "bicubic" and padding_mode != "zeros":
            place, _ = _confined(place, size, padding_mode, align_corners)
        inside.append((place >= 0) & (place < size))
        indices.append(np.clip(place, 0, size - 1).astype(np.int64))
    return where(wrap(np.stack(inside, 1)), stack(weights, 1), 0.0), np.stack(indices, 1)


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
    warn_user(f"{name}(): align_corners is False by default, which was True in torch before 1.3.0. Give it explicitly.")


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
    sizes, places = tuple(input.shape[2:]), tuple(grid.shape[1:-1])
    images, channels = input.shape[:2]
    weights, indices = [], []
    for dim, size in enumerate(sizes):
        coordinate = grid[..., len(sizes) - 1 - dim].reshape(images, math.prod(places))
        pixels = _in_pixels(coordinate, size, bool(align_corners))
        weight, index = _taps(pixels, size, mode, padding_mode, bool(align_corners))
        weights.append(weight)
        indices.append(index * math.prod(sizes[dim + 1 :]))
    flat = input.reshape(images, channels, math.prod(sizes))
    sampled = sum_taps(flat, _combined(weights, lambda a, b: a * b), _combined(indices, np.add))
    return sampled.reshape(images, channels, *places)


def _combined(parts: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """What belongs to each combination of a tap of every dimension, from what belongs to the taps, ``(N, K, P)``."""

    def pair(a: Any, b: Any) -> Any:
        both = combine(a[:, :, None], b[:, None])
        return both.reshape((both.shape[0], a.shape[1] * b.shape[1], both.shape[3]))

    return functools.reduce(pair, parts)


@composite(method=False)
def affine_grid(theta, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid for :func:`grid_sample` that affine maps make of the places of an output.

    Shapes: ``(N, 2, 3) -> (N, H, W, 2)`` and ``(N, 3, 4) -> (N, D, H, W, 3)``.

    Parameters
    ----------
    theta
        The maps, each as a matrix whose last column is the shift.
    size
        That of the output, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
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
            f"affine_grid(): in a dimension of size 1, as in {list(size)}, there are no two corners to align; its only "
            "place is the middle, 0. Use align_corners=False."
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
