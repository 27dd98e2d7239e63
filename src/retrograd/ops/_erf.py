"""The error function of float32 arrays, by NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

# erf(x) / x as a quotient of polynomials in x**2, for |x| < BOUND; fitted by least squares at Chebyshev points, with
# weights that made the largest relative error 1.8e-9. Evaluated in float64, it gives the next float32 or that beside.
BOUND = 3.92  # beyond it float32 has 1
NUMERATOR = (
    -1.279993848722708e-08,
    4.6092612473842478e-06,
    3.767599273423836e-04,
    3.8386239817384282e-03,
    5.4244002541412442e-02,
    1.8513525433519606e-01,
    1.1283791691467462e00,
)
DENOMINATOR = (
    6.2399432029532913e-05,
    1.3015264405247498e-03,
    1.5430054372823654e-02,
    1.1387376689185309e-01,
    4.9740525435332818e-01,
    1.0,
)
_BLOCK = 1 << 14  # elements: three temporaries of float64 stay in the cache


def erf_single(x: np.ndarray[Any, Any]) -> Any:
    """The error function of a float32 array; the largest error is 0.53 units in the last place."""
    result = np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), result.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        _evaluate(source[block], target[block])
    return result


def _evaluate(x: Any, out: Any) -> None:
    wide = x.astype(np.float64)
    np.maximum(np.minimum(wide, BOUND, out=wide), -BOUND, out=wide)
    square = wide * wide
    above = _horner(NUMERATOR, square, np.empty_like(square))
    above *= wide
    np.divide(above, _horner(DENOMINATOR, square, wide), out=out, casting="same_kind")


def _horner(coefficients: tuple[float, ...], x: Any, out: Any) -> Any:
    """The polynomial whose first coefficient is that of the highest power."""
    np.multiply(x, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        out += coefficient
        out *= x
    out += coefficients[-1]
    return out
