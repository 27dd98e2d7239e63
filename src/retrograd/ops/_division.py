"""Quotients rounded down and remainders of float arrays, exact as NumPy's, whose loops divide bit by bit.

The quotient is rounded once, so that it may end up at the next whole number; an exact product tells if it did. Where
numbers are so large, small or far apart that the product may not be exact, or not finite, NumPy's loops are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_MANY = 1 << 12  # elements from which on several passes take less time than NumPy's single one
_BLOCK = 1 << 15  # elements: the intermediate results stay in the cache
_FEW = 1 / 16  # the share of all elements up to which it is faster to compute them separately

# Within these bounds the product of a whole quotient and a divisor is exact: of float32 numbers in float64, and of
# float64 numbers as the sum of two, of which none overflows or underflows.
_LARGEST_QUOTIENT = {"f": 2.0**28, "d": 2.0**52}
_LARGEST = {"f": np.inf, "d": 2.0**990}
_SMALLEST = {"f": 0.0, "d": 2.0**-900}

_ALL_WHOLE = {"f": 2.0**23, "d": 2.0**52}  # from here on all numbers are


def fmod_of(input: Any, other: Any) -> Any:
    """``np.fmod``, the remainder of division rounded towards zero; of many floats in a tenth of the time."""
    divisor = _divisor(input, other)
    rest = None if divisor is None else _rest(input, divisor)
    return np.fmod(input, other) if rest is None else rest


def floor_quotient(input: Any, other: Any) -> Any:
    """``np.floor_divide``; of many floats in a tenth of the time."""
    divisor = _divisor(input, other)
    if divisor is None:
        return np.floor_divide(input, other)
    quotient = np.true_divide(input, divisor)
    result = np.floor(quotient)
    whole = result == quotient  # those that were rounded up are among them, and infinities
    count = np.count_nonzero(whole)
    if count <= _FEW * whole.size:
        if count:
            few = (np.broadcast_to(x, whole.shape)[whole] for x in (input, divisor))
            result[whole] = np.floor_divide(*few)
        return result
    rest = _rest(input, divisor)
    if rest is None:
        return np.floor_divide(input, other)
    # rounded up, if the rest is nearly the whole divisor, or, of the other sign, a small part of it
    is_much = np.abs(rest) > np.abs(divisor) / 2
    whole &= (rest != 0) & (is_much == ((rest < 0) == (divisor < 0)))
    whole &= np.abs(quotient, out=quotient) < _ALL_WHOLE[input.dtype.char]
    result -= whole
    return result


def _divisor(input: Any, other: Any) -> Any:
    """``other`` as an array like ``input``; None where NumPy's own loops are to be used."""
    if type(input) is not np.ndarray or input.dtype.char not in "fd" or input.size < _MANY:
        return None
    if type(other) in (int, float):
        return np.asarray(other, input.dtype)
    return other if type(other) is np.ndarray and other.dtype == input.dtype and other.size else None


def _rest(input: Any, other: Any) -> Any:
    """``np.fmod(input, other)``; None if some of the numbers are out of bounds."""
    if other.ndim and other.shape != input.shape:
        return _rest_of_block(input, other)
    result = np.empty(input.shape, input.dtype)
    dividend, divisor, target = input.reshape(-1), other.reshape(-1) if other.ndim else other, result.reshape(-1)
    for start in range(0, dividend.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        rest = _rest_of_block(dividend[block], divisor[block] if other.ndim else divisor)
        if rest is None:
            return None
        target[block] = rest
    return result


def _rest_of_block(input: Any, other: Any) -> Any:
    char = input.dtype.char
    dividend, divisor = (np.abs(x, dtype=np.float64) for x in (input, other))
    if not (dividend.max() < _LARGEST[char] and _SMALLEST[char] < divisor.min() <= divisor.max() < _LARGEST[char]):
        return None
    quotient = dividend / divisor
    if not quotient.max() < _LARGEST_QUOTIENT[char]:
        return None
    np.floor(quotient, out=quotient)
    product = quotient * divisor
    rest = np.subtract(dividend, product, out=product if char == "f" else None)
    if char == "d":
        rest -= _rounded_off(quotient, divisor, product)
        below = rest < 0  # the quotient was rounded up
        if below.any():
            rest += np.where(below, divisor, 0)
    result = rest.astype(input.dtype, copy=False)
    return np.copysign(result, input, out=result)


def _rounded_off(x: Any, y: Any, product: Any) -> Any:
    """The rounding error of a product, exactly: T. J. Dekker, Numer. Math. 18 (1971) 224-242, section 5."""
    (head_x, tail_x), (head_y, tail_y) = _halves(x), _halves(y)
    result = head_x * head_y
    result -= product
    result += head_x * tail_y
    result += np.multiply(tail_x, head_y, out=head_x)
    result += np.multiply(tail_x, tail_y, out=tail_x)
    return result


def _halves(x: Any) -> tuple[Any, Any]:
    """A number as the sum of two with half as many digits each, whose products are exact."""
    head = x * (2.0**27 + 1)
    head = head - (head - x)
    return head, x - head
