"""The Hurwitz zeta function of a whole order: the derivatives of digamma are multiples of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.ops._scipy import sc

_MANY = 1 << 9  # elements from which on NumPy's passes take less time than SciPy's single one
_BLOCK = 1 << 13  # elements: a few temporaries of float64 stay in the cache
_HIGHEST = 8  # the order up to which errors stay below 8 units in the last place

# B_2j / (2j)! for j = 1, 2, ..., and how many terms of the sum come before: the rest is below 2 ** -53 of it then
_BERNOULLI = tuple(
    number / math.factorial(2 * j)
    for j, number in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1)
)
_TERMS = 8


def zeta_of_order(order: int, x: Any) -> Any:
    """The sum of ``(x + k) ** -order`` for ``k = 0, 1, ...``; on Tensors SciPy's ufunc, which has a derivative here."""
    if type(x) is not np.ndarray or x.dtype.char not in "fd" or x.size < _MANY or not 2 <= order <= _HIGHEST:
        return sc.zeta(order, x)
    result = np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), result.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        block = source[start : start + _BLOCK]
        positive = block > 0
        if positive.all():
            target[start : start + _BLOCK] = _euler_maclaurin(order, block.astype(np.float64))
        else:  # there are poles, and NaN
            values = _euler_maclaurin(order, np.where(positive, block, 1.0).astype(np.float64))
            values[~positive] = sc.zeta(order, block[~positive])
            target[start : start + _BLOCK] = values
    return result


def _euler_maclaurin(s: int, x: Any) -> Any:
    """The first terms, and for the rest ``y**(1-s)/(s-1) + y**-s/2 + sum of B_2j/(2j)! (s)_(2j-1) y**(1-s-2j)``.

    DLMF 25.11.28, with ``y = x + _TERMS``.
    """
    total = np.zeros_like(x)
    for _ in range(_TERMS):
        total += _power(1 / x, s)
        x += 1
    inverse = 1 / x
    square = inverse * inverse
    rest = np.zeros_like(x)
    for j in range(len(_BERNOULLI), 0, -1):
        rest *= square
        rest += _BERNOULLI[j - 1] * math.prod(range(s, s + 2 * j - 1))
    rest *= square
    rest += inverse / 2
    rest += 1 / (s - 1)
    rest *= _power(inverse, s - 1)
    total += rest
    return total


def _power(x: Any, n: int) -> Any:
    """``x**n`` for a positive ``n``, by products."""
    if n == 1:
        return x
    half = _power(x, n // 2)
    result = half * half
    if n % 2:
        result *= x
    return result


__all__ = ["zeta_of_order"]
