"""The error function, its complement and its inverse, by NumPy alone, and Horner's scheme."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

# erf(x) / x as a quotient of polynomials in x**2, for |x| < BOUND; fitted by least squares at Chebyshev points, with
# weights that made the largest relative error 1.8e-9. Evaluated in float64, it gives the nearest float32 or the next.
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
# For float32, exp(x**2) * erfc(x) as a quotient of polynomials in x for 0 < x < LAST_COMPLEMENT; interpolated in
# Chebyshev points of x / (x + 3), with relative errors of 2.2e-10. Evaluated in float64, as all of these.
LAST_COMPLEMENT = 10.2  # beyond it float32 has 0
COMPLEMENT_NUMERATOR = (
    0.010859777622585767,
    0.09833478401839824,
    0.4192271985844133,
    1.0281615035817264,
    1.455562096152785,
    0.9999999997869279,
)
COMPLEMENT_DENOMINATOR = (
    0.019248470245342028,
    0.17429309037670812,
    0.7527023294394009,
    1.909288300260961,
    2.943827483253006,
    2.5839412370546038,
    1.0,
)
# For float32, erfinv(x) / x as a quotient of polynomials in w = -log(1 - x**2) for w < 16, beyond which float32 has 1;
# M. Giles has one polynomial for small and another for large w ("Approximating the erfinv function", GPU Computing
# Gems, 2011). Interpolated in Chebyshev points of w / (w + 16), with relative errors of 6e-10.
LARGEST_SQUARE = -np.expm1(-16.0)
INVERSE_NUMERATOR = (
    -6.569858925615224e-07,
    1.3844332693339395e-05,
    0.0004906803388057428,
    0.006517737284534042,
    0.05274893351715076,
    0.284829517625035,
    0.8862269256634668,
)
INVERSE_DENOMINATOR = (
    -3.841392335145365e-08,
    -2.8458797295448368e-06,
    0.00015754280161419114,
    0.001126786393754472,
    0.03088642080473844,
    0.059596315857833815,
    1.0,
)
_BLOCK = 1 << 15  # elements: a few temporaries of float64 stay in the cache


def erf_by_blocks(x: np.ndarray[Any, Any]) -> Any:
    """The error function of a float32 or float64 array; errors are below 0.54 or 3.5 units in the last place."""
    return _by_blocks(_evaluate_single if x.dtype == np.float32 else _evaluate_double, x)


def erfc_single(x: np.ndarray[Any, Any], scale: float = 1.0) -> Any:
    """``erfc(scale * x)`` of a float32 array; errors are below 0.51 units in the last place."""
    return _by_blocks(functools.partial(_evaluate_complement, scale=scale), x)


def erfinv_single(x: np.ndarray[Any, Any]) -> Any:
    """The inverse of the error function at a float32 array; errors are below 0.52 units in the last place."""
    return _by_blocks(_evaluate_inverse, x)


def _by_blocks(evaluate: Callable[[Any, Any], None], x: np.ndarray[Any, Any]) -> Any:
    result = np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), result.reshape(-1)
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
    out[...] = inner
    outer = np.flatnonzero(np.abs(x, out=square) > 1)
    if outer.size:  # what is missing beyond 1
        beyond = _COMPLEMENT_AT_ONE - _complement(np.minimum(square[outer], LAST))
        out[outer] += np.copysign(beyond, x[outer], out=beyond)


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


def _evaluate_complement(x: Any, out: Any, scale: float) -> None:
    wide = np.multiply(x, scale, dtype=np.float64)
    size = np.abs(wide)
    np.minimum(size, LAST_COMPLEMENT, out=size)
    result = horner(COMPLEMENT_NUMERATOR, size, np.empty_like(size))
    result /= horner(COMPLEMENT_DENOMINATOR, size, np.empty_like(size))
    size *= size
    np.negative(size, out=size)
    result *= np.exp(size, out=size)
    # erfc(-x) = 2 - erfc(x)
    np.copysign(result, wide, out=result)
    result += np.multiply(np.signbit(wide), 2.0, out=wide)
    out[...] = result


def _evaluate_inverse(x: Any, out: Any) -> None:
    wide = x.astype(np.float64)
    square = wide * wide
    np.minimum(square, LARGEST_SQUARE, out=square)
    np.subtract(1, square, out=square)
    logarithm = np.log(square, out=square)
    np.negative(logarithm, out=logarithm)
    result = horner(INVERSE_NUMERATOR, logarithm, np.empty_like(logarithm))
    result *= wide
    np.divide(result, horner(INVERSE_DENOMINATOR, logarithm, wide), out=out, casting="same_kind")
    ends = np.abs(x) >= 1
    if ends.any():
        out[ends] = np.where(np.abs(x[ends]) == 1, np.copysign(np.float32(np.inf), x[ends]), np.float32(np.nan))


def horner(coefficients: tuple[float, ...], x: Any, out: Any) -> Any:
    """The polynomial whose first coefficient is that of the highest power."""
    np.multiply(x, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        out += coefficient
        out *= x
    out += coefficients[-1]
    return out


_COMPLEMENT_AT_ONE = _complement(np.ones(1))
