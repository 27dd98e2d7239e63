"""Activation functions, as in torch.nn.functional, and softmax.

They are safe for large and small inputs: nothing overflows on the way to a finite result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.calls import inplace
from retrograd.core.layout import row_major
from retrograd.core.op import elementwise, op
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.dtypes import as_dtype
from retrograd.gpu import DeviceArray
from retrograd.ops._checks import check_kind
from retrograd.ops._normal import normal_single
from retrograd.ops._rows import (
    as_rows,
    largest,
    log_softmax_rows,
    log_softmax_rows_derivative,
    softmax_rows,
    softmax_rows_derivative,
)
from retrograd.ops._rules import choose, conj, keep, tied
from retrograd.ops._scipy import answers_for
from retrograd.ops._single import expm1_to_zero, log1p_to_one
from retrograd.ops.copying import fill_value
from retrograd.ops.special import SQRT_2PI, erf

_LARGE = 1 << 12  # elements from which on a method with more overhead takes less time

# --- what they share --------------------------------------------------------------------------------------------------


def zeroed(g: Any, where: Any) -> Any:
    """``g`` with zeros where ``where`` is true, even in place of NaN and infinities."""
    return np.where(where, 0, g) if type(g) is DeviceArray else keep(g, ~where)


def zeroed_by(g: Any, where: Any, operand: Any) -> Any:
    """The same for a gradient, where ``where`` depends on ``operand``."""
    return tied(zeroed(g, where), operand)


def in_rules(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation as rules may call it: on arrays its plain function, on Tensors itself."""
    plain = function.op.forward  # type: ignore[attr-defined]

    def call(input: Any) -> Any:
        return function(input) if isinstance(input, Tensor) else plain(input)

    return call


def positive_part(x: Any) -> Any:
    """``maximum(x, 0)`` of real floating-point numbers; on the CPU that takes four times as long with a number."""
    return np.maximum(x, 0) if type(x) is DeviceArray else x.clip(0, np.inf)


def negative_part(x: Any) -> Any:
    """``minimum(x, 0)`` of real floating-point numbers."""
    return x.clip(-np.inf, 0)


def larger(x: Any, fresh: Any) -> Any:
    """The maximum of two arrays; the second may be overwritten."""
    return np.maximum(x, fresh, out=fresh if type(fresh) is np.ndarray and fresh.ndim else None)


def _check_real(name: str, input: Any) -> None:
    if input.dtype.kind == "b":
        raise RuntimeError(f"Boolean inputs not supported for {name}; convert them first, for example with .float()")
    if input.dtype.kind == "c":
        raise NotImplementedError(f"{name} is not supported for complex types; take .abs() or .real first")


# --- piecewise linear -------------------------------------------------------------------------------------------------


@elementwise(input=lambda g, result: zeroed_by(g, result <= 0, result))
def relu(input):
    """Return ``max(input, 0)``; the derivative at 0 is 0."""
    _check_real("relu", input)
    return positive_part(input) if input.dtype.kind == "f" and input.size >= _LARGE else np.maximum(input, 0)


@elementwise(
    method=False, input=lambda g, input, min_val, max_val: zeroed_by(g, (input <= min_val) | (input >= max_val), input)
)
def hardtanh(input, min_val: float = -1.0, max_val: float = 1.0):
    """Return ``input`` clamped to ``[min_val, max_val]``; the derivative at the ends is 0."""
    _check_real("hardtanh", input)
    if input.dtype.kind == "u" and min_val < 0:
        raise RuntimeError(f"hardtanh: cannot clamp the unsigned {input.dtype} to negative limits")
    return input.clip(*(fill_value("hardtanh", limit, input.dtype) for limit in (min_val, max_val)))


@elementwise(method=False, input=lambda g, input: zeroed_by(g, (input <= 0) | (input >= 6), input))
def relu6(input):
    """Return ``input`` clamped to ``[0, 6]``; the derivative at the ends is 0."""
    _check_real("relu6", input)
    return input.clip(0, 6)


def _is_larger(input: Any, slope: Any) -> bool:
    """Whether ``max(input, slope * input)`` is ``input`` where it is positive, and ``slope * input`` elsewhere.

    A slope of zero makes a NaN of infinity.
    """
    return type(input) is np.ndarray and bool(np.all((slope <= 1) & (slope != 0)))


def leaky_relu_derivative(g: Any, input: Any, negative_slope: float) -> Any:
    positive = (input > 0).astype(g.dtype)
    return tied(g * (positive + negative_slope * (1 - positive)), input)


