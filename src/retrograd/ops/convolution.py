"""Convolution and its two gradients: one trilinear form; the derivatives of each of the three are the other two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.op import kernel
from retrograd.ops import _convolve
from retrograd.ops._fused import sample_by_sample
from retrograd.ops._reducing import sum_per_channel
from retrograd.ops._rules import conj
from retrograd.ops._windows import Windows

Sizes = tuple[int, ...]


def _windows(size: Sizes, kernel: Sizes, count: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Any:
    """The windows along every dimension of an input of ``size``."""
    return tuple(map(Windows, size, kernel, stride, dilation, padding, count))


def _in_single_precision(compute: Callable[..., Any], first: Any, second: Any, bias: Any, *args: Any) -> Any:
    """Half precision is computed in single precision and then rounded."""
    if first.dtype != np.float16:
        return compute(first, second, bias, *args)
    wide = [None if operand is None else operand.astype(np.float32) for operand in (first, second, bias)]
    return compute(*wide, *args).astype(np.float16)


@kernel(
    public=False,
    method=False,
    input=lambda g, input_shape, weight, stride, padding, dilation, groups: convolution_input(
        g, conj(weight), None, input_shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda g, input, weight_shape, stride, padding, dilation, groups: convolution_weight(
        g, conj(input), weight_shape[2:], stride, padding, dilation, groups
    ),
    bias=sum_per_channel,
    factors=("input", "weight"),
)
@sample_by_sample
def convolution(input, weight, bias, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int):
    """Convolve ``input`` with ``weight``, to a result of ``size``; ``padding`` is the padding before the input."""
    windows = _windows(input.shape[2:], weight.shape[2:], size, stride, padding, dilation)
    return _in_single_precision(_convolve.correlate, input, weight, bias, windows, groups)


@kernel(
    public=False,
    method=False,
    node_name="ConvolutionBackward0",
    grad=lambda g, grad_shape, weight, stride, padding, dilation, groups: convolution(
        g, conj(weight), None, grad_shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda g, grad, weight_shape, stride, padding, dilation, groups: convolution_weight(
        conj(grad), g, weight_shape[2:], stride, padding, dilation, groups
    ),
    bias=sum_per_channel,
    factors=("grad", "weight"),
)
@sample_by_sample
def convolution_input(grad, weight, bias, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int):
    """The gradient of the input, of ``size``, given that of the result; also the transposed convolution."""
    windows = _windows(size, weight.shape[2:], grad.shape[2:], stride, padding, dilation)
    return _in_single_precision(_convolve.correlate_input, grad, weight, bias, windows, groups)


@kernel(
    public=False,
    method=False,
    grad=lambda g, grad_shape, input, stride, padding, dilation, groups: convolution(
        conj(input), g, None, grad_shape[2:], stride, padding, dilation, groups
    ),
    input=lambda g, grad, input_shape, stride, padding, dilation, groups: convolution_input(
        conj(grad), g, None, input_shape[2:], stride, padding, dilation, groups
    ),
    factors=("grad", "input"),
)
@sample_by_sample
def convolution_weight(grad, input, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int):
    """The gradient of the weight, with windows of size ``kernel``, given that of the result."""
    windows = _windows(input.shape[2:], kernel, grad.shape[2:], stride, padding, dilation)
    return row_major(_in_single_precision(_without_bias, grad, input, None, windows, groups))


def _without_bias(grad: Any, input: Any, bias: None, windows: Any, groups: int) -> Any:
    return _convolve.correlate_weight(grad, input, windows, groups)
