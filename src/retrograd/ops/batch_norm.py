"""Normalisation over a batch: every channel over all samples and places; and over each sample separately."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from retrograd.core import state
from retrograd.core.layout import row_major
from retrograd.core.op import op
from retrograd.core.reductions import reduce
from retrograd.core.registry import composite
from retrograd.core.scratch import scratch_like
from retrograd.core.state import local, set_grad_enabled
from retrograd.core.tensor import Tensor
from retrograd.gpu import DeviceArray
from retrograd.gpu.fused import one_kernel
from retrograd.ops._checks import check_constant, check_kind, check_number, check_tensors
from retrograd.ops._fused import gradient_of, sample_by_sample
from retrograd.ops._reducing import sum_per_channel
from retrograd.ops._rows import over_blocks, summed_over_blocks
from retrograd.ops.norm_layers import check_parameters, in_single, inverse_root, scaled, standardized

_FEW = 1 << 12  # places

# --- arrays of shape (N, C, places) -----------------------------------------------------------------------------------


def _by_place(x: Any) -> Any:
    """An array of shape (N, C, ...) with all places in one dimension, and without it where there is one place.

    It lies in index order: sums over places that are not adjacent would take longer, and round more.
    """
    places = math.prod(x.shape[2:])
    return row_major(x).reshape(x.shape[:2] if places == 1 else (*x.shape[:2], places))


def _per_channel(values: Any, x: Any) -> Any:
    """One number per channel, to be broadcast against an array of shape (N, C) or (N, C, ...)."""
    return values.reshape((-1,) + (1,) * (x.ndim - 2))


def _sum(x: Any) -> Any:
    """The sum of every channel."""
    if x.ndim == 3:
        # on the CPU, a product with ones takes a quarter of the time, but rounds more with many summands
        few = x.shape[2] <= _FEW and x.dtype.kind == "f" and type(x) is not DeviceArray
        x = x @ np.ones(x.shape[2], x.dtype) if few else np.add.reduce(x, 2)
    return reduce(np.add, x, 0)


def _products(x: Any, y: Any) -> Any:
    """The sum of the products of every channel."""
    return reduce(np.add, x * y if x.ndim == 2 else np.vecdot(x, y), 0)


def _deviations(x: Any, mean: Any) -> Any:
    return np.subtract(x, mean, out=scratch_like(x))


def _total(of_part: Callable[[slice], Any], x: Any) -> Any:
    """The sum of what a function returns for parts of the samples: one number for every channel."""
    return summed_over_blocks(of_part, x, x.shape[1:2])


@sample_by_sample
def _products_with_deviations(g: Any, x: Any, mean: Any) -> Any:
    """The sum of ``g * (x - mean)`` of every channel."""
    mean = _per_channel(mean, x)
    return _total(lambda part: _products(g[part], _deviations(x[part], mean)), x)


def _sum_of_squares(x: Any, mean: Any) -> Any:
    mean = _per_channel(mean, x)

    def of_part(part: slice) -> Any:
        deviations = _deviations(x[part], mean)
        return _products(deviations, deviations)

    return _total(of_part, x)


@one_kernel("x * factor + shift")
def _scale_and_shift(x: Any, factor: Any, shift: Any, out: Any) -> None:
    np.multiply(x, factor, out=out)
    out += shift


def _affine(x: Any, factor: Any, shift: Any) -> Any:
    """``x * factor + shift`` with one factor and one shift per channel."""
    factor, shift = _per_channel(factor, x), _per_channel(shift, x)
    result = np.empty_like(x)

    def work(part: slice) -> None:
        _scale_and_shift(x[part], factor, shift, result[part])

    over_blocks(work, x)
    return result


@one_kernel("(x - mean) * slope + g * factor + shift")
def _combine(x: Any, g: Any, mean: Any, slope: Any, factor: Any, shift: Any, out: Any) -> None:
    np.subtract(x, mean, out=out)
    out *= slope
    out += np.multiply(g, factor, out=scratch_like(out))
    out += shift


@sample_by_sample
def _gradient_of_batch(g: Any, x: Any, mean: Any, scale: Any, factor: Any) -> Any:
    """The gradient of what was normalised by its mean and scale, whose product with the weight is ``factor``."""
    count = x.size // max(x.shape[1], 1)
    slope = factor * scale * scale * _products_with_deviations(g, x, mean) / -count
    shift = factor * _sum(g) / -count
    factor, slope, shift, mean = (_per_channel(each, x) for each in (factor, slope, shift, mean))
    result = np.empty_like(x)

    def work(part: slice) -> None:
        _combine(x[part], g[part], mean, slope, factor, shift, result[part])

    over_blocks(work, x)
    return result


# --- the operation ----------------------------------------------------------------------------------------------------


@op(name="batch_norm_stats", public=False, method=False, outputs=("mean", "var"))
def _batch_statistics(input):
    """The mean and the variance of every channel."""
    (input,) = in_single(input)
    x = _by_place(input)
    count = x.size // x.shape[1] if x.shape[1] else 0
    mean = _sum(x) / count
    return mean, _sum_of_squares(x, mean) / count


def _compose_batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, eps: float) -> Any:
    dims = (0, *range(2, input.ndim))
    if training:
        normal = standardized(input, dims, eps)
    else:
        normal = (input - _per_channel(mean, input)) * _per_channel(1 / np.sqrt(var + eps), input)
    weight, bias = (None if x is None else _per_channel(x, input) for x in (weight, bias))
    return scaled(normal, weight, bias)


def _batch_norm_input(g, input, weight, mean, var, training, eps):
    if isinstance(g, Tensor):
        return gradient_of(_compose_batch_norm, g, [input, weight, None, mean, var, training, eps], 0)
    shape = input.shape
    g, x, weight = in_single(_by_place(g), _by_place(input), weight)
    scale = inverse_root(var, eps)
    factor = scale if weight is None else scale * weight
    if not training:
        return (g * _per_channel(factor, g)).reshape(shape)
    return _gradient_of_batch(g, x, mean, scale, factor).reshape(shape)


def _batch_norm_weight(g, input, weight, mean, var, training, eps):
    if isinstance(g, Tensor):
        return gradient_of(_compose_batch_norm, g, [input, weight, None, mean, var, training, eps], 1)
    g, x = in_single(_by_place(g), _by_place(input))
    return _products_with_deviations(g, x, mean) / np.sqrt(var + eps)


def _batch_norm_bias(g):
    if isinstance(g, Tensor):
        return sum_per_channel(g)
    return _sum(*in_single(_by_place(g)))


@op(
    name="batch_norm",
    public=False,
    method=False,
    node_name="NativeBatchNormBackward0",
    input=_batch_norm_input,
    weight=_batch_norm_weight,
    bias=_batch_norm_bias,
)
def _batch_norm(input, weight, bias, mean, var, training: bool, eps: float):
    x, weight, bias, mean, var = in_single(_by_place(input), weight, bias, mean, var)
    factor = inverse_root(var, eps)
    if weight is not None:
        factor = factor * weight
    shift = -mean * factor if bias is None else bias - mean * factor
    return _affine(x, factor, shift).reshape(input.shape).astype(input.dtype, copy=False)


def _check_channels(name: str, channels: int, **parameters: Any) -> None:
    for parameter, value in parameters.items():
        if value is not None and value.numel() != channels:
            raise RuntimeError(
                f"{name}: {parameter} should contain {channels} elements, one per channel, not {value.numel()}"
            )


def _update(running: Any, batch: Any, momentum: float) -> None:
    """Move running statistics towards the statistics of a batch, in place."""
    recorded = set_grad_enabled(False)
    try:
        running.mul_(1 - momentum).add_(batch.to(running.dtype) * momentum)
    finally:
        set_grad_enabled(recorded)


@composite(method=False, reported=False)
def batch_norm(
    input,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight=None,
    bias=None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every channel over the batch, or by running statistics (Ioffe, Szegedy, 2015).

    Shapes: ``(N, C, ...)``, all others ``(C,)``; the result has the shape of the input.

    Parameters
    ----------
    running_mean, running_var
        What to normalise by, or in training, where they may be None, what to update.
    weight, bias
        Multiplied with and added to the normalised channels.
    training
        Whether to normalise by the mean and the variance of this batch.
    momentum
        The weight of this batch in the running statistics.
    eps
        Added to the variance.

    Raises
    ------
    RuntimeError, ValueError
        If the shapes do not fit, or if there is a single value per channel in training.

    Examples
    --------
    >>> x = rg.tensor([[1.0], [3.0]])
    >>> rg.nn.functional.batch_norm(x, None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _normalized(input, running_mean, running_var, weight, bias, training, momentum, eps)


def _normalized(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    check_tensors("batch_norm", input=input)
    if input.ndim < 2:
        raise IndexError(f"batch_norm: expected an input of shape [N, C, ...], got {list(input.shape)}")
    channels = input.shape[1]
    momentum = check_number("batch_norm", "momentum", momentum)
    if not isinstance(momentum, Real):
        raise TypeError(f"batch_norm(): argument 'momentum' (position 7) must be float, not {type(momentum).__name__}")
    check_kind("batch_norm", "f", input)
    if not training and (running_mean is None or running_var is None):
        missing = "running_mean" if running_mean is None else "running_var"
        raise RuntimeError(f"batch_norm: {missing} must be defined in evaluation mode")
    _check_channels(
        "batch_norm", channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    parameters = {"weight": weight, "bias": bias, "running_mean": running_mean, "running_var": running_var}
    check_parameters("batch_norm", input, **parameters)
    check_constant("batch_norm", running_mean=running_mean, running_var=running_var)
    if not training:
        level = local.tangents
        if level is not None and level.is_dual(input) and level.is_dual([running_mean, running_var]):
            raise RuntimeError(
                "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad "
                "defined; pass them without their tangents"
            )
        return _batch_norm(input, weight, bias, running_mean, running_var, False, eps)
    if (running_mean is None) != (running_var is None):
        raise ValueError("batch_norm: running_mean and running_var must either both be None or neither be None")
    count = input.numel() // channels if channels else 0
    if count == 1:
        raise ValueError(
            f"batch_norm: Expected more than 1 value per channel when training, got input size {list(input.shape)}; "
            "use a larger batch, or eval()"
        )
    if not count:  # there is nothing to normalise, nor to learn from
        mean, var = input.new_zeros(channels), input.new_ones(channels)
        return _batch_norm(input, weight, bias, mean, var, True, eps)
    mean, var = _batch_statistics(input.detach())
    if running_mean is not None and (state.monitor is None or state.monitor.may_average((mean, var))):
        _update(running_mean, mean, momentum)
        _update(running_var, var * (count / (count - 1)), momentum)
    return _batch_norm(input, weight, bias, mean, var, True, eps)


@composite(method=False)
def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every channel of every sample (Ulyanov, Vedaldi, Lempitsky, 2016).

    The arguments are those of :func:`batch_norm`, with ``use_input_stats`` for ``training``.

    Raises
    ------
    RuntimeError, ValueError
        If the shapes do not fit, or if there is a single value per channel.

    Examples
    --------
    >>> rg.nn.functional.instance_norm(rg.tensor([[[1.0, 3.0]], [[10.0, 30.0]]])).flatten()
    tensor([-1.0000,  1.0000, -1.0000,  1.0000])
    """
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"instance_norm: Expected more than 1 spatial element when training, got input size {list(input.shape)}"
        )
    samples, channels = input.shape[:2]
    check_constant("instance_norm", running_mean=running_mean, running_var=running_var)
    _check_channels(
        "instance_norm", channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    # every channel of every sample as a channel of its own, in a batch of one
    running: list[Any] = [None if x is None else x.detach().repeat(samples) for x in (running_mean, running_var)]
    weight, bias = (None if x is None else x.repeat(samples) for x in (weight, bias))
    whole = input.reshape((1, samples * channels, *input.shape[2:]))
    result = _normalized(whole, running[0], running[1], weight, bias, use_input_stats, momentum, eps)
    if use_input_stats:
        for target, of_samples in zip((running_mean, running_var), running, strict=True):
            if target is not None:
                target.detach().copy_(of_samples.reshape((samples, channels)).mean(0))
    return result.reshape(input.shape)
