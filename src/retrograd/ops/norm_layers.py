"""Normalisation over rows: layer, RMS and group norm; and over neighbouring channels.

On arrays, a few rows at a time, so that they stay in the cache from the first pass over them to the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.batching import holds_batch
from retrograd.core.layout import row_major
from retrograd.core.op import op
from retrograd.core.reductions import reduce
from retrograd.core.registry import composite
from retrograd.core.scratch import scratch_like
from retrograd.core.tensor import Tensor
from retrograd.dtypes import float16, float32
from retrograd.gpu.fused import one_kernel
from retrograd.ops._checks import check_kind, check_tensors
from retrograd.ops._fused import all_samples_rows, gradient_of
from retrograd.ops._reducing import sum_of_squares, sum_per_channel
from retrograd.ops._rows import over_blocks, row_sums, summed_over_blocks
from retrograd.ops.conditional import clamp_min
from retrograd.ops.joining import cat
from retrograd.ops.reductions import vector_norm

# --- rows -------------------------------------------------------------------------------------------------------------


def in_single(*arrays: Any) -> list[Any]:
    """Half-precision arrays in single precision, which computations use; others, and None, as they are."""
    return [x.astype(np.float32) if x is not None and x.dtype == np.float16 else x for x in arrays]


@one_kernel("1 / sqrt(x + eps)")
def inverse_root(x: Any, eps: float, out: Any = None) -> Any:
    """One divided by the root of ``x + eps``."""
    return np.divide(1, np.sqrt(x + eps), out=out)


@one_kernel("out * scale * weight + bias")
def _scale_rows(scale: Any, weight: Any, bias: Any, out: Any) -> None:
    """Multiply rows by their scales and columns by their weights, and add their bias; these may be 1.0 and 0.0."""
    out *= scale
    if not isinstance(weight, float):
        out *= weight
    if not isinstance(bias, float):
        out += bias


@all_samples_rows
def _normalized(rows: Any, eps: float, centred: bool, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Rows minus their mean, divided by their deviation, times the weight of every column, plus its bias.

    Also the means (None, if rows are not to be centred) and the inverses of the deviations.
    """
    count, length = rows.shape
    result = np.empty_like(rows)
    mean = np.empty((count, 1), rows.dtype, like=rows) if centred else None
    scale = np.empty((count, 1), rows.dtype, like=rows)

    def work(part: slice) -> None:
        out = result[part]
        if mean is None:
            out[...] = rows[part]
        else:
            np.divide(row_sums(rows[part]), length, out=mean[part])
            np.subtract(rows[part], mean[part], out=out)
        own = inverse_root(sum_of_squares(out, 1, True) / length, eps, scale[part])
        _scale_rows(own, 1.0 if weight is None else weight, 0.0 if bias is None else bias, out)

    over_blocks(work, rows)
    return result, mean, scale


@all_samples_rows
def _gradient_of_rows(g: Any, rows: Any, weight: Any, mean: Any, scale: Any) -> Any:
    """The gradient of the rows; see Ba, Kiros, Hinton (2016), equation 4, differentiated."""
    length = rows.shape[1]
    result = np.empty_like(rows)

    def work(part: slice) -> None:
        out, own = result[part], scale[part]
        np.subtract(rows[part], 0 if mean is None else mean[part], out=out)
        incoming = g[part] if weight is None else np.multiply(g[part], weight, out=scratch_like(out))
        slope = np.vecdot(incoming, out)[:, None]
        _combine_rows(own, incoming, slope, 0.0 if mean is None else row_sums(incoming), float(length), out)

    over_blocks(work, rows)
    return result


@one_kernel("(slope * (scale * scale / -length) * out + incoming - sums / length) * scale")
def _combine_rows(scale: Any, incoming: Any, slope: Any, sums: Any, length: float, out: Any) -> None:
    """The gradient of rows, in ``out``, from the sums of the incoming gradient and of its products with deviations."""
    out *= slope * (scale * scale / -length)
    out += incoming
    if not isinstance(sums, float):
        out -= sums / length
    out *= scale


def _gradient_of_weight(g: Any, rows: Any, mean: Any, scale: Any) -> Any:
    """The gradient of the weights of the columns."""
    if holds_batch((g, rows)):
        return np.add.reduce((rows if mean is None else rows - mean) * scale * g, axis=0)

    def work(part: slice) -> Any:
        products = scratch_like(rows[part])
        np.subtract(rows[part], 0 if mean is None else mean[part], out=products)
        products *= g[part]
        return scale[part, 0] @ products

    return summed_over_blocks(work, rows, rows.shape[1:])