@elementwise(method=False, input=leaky_relu_derivative)
def leaky_relu(input, negative_slope: float = 0.01):
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""
    check_kind("leaky_relu", "f", input)
    if _is_larger(input, negative_slope):
        return larger(input, input * negative_slope)
    return positive_part(input) + negative_slope * negative_part(input)


def prelu_derivative(g: Any, input: Any, weight: Any) -> Any:
    return tied(choose(input > 0, g, weight * g), input)


@elementwise(
    public=False,
    method=False,
    node_name="PreluKernelBackward0",
    input=prelu_derivative,
    weight=lambda g, input: zeroed(g * input, input > 0),
)
def _prelu_kernel(input, weight):
    if _is_larger(input, weight):
        return larger(input, input * weight)
    return choose(input > 0, input, weight * input)


@composite()
def prelu(input, weight) -> Tensor:
    """Return ``input`` where it is positive, ``weight * input`` elsewhere, with one weight or one per channel.

    Raises
    ------
    RuntimeError
        If there are neither one nor as many weights as channels, or if the dtypes differ.
    """
    check_kind("prelu", "f", input._data)
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.dtype != input.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}")
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                "prelu: Mismatch of parameter numbers and input channel size. "
                f"Found parameter numbers = {weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape((channels,) + (1,) * (input.ndim - 2))
    elif weight.ndim == 1:
        weight = weight.reshape(())
    return _prelu_kernel(input, weight)


@elementwise(method=False, input=lambda g, input, threshold: zeroed_by(g, input <= threshold, input))
def threshold(input, threshold: float, value: float):
    """Return ``input`` where it exceeds ``threshold``, ``value`` elsewhere."""
    check_kind("threshold", "iuf", input)
    least, value = (fill_value("threshold", number, input.dtype) for number in (threshold, value))
    below = input <= least
    if value == 0 and input.dtype.kind == "f":
        return zeroed(input, below)
    return choose(below, input.dtype.type(value), input)


def shrunk_derivative(g: Any, input: Any, lambd: float) -> Any:
    return zeroed_by(g, np.abs(input) <= lambd, input)


@elementwise(inplace=False, input=shrunk_derivative)
def hardshrink(input, lambd: float = 0.5):
    """Return ``input``, and 0 where it is between ``-lambd`` and ``lambd``."""
    check_kind("hardshrink", "f", input)
    return zeroed(input, np.abs(input) <= lambd)


@elementwise(method=False, input=shrunk_derivative)
def softshrink(input, lambd: float = 0.5):
    """Return ``input`` moved towards 0 by ``lambd``, and 0 where it is between ``-lambd`` and ``lambd``."""
    check_kind("softshrink", "f", input)
    if not lambd >= 0:  # or NaN
        raise RuntimeError(f"softshrink: lambda must be greater than or equal to 0, but found {lambd}")
    return input - input.clip(-lambd, lambd)


@elementwise(method=False, input=lambda g, input: zeroed_by(g / 6, ~((input > -3) & (input < 3)), input))
def hardsigmoid(input):
    """Return ``input / 6 + 1 / 2`` clamped to ``[0, 1]``; the derivative at the ends is 0."""
    check_kind("hardsigmoid", "f", input)
    return (input + 3).clip(0, 6) / 6


@elementwise(
    method=False, input=lambda g, input: keep(g * (input / 3 + 0.5), np.abs(input) < 3) + keep(g, ~(input < 3))
)
def hardswish(input):
    """Return ``input * hardsigmoid(input)``; the derivative is 0 up to -3 and 1 from 3."""
    check_kind("hardswish", "f", input)
    return input * ((input + 3).clip(0, 6) / 6)


# --- exponential linear units -----------------------------------------------------------------------------------------


def _left_of_zero(input: Any) -> Any:
    """``minimum(input, 0)``, whose derivative at 0 is 0, as torch's second derivatives require."""
    return zeroed(input, ~(input < 0))


def elu_derivative(g: Any, input: Any, alpha: float) -> Any:
    left = input <= 0
    return zeroed(g, left) + alpha * np.exp(_left_of_zero(input)) * zeroed(g, ~left)


