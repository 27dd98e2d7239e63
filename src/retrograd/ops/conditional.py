"""Choices between operands element by element, limits, interpolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from retrograd.core.errors import no_tensor
from retrograd.core.layout import dense_copy, unexpanded
from retrograd.core.numpy_protocols import lists_as_arrays
from retrograd.core.op import elementwise, op
from retrograd.core.registry import add_method, composite, implements
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import NOT_GIVEN, result_dtype
from retrograd.ops._checks import check_kind, must_fit
from retrograd.ops._rules import choose, conj, is_tensor, keep, not_implemented, zero

if TYPE_CHECKING:
    from retrograd.core.annotations import Operand, TensorOrArray


# --- by a condition ---------------------------------------------------------------------------------------------------


@elementwise(
    name="where",
    method=False,
    fitting=must_fit,
    heavy=True,
    input=lambda g, condition: keep(g, condition),
    other=lambda g, condition: keep(g, np.logical_not(condition)),
)
def _where(condition, input, other):
    if condition.dtype != bool:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}; "
            "compare it, as in x != 0"
        )
    return choose(condition, input, other)


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: TensorOrArray, input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
@composite(method=False, reported=False)
def where(condition: Any, input: Any = NOT_GIVEN, other: Any = NOT_GIVEN, *, out: Any = None) -> Any:
    """Return ``input`` where ``condition`` is true and ``other`` elsewhere; either may be a number.

    With nothing but ``condition``, return the indices where it is true (not 0): one tensor for each dimension.

    Raises
    ------
    RuntimeError
        If ``condition`` is not of dtype bool.

    Examples
    --------
    >>> x = rg.tensor([-1., 4.])
    >>> rg.where(x > 0, x, 0.)
    tensor([0., 4.])
    """
    if input is NOT_GIVEN and other is NOT_GIVEN:
        return condition.nonzero(as_tuple=True)
    if input is NOT_GIVEN or other is NOT_GIVEN:
        raise TypeError("where() takes a condition alone or with both 'input' and 'other'")
    if not hasattr(condition, "dtype"):
        raise no_tensor("where", "argument 'condition' (position 1)", condition)
    return _where(condition, input, other, out=out)


def _where_method(input: Tensor, condition: TensorOrArray, other: Operand) -> Tensor:
    """Return ``input`` where ``condition`` is true and ``other`` elsewhere."""
    return where(condition, input, other)


add_method("where", _where_method)


@implements(np.where)
def _numpy_where(condition: Any, x: Any = NOT_GIVEN, y: Any = NOT_GIVEN, /) -> Any:
    if not hasattr(condition, "dtype"):
        condition = np.asarray(condition)
    if condition.dtype.kind != "b":
        condition = condition != 0
    if not (hasattr(x, "dtype") or hasattr(y, "dtype") or x is NOT_GIVEN):
        x, y = np.asarray(x), np.asarray(y)  # of two numbers, NumPy's dtype
    return where(condition, *lists_as_arrays(x, y))


# --- larger and smaller of two ----------------------------------------------------------------------------------------


def _share(g: Any, wins: Any, ties: Any) -> Any:
    """The gradient of the operand that ``wins``; equal operands get half each."""
    return keep(g, wins) + keep(g / 2, ties)


# not (a <= b) is true of NaN, too: an operand that makes the result NaN gets the whole gradient
@elementwise(
    inplace=False,
    numpy=(np.maximum,),
    input=lambda g, input, other: _share(g, np.logical_not(input <= other), input == other),
    other=lambda g, input, other: _share(g, np.logical_not(other <= input), input == other),
)
def maximum(input, other):
    """Return the larger of the two, and NaN if one is NaN. Equal operands share the gradient."""
    check_kind("maximum", "biuf", input)
    return np.maximum(input, other)


@elementwise(
    inplace=False,
    numpy=(np.minimum,),
    input=lambda g, input, other: _share(g, np.logical_not(input >= other), input == other),
    other=lambda g, input, other: _share(g, np.logical_not(other >= input), input == other),
)
def minimum(input, other):
    """Return the smaller of the two, and NaN if one is NaN. Equal operands share the gradient."""
    check_kind("minimum", "biuf", input)
    return np.minimum(input, other)


@elementwise(
    inplace=False,
    numpy=(np.fmax,),
    input=lambda g, input, other: keep(g, (input >= other) | np.isnan(other)),
    other=lambda g, input, other: keep(g, np.logical_not((input >= other) | np.isnan(other))),
)
def fmax(input, other):
    """Return the larger of the two, and the other one if one is NaN. Of equal operands ``input`` gets the gradient."""
    check_kind("fmax", "biuf", input)
    return np.fmax(input, other)


@elementwise(
    inplace=False,
    numpy=(np.fmin,),
    input=lambda g, input, other: keep(g, (input <= other) | np.isnan(other)),
    other=lambda g, input, other: keep(g, np.logical_not((input <= other) | np.isnan(other))),
)
def fmin(input, other):
    """Return the smaller of the two, and the other one if one is NaN. Of equal operands ``input`` gets the gradient."""
    check_kind("fmin", "biuf", input)
    return np.fmin(input, other)


# --- limits -----------------------------------------------------------------------------------------------------------


def _clamp_input(g: Any, input: Any, min: Any, max: Any) -> Any:
    if max is None:
        return keep(g, input >= min)
    return keep(g, input <= max if min is None else (input >= min) & (input <= max))


def _clamp_min(g: Any, input: Any, min: Any, max: Any) -> Any:
    return keep(g, input < min if max is None else (input < min) & (min < max))


def _clamp_max(g: Any, input: Any, min: Any, max: Any) -> Any:
    return keep(g, input > max if min is None else (input > max) | (max < min))


def _limited(input: Any, low: Any, high: Any) -> Any:
    """``input`` clipped to two limits; None is unlimited. With one number NumPy takes thrice as long as with two."""
    if type(input) is np.ndarray and input.dtype.kind == "f" and (high if low is None else low).ndim == 0:
        low, high = -np.inf if low is None else low, np.inf if high is None else high
    return input.clip(low, high)


@elementwise(
    aliases=("clip",),
    node_name=lambda min, max: f"ClampBackward{int(not is_tensor(min) and not is_tensor(max))}",
    fitting=must_fit,
    input=_clamp_input,
    min=_clamp_min,
    max=_clamp_max,
)
def clamp(input, min=None, max=None):
    """Return ``input`` limited to the range from ``min`` to ``max``, which are numbers or tensors; None is no limit.

    The gradient passes at the limits, too. If ``min > max``, the result is ``max``.

    Raises
    ------
    RuntimeError
        If both limits are None, or a number among them does not fit into the dtype of the result.

    Examples
    --------
    >>> rg.clamp(rg.tensor([-1., 0.5, 2.]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    check_kind("clamp", "biuf", input)
    return _limited(input, min, max)


clip = clamp


@elementwise(
    node_name=lambda min: f"ClampMinBackward{int(is_tensor(min))}",
    fitting=must_fit,
    input=lambda g, input, min: keep(g, input >= min),
    min=lambda g, input, min: keep(g, input < min),
)
def clamp_min(input, min):
    """Return ``input``, or ``min`` where that is larger. The gradient passes to ``input`` if they are equal."""
    check_kind("clamp_min", "biuf", input)
    return _limited(input, min, None)


@elementwise(
    node_name=lambda max: f"ClampMaxBackward{int(is_tensor(max))}",
    fitting=must_fit,
    input=lambda g, input, max: keep(g, input <= max),
    max=lambda g, input, max: keep(g, input > max),
)
def clamp_max(input, max):
    """Return ``input``, or ``max`` where that is smaller. The gradient passes to ``input`` if they are equal."""
    check_kind("clamp_max", "biuf", input)
    return _limited(input, None, max)


@implements(np.clip)
def _numpy_clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None
) -> Tensor:
    low, high = a_min if min is None else min, a_max if max is None else max
    return clamp(*lists_as_arrays(a, low, high), out=out)


@elementwise(opmath=False, input=lambda g, input: keep(g, np.isfinite(input)))
def nan_to_num(input, nan: float | None = None, posinf: float | None = None, neginf: float | None = None):
    """Return ``input`` with NaN and infinities replaced; the gradient does not pass there.

    Parameters
    ----------
    nan
        What NaN becomes; 0 if None.
    posinf, neginf
        What the infinities become; the largest and the smallest finite number of the dtype if None.
    """
    if type(input) is np.ndarray and np.isfinite(input).all():  # most are, and NumPy would go through them ten times
        return dense_copy(input)
    return np.nan_to_num(unexpanded(input), nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


@implements(np.nan_to_num)
def _numpy_nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    return nan_to_num(x, nan, posinf, neginf) if copy else x.nan_to_num_(nan, posinf, neginf)


@op(
    inplace=True,
    input=not_implemented("heaviside", "input"),
    values=not_implemented("heaviside", "values"),
)
def heaviside(input, values):
    """Return 0 where ``input`` is negative, 1 where it is positive, and ``values`` where it is 0.

    As in torch it cannot be differentiated.

    Raises
    ------
    RuntimeError
        If the dtypes differ.
    """
    for name, operand in (("input", input), ("values", values)):
        if not hasattr(operand, "dtype"):
            raise no_tensor("heaviside", f"argument '{name}'", operand)
    if input.dtype.kind == "c" or values.dtype != input.dtype:
        raise RuntimeError(
            "heaviside is not yet implemented for complex tensors or for tensors with different dtypes: "
            f"{input.dtype} and {values.dtype}; convert one of them with .to()"
        )
    return np.where(input == 0, values, input > 0).astype(input.dtype)


@elementwise(
    np.heaviside,
    public=False,
    method=False,
    name="heaviside",
    int_to_float=True,
    input=zero,
    values=lambda g, input: np.where(input == 0, g, 0),
)
def _numpy_heaviside(input, values):
    """NumPy's definition: NaN stays NaN. It has the derivative of a function that is constant almost everywhere."""


@implements(np.heaviside)
def _heaviside(x1: Any, x2: Any, *, out: Any = None) -> Tensor:
    common = result_dtype(*(x._data if isinstance(x, Tensor) else x for x in (x1, x2)))
    first, second = (x.astype(common) if isinstance(x, Tensor) else wrap(np.asarray(x, common)) for x in (x1, x2))
    return _numpy_heaviside(first, second, out=out)


# --- interpolation and fused products ---------------------------------------------------------------------------------


# from the nearer end, so that the ends are exact
@elementwise(
    heavy=True,
    node_name=lambda weight: f"LerpBackward{int(is_tensor(weight))}",
    input=lambda g, weight: g * conj(1 - weight),
    end=lambda g, weight: g * conj(weight),
    weight=lambda g, input, end: g * conj(end - input),
)
def lerp(input, end, weight):
    """Return ``input + weight * (end - input)``: ``input`` for the weight 0 and ``end`` for the weight 1."""
    check_kind("lerp", "fc", input)
    way = end - input
    near_end = np.abs(weight) >= 0.5
    if weight.ndim == 0:
        return end - (1 - weight) * way if near_end else input + weight * way
    return choose(near_end, end - (1 - weight) * way, input + weight * way)


@elementwise(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * conj(tensor2 * value),
    tensor2=lambda g, tensor1, value: g * conj(tensor1 * value),
    numbers_first=True,
)
def addcmul(input, tensor1, tensor2, value: complex = 1):
    """Return ``input + value * tensor1 * tensor2``."""
    check_kind("addcmul", "iufc", input)
    return input + (tensor1 if value == 1 else input.dtype.type(value) * tensor1) * tensor2


@elementwise(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * conj(value / tensor2),
    tensor2=lambda g, tensor1, tensor2, value: -g * conj(value * tensor1 / tensor2 / tensor2),
    numbers_first=True,
)
def addcdiv(input, tensor1, tensor2, value: complex = 1):
    """Return ``input + value * tensor1 / tensor2``.

    Raises
    ------
    RuntimeError
        For integers; use ``input + value * (tensor1 / tensor2)``.
    """
    if input.dtype.kind in "biu":
        raise RuntimeError(
            f"addcdiv: Integer division with addcdiv is no longer supported (dtype {input.dtype}); "
            "use input + value * (tensor1 / tensor2) instead"
        )
    return input + (tensor1 if value == 1 else input.dtype.type(value) * tensor1) / tensor2