def standardized(x: Any, dims: Any, eps: float, centred: bool = True) -> Any:
    """Tensors minus their mean, divided by their standard deviation, over dimensions, in ordinary operations."""
    if centred:
        x = x - np.mean(x, axis=dims, keepdims=True)
    return x / np.sqrt(np.mean(x * x, axis=dims, keepdims=True) + eps)


def scaled(x: Any, weight: Any, bias: Any) -> Any:
    """``x * weight + bias``, in ordinary operations, where either may be missing."""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def check_parameters(name: str, input: Any, **parameters: Any) -> None:
    """Raise unless all parameters are of the input's dtype, or in single precision for an input in half precision."""
    dtype = input.dtype
    for parameter, value in parameters.items():
        if value is None or (given := value.dtype) is dtype:
            continue
        if given != dtype and not (dtype == np.float16 and given == np.float32):
            raise RuntimeError(f"{name}: mixed dtype: expect {parameter} to be of {dtype}, as the input, got {given}")


# --- layer norm and RMS norm ------------------------------------------------------------------------------------------


def _check_shape(name: str, input: Any, normalized_shape: Any, kinds: str = "f", **parameters: Any) -> tuple[int, ...]:
    if type(normalized_shape) is not tuple and not isinstance(normalized_shape, Sequence):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
            f"{type(normalized_shape).__name__}"
        )
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            f"{name}: Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            "but got normalized_shape = []"
        )
    for parameter, value in parameters.items():
        if value is not None and value.shape != shape:
            raise RuntimeError(
                f"{name}: Expected {parameter} to be of same shape as normalized_shape, but got {parameter} of shape "
                f"{list(value.shape)} and normalized_shape = {list(shape)}"
            )
    if input.shape[-len(shape) :] != shape:
        expected = ", ".join(["*", *map(str, shape)])
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(shape)}, expected input with shape [{expected}], but got input of "
            f"size {list(input.shape)}"
        )
    check_kind(name, kinds, input)
    check_parameters(name, input, **parameters)
    return shape


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


def _compose_layer_norm(input: Any, weight: Any, bias: Any, shape: Any, eps: float) -> Any:
    return scaled(standardized(input, _last(shape), eps), weight, bias)


def _layer_norm_input(g, input, normalized_shape, weight, eps, mean, scale):
    if mean is None:
        return gradient_of(_compose_layer_norm, g, [input, weight, None, normalized_shape, eps], 0)
    g, input, weight = in_single(g, input, weight)
    rows = _rows(input, normalized_shape)
    weight = None if weight is None else weight.reshape(-1)
    return _gradient_of_rows(g.reshape(rows), input.reshape(rows), weight, mean, scale).reshape(input.shape)


def _layer_norm_weight(g, input, normalized_shape, weight, eps, mean, scale):
    if mean is None:
        return gradient_of(_compose_layer_norm, g, [input, weight, None, normalized_shape, eps], 1)
    g, input = in_single(g, input)
    rows = _rows(input, normalized_shape)
    return _gradient_of_weight(g.reshape(rows), input.reshape(rows), mean, scale).reshape(weight.shape)


def _rows(input: Any, shape: Sequence[int]) -> tuple[int, int]:
    """The number and the length of the rows to normalise."""
    return math.prod(input.shape[: input.ndim - len(shape)]), math.prod(shape)


