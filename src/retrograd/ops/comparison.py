"""Comparisons, logic, bits and integers: operations without a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.numpy_protocols import refuse
from retrograd.core.op import elementwise, op
from retrograd.core.registry import add_method, composite, implements
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind, check_tensor, check_tensors

# --- comparisons ------------------------------------------------------------------------------------------------------


@elementwise(np.equal, operator="eq")
def eq(input, other):
    """Return where ``input == other``."""


@elementwise(np.not_equal, operator="ne", aliases=("not_equal",))
def ne(input, other):
    """Return where ``input != other``."""


def _check_ordered(name: str, input: Any, other: Any) -> None:
    check_kind(name, "biuf", input)
    if type(other) is complex:
        raise NotImplementedError(f'"{name}" not implemented for complex numbers, such as {other}')


@elementwise(operator="lt", aliases=("less",), numpy=(np.less,))
def lt(input, other):
    """Return where ``input < other``. Complex numbers have no order."""
    _check_ordered("lt", input, other)
    return np.less(input, other)


@elementwise(operator="le", aliases=("less_equal",), numpy=(np.less_equal,))
def le(input, other):
    """Return where ``input <= other``. Complex numbers have no order."""
    _check_ordered("le", input, other)
    return np.less_equal(input, other)


@elementwise(operator="gt", aliases=("greater",), numpy=(np.greater,))
def gt(input, other):
    """Return where ``input > other``. Complex numbers have no order."""
    _check_ordered("gt", input, other)
    return np.greater(input, other)


@elementwise(operator="ge", aliases=("greater_equal",), numpy=(np.greater_equal,))
def ge(input, other):
    """Return where ``input >= other``. Complex numbers have no order."""
    _check_ordered("ge", input, other)
    return np.greater_equal(input, other)


not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge


@op(name="isclose", method=False)
def _isclose(input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    return np.isclose(input, other, rtol, atol, equal_nan)


@composite()
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return where ``|input - other| <= atol + rtol * |other|``, or both are the same infinity.

    Parameters
    ----------
    equal_nan
        Whether NaN is close to NaN.

    Raises
    ------
    RuntimeError
        If the dtypes differ, or a tolerance is negative.
    """
    check_tensors("isclose", input=input, other=other)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"isclose: {input.dtype} did not match {other.dtype}; convert one of the tensors")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:  # or NaN
            raise RuntimeError(f"isclose: {name} must be greater than or equal to zero, but got {tolerance}")
    return _isclose(input, other, rtol, atol, equal_nan)


@composite()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are close; see :func:`isclose`."""
    return bool(isclose(input, other, rtol, atol, equal_nan)._data.all())


@composite()
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape and the same elements."""
    check_tensors("equal", input=input, other=other)
    return input._data.shape == other._data.shape and bool((input._data == other._data).all())


def _array(value: Any) -> Any:
    return value._data if isinstance(value, Tensor) else value


@implements(np.isclose)
def _numpy_isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Tensor:
    return _isclose(a, b, rtol, atol, equal_nan)


@implements(np.allclose)
def _allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(np.allclose(_array(a), _array(b), rtol, atol, equal_nan))


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    return bool(np.array_equal(_array(a1), _array(a2), equal_nan))


@implements(np.array_equiv)
def _array_equiv(a1: Any, a2: Any) -> bool:
    return bool(np.array_equiv(_array(a1), _array(a2)))


# --- kinds of numbers -------------------------------------------------------------------------------------------------


@elementwise(np.isnan, inplace=False)
def isnan(input):
    """Return where ``input`` is NaN; of complex numbers, where a part is."""


@elementwise(np.isinf, inplace=False)
def isinf(input):
    """Return where ``input`` is infinite; of complex numbers, where a part is."""


@elementwise(np.isfinite, inplace=False)
def isfinite(input):
    """Return where ``input`` is neither infinite nor NaN."""


@elementwise(inplace=False)
def isposinf(input):
    """Return where ``input`` is positive infinity."""
    check_kind("isposinf", "biuf", input)
    return np.equal(input, np.inf)


@elementwise(inplace=False)
def isneginf(input):
    """Return where ``input`` is negative infinity."""
    check_kind("isneginf", "biuf", input)
    return np.equal(input, -np.inf)


@elementwise(inplace=False)
def isreal(input):
    """Return where the imaginary part is 0; everywhere, for real dtypes."""
    return np.isreal(input)


@implements(np.isposinf)
def _numpy_isposinf(x: Any, out: Any = None) -> Tensor:
    return isposinf(x, out=out)


@implements(np.isneginf)
def _numpy_isneginf(x: Any, out: Any = None) -> Tensor:
    return isneginf(x, out=out)


@implements(np.isreal)
def _numpy_isreal(x: Any) -> Tensor:
    return isreal(x)


@implements(np.iscomplex)
def _iscomplex(x: Any) -> Tensor:
    return logical_not(isreal(x))


@implements(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return x.is_complex()


@implements(np.isrealobj)
def _isrealobj(x: Any) -> bool:
    return not x.is_complex()


refuse("Tensors hold no dates; use np.isnan for missing numbers", np.isnat)


@composite(reported=False)
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element of ``input`` is not 0."""
    return bool(check_tensor("is_nonzero", input))


# --- logic ------------------------------------------------------------------------------------------------------------


@elementwise(np.logical_and)
def logical_and(input, other):
    """Return where both are true. Numbers are true if they are not 0; NaN is."""


@elementwise(np.logical_or)
def logical_or(input, other):
    """Return where one or both are true."""


@elementwise(np.logical_xor)
def logical_xor(input, other):
    """Return where exactly one is true."""


@elementwise(np.logical_not)
def logical_not(input):
    """Return where ``input`` is false, that is, 0."""


# --- bits -------------------------------------------------------------------------------------------------------------


@elementwise(np.bitwise_and, operator="and")
def bitwise_and(input, other):
    """Return the bits set in both, of integers or bools."""


@elementwise(np.bitwise_or, operator="or")
def bitwise_or(input, other):
    """Return the bits set in one or both, of integers or bools."""


@elementwise(np.bitwise_xor, operator="xor")
def bitwise_xor(input, other):
    """Return the bits set in exactly one, of integers or bools."""


@elementwise(np.invert)
def bitwise_not(input):
    """Return the bits inverted, of integers or bools."""


def _invert(input: Tensor) -> Tensor:
    if input._data.dtype.kind not in "biu":
        raise TypeError(
            f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, not {input.dtype}"
        )
    return bitwise_not(input)


add_method("__invert__", _invert)


@elementwise(operator="lshift", numpy=(np.left_shift,))
def bitwise_left_shift(input, other):
    """Return ``input * 2 ** other`` for integers, without regard to overflow."""
    check_kind("bitwise_left_shift", "iu", input)
    return np.left_shift(input, other)


@elementwise(operator="rshift", numpy=(np.right_shift,))
def bitwise_right_shift(input, other):
    """Return ``floor(input / 2 ** other)`` for integers."""
    check_kind("bitwise_right_shift", "iu", input)
    return np.right_shift(input, other)


@elementwise(np.bitwise_count, public=False, method=False)
def _bitwise_count(input):
    """Return how many bits of ``|input|`` are set; NumPy's function, which torch does not have."""


# --- integers ---------------------------------------------------------------------------------------------------------


@elementwise(np.gcd)
def gcd(input, other):
    """Return the greatest common divisor of integers, which is not negative."""


@elementwise(np.lcm)
def lcm(input, other):
    """Return the least common multiple of integers, which is not negative."""