@elementwise(method=False, heavy=True, input=elu_derivative)
def elu(input, alpha: float = 1.0):
    """Return ``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    check_kind("elu", "f", input)
    return positive_part(input) + alpha * expm1_to_zero(negative_part(input))


# chosen so that mean 0 and variance 1 persist from layer to layer (Klambauer et al., 2017)
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@elementwise(method=False, heavy=True, input=lambda g, input: SELU_SCALE * elu_derivative(g, input, SELU_ALPHA))
def selu(input):
    """Return the self-normalising :func:`elu`: 1.0507 times that with ``alpha = 1.6733``."""
    check_kind("selu", "f", input)
    return SELU_SCALE * (positive_part(input) + SELU_ALPHA * expm1_to_zero(negative_part(input)))


def celu_derivative(g: Any, input: Any, alpha: float) -> Any:
    left = input <= 0
    return zeroed(g, left) + np.exp(_left_of_zero(input) / alpha) * zeroed(g, ~left)


@elementwise(method=False, heavy=True, input=celu_derivative)
def celu(input, alpha: float = 1.0):
    """Return ``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    check_kind("celu", "f", input)
    if alpha == 0:
        raise RuntimeError("celu: ZeroDivisionError: alpha cannot be 0 for CELU")
    return positive_part(input) + alpha * expm1_to_zero(negative_part(input) / alpha)


# --- smooth -----------------------------------------------------------------------------------------------------------


@answers_for("expit")
@elementwise(int_to_float=True, heavy=True, input=lambda g, result: g * conj(result * (1 - result)))
def sigmoid(input):
    """Return the logistic function ``1 / (1 + exp(-input))``."""
    if input.dtype.kind == "c":
        return 1 / (1 + np.exp(-input))
    e = np.exp(-np.abs(input))  # at most 1
    result = np.maximum(e, (input >= 0).astype(e.dtype))
    result /= 1 + e
    return result


logistic = in_rules(sigmoid)


def log1p_exp_below(x: Any) -> Any:
    """``log(1 + exp(-abs(x)))``: the excess of ``log(1 + exp(x))`` over ``maximum(x, 0)``."""
    return log1p_to_one(np.exp(-np.abs(x)))


@elementwise(method=False, node_name="LogSigmoidBackward0", heavy=True, input=lambda g, input: g * logistic(-input))
def logsigmoid(input):
    """Return ``log(sigmoid(input))``."""
    check_kind("logsigmoid", "f", input)
    input = row_major(input)
    return negative_part(input) - log1p_exp_below(input)


@elementwise(
    method=False,
    heavy=True,
    input=lambda g, input, beta, threshold: np.where(input * beta > threshold, g, g * logistic(input * beta)),
)
def softplus(input, beta: float = 1.0, threshold: float = 20.0):
    """Return ``log(1 + exp(beta * input)) / beta``, and ``input`` itself where ``beta * input > threshold``."""
    check_kind("softplus", "f", input)
    x = input * beta
    return np.where(x > threshold, input, (positive_part(x) + log1p_exp_below(x)) / beta)


def silu_derivative(g: Any, input: Any) -> Any:
    s = logistic(input)
    return g * conj(s * (1 + input * (1 - s)))


@elementwise(method=False, heavy=True, input=silu_derivative)
def silu(input):
    """Return ``input * sigmoid(input)``."""
    check_kind("silu", "fc", input)
    return input * logistic(input)


log1p_exp = in_rules(softplus)


def mish_derivative(g: Any, input: Any) -> Any:
    t = np.tanh(log1p_exp(input))
    return g * (t + input * logistic(input) * (1 - t * t))


@elementwise(method=False, heavy=True, input=mish_derivative)
def mish(input):
    """Return ``input * tanh(softplus(input))``."""
    check_kind("mish", "f", input)
    return input * np.tanh(log1p_exp(input))


SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
error_function = in_rules(erf)
CUBIC = 0.044715  # fitted by Hendrycks and Gimpel, "Gaussian error linear units", 2016


def normal_distribution(x: Any) -> Any:
    """The distribution function of the standard normal distribution, with torch's absolute accuracy."""
    if type(x) is np.ndarray and x.dtype == np.float32 and x.size >= _LARGE:
        return normal_single(x)
    return 0.5 * (1 + error_function(x * math.sqrt(0.5)))


def gelu_derivative(g: Any, input: Any, approximate: str) -> Any:
    if approximate == "none":
        density = np.exp(input * input * -0.5) * (1 / SQRT_2PI)
        return g * (normal_distribution(input) + input * density)
    t = np.tanh(SQRT_2_OVER_PI * (input + CUBIC * input * input * input))
    slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * input * input)
    return g * (0.5 * (1 + t) + 0.5 * input * (1 - t * t) * slope)


