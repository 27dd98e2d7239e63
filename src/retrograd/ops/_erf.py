"""The error function, by NumPy alone, and Horner's scheme."""

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
# For float64, erf(x) / x as a quotient of polynomials in x**2 for |x| < 1, and exp(x**2) * erfc(x) as one of
# polynomials in x for 1 < x < LAST; interpolated in Chebyshev points, with relative errors of 3e-18 and 1e-17.
LAST = 6.0  # beyond it float64 has 1
INNER_NUMERATOR = (
    0.00019496984753178997,
    0.0018273246406360385,
    0.04530431496553584,
    0.14214874428063382,
    1.1283791670955126,
)
INNER_DENOMINATOR = (
    2.029955528683424e-05,
    0.0006812436819785099,
    0.010582353560685183,
    0.09325302973969972,
    0.45930937793412957,
    1.0,
)
OUTER_NUMERATOR = (
    0.0003303856283625327,
    0.004978896516372382,
    0.03757058056463302,
    0.1797075609580054,
    0.5886354962875683,
    1.3455554538253134,
    2.0992593823337997,
    2.061955520865204,
    1.0000000040359602,
)
OUTER_DENOMINATOR = (
    0.0005855932791244992,
    0.008824864315677411,
    0.06688491638773214,
    0.32293580156458074,
    1.0763323272817893,
    2.5397866492904284,
    4.209915713927801,
    4.699166407972569,
    3.1903347308491155,
    1.0,
)
_BLOCK = 1 << 15  # elements: a few temporaries of float64 stay in the cache


def erf_by_blocks(x: np.ndarray[Any, Any]) -> Any:
    """The error function of a float32 or float64 array; errors are below 0.54 or 3.5 units in the last place."""
    result = np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), result.reshape(-1)
    evaluate = _evaluate_single if x.dtype == np.float32 else _evaluate_double
    for start in range(0, x.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        evaluate(source[block], target[block])
    return result


def _evaluate_double(x: Any, out: Any) -> None:
    inner = x.clip(-1, 1)
    square = inner * inner
    above = horner(INNER_NUMERATOR, square, np.empty_like(x))
    above *= inner
    np.divide(above, horner(INNER_DENOMINATOR, square, inner), out=inner)
    # what is missing beyond 1, which is exactly 0 below
    outer = np.abs(x, out=square)
    np.clip(outer, 1, LAST, out=outer)
    beyond = _complement(outer)
    np.subtract(_COMPLEMENT_AT_ONE, beyond, out=beyond)
    np.copysign(beyond, x, out=beyond)
    np.add(inner, beyond, out=out)


def _complement(x: Any) -> Any:
    """``erfc`` between 1 and ``LAST``."""
    result = horner(OUTER_NUMERATOR, x, np.empty_like(x))
    result /= horner(OUTER_DENOMINATOR, x, np.empty_like(x))
    square = x * x
    np.negative(square, out=square)
    result *= np.exp(square, out=square)
    return result


def _evaluate_single(x: Any, out: Any) -> None:
    wide = x.astype(np.float64)
    np.maximum(np.minimum(wide, BOUND, out=wide), -BOUND, out=wide)
    square = wide * wide
    above = horner(NUMERATOR, square, np.empty_like(square))
    above *= wide
    np.divide(above, horner(DENOMINATOR, square, wide), out=out, casting="same_kind")


def horner(coefficients: tuple[float, ...], x: Any, out: Any) -> Any:
    """The polynomial whose first coefficient is that of the highest power."""
    np.multiply(x, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        out += coefficient
        out *= x
    out += coefficients[-1]
    return out


_COMPLEMENT_AT_ONE = _complement(np.ones(1))
