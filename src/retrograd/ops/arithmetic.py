"""Sums, products, quotients and remainders; signs and absolute values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.calls import inplace
from retrograd.core.errors import wrong_kind
from retrograd.core.numbers_first import alpha_first
from retrograd.core.op import elementwise
from retrograd.core.registry import add_method, composite, implements
from retrograd.core.renamed_functions import renamed
from retrograd.core.tensor import Tensor
from retrograd.dtypes import fits
from retrograd.ops._checks import check_kind, check_tensor
from retrograd.ops._division import floor_quotient, fmod_of
from retrograd.ops._rules import conj, is_tensor, keep, not_implemented, zero

if TYPE_CHECKING:
    from retrograd.core.annotations import Operand


# --- sums -------------------------------------------------------------------------------------------------------------


@elementwise(np.add, name="add", operator="add", input=lambda g: g, other=lambda g: g)
def _add(input, other):
    """Return ``input + other``."""


@elementwise(np.subtract, name="sub", operator="sub", input=lambda g: g, other=lambda g: -g)
def _sub(input, other):
    """Return ``input - other``."""


# operations of their own for 1 - x and 1 / x, so that the tensor comes first, as on the short path
@elementwise(
    name="rsub",
    operator="rsub",
    method=False,
    inplace=False,
    node_name=lambda other: f"RsubBackward{int(not is_tensor(other))}",
    input=lambda g: -g,
    other=lambda g: g,
)
def _rsub(input, other):
    return other - input


@elementwise(
    name="add",
    public=False,
    method=False,
    node_name="AddBackward0",
    input=lambda g: g,
    other=lambda g, alpha: g * conj(alpha),
)
def _add_scaled(input, other, alpha: complex):
    return input + _convert_alpha("add", alpha, input.dtype) * other


@elementwise(
    name="sub",
    public=False,
    method=False,
    node_name="SubBackward0",
    input=lambda g: g,
    other=lambda g, alpha: g * -conj(alpha),
)
def _sub_scaled(input, other, alpha: complex):
    return input - _convert_alpha("sub", alpha, input.dtype) * other


def _is_one(alpha: Any) -> bool:
    """Whether ``alpha`` can be left out; True and 1.0 have to suit the dtype as others do."""
    return type(alpha) is int and alpha == 1


def _convert_alpha(name: str, alpha: Any, dtype: np.dtype) -> Any:
    """``alpha`` in the dtype of the result, which must be of the same kind or a higher one."""
    if isinstance(alpha, bool) and dtype.kind != "b":
        raise RuntimeError(f"{name}: Boolean alpha only supported for Boolean results, not for {dtype}")
    if isinstance(alpha, float) and dtype.kind in "iub":
        raise RuntimeError(
            f"{name}: For integral input tensors, argument alpha must not be a floating point number, but it is {alpha}"
        )
    if isinstance(alpha, complex) and dtype.kind != "c":
        raise RuntimeError(
            f"{name}: For non-complex input tensors, argument alpha must not be a complex number, but it is {alpha}"
        )
    return as_alpha(name, alpha, dtype)


def as_alpha(name: str, alpha: Any, dtype: np.dtype, argument: str = "alpha") -> Any:
    """``alpha`` in the dtype of its factor; negative integers wrap around in unsigned types."""
    if not fits(alpha, dtype):
        raise RuntimeError(f"{name}: {argument} {alpha} cannot be converted to type {dtype} without overflow")
    return np.asarray(alpha).astype(dtype)[()]


@composite(reported=False)
def add(input: Operand, other: Operand, *scaled: Operand, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """Return ``input + alpha * other``. Older programs write ``add(input, alpha, other)``.

    >>> rg.add(rg.tensor([1., 2.]), rg.tensor([10., 20.]), alpha=0.5)
    tensor([ 6., 12.])
    """
    if scaled:
        alpha, other = alpha_first("add", other, scaled, alpha)
    return _add(input, other, out=out) if _is_one(alpha) else _add_scaled(input, other, alpha, out=out)


@composite("subtract", reported=False)
def sub(input: Operand, other: Operand, *scaled: Operand, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """Return ``input - alpha * other``. There is no difference of bool tensors; use ``logical_xor``."""
    if scaled:
        alpha, other = alpha_first("sub", other, scaled, alpha)
    return _sub(input, other, out=out) if _is_one(alpha) else _sub_scaled(input, other, alpha, out=out)


subtract = sub


@composite(method=False, reported=False)
def rsub(input: Operand, other: Operand, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """Return ``other - alpha * input``."""
    return _rsub(input, other, out=out) if _is_one(alpha) else _sub_scaled(other, input, alpha, out=out)


_add_, _add_scaled_ = inplace(_add.op, "add_"), inplace(_add_scaled.op, "add_")
_sub_, _sub_scaled_ = inplace(_sub.op, "sub_"), inplace(_sub_scaled.op, "sub_")


def add_(input: Tensor, other: Operand, *scaled: Operand, alpha: Any = 1) -> Tensor:
    """In-place form of :func:`retrograd.add`."""
    if scaled:
        alpha, other = alpha_first("add_", other, scaled, alpha)
    return _add_(input, other) if _is_one(alpha) else _add_scaled_(input, other, alpha)


def sub_(input: Tensor, other: Operand, *scaled: Operand, alpha: Any = 1) -> Tensor:
    """In-place form of :func:`retrograd.sub`."""
    if scaled:
        alpha, other = alpha_first("sub_", other, scaled, alpha)
    return _sub_(input, other) if _is_one(alpha) else _sub_scaled_(input, other, alpha)


subtract_ = renamed(sub_, "subtract_")
add_method("add_", add_)
add_method("sub_", sub_)
add_method("subtract_", subtract_)


# --- products and quotients -------------------------------------------------------------------------------------------


@elementwise(
    np.multiply,
    operator="mul",
    aliases=("multiply",),
    input=lambda g, other: g * conj(other),
    other=lambda g, input: g * conj(input),
)
def mul(input, other):
    """Return ``input * other``."""


multiply = mul


@elementwise(
    np.true_divide,
    name="div",
    operator="truediv",
    int_to_float=True,
    input=lambda g, other: g / conj(other),
    other=lambda g, input, other: -g * conj(input / other / other),
)
def _div(input, other):
    """Return ``input / other``; integers give the default float dtype."""


@elementwise(
    public=False,
    operator="rtruediv",
    method=False,
    inplace=False,
    int_to_float=True,
    node_name="DivBackward0",
    input=lambda g, input, other: -g * conj(other / input / input),
    other=lambda g, input: g / conj(input),
)
def _rdiv(input, other):
    return other / input


@elementwise(public=False, method=False, node_name="DivBackward2", input=zero, other=zero)
def _div_floor(input, other):
    _check_divisor("div", input, other)
    return floor_quotient(input, other)


@elementwise(public=False, method=False, node_name="DivBackward2", input=zero, other=zero)
def _div_trunc(input, other):
    _check_divisor("div", input, other)
    if input.dtype.kind == "f":
        return np.trunc(input / other)
    return np.floor_divide(input - np.fmod(input, other), other)


def _check_divisor(name: str, input: Any, other: Any) -> None:
    """Raise for a dtype without integer division, and for integers divided by zero."""
    check_kind(name, "iuf", input)
    if input.dtype.kind in "iu" and input.size and not np.all(other):
        raise RuntimeError(f"{name}: ZeroDivisionError: an integer divided by zero; make the operands floating point")


_DIV = {None: _div, "floor": _div_floor, "trunc": _div_trunc}
_DIV_ = {mode: inplace(division.op, "div_") for mode, division in _DIV.items()}


def _by_rounding_mode(choices: dict[str | None, Any], mode: str | None) -> Any:
    if not isinstance(mode, str | None):
        raise wrong_kind("div", "argument 'rounding_mode'", "str", mode)
    if mode not in choices:
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")
    return choices[mode]


@composite("divide", reported=False)
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return ``input / other``, rounded if ``rounding_mode`` is given.

    Parameters
    ----------
    rounding_mode
        None for the true quotient (integers give the default float dtype), ``"trunc"`` to round it towards zero, or
        ``"floor"`` to round it down. A rounded quotient has the operands' dtype and the derivative 0.

    Examples
    --------
    >>> rg.div(rg.tensor([-7, 7]), 2, rounding_mode="trunc")
    tensor([-3,  3])
    """
    division = _div if rounding_mode is None else _by_rounding_mode(_DIV, rounding_mode)
    return division(input, other, out=out)


def div_(input: Tensor, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """In-place form of :func:`retrograd.div`."""
    return _by_rounding_mode(_DIV_, rounding_mode)(input, other)


divide = div
divide_ = renamed(div_, "divide_")
add_method("div_", div_)
add_method("divide_", divide_)


@composite(reported=False)
def true_divide(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return ``input / other``; integers give the default float dtype."""
    return _div(input, other, out=out)


add_method("true_divide_", inplace(_div.op, "true_divide_"))


@elementwise(
    operator="floordiv",
    input=not_implemented("floor_divide", "input"),
    other=not_implemented("floor_divide", "other"),
)
def floor_divide(input, other):
    """Return the quotient rounded down, ``floor(input / other)``.

    As in torch it cannot be differentiated; ``div(..., rounding_mode="floor")`` can, and its derivative is 0.

    Raises
    ------
    RuntimeError
        If an integer is divided by zero.
    """
    _check_divisor("floor_divide", input, other)
    return floor_quotient(input, other)


implements(np.floor_divide)(_div_floor)


# input = other * floor(input / other) + result, where the floor is constant almost everywhere
@elementwise(
    operator="mod",
    node_name=lambda other: f"RemainderBackward{int(is_tensor(other))}",
    opmath=False,
    numpy=(np.remainder,),
    input=lambda g: g,
    other=lambda g, input, other: -g * floor_quotient(input, other),
)
def remainder(input, other):
    """Return the remainder of division rounded down, which has the sign of ``other``.

    >>> rg.remainder(rg.tensor([-7., 7.]), 3)
    tensor([2., 1.])
    """
    _check_divisor("remainder", input, other)
    if type(input) is not np.ndarray or input.dtype.kind != "f" or input.size < _MANY:
        return np.remainder(input, other)
    result = fmod_of(input, other)
    result += keep(np.broadcast_to(other, result.shape), (result != 0) & ((result < 0) != (other < 0)))
    return result


_MANY = 1 << 10  # elements


@elementwise(
    node_name=lambda other: f"FmodBackward{int(is_tensor(other))}",
    opmath=False,
    numpy=(np.fmod,),
    input=lambda g: g,
    other=lambda g, input, other: -g * np.trunc(input / other),
)
def fmod(input, other):
    """Return the remainder of division rounded towards zero, which has the sign of ``input``.

    >>> rg.fmod(rg.tensor([-7., 7.]), 3)
    tensor([-1.,  1.])
    """
    _check_divisor("fmod", input, other)
    return fmod_of(input, other)


@implements(np.divmod)
def _divmod(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    return _div_floor(x1, x2), remainder(x1, x2)


def _reflected_divmod(self: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return _divmod(other, self)


# Python's divmod, which ndarrays have and torch's tensors do not
add_method("__divmod__", _divmod)
add_method("__rdivmod__", _reflected_divmod)


@elementwise(int_to_float=True, numpy=(np.reciprocal,), input=lambda g, result: -g * conj(result * result))
def reciprocal(input):
    """Return ``1 / input``; integers give the default float dtype."""
    return 1 / input


# --- signs ------------------------------------------------------------------------------------------------------------


@elementwise(np.negative, operator="neg", aliases=("negative",), input=lambda g: -g)
def neg(input):
    """Return ``-input``. Bool tensors have no negative; use ``logical_not``."""


negative = neg


@elementwise(np.positive, name="positive", public=False, method=False, input=lambda g: g)
def _positive(input):
    """Return a copy of ``input``, as NumPy's function does."""


@composite(reported=False)
def positive(input: Tensor) -> Tensor:
    """Return ``input`` itself."""
    if check_tensor("positive", input)._data.dtype.kind == "b":
        raise RuntimeError("positive: The `+` operator, on a bool tensor is not supported.")
    return input


add_method("__pos__", positive)


def slope_of_abs(input: Any) -> Any:
    """The derivative of ``|input|``: 1 or -1, and 0 for 0 and for NaN; of complex numbers their direction."""
    if isinstance(input, Tensor):
        return sgn(input)
    if input.dtype.kind == "c":
        return np.sign(input)
    if type(input) is np.ndarray:  # in bytes, which takes half the time of np.sign
        return np.subtract((input > 0).view(np.int8), (input < 0).view(np.int8))
    return np.subtract(input > 0, input < 0, dtype=np.int8)


@elementwise(np.absolute, operator="abs", aliases=("absolute",), input=lambda g, input: g * slope_of_abs(input))
def abs(input):
    """Return the absolute value; of complex numbers it is real. Its derivative at 0 is 0."""


absolute = abs
_abs_ = inplace(abs.op, "abs_")


def abs_(input: Tensor) -> Tensor:
    """In-place form of :func:`retrograd.abs`."""
    if input.is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors; use abs(), whose result is real.")
    return _abs_(input)


absolute_ = renamed(abs_, "absolute_")
add_method("abs_", abs_)
add_method("absolute_", absolute_)


@implements(np.fabs)
def _fabs(x: Any) -> Tensor:
    return abs(x)


def _sign(input: Any) -> Any:
    if input.dtype.kind == "c":
        return np.sign(input)
    if input.dtype.kind == "b":
        return input.copy()
    return np.subtract(input > 0, input < 0, dtype=input.dtype)  # 0 for NaN, where np.sign gives NaN


@elementwise(input=zero)
def sign(input):
    """Return -1, 0 or 1 with the sign of ``input``; see :func:`sgn` for complex numbers. NaN has the sign 0."""
    check_kind("sign", "biuf", input)
    return _sign(input)


# the derivative of z / |z| is that of z without its radial part, over |z|
def _sgn_rule(g: Any, input: Any) -> Any:
    if input.dtype.kind != "c":
        return zero(g)
    unit = np.sign(input)
    return keep((g - np.real(g * conj(unit)) * unit) / np.abs(input), input != 0)


@elementwise(input=_sgn_rule)
def sgn(input):
    """Return ``input / |input|``, and 0 for 0: the sign, for complex numbers too."""
    return _sign(input)


@elementwise(np.sign, public=False, method=False, name="sign", input=_sgn_rule)
def _numpy_sign(input):
    """NumPy's definition: complex numbers are normalised, and NaN stays NaN."""


@elementwise(inplace=False, numpy=(np.signbit,))
def signbit(input):
    """Return where ``input`` is negative or -0.0."""
    check_kind("signbit", "biuf", input)
    return input < 0 if input.dtype.kind in "iu" else np.signbit(input)


# result / input is 1 or -1, whichever input was multiplied by
@elementwise(
    np.copysign,
    int_to_float=True,
    node_name=lambda other: f"CopysignBackward{int(not is_tensor(other))}",
    input=lambda g, input, result: g * keep(result / input, input != 0),
    other=zero,
)
def copysign(input, other):
    """Return ``|input|`` with the sign of ``other``; integers give the default float dtype."""


@elementwise(
    numpy=(np.hypot,),
    input=lambda g, input, result: g * (input / result),
    other=lambda g, other, result: g * (other / result),
)
def hypot(input, other):
    """Return ``sqrt(input² + other²)`` without intermediate overflow."""
    check_kind("hypot", "f", input)
    return np.hypot(input, other)