@op(
    name="layer_norm",
    public=False,
    method=False,
    node_name="NativeLayerNormBackward0",
    byproducts=("mean", "scale"),
    input=_layer_norm_input,
    weight=_layer_norm_weight,
    bias=lambda g: g,
)
def _layer_norm(input, normalized_shape, weight, bias, eps: float):
    shape = _check_shape("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    whole, weight, bias = in_single(input, weight, bias)
    rows = row_major(whole.reshape(_rows(input, shape)))
    weight, bias = (None if x is None else x.reshape(-1) for x in (weight, bias))
    result, mean, scale = _normalized(rows, eps, True, weight, bias)
    return result.reshape(input.shape).astype(input.dtype, copy=False), mean, scale


@composite(method=False, reported=False)
def layer_norm(input, normalized_shape: Sequence[int], weight=None, bias=None, eps: float = 1e-5) -> Tensor:
    """Subtract the mean over the last dimensions, divide by the standard deviation, multiply, add.

    Parameters
    ----------
    normalized_shape
        The lengths of these dimensions.
    weight, bias
        Of this shape.
    eps
        Added to the variance.

    Raises
    ------
    RuntimeError
        If the shapes do not fit.

    Examples
    --------
    >>> rg.nn.functional.layer_norm(rg.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    check_tensors("layer_norm", input=input)
    return _layer_norm(input, normalized_shape, weight, bias, eps)


def _compose_rms_norm(input: Any, weight: Any, shape: Any, eps: float) -> Any:
    return scaled(standardized(input, _last(shape), eps, False), weight, None)


def _rms_norm_input(g, input, normalized_shape, weight, eps, scale):
    if scale is None:
        return gradient_of(_compose_rms_norm, g, [input, weight, normalized_shape, _epsilon(input, eps)], 0)
    g, input, weight = in_single(g, input, weight)
    rows = _rows(input, normalized_shape)
    weight = None if weight is None else weight.reshape(-1)
    return _gradient_of_rows(g.reshape(rows), input.reshape(rows), weight, None, scale).reshape(input.shape)


def _rms_norm_weight(g, input, normalized_shape, weight, eps, scale):
    if scale is None:
        return gradient_of(_compose_rms_norm, g, [input, weight, normalized_shape, _epsilon(input, eps)], 1)
    g, input = in_single(g, input)
    rows = _rows(input, normalized_shape)
    return _gradient_of_weight(g.reshape(rows), input.reshape(rows), None, scale).reshape(weight.shape)


def _epsilon(input: Any, eps: float | None) -> float:
    wide = np.float32 if input.dtype == np.float16 else input.dtype
    return float(np.finfo(wide).eps) if eps is None else eps


@op(
    name="rms_norm",
    public=False,
    method=False,
    byproducts=("scale",),
    input=_rms_norm_input,
    weight=_rms_norm_weight,
)
def _rms_norm(input, normalized_shape, weight, eps: float | None):
    shape = _check_shape("rms_norm", input, normalized_shape, weight=weight)
    whole, weight = in_single(input, weight)
    rows = row_major(whole.reshape(_rows(input, shape)))
    weight = None if weight is None else weight.reshape(-1)
    result, _, scale = _normalized(rows, _epsilon(input, eps), False, weight, None)
    return result.reshape(input.shape).astype(input.dtype, copy=False), scale


@composite(method=False, reported=False)
def rms_norm(input, normalized_shape: Sequence[int], weight=None, eps: float | None = None) -> Tensor:
    """Divide by the root of the mean square over the last dimensions, multiply (Zhang, Sennrich, 2019).

    Parameters
    ----------
    normalized_shape
        The lengths of these dimensions.
    weight
        Of this shape; where it has another dtype, the result has the input's.
    eps
        Added to the mean square; by default the epsilon of the dtype.

    Notes
    -----
    As in torch, the mean of complex numbers is the mean of their squares, not of those of their absolute values.

    Raises
    ------
    RuntimeError
        If the shapes do not fit.

    Examples
    --------
    >>> rg.nn.functional.rms_norm(rg.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    check_tensors("rms_norm", input=input)
    both = isinstance(weight, Tensor) and weight.is_floating_point() and input.is_floating_point()
    if both and weight.dtype != input.dtype:
        weight = weight.to(float32 if input.dtype == float16 else input.dtype)
    if input.is_complex():  # the mean of the squares themselves, as in torch, not of their absolute values
        shape = _check_shape("rms_norm", input, normalized_shape, "c", weight=weight)
        square = np.mean(input * input, axis=_last(shape), keepdims=True) + _epsilon(input._data, eps)
        result = input * (1 / np.sqrt(square))
        return result if weight is None else result * weight
    return _rms_norm(input, normalized_shape, weight, eps)


# --- group norm -------------------------------------------------------------------------------------------------------


def _per_channel(parameter: Any, ndim: int) -> Any:
    """A parameter with one element per channel, to be broadcast against (N, C, ...)."""
    return None if parameter is None else parameter.reshape((-1,) + (1,) * (ndim - 2))


def _groups(input: Any, num_groups: int) -> tuple[int, int]:
    """The number of groups, and of the elements in each."""
    return input.shape[0] * num_groups, math.prod(input.shape[1:]) // num_groups


def _compose_group_norm(input: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    groups = input.reshape((input.shape[0], num_groups, math.prod(input.shape[1:]) // num_groups))
    normal = standardized(groups, -1, eps).reshape(input.shape)
    return scaled(normal, _per_channel(weight, input.ndim), _per_channel(bias, input.ndim))


def _group_norm_input(g, input, num_groups, weight, eps, mean, scale):
    if mean is None:
        return gradient_of(_compose_group_norm, g, [input, weight, None, num_groups, eps], 0)
    g, input, weight = in_single(g, input, weight)
    g = g if weight is None else g * _per_channel(weight, g.ndim)
    rows = _groups(input, num_groups)
    return _gradient_of_rows(g.reshape(rows), input.reshape(rows), None, mean, scale).reshape(input.shape)


def _group_norm_weight(g, input, num_groups, weight, eps, mean, scale):
    if mean is None:
        return gradient_of(_compose_group_norm, g, [input, weight, None, num_groups, eps], 1)
    g, input = in_single(g, input)
    normal = (input.reshape(_groups(input, num_groups)) - mean) * scale
    channels = (*input.shape[:2], math.prod(input.shape[2:]))
    return reduce(np.add, np.vecdot(normal.reshape(channels), g.reshape(channels)), 0)


@op(
    name="group_norm",
    public=False,
    method=False,
    node_name="NativeGroupNormBackward0",
    byproducts=("mean", "scale"),
    input=_group_norm_input,
    weight=_group_norm_weight,
    bias=sum_per_channel,
)
def _group_norm(input, num_groups: int, weight, bias, eps: float):
    whole, weight, bias = in_single(input, weight, bias)
    rows = row_major(whole.reshape(_groups(input, num_groups)))
    result, mean, scale = _normalized(rows, eps, True, None, None)
    result = result.reshape(input.shape)
    if weight is not None:
        result *= _per_channel(weight, input.ndim)
    if bias is not None:
        result += _per_channel(bias, input.ndim)
    return result.astype(input.dtype, copy=False), mean, scale


@composite(method=False, reported=False)
def group_norm(input, num_groups: int, weight=None, bias=None, eps: float = 1e-5) -> Tensor:
    """Normalise every sample over groups of channels (Wu, He, 2018).

    Shapes: ``(N, C, ...), (C,), (C,) -> (N, C, ...)``, where ``C`` is a multiple of ``num_groups``.

    Raises
    ------
    RuntimeError, ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> rg.nn.functional.group_norm(rg.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    check_tensors("group_norm", input=input)
    if input.ndim < 2:
        raise RuntimeError(f"group_norm: Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if num_groups <= 0 or input.shape[1] % num_groups:
        raise RuntimeError(
            "group_norm: Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != (input.shape[1],):
            raise RuntimeError(
                f"group_norm: Expected {name} to be a vector of size equal to the number of channels in input, but got "
                f"{name} of shape {list(parameter.shape)} and input of shape {list(input.shape)}"
            )
    if input.shape[0] * input.shape[1] // num_groups * math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(input.shape)}: "
            "the deviation of a single value is 0"
        )
    check_kind("group_norm", "f", input)
    check_parameters(
        "group_norm", input._data, weight=getattr(weight, "_data", None), bias=getattr(bias, "_data", None)
    )
    return _group_norm(input, num_groups, weight, bias, eps)


# --- vectors ----------------------------------------------------------------------------------------------------------


@composite(method=False)
def normalize(input, p: float = 2.0, dim: int | Sequence[int] | None = 1, eps: float = 1e-12, out=None) -> Tensor:
    """Divide by the p-norm along ``dim``, which counts as at least ``eps``.

    Examples
    --------
    >>> rg.nn.functional.normalize(rg.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    check_tensors("normalize", input=input)
    result = input / clamp_min(vector_norm(input, p, dim, True, None), eps)
    return result if out is None else out.resize_(result.shape).copy_(result)


# --- neighbouring channels --------------------------------------------------------------------------------------------


@composite(method=False)
def local_response_norm(input, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide by a power of the mean square over ``size`` neighbouring channels (Krizhevsky et al., 2012).

    The divisor is ``(k + alpha * mean square) ** beta``.

    Raises
    ------
    ValueError
        If ``input`` has fewer than 3 dimensions.

    Examples
    --------
    >>> rg.nn.functional.local_response_norm(rg.ones(1, 2, 1), 2, alpha=1.0)
    tensor([[[0.7378],
             [0.5946]]])
    """
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {input.ndim} dimensions, "
            f"{list(input.shape)})"
        )
    if input.numel() == 0:
        return input
    squares = input * input
    blank = [input.new_zeros((input.shape[0], n, *input.shape[2:])) for n in (size // 2, (size - 1) // 2)]
    padded = cat([blank[0], squares, blank[1]], 1)
    total: Any = sum(padded[:, first : first + input.shape[1]] for first in range(size))
    return input / (total * (alpha / size) + k) ** beta
