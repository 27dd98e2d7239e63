"""Convolutions of one, two and three dimensions, and their transposes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_tensors
from retrograd.ops._tuples import per_dimension, times
from retrograd.ops._windows import count_windows
from retrograd.ops.convolution import Sizes, convolution, convolution_input

IntOrInts = int | Sequence[int]

# --- what does not fit --------------------------------------------------------------------------------------------


def _check_tensors(name: str, input: Any, weight: Any, bias: Any) -> None:
    check_tensors(name, input=input, weight=weight, **({} if bias is None else {"bias": bias}))
    for parameter, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.dtype != input.dtype:
            raise RuntimeError(
                f"{name}(): Input type ({input.dtype.name}) and {parameter} type ({value.dtype.name}) should be the "
                "same; convert one of them with .to(dtype)"
            )
    if input._data.dtype.kind == "b":
        raise NotImplementedError(f"\"{name}\" not implemented for 'bool'; convert the operands to a number type")


def _check_channels(name: str, input: Any, weight: Any, bias: Any, groups: int, n: int, transposed: bool) -> None:
    """Raise, in torch's words, unless the numbers of dimensions and channels fit."""
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )
    shape = list(weight.shape)
    if len(shape) != n + 2:
        expected = "in_channels, out_channels / groups" if transposed else "out_channels, in_channels / groups"
        raise RuntimeError(
            f"{name}(): expected weight of shape ({expected}, {n} sizes), but got weight of size {shape}"
        )
    if 0 in shape[2:]:
        raise RuntimeError(f"{name}(): kernel size should be greater than zero, but got weight of size {shape}")
    if groups <= 0:
        raise RuntimeError(f"{name}(): non-positive groups is not supported, but got groups={groups}")
    given = "transposed=1" if transposed else f"groups={groups}"
    if shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{shape} instead"
        )
    if shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {shape} instead"
        )
    batched = [*([1] if input.ndim == n + 1 else []), *input.shape]
    expected_channels = shape[0] if transposed else shape[1] * groups
    if batched[1] != expected_channels:
        raise RuntimeError(
            f"Given {given}, weight of size {shape}, expected input{batched} to have {expected_channels} channels, "
            f"but got {batched[1]} channels instead"
        )
    out_channels = shape[1] * groups if transposed else shape[0]
    if bias is not None and tuple(bias.shape) != (out_channels,):
        raise RuntimeError(
            f"Given {given}, weight of size {shape}, expected bias to be 1-dimensional with {out_channels} elements, "
            f"but got bias of size {list(bias.shape)} instead"
        )
    if 0 in batched[2:]:
        raise RuntimeError(
            f"{name}(): Only zero batch or zero channel inputs are supported, but got input shape: {batched}"
        )


def check_numbers(name: str, stride: Sizes, padding: Sizes, dilation: Sizes, output_padding: Sizes = ()) -> None:
    """Raise for numbers that no convolution can have."""
    if min(stride) <= 0:
        raise RuntimeError(f"{name}(): non-positive stride is not supported, but got stride={list(stride)}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}(): negative padding is not supported, but got padding={list(padding)}")
    if min(dilation) <= 0:
        raise RuntimeError(f"{name}(): dilation should be greater than zero, but got {list(dilation)}")
    if output_padding and min(output_padding) < 0:
        raise RuntimeError(f"{name}(): negative output_padding is not supported, but got {list(output_padding)}")


# --- convolution --------------------------------------------------------------------------------------------------


