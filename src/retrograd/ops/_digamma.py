"""The digamma function near its root between -1 and 0, where SciPy sums up a slow series for every element."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.ops._erf import horner
from retrograd.ops._scipy import sc

_REACH = 0.31  # of SciPy's series to both sides of the root, and a little more
_NEAR = 1 / 16  # where the reflection formula would cancel too many digits, and the Taylor series is short

# The root, as the sum of two numbers, and the Taylor series around it, the highest power first and without a constant:
# the derivatives at the root, DLMF 5.15, over factorials, to 50 digits and rounded. What is cut off is below 2**-53.
_ROOT, _REST = -0.5040830082644554, -8.15428206243813e-18
_SERIES = (
    -723318.8861804305,
    2126602.3725968753,
    -163451.79342700253,
    530280.3912420176,
    -36529.94596948565,
    132262.95480834588,
    -8051.818155363498,
    32997.785655255044,
    -1743.364608867363,
    8234.667099203069,
    -368.5783503832191,
    2055.5357119463315,
    -75.37700066344631,
    513.2704629562862,
    -14.70672173553036,
    128.27342343090902,
    -2.761011648790828,
    32.258572064915505,
    -0.8093454625306507,
    8.939798558792134,
)


def digamma_of(x: Any) -> Any:
    """``scipy.special.psi``, without its series; on Tensors that ufunc, which has a derivative here."""
    if type(x) is not np.ndarray or x.dtype.char not in "fd":
        return sc.psi(x)
    near = np.abs(x - _ROOT) < _REACH
    if not near.any():
        return sc.psi(x)
    result = np.asarray(sc.psi(np.where(near, x.dtype.type(1), x)))
    result[near] = _near_root(x[near].astype(np.float64))
    return result


def _near_root(x: Any) -> Any:
    distance = (x - _ROOT) - _REST
    result = sc.psi(1 - x) + np.pi * np.tan(np.pi * (x + 0.5))  # DLMF 5.5.4
    near = np.abs(distance) < _NEAR
    distance = distance[near]
    result[near] = distance * horner(_SERIES, distance, np.empty_like(distance))
    return result


__all__ = ["digamma_of"]
