"""Fake quantization: numbers are rounded to those that a few bits can tell apart, and stay floating-point numbers.

Rounding has the derivative zero nearly everywhere. The gradient passes straight through it instead, as if it were the
identity, wherever the number is within the range of the bits, so that a network can learn to live with the rounding
(Y. Bengio et al., "Estimating or propagating gradients through stochastic neurons", 2013).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.layout import unexpanded
from retrograd.core.op import op, without_warnings
from retrograd.core.tensor import Tensor
from retrograd.dtypes import from_numpy_dtype
from retrograd.ops._checks import first_where
from retrograd.ops._rules import is_tensor, keep

if TYPE_CHECKING:
    from retrograd.core.annotations import TensorOrArray


def _levels(input: Any, scale: Any, zero_point: Any) -> Any:
    """How many steps of ``scale`` each number is from the lowest one, before it is brought into the range."""
    inverse = np.float32(1) / scale
    if zero_point.dtype.kind == "f":
        return np.rint(input * inverse + zero_point)
    return np.rint(input * inverse) + zero_point


def _quantized(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any = None) -> Any:
    """The rounded numbers; ``dtype``, if given, is the dtype of their products with ``scale``."""
    # NaN becomes the lowest of the levels
    levels = np.fmin(np.fmax(_levels(unexpanded(input), scale, zero_point), quant_min), quant_max) - zero_point
    return ((levels if dtype is None else levels.astype(dtype)) * scale).astype(input.dtype, copy=False)


def _straight_through(g: Any, input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    data = input._data if isinstance(input, Tensor) else input
    levels = _levels(data, scale, zero_point)
    return keep(g, (quant_min <= levels) & (levels <= quant_max))


def _check(name: str, input: Any, zero_point: Any, quant_min: int, quant_max: int) -> None:
    if input.dtype.kind != "f":
        raise NotImplementedError(
            f'"{name}" not implemented for {from_numpy_dtype(input.dtype)}; it takes real floating-point tensors'
        )
    if quant_min > quant_max:
        raise RuntimeError(
            f"{name}(): `quant_min` should be less than or equal to `quant_max`, but got {quant_min} and {quant_max}"
        )
    wrong = first_where((zero_point < quant_min) | (zero_point > quant_max), zero_point)
    if wrong is not None:
        raise RuntimeError(
            f"{name}(): `zero_point` must be between `quant_min` and `quant_max`, from {quant_min} to {quant_max}, but "
            f"is {wrong}"
        )


# --- one scale for all --------------------------------------------------------------------------------------------


def _single(argument: str, value: Any, dtype: Any) -> Any:
    """``scale`` or ``zero_point``, a number or a tensor of one, as an array."""
    is_number = isinstance(value, (int, float, np.generic))
    number = np.asarray(value) if is_number else value
    if number.size != 1:
        raise RuntimeError(
            f"fake_quantize_per_tensor_affine(): {argument} must be a single number, but has {number.size} elements; "
            "for one number per channel use fake_quantize_per_channel_affine"
        )
    if dtype is np.int64 and is_number and not isinstance(value, int):
        raise TypeError(f"fake_quantize_per_tensor_affine(): zero_point must be an integer, but got {value}")
    return number.reshape(()).astype(dtype)


def _whole_rule(g: Any, input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    scale, zero_point = _single("scale", scale, np.float32), _single("zero_point", zero_point, np.int64)
    return _straight_through(g, input, scale, zero_point, quant_min, quant_max)


@without_warnings(op)(
    method=False,
    node_name=lambda scale: (
        f"FakeQuantizePerTensorAffineCachemask{'TensorQparams' if is_tensor(scale) else ''}Backward0"
    ),
    input=_whole_rule,
)
def fake_quantize_per_tensor_affine(
    input, scale: float | TensorOrArray, zero_point: int | TensorOrArray, quant_min: int, quant_max: int
):
    """Round to the multiples of ``scale`` that integers from ``quant_min`` to ``quant_max`` stand for.

    ``zero_point`` is the integer that stands for 0. The gradient passes straight through, and is zero where a number is
    out of range.

    >>> x = rg.tensor([-0.3, 0.42, 9.0], requires_grad=True)
    >>> y = rg.fake_quantize_per_tensor_affine(x, scale=0.25, zero_point=0, quant_min=0, quant_max=15)
    >>> y.tolist(), rg.autograd.grad(y.sum(), x)[0].tolist()
    ([0.0, 0.5, 3.75], [0.0, 1.0, 0.0])
    """
    scale, zero_point = _single("scale", scale, np.float32), _single("zero_point", zero_point, np.int64)
    _check("fake_quantize_per_tensor_affine", input, zero_point, quant_min, quant_max)
    return _quantized(input, scale, zero_point, quant_min, quant_max, np.float32)


# --- a scale for each channel -------------------------------------------------------------------------------------


def _along(values: Any, axis: int, ndim: int) -> Any:
    return values.reshape((1,) * axis + (-1,) + (1,) * (ndim - 1 - axis))


def _channels_rule(g: Any, input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Any:
    scale, zero_point = _along(scale, axis, input.ndim), _along(zero_point, axis, input.ndim)
    return _straight_through(g, input, scale, zero_point, quant_min, quant_max)


@without_warnings(op)(
    method=False,
    node_name="FakeQuantizePerChannelAffineCachemaskBackward0",
    input=_channels_rule,
)
def fake_quantize_per_channel_affine(input, scale, zero_point, axis: int, quant_min: int, quant_max: int):
    """Do as :func:`fake_quantize_per_tensor_affine`, with a scale and a zero point for each position of ``axis``.

    >>> x = rg.tensor([[0.3, 0.3], [0.7, 0.7]])
    >>> zeros = rg.zeros(2, dtype=rg.int32)
    >>> rg.fake_quantize_per_channel_affine(x, rg.tensor([0.5, 0.25]), zeros, axis=1, quant_min=0, quant_max=15)
    tensor([[0.5000, 0.2500],
            [0.5000, 0.7500]])
    """
    name = "fake_quantize_per_channel_affine"
    if scale.dtype.name != "float32":
        raise RuntimeError(f"{name}(): scale must be float32, but is {scale.dtype}; convert it with .float()")
    if zero_point.dtype.name not in ("int32", "float32", "float16"):
        raise RuntimeError(
            f"{name}(): zero_point must be int32, float32 or float16, but is {zero_point.dtype}; convert it with .int()"
        )
    if scale.ndim != 1 or scale.shape != zero_point.shape:
        raise RuntimeError(
            f"{name}(): scale and zero_point must be vectors of the same length, but their shapes are "
            f"{list(scale.shape)} and {list(zero_point.shape)}"
        )
    if not 0 <= axis < input.ndim:
        kind = RuntimeError if axis < 0 else IndexError
        raise kind(f"{name}(): `axis` must be between 0 and {input.ndim - 1}, the last dimension, but is {axis}")
    if len(scale) != input.shape[axis]:
        raise RuntimeError(
            f"{name}(): there are {len(scale)} scales, but the input has {input.shape[axis]} positions along dimension "
            f"{axis}"
        )
    _check(name, input, zero_point, quant_min, quant_max)
    scale, zero_point = _along(scale, axis, input.ndim), _along(zero_point, axis, input.ndim)
    return _quantized(input, scale, zero_point, quant_min, quant_max)
