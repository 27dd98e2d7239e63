"""The distribution function of the standard normal distribution, of float32 arrays, in float32 and by NumPy alone."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from retrograd.ops._erf import horner

# The distribution function is (1 + tanh(x p(x**2))) / 2, and p a polynomial, from the highest power down, fitted by
# weighted least squares for |x| < 6 to the logarithm of the odds: the result is wrong by 3e-8 at most. (With two terms
# only, this is the "tanh" approximation of gelu, wrong by 5e-4.) Beyond, float32 has 0 and 1.
COEFFICIENTS = (
    1.7561758080993377e-09,
    -1.3226350247037425e-07,
    3.9647462839452614e-06,
    -5.530620277543917e-05,
    -3.2594956580684476e-05,
    0.03633308455899217,
    0.7978849414632756,
)
LARGEST_SQUARE = 36.0
_BLOCK = 1 << 17  # elements: the temporaries of a block stay in the cache, and threads seldom wait for each other


def normal_single(x: np.ndarray[Any, Any]) -> Any:
    """The distribution function at a float32 array, with an absolute error of about 1e-7."""
    result = np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), result.reshape(-1)
    square = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        out = target[block]
        _evaluate(source[block], square[: out.size], out)
    return result


def _evaluate(x: Any, square: Any, out: Any) -> None:
    np.multiply(x, x, out=square)
    np.minimum(square, _limits(_BLOCK)[: out.size], out=square)
    horner(COEFFICIENTS, square, out)
    out *= x
    np.tanh(out, out=out)
    out *= 0.5
    out += 0.5


@functools.cache
def _limits(length: int) -> Any:
    """The largest square, as an array, because NumPy's minimum with a number takes three times as long."""
    return np.full(length, LARGEST_SQUARE, np.float32)
