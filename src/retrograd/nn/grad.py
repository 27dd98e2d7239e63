"""The gradients of convolutions as functions, for custom functions that write their backward by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.ops._matrices import check_same_dtype
from retrograd.ops._tuples import per_dimension
from retrograd.ops._windows import count_windows
from retrograd.ops.convolution import Sizes, convolution_input, convolution_weight

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

IntOrInts = int | Sequence[int]


def _numbers(
    name: str,
    n: int,
    input_size: Sequence[int],
    weight_size: Sequence[int],
    grad_output: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> tuple[Sizes, Sizes, Sizes]:
    """Stride, padding and dilation of every dimension; raise unless ``grad_output`` is of the size of the result."""
    steps = per_dimension(name, "stride", stride, n)
    paddings = per_dimension(name, "padding", padding, n)
    dilations = per_dimension(name, "dilation", dilation, n)
    if min(steps) <= 0 or min(dilations) <= 0 or groups <= 0:
        raise RuntimeError(
            f"{name}(): stride, dilation and groups should be greater than zero, but got {list(steps)}, "
            f"{list(dilations)} and {groups}"
        )
    if len(input_size) != n + 2 or len(weight_size) != n + 2:
        raise RuntimeError(
            f"{name}(): expected an input and a weight of {n + 2} dimensions, but got sizes {list(input_size)} and "
            f"{list(weight_size)}; add a batch of one with unsqueeze(0)"
        )
    if input_size[1] != weight_size[1] * groups or weight_size[0] % groups:
        raise RuntimeError(
            f"{name}(): a weight of size {list(weight_size)} does not fit an input of size {list(input_size)} with "
            f"groups={groups}: expected [out_channels, in_channels / groups, ...]"
        )
    counts = map(count_windows, input_size[2:], weight_size[2:], steps, dilations, paddings)
    expected = [input_size[0], weight_size[0], *counts]
    if list(grad_output.shape) != expected:
        raise RuntimeError(
            f"{name}(): the result of this convolution is of size {expected}, but grad_output is of size "
            f"{list(grad_output.shape)}; stride={list(steps)}, padding={list(paddings)}, dilation={list(dilations)}"
        )
    return steps, paddings, dilations


def _of_input(
    n: int, input_size: Any, weight: Any, grad_output: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    name = f"conv{n}d_input"
    check_same_dtype(name, weight, grad_output)
    numbers = _numbers(name, n, input_size, weight.shape, grad_output, stride, padding, dilation, groups)
    return convolution_input(grad_output, weight, None, tuple(input_size[2:]), *numbers, groups)


def _of_weight(
    n: int, input: Any, weight_size: Any, grad_output: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    name = f"conv{n}d_weight"
    check_same_dtype(name, input, grad_output)
    numbers = _numbers(name, n, input.shape, weight_size, grad_output, stride, padding, dilation, groups)
    return convolution_weight(grad_output, input, tuple(weight_size[2:]), *numbers, groups)


def conv1d_input(
    input_size: Sequence[int],
    weight: Any,
    grad_output: Any,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of the input of :func:`conv1d`; see :func:`conv2d_input`."""
    return _of_input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Any,
    weight_size: Sequence[int],
    grad_output: Any,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of the weight of :func:`conv1d`; see :func:`conv2d_weight`."""
    return _of_weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Any,
    grad_output: Any,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of the input of :func:`conv2d` for ``grad_output``, that of its result.

    Parameters
    ----------
    input_size
        The size of the input, batch included: with a stride it does not follow from that of the result.
    weight, stride, padding, dilation, groups
        Those of the convolution; padding in numbers.

    Raises
    ------
    RuntimeError
        If ``grad_output`` is not of the size of the result.

    Examples
    --------
    >>> weight, grad_output = rg.ones(4, 3, 3, 3), rg.ones(1, 4, 2, 2)
    >>> rg.nn.grad.conv2d_input((1, 3, 6, 6), weight, grad_output, stride=2).shape
    retrograd.Size([1, 3, 6, 6])
    """
    return _of_input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Any,
    weight_size: Sequence[int],
    grad_output: Any,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of the weight of :func:`conv2d` for ``grad_output``, that of its result.

    Parameters
    ----------
    weight_size
        The size of the weight.
    input, stride, padding, dilation, groups
        Those of the convolution; padding in numbers.

    Raises
    ------
    RuntimeError
        If ``grad_output`` is not of the size of the result.

    Examples
    --------
    >>> rg.nn.grad.conv2d_weight(rg.ones(1, 3, 6, 6), (4, 3, 3, 3), rg.ones(1, 4, 2, 2), stride=2).shape
    retrograd.Size([4, 3, 3, 3])
    """
    return _of_weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Any,
    grad_output: Any,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of the input of :func:`conv3d`; see :func:`conv2d_input`."""
    return _of_input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Any,
    weight_size: Sequence[int],
    grad_output: Any,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of the weight of :func:`conv3d`; see :func:`conv2d_weight`."""
    return _of_weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
