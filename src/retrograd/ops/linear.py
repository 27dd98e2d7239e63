"""Affine maps: the products at the heart of neural networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._matrices import check_same_dtype, rows
from retrograd.ops._rules import conj
from retrograd.ops.einsum import einsum


def _describe(input: Any, weight: Any, bias: Any) -> str:
    shapes = {"input": input, "weight": weight, "bias": bias}
    return ", ".join(f"{name} {list(array.shape)}" for name, array in shapes.items() if array is not None)


def _check_linear(input: Any, weight: Any, bias: Any) -> None:
    check_same_dtype("linear", *(operand for operand in (input, weight, bias) if operand is not None))
    if weight.ndim not in (1, 2) or input.ndim == 0 or input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"linear(): cannot multiply {_describe(input, weight, bias)}: the last dimensions of input and weight must "
            "be equal"
        )
    if bias is not None and (bias.ndim > 1 or (bias.ndim == 1 and bias.shape[0] not in (1, *weight.shape[:-1]))):
        raise RuntimeError(
            f"linear(): {_describe(input, weight, bias)}: bias must have one element per row of weight, that is "
            f"{list(weight.shape[:-1])}"
        )


def _gradient_of_input(g: Any, weight: Any, input_shape: tuple[int, ...]) -> Any:
    if weight.ndim == 1:
        return g[..., None] * conj(weight)
    if len(input_shape) == 1:
        return g @ conj(weight)
    return (rows(g) @ conj(weight)).reshape(input_shape)


def _gradient_of_weight(g: Any, input: Any, weight_shape: tuple[int, ...]) -> Any:
    if len(weight_shape) == 1:
        return g.reshape((-1,)) @ rows(conj(input)) if input.ndim > 1 else g * conj(input)
    if input.ndim == 1:
        return g[:, None] * conj(input)
    return rows(g).mT @ rows(conj(input))


@op(
    method=False,
    input=_gradient_of_input,
    weight=_gradient_of_weight,
    bias=lambda g: g,
    factors=("input", "weight"),
)
def linear(input, weight, bias=None):
    """Return ``input @ weight.T + bias``.

    Shapes: ``(..., in), (out, in), (out,) -> (..., out)``; a weight of shape ``(in,)`` gives ``(...,)``.

    Raises
    ------
    RuntimeError
        If the shapes do not fit or the dtypes differ.

    Examples
    --------
    >>> rg.nn.functional.linear(rg.ones(2, 3), rg.ones(4, 3)).shape
    retrograd.Size([2, 4])
    """
    dtype = getattr(input, "dtype", None)
    if (
        dtype is not weight.dtype
        or (input.ndim, weight.ndim) != (2, 2)
        or input.shape[1] != weight.shape[1]
        or (bias is not None and (bias.dtype is not dtype or bias.shape != weight.shape[:1]))
    ):
        _check_linear(input, weight, bias)
    if dtype == np.float16:  # summed up in single precision
        wide = [None if operand is None else operand.astype(np.float32) for operand in (input, weight, bias)]
        return linear.op.forward(*wide).astype(np.float16)
    result = rows(input) @ weight.T if input.ndim > 1 else input @ weight.T
    if bias is not None:
        result = result + bias if result.ndim == 0 else np.add(result, bias, out=result)
    return result if input.ndim == weight.ndim == 2 else result.reshape(input.shape[:-1] + weight.shape[:-1])


@composite(method=False)
def bilinear(input1, input2, weight, bias=None) -> Tensor:
    """Return ``input1 @ weight[k] @ input2`` for every ``k``, plus ``bias``.

    Shapes: ``(..., in1), (..., in2), (out, in1, in2), (out,) -> (..., out)``.

    Raises
    ------
    RuntimeError
        If the shapes do not fit.
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input1 {list(input1.shape)} and input2 {list(input2.shape)} must be of the same shape up to "
            "their last dimensions"
        )
    for name, tensor, expected in (("input1", input1, weight.shape[1]), ("input2", input2, weight.shape[2])):
        if tensor.shape[-1] != expected:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {tensor.shape[-1]} but expected {expected}"
            )
    result = einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias
