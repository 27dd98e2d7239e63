"""Exponentials, logarithms, powers and roots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd import dtypes
from retrograd.core.calls import inplace
from retrograd.core.errors import no_tensor
from retrograd.core.op import elementwise, op
from retrograd.core.registry import add_method, composite, implements
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind, must_fit
from retrograd.ops._rules import conj, in_floats, is_tensor, keep, zero
from retrograd.ops._single import log1p_to_one
from retrograd.ops.complex import from_parts

if TYPE_CHECKING:
    from retrograd.core.annotations import Operand


LN2 = math.log(2)
LN10 = math.log(10)

# --- exponentials -----------------------------------------------------------------------------------------------------


@elementwise(np.exp, int_to_float=True, input=lambda g, result: g * conj(result))
def exp(input):
    """Return e raised to ``input``.

    >>> rg.exp(rg.tensor([0., 1.]))
    tensor([1.0000, 2.7183])
    """


@elementwise(np.exp2, int_to_float=True, input=lambda g, result: g * conj(result) * LN2)
def exp2(input):
    """Return 2 raised to ``input``."""


@elementwise(np.expm1, int_to_float=True, input=lambda g, result: g * (conj(result) + 1))
def expm1(input):
    """Return ``exp(input) - 1``, accurate for ``input`` near 0."""


@elementwise(
    int_to_float=True,
    numpy=(np.ldexp,),
    input=lambda g, other: g * conj(2.0**other),
    other=lambda g, result: g * conj(result) * LN2,
)
def ldexp(input, other):
    """Return ``input * 2 ** other``; integers give the default float dtype."""
    # in two steps, because the power may be beyond the dtype where the product is not
    half = np.floor(np.clip(np.real(other), -4096, 4096) / 2)
    return input * 2.0**half * 2.0 ** (other - half)


@op(
    outputs=("mantissa", "exponent"),
    numpy=(np.frexp,),
    input=lambda g, exponent: np.ldexp(g[0], -exponent),
)
def frexp(input):
    """Return ``(mantissa, exponent)`` with ``input = mantissa * 2 ** exponent`` and ``0.5 <= |mantissa| < 1``.

    Raises
    ------
    RuntimeError
        If the dtype is not real floating point.
    """
    if input.dtype.kind != "f":
        raise RuntimeError(
            f"frexp() only supports floating-point dtypes, not {input.dtype}; "
            "convert it first, for example with .to(retrograd.float32)"
        )
    return np.frexp(input)


# --- logarithms -------------------------------------------------------------------------------------------------------


@elementwise(np.log, int_to_float=True, input=lambda g, input: g / conj(input))
def log(input):
    """Return the natural logarithm.

    >>> rg.log(rg.tensor([1., 10.]))
    tensor([0.0000, 2.3026])
    """


@elementwise(np.log2, int_to_float=True, input=lambda g, input: g / (conj(input) * LN2))
def log2(input):
    """Return the logarithm to base 2."""


@elementwise(np.log10, int_to_float=True, input=lambda g, input: g / (conj(input) * LN10))
def log10(input):
    """Return the logarithm to base 10."""


@elementwise(
    int_to_float=True,
    node_name="Log1PBackward0",
    numpy=(np.log1p,),
    input=lambda g, input: g / (conj(input) + 1),
)
def log1p(input):
    """Return ``log(1 + input)``, accurate for ``input`` near 0."""
    return _complex_log1p(input) if input.dtype.kind == "c" else np.log1p(input)


# NumPy adds 1 to a complex number first, and what is left of a small one is 0
def _complex_log1p(input: Any) -> Any:
    result = np.log1p(input)
    near = np.abs(input) < 0.5
    x, y = np.where(near, input.real, 0), np.where(near, input.imag, 0)
    return np.where(near, from_parts(np.log1p(x * (2 + x) + y * y) / 2, result.imag), result)


def _by_passes(input: Any, other: Any) -> bool:
    """Whether several passes with NumPy's vector instructions take less time than its single one without."""
    are_alike = type(input) is type(other) is np.ndarray and input.dtype == other.dtype
    return are_alike and input.dtype.char in "fd" and input.size >= _MANY


def _larger_and_added(input: Any, other: Any, exp: Any) -> tuple[Any, Any]:
    """The larger operand, and the power of the smaller one divided by the power of the larger one, at most 1."""
    larger, added = np.maximum(input, other), np.minimum(input, other)
    largest = np.finfo(larger.dtype).max
    added -= larger.clip(-largest, largest)  # so that no infinity is subtracted from itself
    np.clip(added, -np.inf, 0, out=added)
    return larger, exp(added, out=added)


_MANY = 1 << 10  # elements from which on several passes take less time than NumPy's single one


@elementwise(
    inplace=False,
    heavy=True,
    numpy=(np.logaddexp,),
    input=lambda g, input, other: g / conj(1 + np.exp(other - input)),
    other=lambda g, input, other: g / conj(1 + np.exp(input - other)),
)
def logaddexp(input, other):
    """Return ``log(exp(input) + exp(other))`` without overflow.

    >>> rg.logaddexp(rg.tensor([-1000.]), rg.tensor([-1000.]))
    tensor([-999.3068])
    """
    check_kind("logaddexp", "fc", input)
    if input.dtype.kind == "c":
        return _complex_logaddexp(input, other)
    if not _by_passes(input, other):
        return np.logaddexp(input, other)
    larger, added = _larger_and_added(input, other, np.exp)
    larger += log1p_to_one(added)
    return larger


def _complex_logaddexp(input: Any, other: Any) -> Any:
    larger = np.where(input.real < other.real, other, input)
    smaller = np.where(input.real < other.real, input, other)
    return np.where(larger.real == -np.inf, larger, larger + _complex_log1p(np.exp(smaller - larger)))


@elementwise(
    inplace=False,
    heavy=True,
    numpy=(np.logaddexp2,),
    input=lambda g, input, other: g / (1 + np.exp2(other - input)),
    other=lambda g, input, other: g / (1 + np.exp2(input - other)),
)
def logaddexp2(input, other):
    """Return ``log2(2 ** input + 2 ** other)`` without overflow."""
    check_kind("logaddexp2", "f", input)
    if not _by_passes(input, other):
        return np.logaddexp2(input, other)
    larger, added = _larger_and_added(input, other, np.exp2)
    added = log1p_to_one(added)
    added *= 1 / math.log(2)
    larger += added
    return larger


# --- powers -----------------------------------------------------------------------------------------------------------


def _raised(base: Any, exponent: Any) -> Any:
    """``base ** exponent``; for negative bases NumPy's loop takes a hundred times as long as for positive ones."""
    is_number = isinstance(exponent, (int, float, np.generic)) or (type(exponent) is np.ndarray and not exponent.ndim)
    if type(base) is not np.ndarray or base.dtype.kind != "f" or not is_number:
        return base**exponent
    number = float(exponent)
    if number == 0.5:
        return np.sqrt(base)  # as torch has it, also for -inf
    if number == -0.5:
        return 1 / np.sqrt(base)
    if number == 2:
        return np.square(base)
    if number == 3:
        return base * base * base
    if not number.is_integer() or abs(number) <= 1:
        return base**exponent
    size = np.power(np.abs(base), exponent)
    return np.copysign(size, base) if number % 2 else size


def _pow_input(g: Any, input: Any, other: Any) -> Any:
    if not isinstance(other, (int, float, complex)):
        return keep(g * conj(other * _raised(input, other - 1)), other != 0)
    if other in (1, 2) and not isinstance(input, Tensor):  # a Tensor keeps a history down to the power 0, as torch's
        return g if other == 1 else g * (2 * conj(input))
    return zero(g) if other == 0 else g * conj(other * _raised(input, other - 1))


# 0 ** other is 0 for all other > 0, so its derivative is 0 and not 0 * log(0)
def _pow_other(g: Any, input: Any, other: Any, result: Any) -> Any:
    constant = (input == 0) & (np.real(other) >= 0)
    if result.dtype.kind == "c" and not np.iscomplexobj(input):
        input = input + 0j  # whose logarithm exists where it is negative
    return keep(g * conj(result * np.log(in_floats(input, result))), np.logical_not(constant))


def _pow_name(input: Any, other: Any) -> str:
    return "PowBackward0" if not is_tensor(other) else "PowBackward1" if is_tensor(input) else "PowBackward2"


def _exponent_fits(name: str, argument: str, number: Any, dtype: np.dtype) -> None:
    """An exponent of integers must not wrap around: 3 ** 256 is not 3 ** 0; a base may."""
    if argument == "input" or dtype.kind not in "iu":
        return
    if number < 0:
        raise RuntimeError(
            f"{name}(): Integers to negative integer powers are not allowed; float_power() has the result"
        )
    must_fit(name, "exponent", number, dtype)


@elementwise(
    name="pow",
    operator="pow",
    fitting=_exponent_fits,
    node_name=_pow_name,
    opmath=False,
    numpy=(np.power,),
    input=_pow_input,
    other=_pow_other,
)
def _pow(input, other):
    kind = input.dtype.kind
    if kind in "iu" and np.ndim(other) and (other < 0).any():
        return _integer_power(input, other)
    if kind == "b":
        check_kind("pow", "iufc", input)
    return _raised(input, other)


def _integer_power(input: Any, other: Any) -> Any:
    """Powers of integers, 1 / input ** n rounded towards zero where the exponent is negative."""
    power = input ** np.maximum(other, 0)
    inverse = np.where(np.abs(input) == 1, input ** (other & 1), 0)
    return np.where(other < 0, inverse, power)


@composite(reported=False)
def pow(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return ``input ** exponent``. Either may be a number.

    The derivative by ``input`` is 0 where ``exponent`` is 0, and the one by ``exponent`` is 0 where ``input`` is 0.

    Raises
    ------
    RuntimeError
        If ``input`` consists of integers and ``exponent`` is a negative one; :func:`float_power` has the result.

    Examples
    --------
    >>> rg.pow(2, rg.tensor([1., 2., 3.]))
    tensor([2., 4., 8.])
    """
    return _pow(input, exponent, out=out)


_pow_ = inplace(_pow.op, "pow_")


def pow_(input: Tensor, exponent: Operand) -> Tensor:
    """In-place form of :func:`retrograd.pow`."""
    return _pow_(input, exponent)


add_method("pow_", pow_)


def _double(*operands: Any) -> dtypes.dtype:
    has_complex = any(isinstance(operand, complex) or np.iscomplexobj(operand) for operand in operands)
    return dtypes.complex128 if has_complex else dtypes.float64


@composite()
def float_power(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return ``input ** exponent`` in double precision, as ``float64`` or ``complex128``."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise no_tensor("float_power", "argument 'input' (position 1)", input)
    dtype = _double(input, exponent)
    base, power = (operand.to(dtype) if isinstance(operand, Tensor) else operand for operand in (input, exponent))
    return _pow(base, power, out=out)


implements(np.float_power)(float_power)


def float_power_(input: Tensor, exponent: Operand) -> Tensor:
    """In-place form of :func:`retrograd.float_power`, for tensors in double precision."""
    if input.dtype is not _double(input, exponent):
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype} but the operation's result requires dtype "
            f"{_double(input, exponent)}; use float_power(), which returns a new tensor"
        )
    return _pow_(input, exponent)


add_method("float_power_", float_power_)


@elementwise(numpy=(np.square,), node_name="PowBackward0", input=lambda g, input: _pow_input(g, input, 2))
def square(input):
    """Return ``input * input``."""
    return np.square(input) if input.dtype.kind != "b" else input.astype(np.int64)


# --- roots ------------------------------------------------------------------------------------------------------------


@elementwise(np.sqrt, int_to_float=True, input=lambda g, result: g / (2 * conj(result)))
def sqrt(input):
    """Return the square root. Its derivative at 0 is infinite."""


@elementwise(int_to_float=True, input=lambda g, result: -0.5 * g * conj(result * result * result))
def rsqrt(input):
    """Return ``1 / sqrt(input)``."""
    return 1 / np.sqrt(input)


@elementwise(np.cbrt, int_to_float=True, public=False, method=False, input=lambda g, result: g / (3 * result * result))
def _cbrt(input):
    """Return the cube root; NumPy's function, which torch does not have."""
