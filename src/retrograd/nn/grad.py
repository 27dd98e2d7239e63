"""The gradients of convolutions, for custom functions that use them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.core.errors import kind_name
from retrograd.core.tensor import Tensor
from retrograd.ops._rules import conj
from retrograd.ops._tuples import per_dimension
from retrograd.ops._windows import count_windows
from retrograd.ops.conv import IntOrInts, check_numbers
from retrograd.ops.convolution import Sizes, convolution_input, convolution_weight

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _geometry(
    name: str,
    n: int,
    input_size: Sizes,
    weight_size: Sizes,
    grad_output: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> tuple[Sizes, Sizes, Sizes]:
    """Stride, padding and dilation of every dimension, if all sizes fit each other."""
    steps, widths, dilations = (
        per_dimension(name, parameter, value, n)
        for parameter, value in (("stride", stride), ("padding", padding), ("dilation", dilation))
    )
    check_numbers(name, steps, widths, dilations)
    if len(input_size) != n + 2 or len(weight_size) != n + 2:
        raise RuntimeError(
            f"{name}(): expected the sizes of the input and the weight to have {n + 2} numbers each, got "
            f"{list(input_size)} and {list(weight_size)}"
        )
    if groups < 1 or input_size[1] != weight_size[1] * groups or weight_size[0] % groups:
        raise RuntimeError(
            f"{name}(): an input of size {list(input_size)} and a weight of size {list(weight_size)} do not fit in "
            f"{groups} groups: the weight's size is (out_channels, in_channels / groups, ...)"
        )
    counts = map(count_windows, input_size[2:], weight_size[2:], steps, dilations, widths)
    expected = [input_size[0], weight_size[0], *counts]
    if list(grad_output.shape) != expected:
        raise RuntimeError(
            f"{name}(): the gradient of the result should have the shape {expected} for an input of size "
            f"{list(input_size)} and a weight of size {list(weight_size)}, got {list(grad_output.shape)}"
        )
    return steps, widths, dilations


def _check_operands(name: str, other: str, value: Any, grad_output: Any) -> None:
    for parameter, operand in ((other, value), ("grad_output", grad_output)):
        if not isinstance(operand, Tensor):
            raise TypeError(f"{name}(): argument '{parameter}' must be Tensor, not {kind_name(operand)}")
    if value.dtype != grad_output.dtype:
        raise RuntimeError(
            f"{name}(): {other} type ({value.dtype.name}) and grad_output type ({grad_output.dtype.name}) should be "
            "the same; convert one of them with .to(dtype)"
        )


def _of_input(
    name: str,
    n: int,
    input_size: Sequence[int],
    weight: Any,
    grad_output: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    _check_operands(name, "weight", weight, grad_output)
    size = tuple(input_size)
    geometry = _geometry(name, n, size, tuple(weight.shape), grad_output, stride, padding, dilation, groups)
    return convolution_input(grad_output, conj(weight), None, size[2:], *geometry, groups)


def _of_weight(
    name: str,
    n: int,
    input: Any,
    weight_size: Sequence[int],
    grad_output: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    _check_operands(name, "input", input, grad_output)
    size = tuple(weight_size)
    geometry = _geometry(name, n, tuple(input.shape), size, grad_output, stride, padding, dilation, groups)
    return convolution_weight(grad_output, conj(input), size[2:], *geometry, groups)


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the input of :func:`~retrograd.nn.functional.conv1d`; see :func:`conv2d_input`."""
    return _of_input("conv1d_input", 1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the weight of :func:`~retrograd.nn.functional.conv1d`; see :func:`conv2d_weight`."""
    return _of_weight("conv1d_weight", 1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the input of :func:`~retrograd.nn.functional.conv2d`, given that of its result.

    Parameters
    ----------
    input_size
        The shape of the input, ``(N, C, H, W)``.
    weight
        What the input was convolved with.
    grad_output
        The gradient of the result.
    stride, padding, dilation, groups
        As they were given to ``conv2d``.

    Raises
    ------
    RuntimeError
        If the sizes or dtypes do not fit each other.

    Examples
    --------
    >>> x, weight = rg.ones(1, 1, 3, 3, requires_grad=True), rg.ones(1, 1, 2, 2)
    >>> y = rg.nn.functional.conv2d(x, weight)
    >>> (expected,) = rg.autograd.grad(y, x, rg.ones_like(y))
    >>> rg.equal(rg.nn.grad.conv2d_input(x.shape, weight, rg.ones_like(y)), expected)
    True
    """
    return _of_input("conv2d_input", 2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the weight of :func:`~retrograd.nn.functional.conv2d`, given that of its result.

    Parameters
    ----------
    input
        What was convolved.
    weight_size
        The shape of the weight, ``(O, C / groups, kH, kW)``.
    grad_output
        The gradient of the result.
    stride, padding, dilation, groups
        As they were given to ``conv2d``.

    Raises
    ------
    RuntimeError
        If the sizes or dtypes do not fit each other.
    """
    return _of_weight("conv2d_weight", 2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the input of :func:`~retrograd.nn.functional.conv3d`; see :func:`conv2d_input`."""
    return _of_input("conv3d_input", 3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the weight of :func:`~retrograd.nn.functional.conv3d`; see :func:`conv2d_weight`."""
    return _of_weight("conv3d_weight", 3, input, weight_size, grad_output, stride, padding, dilation, groups)