def _same_padding(name: str, padding: str, kernel: Sizes, stride: Sizes, dilation: Sizes) -> tuple[Sizes, Sizes]:
    """The widths before and after; where they cannot be equal, the larger one is after."""
    if padding == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if padding != "same":
        raise RuntimeError(f"{name}(): Invalid padding string: {padding!r}; use 'valid', 'same' or numbers")
    if any(step != 1 for step in stride):
        raise RuntimeError(f"{name}(): padding='same' is not supported for strided convolutions; stride={list(stride)}")
    total = tuple(d * (k - 1) for d, k in zip(dilation, kernel, strict=True))
    before = tuple(width // 2 for width in total)
    return before, tuple(width - half for width, half in zip(total, before, strict=True))


@functools.lru_cache(maxsize=256)
def _result_size(
    name: str, size: Sizes, kernel: Sizes, stride: Sizes, before: Sizes, after: Sizes, dilation: Sizes
) -> Sizes:
    """How many windows there are along each dimension of ``size``."""
    check_numbers(name, stride, before, dilation)
    padded = tuple(map(sum, zip(size, before, after, strict=True)))
    counts = tuple(map(count_windows, padded, kernel, stride, dilation, (0,) * len(size)))
    if min(counts) <= 0:
        reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
        raise RuntimeError(
            f"{name}(): Calculated padded input size per channel: ({times(padded)}). Kernel size: ({times(reach)}). "
            "Kernel size can't be greater than actual input size"
        )
    return counts


def _convolve(
    name: str, n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    _check_tensors(name, input, weight, bias)
    _check_channels(name, input, weight, bias, groups, n, False)
    steps = per_dimension(name, "stride", stride, n)
    dilations = per_dimension(name, "dilation", dilation, n)
    kernel = tuple(weight.shape[2:])
    if isinstance(padding, str):
        before, after = _same_padding(name, padding, kernel, steps, dilations)
    else:
        before = after = per_dimension(name, "padding", padding, n)
    size = _result_size(name, tuple(input.shape[-n:]), kernel, steps, before, after, dilations)
    batched = input if input.ndim == n + 2 else input.unsqueeze(0)
    result = convolution(batched, weight, bias, size, steps, before, dilations, groups)
    return result if batched is input else result.squeeze(0)


@composite(method=False)
def conv1d(
    input,
    weight,
    bias=None,
    stride: IntOrInts = 1,
    padding: IntOrInts | str = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve ``(N, C, L)`` or ``(C, L)`` with ``(O, C / groups, kernel)``; see :func:`conv2d`."""
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False)
def conv2d(
    input,
    weight,
    bias=None,
    stride: IntOrInts = 1,
    padding: IntOrInts | str = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve in the sense of neural networks: sum ``input`` times ``weight`` over windows, without turning them.

    Shapes: ``(N, C, H, W), (O, C / groups, kH, kW), (O,) -> (N, O, H', W')``, or without ``N``, where ``H'`` is
    ``(H + 2 * padding - dilation * (kH - 1) - 1) // stride + 1``.

    Parameters
    ----------
    stride, padding, dilation
        One number, or one for each dimension. ``padding="same"`` gives a result of the size of the input (with a
        stride of 1), ``"valid"`` is no padding.
    groups
        The number of groups of channels; each sees its own inputs only.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit each other.

    Examples
    --------
    >>> image, weight = rg.ones(1, 3, 8, 8), rg.ones(4, 3, 3, 3)
    >>> rg.nn.functional.conv2d(image, weight, padding=1, stride=2).shape
    retrograd.Size([1, 4, 4, 4])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False)
def conv3d(
    input,
    weight,
    bias=None,
    stride: IntOrInts = 1,
    padding: IntOrInts | str = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve ``(N, C, D, H, W)`` or ``(C, D, H, W)`` with ``(O, C / groups, kD, kH, kW)``; see :func:`conv2d`."""
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


# --- transposed convolution ---------------------------------------------------------------------------------------


def _convolve_transposed(
    name: str,
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    _check_tensors(name, input, weight, bias)
    _check_channels(name, input, weight, bias, groups, n, True)
    steps = per_dimension(name, "stride", stride, n)
    paddings = per_dimension(name, "padding", padding, n)
    added = per_dimension(name, "output_padding", output_padding, n)
    dilations = per_dimension(name, "dilation", dilation, n)
    check_numbers(name, steps, paddings, dilations, added)
    if any(extra >= max(step, d) for extra, step, d in zip(added, steps, dilations, strict=True)):
        raise RuntimeError(
            f"{name}(): output padding must be smaller than either stride or dilation, but got "
            f"output_padding={list(added)}, stride={list(steps)}, dilation={list(dilations)}"
        )
    given = tuple(input.shape[-n:])
    size = tuple(
        (count - 1) * step - 2 * pad + d * (k - 1) + extra + 1
        for count, step, pad, d, k, extra in zip(
            given, steps, paddings, dilations, weight.shape[2:], added, strict=True
        )
    )
    if min(size) <= 0:
        raise RuntimeError(
            f"{name}(): Given input size per channel: ({times(given)}). Calculated output size per channel: "
            f"({times(size)}). Output size is too small"
        )
    batched = input if input.ndim == n + 2 else input.unsqueeze(0)
    result = convolution_input(batched, weight, bias, size, steps, paddings, dilations, groups)
    return result if batched is input else result.squeeze(0)


@composite(method=False)
def conv_transpose1d(
    input,
    weight,
    bias=None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
) -> Tensor:
    """The transpose of :func:`conv1d`; see :func:`conv_transpose2d`."""
    return _convolve_transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@composite(method=False)
def conv_transpose2d(
    input,
    weight,
    bias=None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
) -> Tensor:
    """Apply the transpose of :func:`conv2d`, as a linear map: what its backward does to gradients.

    Shapes: ``(N, C, H, W), (C, O / groups, kH, kW), (O,) -> (N, O, H', W')``, or without ``N``, where ``H'`` is
    ``(H - 1) * stride - 2 * padding + dilation * (kH - 1) + output_padding + 1``.

    Parameters
    ----------
    stride, padding, dilation, groups
        Those of the convolution it is the transpose of.
    output_padding
        Added to the size of the result, which with a stride above 1 the others do not determine; smaller than the
        stride or the dilation.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit each other.

    Examples
    --------
    >>> rg.nn.functional.conv_transpose2d(rg.ones(1, 3, 4, 4), rg.ones(3, 2, 2, 2), stride=2).shape
    retrograd.Size([1, 2, 8, 8])
    """
    return _convolve_transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@composite(method=False)
def conv_transpose3d(
    input,
    weight,
    bias=None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
) -> Tensor:
    """The transpose of :func:`conv3d`; see :func:`conv_transpose2d`."""
    return _convolve_transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