@elementwise(method=False, heavy=True, input=gelu_derivative)
def gelu(input, approximate: str = "none"):
    """Return ``input`` times the normal distribution function, or its ``"tanh"`` approximation."""
    check_kind("gelu", "f", input)
    if approximate == "none":
        return input * normal_distribution(input)
    if approximate == "tanh":
        return 0.5 * input * (1 + np.tanh(SQRT_2_OVER_PI * (input + CUBIC * input * input * input)))
    raise RuntimeError(f"gelu: approximate argument must be either none or tanh, but got {approximate!r}")


@composite(method=False)
def softsign(input) -> Tensor:
    """Return ``input / (1 + abs(input))``."""
    return input / (1 + input.abs())


@elementwise(method=False, int_to_float=True, heavy=True, input=lambda g, input: g * conj(np.tanh(input) ** 2))
def tanhshrink(input):
    """Return ``input - tanh(input)``."""
    return input - np.tanh(input)


@composite(method=False)
def glu(input, dim: int = -1) -> Tensor:
    """Return one half of ``input`` along ``dim`` times the sigmoid of the other half."""
    check_kind("glu", "f", input._data)
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    if input.size(dim) % 2:
        raise RuntimeError(f"glu: Halving dimension must be even, but dimension {dim} is size {input.size(dim)}")
    first, second = input.chunk(2, dim)
    return first * sigmoid(second)


# --- softmax ----------------------------------------------------------------------------------------------------------


def _to_normalise(name: str, input: Any, dim: int, dtype: Any) -> Any:
    """The input, cast if that was asked for."""
    if not isinstance(dim, (int, np.integer)):
        raise TypeError(f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
    if dtype is not None:
        input = input.astype(as_dtype(dtype).numpy, copy=False)
    check_kind(name, "f", input)
    return row_major(input)


def softmax_derivative(g: Any, result: Any, dim: int) -> Any:
    rows, of_rows = as_rows(result, dim), as_rows(g, dim)
    if rows is not None and of_rows is not None:
        return softmax_rows_derivative(of_rows, rows).reshape(result.shape)
    return result * (g - np.add.reduce(g * result, axis=dim, keepdims=True))


@op(input=softmax_derivative)
def softmax(input, dim: int, dtype=None):
    """Return ``exp(input)``, scaled so that it sums to 1 along ``dim``; ``dtype`` converts the input first.

    Where all elements along ``dim`` are minus infinity, the result is NaN.

    >>> rg.softmax(rg.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    input = _to_normalise("softmax", input, dim, dtype)
    rows = as_rows(input, dim)
    if rows is not None:
        return softmax_rows(rows).reshape(input.shape)
    exp = np.exp(input - largest(input, dim))
    exp /= np.add.reduce(exp, axis=dim, keepdims=True)
    return exp


def log_softmax_derivative(g: Any, result: Any, dim: int) -> Any:
    rows, of_rows = as_rows(result, dim), as_rows(g, dim)
    if rows is not None and of_rows is not None:
        return log_softmax_rows_derivative(of_rows, rows).reshape(result.shape)
    return g - np.exp(result) * np.add.reduce(g, axis=dim, keepdims=True)


@op(input=log_softmax_derivative)
def log_softmax(input, dim: int, dtype=None):
    """Return ``log(softmax(input, dim))``, without overflow or loss of small probabilities."""
    input = _to_normalise("log_softmax", input, dim, dtype)
    rows = as_rows(input, dim)
    if rows is not None:
        return log_softmax_rows(rows).reshape(input.shape)
    shifted = input - largest(input, dim)
    return shifted - np.log(np.add.reduce(np.exp(shifted), axis=dim, keepdims=True))


@composite(method=False)
def softmin(input, dim: int, dtype=None):
    """Return ``softmax(-input, dim)``."""
    return softmax(-input, dim, dtype)


# --- other names and forms --------------------------------------------------------------------------------------------

relu_ = inplace(relu.op, "relu_")
threshold_ = inplace(threshold.op, "threshold_")
selu_ = inplace(selu.op, "selu_")
celu_ = inplace(celu.op, "celu_")
elu_ = inplace(elu.op, "elu_")
leaky_relu_ = inplace(leaky_relu.op, "leaky_relu_")
hardtanh_ = inplace(hardtanh.op, "hardtanh_")

composite(name="special.expit", method=False)(sigmoid)
composite(name="special.softmax", method=False)(softmax)
composite(name="special.log_softmax", method=False)(log_softmax)
